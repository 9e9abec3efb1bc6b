"""Rows of many tensors written, and brought to the host and from it: all at once where there are kernels."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.system.tensors import sent


def put_(targets: Sequence[Tensor], index: Tensor, sources: Sequence[Tensor]) -> None:
    """Writes [K, ...] over the rows `index` (int64 [K], all different) of tensors [B, ...]; types become the targets'.

    The sources may be on the host."""
    fast = kernels.module_for("copies", index.device)
    if fast is not None:
        fast.put_(targets, index, sources)
        return
    pairs = [(to, source.to(to.dtype).contiguous()) for to, source in zip(targets, sources, strict=True)]
    is_alike = all(source.shape == (len(index), *to.shape[1:]) for to, source in pairs)
    is_dense = all(to.is_contiguous() for to in targets)
    fast = kernels.module_for("board", index.device) if is_alike and is_dense else None
    if hasattr(fast, "replace_"):
        fast.replace_([to for to, _ in pairs], index, [source for _, source in pairs])
        return
    for to, source in pairs:
        to[index] = source


def copy_(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copies whole tensors [B, ...] of several types, on one device, into others."""
    fast = kernels.module_for("copies", targets[0].device)
    if fast is None:
        torch._foreach_copy_(targets, sources)
    else:  # torch launches a copy for each tensor where types differ among them
        fast.copy_rows(targets, None, [source.contiguous() for source in sources], None, len(targets[0]))


def put_from_host_(targets: Sequence[Tensor], index: Tensor, sources: Sequence[Tensor]) -> None:
    """The same from the host, index and all, in one copy that nothing waits for."""
    device = targets[0].device
    fast = kernels.module_for("copies", device)
    if fast is None:
        put_(targets, sent(index, device), [sent(source, device) for source in sources])
        return
    rows = sent(joined([index, *sources], [index, *targets]), device)
    targets = [as_bytes(to) for to in targets]
    index, *parts = rows.split([8, *(to.shape[1] for to in targets)], dim=1)
    index = index.clone(memory_format=torch.contiguous_format).view(torch.int64).squeeze(1)
    fast.copy_rows(targets, index, parts, None, len(rows))


def joined(sources: Sequence[Tensor], like: Sequence[Tensor]) -> Tensor:
    """Returns rows [K, ...] of the host side by side, in the types of other tensors: uint8 [K, bytes]."""
    return torch.cat([as_bytes(part.to(other.dtype)) for part, other in zip(sources, like, strict=True)], dim=1)


def as_bytes(tensor: Tensor) -> Tensor:
    """Returns rows [B, ...] as uint8 [B, bytes]: a view where each is contiguous."""
    return tensor.unsqueeze(-1).flatten(1).view(torch.uint8)


def to_host(tensors: Sequence[Tensor], index: Tensor | None = None) -> list[Tensor]:
    """Returns rows of tensors [B, ...] on the host: those with an index (int64 [K]) or all. The host waits once."""
    return start_to_host(tensors, index)()


def start_to_host(tensors: Sequence[Tensor], index: Tensor | None = None) -> Callable[[], list[Tensor]]:
    """Begins what `to_host` does; the function that it returns waits for the copy. The tensors may be written over
    meanwhile."""
    fast = kernels.module_for("copies", tensors[0].device)
    if fast is not None:
        rows = fast.packed([as_bytes(tensor) for tensor in tensors], index)
    else:
        chosen = [tensor if index is None else tensor.index_select(0, index) for tensor in tensors]
        if tensors[0].device.type == "cpu":
            return lambda: chosen
        rows = torch.cat([as_bytes(part.contiguous()) for part in chosen], dim=1)
    host, copied = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True), torch.cuda.Event()
    host.copy_(rows, non_blocking=True)
    copied.record(torch.cuda.current_stream(rows.device))

    def fetch() -> list[Tensor]:
        copied.synchronize()
        return parted(host, tensors)

    return fetch


def parted(rows: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Returns what stands side by side in rows of the host, uint8 [K, bytes], as tensors with the types and the shapes
    of others but for the number of rows."""
    parts = rows.split([tensor[0].numel() * tensor.element_size() for tensor in like], dim=1)
    found = []
    for part, other in zip(parts, like, strict=True):
        whole = torch.empty(len(rows), *other.shape[1:], dtype=other.dtype)
        if whole.numel():
            as_bytes(whole).copy_(part)
        found.append(whole)
    return found


def take(tensors: Sequence[Tensor], index: Tensor) -> list[Tensor]:
    """Returns rows (int64 [K]) of tensors [B, ...]."""
    fast = kernels.module_for("copies", index.device)
    if fast is None:
        return [tensor.index_select(0, index) for tensor in tensors]
    found = [tensor.new_empty(len(index), *tensor.shape[1:]) for tensor in tensors]
    fast.copy_rows(found, None, tensors, index.contiguous(), len(index))
    return found
