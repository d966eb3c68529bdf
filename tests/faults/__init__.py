"""Hundreds of faults made on purpose: `make nightly` runs these tests, `make test` does not."""
