"""Tables from the records."""
