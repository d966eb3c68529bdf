"""Training: one loop for all tasks. It knows nothing of particular tasks, norms or file formats."""
