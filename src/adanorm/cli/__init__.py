"""The command line, one file per command; `command.py` has what all of them share."""
