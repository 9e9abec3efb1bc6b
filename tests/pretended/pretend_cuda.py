"""A simulated CUDA device: tensors that say `cuda:0`, hold their data on the CPU, and refuse what CUDA refuses.

    PYTHONPATH=tests/pretended TRITON_INTERPRET=1 python train.py …          (or python -m pytest -m gpu tests/…)

A `TorchDispatchMode`, entered in every thread, sees each operation behind autograd and autocast, runs it on the tensors
on the host, counts launches and waits, and raises what CUDA would raise. In a capture nothing runs; a replay makes the
calls of the capture again. Triton's kernels run in its interpreter, every address checked, and without a barrier may
neither read what they wrote nor write over what another lane of a tile read. What it can't show: streams beside each
other, cuDNN, NCCL, TF32, rounding, time.

A folder named by PRETEND_REPORT gets the launches and waits of each process as a JSON file."""

import atexit
import contextlib
import ctypes
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

HERE, PACKAGE = Path(__file__).parent, str(Path(__file__).parents[2] / "zerogo") + "/"


def _guard() -> ctypes.CDLL:
    """Returns guard.cpp, compiled once for the installed torch (3 s); it must be loaded before torch."""
    folder = importlib.util.find_spec("torch").submodule_search_locations[0]
    of_torch = f"{importlib.metadata.version('torch')}-{hashlib.sha256(folder.encode()).hexdigest()[:8]}"
    built = HERE / "__pycache__" / f"guard-{of_torch}.so"
    if not built.exists():
        built.parent.mkdir(exist_ok=True)
        words = f"g++ -std=c++20 -O0 -fPIC -shared -I{folder}/include {HERE}/guard.cpp -o {built}.{os.getpid()}"
        words += f" -L{folder}/lib -ltorch_cpu -lc10 -Wl,-rpath,{folder}/lib"
        subprocess.run(words.split(), check=True)
        os.replace(f"{built}.{os.getpid()}", built)
    return ctypes.CDLL(str(built), mode=ctypes.RTLD_GLOBAL)


GUARD = _guard()

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

CPU, CUDA, TOTAL_BYTES, NAME = torch.device("cpu"), torch.device("cuda:0"), 80 * 2**30, "pretended GPU"
# Operations that launch nothing, those of which CUDA makes several kernels (out of place, a copy comes first), and
# those for whose result the host waits.
NO_LAUNCH = "lift_fresh lift detach detach_ alias resize_ _unsafe_view set_ _local_scalar_dense record_stream".split()
NO_LAUNCH += "empty empty_like empty_strided new_empty new_empty_strided".split()
NO_LAUNCH += "_record_function_enter_new _record_function_exit".split()
SEVERAL = {"constant_pad_nd": 2, "sort": 3, "topk": 2, "nonzero": 3, "_unique2": 6, "repeat_interleave": 3}
SEVERAL |= dict.fromkeys("index_put scatter scatter_add scatter_reduce index_add index_copy masked_fill".split(), 2)
WAITS = "_local_scalar_dense nonzero masked_select _unique _unique2 unique_dim unique_consecutive argwhere".split()
WAITS += "unique_dim_consecutive bincount equal is_nonzero allclose".split()
INDEXED = "index index_put index_put_ _index_put_impl_ _unsafe_index _unsafe_index_put".split()
WITH_NUMBERS = "where lerp lerp_ masked_fill masked_fill_ clamp index_fill index_fill_ fill_ fill".split()
PRODUCTS = "mm addmm bmm baddbmm dot mv addmv convolution".split()
TWO_DEVICES = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
ALL = SimpleNamespace(launches=Counter(), waits=Counter())
LOCAL, SYNC_MODE = threading.local(), ["default"]
TAPES: list[tuple[int, list]] = []  # of captures that have begun: the thread, and the calls so far
PINNED: set[int] = set()  # data pointers of pinned storages, as long as they live


