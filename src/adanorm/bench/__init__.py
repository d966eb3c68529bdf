"""Benchmarks: ratios within one run, never absolute claims."""
