"""Studies: grids of runs, the rules that compare their rows, and launchers that start the runs."""
