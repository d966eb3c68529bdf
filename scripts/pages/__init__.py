"""Pages of this repository written from its records: README, guide to the norms, report, metadata."""