@contextlib.contextmanager
def seen():
    """Counts inside a `with` block, in all threads: launches by the operation, waits by what waited and where."""
    before, found = (ALL.launches.copy(), ALL.waits.copy()), SimpleNamespace()
    yield found
    found.launches, found.waits = ALL.launches - before[0], ALL.waits - before[1]


def wait(what: str) -> None:
    """Counts a wait of the host; raises where a capture or torch.cuda.set_sync_debug_mode("error") forbids it."""
    if tape() is not None:
        raise RuntimeError(f"CUDA error: operation not permitted when stream is capturing ({what})")
    lines, frame = [], sys._getframe(1)
    while frame is not None and len(lines) < 2:
        if frame.f_code.co_filename.startswith(PACKAGE):
            lines.append(f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    ALL.waits[f"{what} @ {' < '.join(lines) or 'outside'}"] += 1
    if SYNC_MODE[0] == "error":
        raise RuntimeError(f"called a synchronizing CUDA operation ({what})")


def launched(name: str, number: int = 1) -> None:
    """Counts launches outside of captures."""
    if tape() is None:
        ALL.launches[name] += number


def tape() -> list | None:
    """Returns the calls of the graph that this thread captures, None where it captures none. The gradients' threads,
    which are not Python's, work on the stream of who waits for them."""
    is_torchs = isinstance(threading.current_thread(), threading._DummyThread)
    return TAPES[-1][1] if TAPES and (is_torchs or TAPES[-1][0] == threading.get_ident()) else None


class outside:  # noqa: N801  (like torch's own)
    """Leaves gradients and inference mode to the tensors that say cuda:0. Written out, as each operation enters it."""

    __slots__ = "guard", "had_gradients"

    def __enter__(self) -> None:
        self.guard = torch._C._InferenceMode(False)
        self.guard.__enter__()
        self.had_gradients = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)

    def __exit__(self, *_) -> None:
        torch._C._set_grad_enabled(self.had_gradients)
        self.guard.__exit__(None, None, None)


class CudaTensor(Tensor):
    """A tensor that says it is on cuda:0; `host` holds its data."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host):
        size, like = host.size(), {"dtype": host.dtype, "layout": host.layout, "device": CUDA}
        made = Tensor._make_wrapper_subclass(cls, size, host.stride(), host.storage_offset(), **like)
        made.host = host
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        return run(function, arguments, named or {})

    def __deepcopy__(self, memo):
        with outside():
            copy = CudaTensor(self.host.clone(memory_format=torch.preserve_format))
        is_parameter = isinstance(self, torch.nn.Parameter)
        return memo.setdefault(id(self), torch.nn.Parameter(copy, self.requires_grad) if is_parameter else copy)

    def __repr__(self, **_):
        return f"cuda {self.host!r}"

    def untyped_storage(self):
        return self.host.untyped_storage()

    def tolist(self):
        wait("tolist")
        return self.host.tolist()

    def numpy(self, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy; copy it to the host first")

    __array__ = numpy


def host_of(part):
    return part.host if isinstance(part, CudaTensor) else part


PLAIN = {int, float, bool, str, type(None)}


def rebuilt(change, value):
    """Returns a value with each part of its lists, tuples and dictionaries changed, but for plain numbers and texts,
    faster than torch's pytree."""
    if type(value) in PLAIN:
        return value
    if type(value) is CudaTensor or isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: rebuilt(change, part) for name, part in value.items()}
    if not isinstance(value, (list, tuple)):
        return change(value)
    parts = [rebuilt(change, part) for part in value]
    return parts if type(value) is list else getattr(value, "_make", type(value))(parts)


def tensors_in(value) -> list[Tensor]:
    """Returns all tensors in lists, tuples and dictionaries."""
    if type(value) in PLAIN:
        return []
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def storage_of(tensor) -> int:
    return tensor.untyped_storage().data_ptr()


# Operations


class Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False  # to skip it imports it, for seconds

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        return run(function, arguments, named or {})


MODE = Mode()


