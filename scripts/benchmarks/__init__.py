"""Benchmarks, a file a comparison; they write results/bench."""
