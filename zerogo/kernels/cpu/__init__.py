"""Kernels for the CPU: plain loops over games that Numba compiles, the games shared out among torch's threads."""
