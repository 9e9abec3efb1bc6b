"""Marks tests of Triton kernels that need its interpreter (`interpreted`), and makes that twice as fast.

At every call of a device function it puts its own operations into `triton.language`, though the launch has done so
already; it watches every sum for an overflow that it then does not tell; and it makes the same shapes and types again
and again. Import this module in tests that interpret, for its effect at least; where a Triton differs from those that
it knows it does nothing."""

import dataclasses
import importlib.util
import math
import os
from functools import cache

import pytest
import torch

# Kernels take the CPU's tensors only from the interpreter, which `conftest` switches on where there is no GPU.
interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="interpreted without a GPU, compiled with one")

if os.environ.get("TRITON_INTERPRET") == "1" and importlib.util.find_spec("triton") is not None:
    import triton
    import triton.language as tl
    from triton.runtime import interpreter

    original, unpatched = getattr(interpreter, "_patch_lang", None), tl.arange

    @cache
    def languages(function):
        return [module for module in (tl, tl.core) if any(value is module for value in function.__globals__.values())]

    def patch_once(function):
        """Does what the original does, unless that was done and not yet undone."""
        return original(function) if any(module.arange is unpatched for module in languages(function)) else None

    if original is not None:
        interpreter._patch_lang = patch_once
    if triton.__version__.startswith("3.6."):  # whose arrays of one number NumPy 2.4 takes for no index
        patch_tensor = interpreter._patch_lang_tensor

        def patch_index(tensor, scope):
            patch_tensor(tensor, scope)
            scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

        interpreter._patch_lang_tensor = patch_index

    @cache
    def of_block(element, shape):
        make_block(made := object.__new__(tl.block_type), element, [*shape])
        return vars(made)

    @cache
    def of_type(kind):
        sides = kind.shape if kind.is_block() else ()
        shape = {"numel": tl.constexpr(math.prod(sides)), "shape": tl.tuple([tl.constexpr(side) for side in sides])}
        return shape | {"type": kind, "dtype": kind.scalar}

    if triton.__version__.startswith(("3.6.", "3.9.")):
        make_block, tl.block_type.__hash__ = tl.block_type.__init__, tl.dtype.__hash__
        tl.pointer_type.__hash__ = tl.dtype.__hash__
        tl.block_type.__init__ = lambda self, element_ty, shape: vars(self).update(of_block(element_ty, (*shape,)))
        tl.tensor.__init__ = lambda self, handle, type: vars(self).update(of_type(type), handle=handle)
        interpreter._get_np_dtype = cache(interpreter._get_np_dtype)
    options = getattr(interpreter.interpreter_builder, "options", None)
    if options is not None and hasattr(options, "sanitize_overflow"):
        interpreter.interpreter_builder.options = dataclasses.replace(options, sanitize_overflow=False)
