"""The view that is walked through with the keyboard; the only room that imports textual."""
