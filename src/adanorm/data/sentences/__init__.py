"""Sentences with labels."""
