"""Writes rows of many tensors at once, and copies them to the host and back."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.system.tensors import send


def put_(targets: Sequence[Tensor], index: Tensor, sources: Sequence[Tensor]) -> None:
    """Writes sources [K, ...] to the rows `index` (int64 [K], all different) of targets [B, ...], converted to the
    targets' types."""
    pairs = [(to, source.to(to.dtype).contiguous()) for to, source in zip(targets, sources, strict=True)]
    is_alike = all(source.shape == (len(index), *to.shape[1:]) for to, source in pairs)
    is_dense = all(to.is_contiguous() for to in targets)
    fast = kernels.module_for("board", index.device) if is_alike and is_dense else None
    if hasattr(fast, "replace_"):
        fast.replace_([to for to, _ in pairs], index, [source for _, source in pairs])
        return
    for to, source in pairs:
        to[index] = source


def put_from_host_(targets: Sequence[Tensor], index: Tensor, sources: Sequence[Tensor]) -> None:
    """Does the same with sources and index on the host, without a wait."""
    device = targets[0].device
    put_(targets, send(index, device), [send(source, device) for source in sources])


def start_to_host(tensors: Sequence[Tensor], index: Tensor | None = None) -> Callable[[], list[Tensor]]:
    """Starts a copy of rows of tensors [B, ...] to the host: those with an index (int64 [K]), or all. Returns a
    function that waits for it, once. The tensors may be overwritten meanwhile."""
    rows = list(tensors) if index is None else [tensor.index_select(0, index) for tensor in tensors]
    if tensors[0].device.type == "cpu":
        return lambda: rows
    side_by_side = torch.cat([_as_bytes(part.contiguous()) for part in rows], dim=1)
    host, copied = torch.empty(side_by_side.shape, dtype=torch.uint8, pin_memory=True), torch.cuda.Event()
    host.copy_(side_by_side, non_blocking=True)
    copied.record(torch.cuda.current_stream(side_by_side.device))

    def _fetch() -> list[Tensor]:
        copied.synchronize()
        return _split_bytes(host, tensors)

    return _fetch


def _as_bytes(tensor: Tensor) -> Tensor:
    """Returns rows [B, ...] as uint8 [B, bytes]: a view where each is contiguous."""
    return tensor.unsqueeze(-1).flatten(1).view(torch.uint8)


def _split_bytes(rows: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Splits rows on the host, uint8 [K, bytes], into tensors with the types and shapes of `like`, except for the
    number of rows."""
    columns = rows.split([tensor[0].numel() * tensor.element_size() for tensor in like], dim=1)
    tensors = [torch.empty(len(rows), *other.shape[1:], dtype=other.dtype) for other in like]
    for tensor, values in zip(tensors, columns, strict=True):
        if tensor.numel():
            _as_bytes(tensor).copy_(values)
    return tensors
