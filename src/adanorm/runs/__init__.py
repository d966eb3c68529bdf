"""One run, from experiment to record."""
