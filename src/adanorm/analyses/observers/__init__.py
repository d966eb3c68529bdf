"""One file per analysis says what it observes. These files need torch; showing the records does not."""
