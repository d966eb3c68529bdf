"""One run, from its experiment to its record."""
