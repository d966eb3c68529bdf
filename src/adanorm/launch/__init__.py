"""How runs are launched, and which come next."""
