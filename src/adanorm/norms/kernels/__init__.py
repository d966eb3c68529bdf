"""The closed form in one pass over the rows, by Numba on the CPU and by Triton on CUDA."""
