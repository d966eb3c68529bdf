"""Pages from the records: the report, the guide of norms, the README's table."""
