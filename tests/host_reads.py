"""Counts on the CPU what would make the host wait for a CUDA device."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from zerogo.runtime import HostReads


class Calls(TorchFunctionMode):
    """Notes what Python asks of a tensor that is on the CPU already, and what it makes of its own numbers: on CUDA
    these copy. To say where a tensor is to be is a copy, too, and waits unless it is `non_blocking`."""

    ASKED = "tolist numpy __bool__ __int__ __float__ __index__ __array__ item cpu __contains__".split()
    MADE = ("tensor", "as_tensor", "from_numpy", "pin_memory")

    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self.found = found

    def __torch_function__(self, function: Any, types: Any, arguments: tuple = (), named: dict | None = None) -> Any:
        name = getattr(function, "__name__", "")
        if name in self.ASKED or name in self.MADE and not isinstance(arguments[0], torch.Tensor):
            self.found.append(name)
        elif name == "to" and not (named or {}).get("non_blocking"):
            if any(isinstance(given, (str, torch.device)) for given in (*arguments[1:], (named or {}).get("device"))):
                self.found.append("to a device")
        elif name == "__setitem__" and not isinstance(arguments[2], torch.Tensor):
            index = arguments[1] if isinstance(arguments[1], tuple) else [arguments[1]]
            if any(isinstance(part, torch.Tensor) for part in index):
                self.found.append("a number to an index")
        return function(*arguments, **(named or {}))


@contextmanager
def host_reads() -> Iterator[list[str]]:
    """Collects the names of all that would make the host wait."""
    with HostReads() as reads, Calls(reads.found):
        yield reads.found


@contextmanager
def no_reads() -> Iterator[None]:
    """Fails where an operation inside the `with` block would make the host wait."""
    with HostReads() as reads:
        yield
    assert not reads.found
