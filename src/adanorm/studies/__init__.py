"""Grids of runs: what they are, and handing them to a launcher."""
