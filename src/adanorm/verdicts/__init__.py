"""Verdicts on claims, from the records."""
