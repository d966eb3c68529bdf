"""The command line, one file per command; `command.py` is what all of them share."""
