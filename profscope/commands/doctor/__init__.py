"""The command `profscope doctor`: what this machine allows, and what replaces what it does not."""
