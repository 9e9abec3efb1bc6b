"""Dataclasses of tensors: apply a function to all of them, select rows, concatenate batches, store and restore."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import torch
from torch import Tensor


class TensorFields:
    """Mixin of dataclasses of tensors. Fields that are such dataclasses are followed; other fields stay as they are."""

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Returns a copy with the function applied to every tensor."""

        def _apply(value: Any) -> Any:
            if isinstance(value, TensorFields):
                return value.map(function)
            return function(value) if isinstance(value, Tensor) else value

        fields = {field.name: _apply(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return dataclasses.replace(self, **fields)

    def to(self, device: torch.device | str) -> Self:
        """Returns a copy on a device, see `send`."""
        device = torch.device(device)
        return self.map(lambda tensor: send(tensor, device))

    def select(self, index: Tensor) -> Self:
        """Returns the rows `index` (int64 [K]) of every tensor: [B, ...] -> [K, ...]."""
        return self.map(lambda tensor: tensor.index_select(0, index))

    def tensors(self) -> list[Tensor]:
        """Returns all tensors, in the order of the fields."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        nested = (value.tensors() if isinstance(value, TensorFields) else [value] for value in values)
        return [value for group in nested for value in group if isinstance(value, Tensor)]

    def with_tensors(self, tensors: Iterable[Tensor]) -> Self:
        """Returns a copy with other tensors in the places of its own, in their order."""
        others = iter(tensors)
        return self.map(lambda _: next(others))

    def with_max_bounds(self) -> Self:
        """Returns the same with host-side bounds at their maximum, so that a CUDA graph captured with its tensors
        stays valid when later values are copied into them."""
        return self

    @classmethod
    def cat(cls, batches: Sequence[Self]) -> Self:
        """Returns the batches joined along dimension 0; other fields are those of the first batch."""
        return batches[0].with_tensors(map(torch.cat, zip(*(part.tensors() for part in batches), strict=True)))


def state_of(value: Any) -> Any:
    """Returns a dataclass of tensors and plain values as nested dictionaries, which a file can hold."""
    if not dataclasses.is_dataclass(value):
        return value
    return {field.name: state_of(getattr(value, field.name)) for field in dataclasses.fields(value)}


def restore(template: Any, state: Any) -> Any:
    """Returns the dataclass whose `state_of` this is, with the tensors on the devices of template's."""
    if isinstance(template, Tensor):
        return state.to(template.device)
    if not dataclasses.is_dataclass(template):
        return state
    return dataclasses.replace(template, **{name: restore(getattr(template, name), state[name]) for name in state})


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a tensor on a device. What goes from the host to a GPU goes through pinned memory, so nothing waits."""
    if tensor.device == device:
        return tensor
    is_sent = tensor.device.type == "cpu" and device.type == "cuda"
    # Pinning keeps the strides, and an expanded tensor has several elements in one place.
    return (tensor.contiguous().pin_memory() if is_sent else tensor).to(device, non_blocking=is_sent)
