"""Reproduction of "Understanding and Improving Layer Normalization" (Xu et al., NeurIPS 2019)."""

__version__ = "0.1.0"
