"""Analyses: what a norm does while a run trains, or on its own."""
