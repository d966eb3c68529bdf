"""Training: one loop for all tasks. It knows no task, no norm and no file format."""