def run(function, arguments, named):
    """Runs one operation as the device would."""
    name, device = function.overloadpacket.__name__, named.get("device")
    if not has_cuda(arguments) and not has_cuda(named.values()) and not (device and device.type == "cuda"):
        return _run_on_host(function, name, arguments, named)
    if function.namespace == "c10d":
        with outside():
            return function(*rebuilt(host_of, arguments), **named)
    if is_composite(function):
        with MODE:
            result = function.decompose(*arguments, **named)
        if result is not NotImplemented:
            return result
    if name == "is_pinned":
        return False
    if named.get("generator") is not None:
        raise RuntimeError(f"Expected a 'cuda' device type for generator but found 'cpu' ({name})")
    if name == "_to_copy":
        return _to_copy(function, arguments[0], dict(named))
    if name in ("copy_", "_foreach_copy_"):
        return _copy_(function, name, arguments, named)
    return _run_inside(function, name, _checked(function, name, list(arguments), named), dict(named))


def has_cuda(parts) -> bool:
    for part in parts:
        if isinstance(part, CudaTensor) or isinstance(part, (list, tuple)) and has_cuda(part):
            return True
    return False


@functools.cache
def is_mutable(function) -> bool:
    return function._schema.is_mutable


@functools.cache
def is_pointwise(name: str, function) -> bool:
    return torch.Tag.pointwise in function.tags or name in WITH_NUMBERS or name.startswith("_foreach")


@functools.cache
def is_composite(function) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CompositeImplicitAutograd")


def _run_on_host(function, name, arguments, named):
    if name == "is_pinned":
        return storage_of(arguments[0]) in PINNED
    is_pinning = name in ("_pin_memory", "pin_memory")  # which of them comes with inference mode
    if not is_pinning and not named.get("pin_memory"):
        return function(*arguments, **named)
    with outside():
        if is_pinning:  # with the same strides: torch refuses to write rows that are repeated
            source = arguments[0]
            made = torch.empty_strided(source.size(), source.stride(), dtype=source.dtype).copy_(source)
        else:
            made = function(*arguments, **named | {"pin_memory": False})
    PINNED.add(storage_of(made))
    weakref.finalize(made.untyped_storage(), PINNED.discard, storage_of(made))
    return made


def _to_copy(function, source, named):
    """Returns a copy on a device, or in another type."""
    device, is_async = named.pop("device", None), bool(named.get("non_blocking"))
    named.pop("pin_memory", None)
    to_cuda = device.type == "cuda" if device is not None else isinstance(source, CudaTensor)
    if isinstance(source, CudaTensor) and to_cuda:
        return _run_inside(function, "_to_copy", [source], named)
    if source.numel():
        launched("memcpy")
        if not (to_cuda and is_async and storage_of(source) in PINNED):
            wait("to the device" if to_cuda else "to the host")
    with outside():
        made = function(host_of(source), **named)
        made = made.clone() if to_cuda and storage_of(made) == storage_of(source) else made
    return CudaTensor(made) if to_cuda else made


def _copy_(function, name, arguments, named):
    """Copies into tensors that are there, of one device or from one to the other."""
    targets, sources = (part if isinstance(part, (list, tuple)) else [part] for part in arguments[:2])
    is_async = bool(named.get("non_blocking") or len(arguments) > 2 and arguments[2])
    for to, source in zip(targets, sources, strict=True):
        if to.numel() and isinstance(to, CudaTensor) != isinstance(source, CudaTensor):
            host = source if isinstance(to, CudaTensor) else to
            if not (is_async and storage_of(host) in PINNED):
                wait(f"{name} between devices")
    kinds = {(to.dtype, source.dtype) for to, source in zip(targets, sources, strict=True)}
    launched(name, len(kinds) if all(one == other for one, other in kinds) else len(targets))
    inside = rebuilt(host_of, (tuple(arguments), dict(named)))
    if tape() is not None:
        tape().append((function, *inside, None))
    else:
        with outside():
            function(*inside[0], **inside[1])
    return targets[0] if name == "copy_" else None


