"""A norm on trial beside LayerNorm, and the table of norms that have been."""
