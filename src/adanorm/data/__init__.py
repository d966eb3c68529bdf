"""Data: the catalogue of sources, verified downloads, and one reader per kind of data."""
