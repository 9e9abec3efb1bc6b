"""Triton kernels for CUDA: one program (a warp, where a board row is a lane) a game. Without a GPU they run under
TRITON_INTERPRET=1."""
