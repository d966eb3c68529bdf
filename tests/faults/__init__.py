"""Faults put in on purpose, hundreds of them: `make nightly` runs these tests, `make test` does not."""
