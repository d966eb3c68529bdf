"""Parallel corpora: sentences and their translations."""
