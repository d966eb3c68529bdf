"""Benchmarks, one file per comparison; they write results/bench."""
