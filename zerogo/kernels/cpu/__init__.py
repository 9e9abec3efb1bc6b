"""Kernels for the CPU: loops over games, compiled by Numba and distributed over torch's threads."""
