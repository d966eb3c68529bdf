"""One file per analysis says what it observes; these files need torch, and records do not."""