def _checked(function, name, arguments, named):
    """Returns the arguments as the device takes them; raises where it refuses them, and counts where it waits."""
    tensors = tensors_in((arguments, named))
    host = [part for part in tensors if not isinstance(part, CudaTensor)]
    if name in INDEXED:
        if not isinstance(arguments[0], CudaTensor):
            raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
        if any(part is not None and part.dtype in (torch.bool, torch.uint8) for part in arguments[1]):
            wait(f"{name} by a mask")
        moved = {}
        for part in host:
            if part.dim() and not any(part is index for index in arguments[1]):
                raise RuntimeError(f"{TWO_DEVICES} ({name})")
            wait("an index or a number on the host")
            moved[id(part)] = CudaTensor(part.clone())
        return rebuilt(lambda part: moved.get(id(part), part), arguments)
    if host and (not is_pointwise(name, function) or any(part.dim() for part in host)):
        raise RuntimeError(f"{TWO_DEVICES} ({name}, on the host {[list(part.shape) for part in host]})")
    if name in PRODUCTS and not all(part.is_floating_point() for part in tensors):
        raise RuntimeError(f'"{name}_cuda" not implemented for whole numbers')
    if name in WAITS or (name, function._overloadname, len(arguments)) == ("repeat_interleave", "Tensor", 1):
        wait(name)
    return arguments


def _run_inside(function, name, arguments, named):
    wrappers = {}

    def to_host(part):
        if isinstance(part, CudaTensor):
            wrappers[id(part.host)] = part
            return part.host
        return CPU if isinstance(part, torch.device) else part

    arguments, named = rebuilt(to_host, arguments), rebuilt(to_host, named)
    named.pop("pin_memory", None)
    with outside():
        result = function(*arguments, **named) if tape() is None else _noted(function, arguments, named)
    tensors, writes = [result] if isinstance(result, Tensor) else tensors_in(result), is_mutable(function)
    storages = set(map(storage_of, tensors_in((arguments, named))))
    is_alias = all(storage_of(part) in storages for part in tensors)
    if tape() is not None and not writes and not is_alias and not name.startswith(("empty", "new_empty")):
        tape().append((function, arguments, named, tensors))
    if (writes or not is_alias or not tensors) and not function.is_view and name not in NO_LAUNCH:
        launched(name, SEVERAL.get(name, 1) if not tensors or any(part.numel() for part in tensors) else 0)
    base = next(iter(wrappers.values()), None)
    is_view = base is not None and not writes and (function.is_view or bool(tensors) and is_alias)

    def outer(value):
        if not isinstance(value, Tensor):
            return value
        if id(value) in wrappers:
            return wrappers[id(value)]
        with torch.inference_mode(base.is_inference()) if is_view else contextlib.nullcontext():
            return CudaTensor(value)

    return rebuilt(outer, result)


def _noted(function, arguments, named):
    """Returns what an operation gives in a capture: what it will write into, or something of the right shape."""
    if function._schema.is_mutable:
        tape().append((function, arguments, named, None))
        by_name = dict(zip((entry.name for entry in function._schema.arguments), arguments, strict=False)) | named
        written = [e.name for e in function._schema.arguments if e.alias_info is not None and e.alias_info.is_write]
        results = [by_name[name] for name in written if name in by_name][: len(function._schema.returns)]
        return (results[0] if len(results) == 1 else tuple(results)) if results else None
    # Batch normalisation writes its running statistics, which its schema does not say.
    copied = lambda part: part.clone() if isinstance(part, Tensor) and "norm" in str(function) else part  # noqa: E731
    try:
        result = function(*rebuilt(copied, arguments), **named)
    except (RuntimeError, IndexError):  # nothing ran in the capture, so values mean nothing
        meta = rebuilt(lambda part: part.to("meta") if isinstance(part, Tensor) else part, arguments)
        result = function(*meta, **named)
    is_meta = lambda part: isinstance(part, Tensor) and part.is_meta  # noqa: E731
    return rebuilt(lambda part: torch.zeros_like(part, device=CPU) if is_meta(part) else part, result)


# Triton, interpreted


