"""A step of a search as one CUDA graph: captured once, then replayed, so that the host only says "again".

A graph writes where it wrote when it was captured, into the search state's tensors, which stay, and reads root states
from tensors of its own, into which new ones are copied when a move was played. It is captured anew where anything else
changes: the shapes (room for a longer history), the evaluator, the settings. A step that waits for the host can't be
captured; whether it does is watched before (`HostReads`)."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from zerogo import kernels

if TYPE_CHECKING:
    from zerogo.search.search import Search
    from zerogo.search.search_state import SearchState

WARM_UP = 3  # steps without a graph, in which kernels are compiled and tables made; the last one is watched
PAYS = (
    32  # steps for which a capture, which waits for the device, is worth its while: so many come, or as many have been
)


class HostReads(TorchDispatchMode):
    """Notes in `found` the names of operations that would make the host wait for the device, while they run on any
    device.

    Those are the ones whose result or its shape the host must know, and copies between devices. `Tensor.tolist` and
    `Tensor.numpy` of a CPU tensor are no operations and stay unseen; off the CPU they copy."""

    READS = ("_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select", "_unique2", "unique_dim")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, arguments: tuple = (), named: dict | None = None) -> Any:
        result = function(*arguments, **(named or {}))
        name = function.overloadpacket.__name__
        if name in self.READS or name == "repeat_interleave" and function._overloadname == "Tensor":
            self.found.append(name)
        elif (
            name.startswith(("index", "_index_put")) and len(arguments) > 1 and isinstance(arguments[1], (list, tuple))
        ):
            if any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in arguments[1]):
                self.found.append(f"{name} by a mask")
        elif name in ("_to_copy", "copy_", "_copy_from"):
            ends = [tensor.device.type for tensor in (*arguments[:2], result) if isinstance(tensor, Tensor)]
            if len(set(ends)) > 1:
                self.found.append(f"{name} from device to device")
        return result


def replayed(search: Search, search_state: SearchState, left: int | None = None) -> bool:
    """Runs one step of the search state from its graph, or one on the way to having it; False where it has none and
    nothing was done.

    left: how many steps are sure to be made, this one among them; None is enough for a capture.
    """
    if not may_capture(search, search_state):
        return False
    if search_state.graph is None or not search_state.graph.serves(search, search_state):
        search_state.graph = StepGraph(search, search_state)
    return search_state.graph.run(search, search_state, PAYS if left is None else left)


def may_capture(search: Search, search_state: SearchState) -> bool:
    """Returns whether the step is wanted as a graph, and its launches are the same every time: with kernels only."""
    device = search_state.budget.device
    return device.type == "cuda" and search.settings.cuda_graph and kernels.compiled("tree", device) is not None


class StepGraph:
    """The step of one search on one search state, which keeps it; it doesn't keep the search state, so that no tree
    lives longer than it is used.

    roots: the states that were copied last; states, slots: the graph's own, as in `SearchState`. play: replays the
    step."""

    def __init__(self, search: Search, search_state: SearchState) -> None:
        self.needs, self.shapes = _needs(search, search_state), _shapes(_lasting(search.game, search_state.states))
        self.roots: Any = search_state.states
        self.states: Any = None
        self.slots: Any = None
        self.play: Callable[[], None] | None = None
        self.steps, self.refuses = 0, False

    def serves(self, search: Search, search_state: SearchState) -> bool:
        """Returns whether this is still the step to make."""
        if any(one is not other for one, other in zip(self.needs, _needs(search, search_state), strict=True)):
            return False
        return search_state.states is self.roots or _shapes(_lasting(search.game, search_state.states)) == self.shapes

    def run(self, search: Search, search_state: SearchState, left: int) -> bool:
        """Makes a step of `left` that are sure to come; False where the host has to, because it is too early or can't
        be otherwise.
        """
        self.steps += 1
        is_new = self.states is None
        if self.refuses or self.steps < WARM_UP or is_new and max(left, self.steps - WARM_UP) < PAYS:
            return False
        self._take_in(search, search_state)
        if is_new:
            self._watch(search, search_state)
            return True
        if self.play is None:
            self._capture(search, search_state)
        if self.play is None:
            return False
        self.play()
        return True

    def _take_in(self, search: Search, search_state: SearchState) -> None:
        """Copies the present root states into the graph's, where they are others."""
        if self.states is not None and search_state.states is self.roots:
            return
        self.roots = search_state.states
        with torch.inference_mode():  # they may be written by threads with and without
            if self.states is None:
                self.states = _mapped(_copied, _lasting(search.game, search_state.states))
                self.slots = _in_slots(search, self.states, search_state)
                return
            torch._foreach_copy_(_tensors(self.states), _tensors(search_state.states))
            for own, root in (
                zip(_tensors(self.slots), _tensors(self.states), strict=True) if self.slots is not None else ()
            ):
                own.unflatten(0, (search.settings.leaves, search_state.num_games)).copy_(root)  # into all slots at once

    def _watch(self, search: Search, search_state: SearchState) -> None:
        """Makes a step and finds out whether it waits for the host."""
        with HostReads() as reads:
            self._step(search, search_state)
        if reads.found:
            self._refuse(f"waits for the host ({', '.join(sorted(set(reads.found)))})")

    def _capture(self, search: Search, search_state: SearchState) -> None:
        try:
            self.play = record(lambda: self._step(search, search_state), search_state.budget.device)
        except RuntimeError as error:
            self._refuse(f"could not be captured: {error}")

    def _refuse(self, why: str) -> None:
        self.refuses = True
        warnings.warn(f"the search goes on without a CUDA graph, as its step {why}", stacklevel=2)

    def _step(self, search: Search, search_state: SearchState) -> None:
        """Makes a step that reads the graph's own root states."""
        states, slots = search_state.states, search_state.slots
        search_state.states, search_state.slots = self.states, self.slots
        try:
            search.step(search_state)
        finally:
            search_state.states, search_state.slots = states, slots


