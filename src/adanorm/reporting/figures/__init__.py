"""Figures from the records."""
