"""Data: what exists, getting it verified, and one reader a kind."""