def record(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Returns what replays a step, which itself is not made. Raises RuntimeError where it can't be captured; the
    present stream stays.
    """
    with (
        torch.cuda.device(device),
        torch.cuda.stream(torch.cuda.current_stream(device)),
    ):  # torch leaves a broken capture's stream in place
        graph = torch.cuda.CUDAGraph()
        # Other threads may go on with what a capture forbids.
        with torch.cuda.graph(graph, stream=_capture_stream(device), capture_error_mode="thread_local"):
            step()
    return graph.replay


@cache
def _capture_stream(device: torch.device) -> torch.cuda.Stream:
    """Returns the stream on which a device's steps are captured: torch's own is one for all devices."""
    return torch.cuda.Stream(device)


def _in_slots(search: Search, states: Any, search_state: SearchState) -> Any:
    leaves = search.settings.leaves
    if leaves == 1:
        return None
    return search.game.take(
        states, torch.arange(search_state.num_games, device=search_state.budget.device).repeat(leaves)
    )


def _copied(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _needs(search: Search, search_state: SearchState) -> list[Any]:
    """Returns the objects whose replacement makes another step of it; the tensors among them are written in place."""
    fields = [getattr(search_state, field.name) for field in dataclasses.fields(search_state)]
    return [
        search,
        search.evaluator,
        search.settings,
        search.game,
        search_state.tree,
        *(field for field in fields if isinstance(field, Tensor)),
    ]


def _lasting(game: Any, states: Any) -> Any:
    """Returns root states whose numbers on the host hold for later ones of the same shapes, too."""
    return game.lasting(states) if hasattr(game, "lasting") else states


def _mapped(function: Callable[[Tensor], Tensor], states: Any) -> Any:
    """Returns the same dataclass with the function of every tensor, at any depth."""
    if isinstance(states, Tensor):
        return function(states)
    if not dataclasses.is_dataclass(states):
        return states
    parts = {field.name: _mapped(function, getattr(states, field.name)) for field in dataclasses.fields(states)}
    return dataclasses.replace(states, **parts)


def _shapes(states: Any) -> Any:
    """Returns what must be the same in states that follow: shapes, kinds of numbers, and what lies on the host."""
    if isinstance(states, Tensor):
        return states.shape, states.dtype, states.device
    if not dataclasses.is_dataclass(states):
        return states
    return type(states), *(_shapes(getattr(states, field.name)) for field in dataclasses.fields(states))


def _tensors(states: Any) -> list[Tensor]:
    """Returns all tensors of a dataclass, in the order of the fields."""
    if isinstance(states, Tensor):
        return [states]
    if not dataclasses.is_dataclass(states):
        return []
    return [tensor for field in dataclasses.fields(states) for tensor in _tensors(getattr(states, field.name))]
