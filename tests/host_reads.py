"""Which operations would make the host wait for a device, seen on any device."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

READS = "_local_scalar_dense item is_nonzero equal allclose nonzero masked_select bincount _unique _unique2".split()
READS += ["unique_consecutive", "unique_dim", "unique_dim_consecutive"]
COPIES = "_to_copy", "copy_", "_copy_from", "_foreach_copy_"


class HostReads(TorchDispatchMode):
    """Notes in `names` the operations, while they run, whose result or its shape the host must know, and copies between
    devices. `Tensor.tolist` and `Tensor.numpy` of a CPU tensor, and `Tensor.to` the device where it is, are no
    operations and stay unseen.

    Operations that torch makes of others are taken apart, which it does not do by itself in inference mode."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, arguments: tuple = (), named: dict | None = None) -> Any:
        named, name = named or {}, function.overloadpacket.__name__
        if name not in READS:
            with self:
                decomposed = function.decompose(*arguments, **named)
            if decomposed is not NotImplemented:
                return decomposed
        result = function(*arguments, **named)
        if name in READS or name == "repeat_interleave" and function._overloadname == "Tensor":
            self.names.append(name)
        elif name.startswith(("index", "_index_put")):
            indices = arguments[1] if isinstance(arguments[1], (list, tuple)) else ()  # index_select has a number there
            if any(index is not None and index.dtype.itemsize == 1 for index in indices):
                self.names.append(f"{name} by a mask")
        elif name in COPIES:
            tensors = [one for part in (*arguments[:2], result) for one in (part if isinstance(part, list) else [part])]
            if len({tensor.device.type for tensor in tensors if isinstance(tensor, Tensor)}) > 1:
                self.names.append(f"{name} from device to device")
        return result