class Addresses:
    """The memory that one launch may touch, and what its present program wrote since its last barrier, and which lanes
    of tiles read what."""

    def __init__(self, kernel: str, parts) -> None:
        import numpy as np

        tensors = [part for part in tensors_in(parts) if part.numel()]
        last = [sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) + 1 for t in tensors]
        spans = sorted((t.data_ptr(), t.data_ptr() + n * t.element_size()) for t, n in zip(tensors, last, strict=True))
        starts, ends = np.array(spans or [(0, 0)], dtype=np.int64).T
        self.kernel, self.starts, self.ends = kernel, starts, np.maximum.accumulate(ends)
        self.program = None
        self.pass_barrier()

    def pass_barrier(self) -> None:
        """Forgets what was read and written: from here on all threads see it."""
        self.written, self.readers = set(), {}

    def check(self, pointers, mask, what: str) -> None:
        """Raises for addresses beyond the arguments, and where a program reads what it wrote without a barrier, or
        writes over what another lane read."""
        import numpy as np
        from triton.runtime import interpreter

        shape, at = np.shape(pointers.data), np.asarray(pointers.data).reshape(-1).astype(np.int64)
        lanes, is_tile = np.arange(at.size), at.size > 1
        if mask is not None:
            is_used = np.broadcast_to(np.asarray(mask.data).reshape(-1).astype(bool), at.shape)
            at, lanes = at[is_used], lanes[is_used]
        place = np.searchsorted(self.starts, at, side="right") - 1
        if len(at) and ((place < 0).any() or (at >= self.ends[place]).any()):
            raise RuntimeError(f"CUDA error: an illegal memory access was encountered ({self.kernel}: {what})")
        if interpreter.interpreter_builder.grid_idx != self.program:
            self.program = interpreter.interpreter_builder.grid_idx
            self.pass_barrier()
        pairs = [(address, (shape, lane)) for address, lane in zip(at.tolist(), lanes.tolist(), strict=True)]
        if what == "store":
            self.written.update(at.tolist())
            if is_tile and any(self.readers.get(address, place) != place for address, place in pairs):
                raise RuntimeError(f"{self.kernel} writes without a barrier over what another of its threads may read")
        elif not self.written.isdisjoint(at.tolist()):
            raise RuntimeError(f"{self.kernel} reads without a barrier what another of its threads may have written")
        elif is_tile:
            for address, place in pairs:
                if self.readers.setdefault(address, place) != place:
                    self.readers[address] = "several"


def _install_triton() -> None:
    import interpreting  # noqa: F401  (makes the interpreter twice as fast)
    from triton.runtime import interpreter

    builder, launch = interpreter.InterpreterBuilder, interpreter.GridExecutor.__call__

    def inside(part):
        if isinstance(part, Tensor) and not isinstance(part, CudaTensor):
            raise ValueError("Pointer argument cannot be accessed from Triton (cpu tensor?)")
        return host_of(part)

    def call(executor, *arguments, **named):
        arguments, named = rebuilt(inside, (arguments, named))
        launched(executor.fn.__name__)

        def go(*arguments, **named):
            LOCAL.addresses = Addresses(executor.fn.__name__, (arguments, named))
            launch(executor, *arguments, **named)

        if tape() is not None:
            tape().append((go, arguments, named, None))
            return
        with _disable_current_modes(), outside():
            go(*arguments, **named)

    def checked(name, what, place):
        original = getattr(builder, name)

        def operation(self, pointers, *arguments):
            LOCAL.addresses.check(pointers, arguments[place], what)
            return original(self, pointers, *arguments)

        setattr(builder, name, operation)

    interpreter.GridExecutor.__call__ = call
    builder.create_barrier = lambda self: LOCAL.addresses.pass_barrier()
    checked("create_masked_load", "load", 0)
    checked("create_masked_store", "store", 1)


# torch.cuda


class Graph(list):
    """A CUDA graph: the calls of its capture, which a replay makes again."""

    def replay(self) -> None:
        launched("graph")
        with _disable_current_modes(), outside():
            for function, arguments, named, results in self:
                made = function(*arguments, **named)
                for result, values in zip(results or [], tensors_in(made) if results else [], strict=True):
                    result.copy_(values)


