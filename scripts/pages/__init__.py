"""Pages of this repository written from its records: README and the guide to the norms."""
