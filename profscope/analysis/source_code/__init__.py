"""The source with its time: functions, lines, the copies a line waited for, and its instructions."""
