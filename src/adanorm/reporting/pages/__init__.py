"""Pages from the records: the report, and the answers at its top."""
