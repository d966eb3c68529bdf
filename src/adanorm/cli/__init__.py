"""The command line, a file a command; `command.py` is what all of them share."""
