"""Pages of this repository that show its records: README, guide to the norms, report, metadata."""
