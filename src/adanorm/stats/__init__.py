"""Statistics on arrays of scores, paired by seed or not; they know neither runs nor files."""
