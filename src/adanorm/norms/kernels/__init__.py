"""The closed form in one pass over the rows: Numba on the CPU, Triton on CUDA."""
