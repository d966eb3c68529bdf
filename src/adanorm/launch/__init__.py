"""How runs are launched, and which runs come next."""
