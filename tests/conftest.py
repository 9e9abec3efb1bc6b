"""Settings of every test process: one thread, as several fight for the cores of a small machine, and Triton's interpreter without a GPU."""

from __future__ import annotations

import os

# Before torch is imported, which reads them once.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

import torch

torch.set_num_threads(1)

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # must be set before the first `import triton`
