"""A step of a search as one CUDA graph: captured once, then replayed with one launch.

A graph always reads and writes the tensors with which it was captured: those of the search state, which stay the same,
and its own root states, into which new ones are copied after each move. It is captured again if anything else changes:
the shapes (room for a longer history), the evaluator, or the settings. A step that waits for the host can't be
captured."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.system.runtime import WARM_UP, capture_cuda_graph

PAYS = 32  # steps, to come or already made, from which on a capture, which waits for the device, pays


def replay_step(search: Any, search_state: Any, steps_left: int | None = None) -> bool:
    """Runs one step from the search state's graph, or a step that prepares it; returns False if it did nothing.

    search: a `search.Search`. search_state: a `search.SearchState`. steps_left: how many steps are certain to follow,
    including this one; None: enough for a capture."""
    if not may_capture(search, search_state):
        return False
    if search_state.graph is None or not search_state.graph.serves(search, search_state):
        search_state.graph = StepGraph(search, search_state)
    return search_state.graph.run(search_state, PAYS if steps_left is None else steps_left)


def may_capture(search: Any, search_state: Any) -> bool:
    """Returns whether a graph is wanted and possible: only with kernels are the launches always the same."""
    device = search_state.budget.device
    return device.type == "cuda" and search.settings.cuda_graph and kernels.module_for("tree", device) is not None


class StepGraph:
    """The step of one search on one search state. The search state owns this object, which holds no reference back, so
    that no tree outlives its use.

    roots: the root states that were copied last. states, repeated_states: the graph's own, as in `SearchState`. play:
    replays the step."""

    def __init__(self, search: Any, search_state: Any) -> None:
        self.search, self.needs, self.roots = search, _needs(search, search_state), search_state.states
        self.shapes = self._shapes(self.roots)
        self.states: Any = None
        self.repeated_states: Any = None
        self.play: Callable[[], None] | None = None
        self.steps, self.refuses = 0, False

    def serves(self, search: Any, search_state: Any) -> bool:
        """Returns whether this graph still fits the search and its state."""
        if any(one is not other for one, other in zip(self.needs, _needs(search, search_state), strict=True)):
            return False
        return search_state.states is self.roots or self._shapes(search_state.states) == self.shapes

    def _shapes(self, states: Any) -> Any:
        """Returns states with shapes in place of tensors, and their host-side numbers: all must stay the same."""
        return states.with_max_bounds().map(lambda tensor: (tensor.shape, tensor.dtype, tensor.device))

    def run(self, search_state: Any, steps_left: int) -> bool:
        """Makes a step; returns False if it is too early for a graph, or if the step can't be captured."""
        self.steps += 1
        is_new = self.states is None
        if self.refuses or self.steps < WARM_UP or is_new and max(steps_left, self.steps - WARM_UP) < PAYS:
            return False
        if is_new or search_state.states is not self.roots:
            self._take_in(search_state.states, search_state.num_games)
        if is_new:
            self._step(search_state)
            return True
        if self.play is None:
            try:
                self.play = capture_cuda_graph(lambda: self._step(search_state), search_state.budget.device)
            except RuntimeError as error:
                self.refuses = True
                warnings.warn(f"searching without a CUDA graph, as a step could not be captured: {error}", stacklevel=2)
                return False
        self.play()
        return True

    def _take_in(self, roots: Any, num_games: int) -> None:
        """Copies other root states into the graph's."""
        self.roots, leaves = roots, self.search.settings.leaves
        with torch.inference_mode():  # threads with and without inference mode may write them
            if self.states is None:
                copied = roots.with_max_bounds()
                self.states = copied.map(lambda tensor: tensor.clone(memory_format=torch.contiguous_format))
                self.repeated_states = self.states.cat([self.states] * leaves) if leaves > 1 else None
                return
            torch._foreach_copy_(self.states.tensors(), roots.tensors())
            if self.repeated_states is not None:
                for repeated, root in zip(self.repeated_states.tensors(), self.states.tensors(), strict=True):
                    repeated.unflatten(0, (leaves, num_games)).copy_(root)  # into all slots at once

    def _step(self, search_state: Any) -> None:
        """Makes a step on the graph's own root states."""
        before = search_state.states, search_state.repeated_states
        search_state.states, search_state.repeated_states = self.states, self.repeated_states
        try:
            self.search.step(search_state)
        finally:
            search_state.states, search_state.repeated_states = before


def _needs(search: Any, search_state: Any) -> list[Any]:
    """Returns the objects that the graph reads: if one is replaced, the graph must be captured again."""
    fields = [getattr(search_state, field.name) for field in dataclasses.fields(search_state)]
    tensors = [field for field in fields if isinstance(field, Tensor)]
    return [search, search.evaluator, search.settings, search.game, search_state.tree, *tensors]
