"""Studies: grids of runs, and the rules by which their rows are compared."""