@contextlib.contextmanager
def _capture(graph, **_):
    wait("a capture begins")
    TAPES.append((threading.get_ident(), graph))
    try:
        yield
    finally:
        TAPES.pop()


class Stream:
    """A stream, or an event of it: all is over as soon as it was asked for."""

    device, device_index, device_type, stream_id, cuda_stream, time = CUDA, 0, 1, 0, 0, 0.0

    def __init__(self, *_, **__) -> None:
        pass

    def record(self, stream=None) -> None:
        self.time = time.perf_counter()

    def elapsed_time(self, other) -> float:
        return max(1e-3, 1e3 * (other.time - self.time))

    def synchronize(self) -> None:
        wait("synchronize")

    def query(self) -> bool:
        return True

    def wait_stream(self, other) -> None:
        pass


def _install_torch() -> None:
    GUARD.pretend_register()
    properties = {"name": NAME, "total_memory": TOTAL_BYTES, "major": 9, "minor": 0, "multi_processor_count": 132}
    properties["uuid"] = "0"
    stream = Stream()
    values = {"is_initialized": True, "is_available": True, "device_count": 1, "current_device": 0}
    values |= {"get_device_name": NAME, "get_device_properties": SimpleNamespace(**properties)}
    values |= {"get_device_capability": (9, 0), "mem_get_info": (TOTAL_BYTES, TOTAL_BYTES), "is_bf16_supported": True}
    values |= dict.fromkeys("memory_allocated memory_reserved max_memory_allocated utilization".split(), 0)
    values |= dict.fromkeys("_lazy_init init set_device empty_cache reset_peak_memory_stats set_rng_state".split())
    values |= dict.fromkeys(("manual_seed", "manual_seed_all", "_is_in_bad_fork"))
    values |= {"current_stream": stream, "default_stream": stream, "get_rng_state": torch.zeros(16, dtype=torch.uint8)}
    values |= {"device": contextlib.nullcontext(), "stream": contextlib.nullcontext()}
    for name, value in values.items():
        setattr(torch.cuda, name, functools.partial(lambda value, *_, **__: value, value))
    torch.cuda.synchronize = lambda *_: wait("torch.cuda.synchronize")
    torch.cuda.is_current_stream_capturing = lambda: tape() is not None
    torch.cuda.set_sync_debug_mode = lambda mode: SYNC_MODE.__setitem__(0, mode)
    torch.cuda.Stream = torch.cuda.Event = Stream
    torch.cuda.CUDAGraph, torch.cuda.graph = Graph, _capture
    start = torch.distributed.init_process_group
    gloo = lambda backend, **named: start(backend.replace("nccl", "gloo"), **named)  # noqa: E731
    torch.distributed.init_process_group = gloo
    torch.distributed.Logger.set_runtime_stats_and_log = lambda _: None  # it wants CUDA's clock
    torch.__future__.set_overwrite_module_params_on_conversion(True)  # `parameter.data = …` would lose `host`
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(…, device="cuda") then copies where the mode sees it
    torch.version.cuda = torch.version.cuda or "13.0"


def install() -> None:
    """Pretends from here on, in this process and in all threads that it starts."""
    _install_torch()
    run_thread = threading.Thread.run

    def run_with_mode(self):
        with MODE:
            run_thread(self)

    threading.Thread.run = run_with_mode
    if os.environ.get("TRITON_INTERPRET") == "1" and importlib.util.find_spec("triton") is not None:
        sys.path.append(str(HERE.parent))
        _install_triton()
    MODE.__enter__()
    if folder := os.environ.get("PRETEND_REPORT"):
        atexit.register(_report, Path(folder))


def _report(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    counted = {"program": sys.argv, "waits": ALL.waits.most_common(), "launches": ALL.launches.most_common()}
    (folder / f"{os.getpid()}.json").write_text(json.dumps(counted, indent=1))
