"""Faults put in on purpose: bad inputs, kills, corrupted files."""
