"""Records: what a run leaves behind, written whole, and read back without torch."""
