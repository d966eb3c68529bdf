"""Reporting: tables and comparisons from records alone, without torch."""
