"""Records: what a run leaves behind. A record is written as a whole and read back without torch."""
