"""Python imports this as it starts where this folder is in PYTHONPATH: then there is a simulated CUDA device."""

import pretend_cuda

pretend_cuda.install()
