"""Any work on a CUDA device as a graph, where it can be one: what a search replays is measured in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from zerogo.search.graph import WARM_UP, HostReads, record


def captured(work: Callable[[], Any], device: torch.device) -> Callable[[], Any] | None:
    """Returns what replays the work as a CUDA graph; None off CUDA, where the work waits for the host, and where it
    can't be captured.
    """
    if device.type != "cuda":
        return None
    for _ in range(WARM_UP):
        work()
    with HostReads() as reads:
        work()
    if reads.found:
        return None
    try:
        return record(work, device)
    except RuntimeError:  # lack of memory is one, too: a graph has tensors of its own
        return None
