"""Where the time of a simulation goes, by stage, with compiled kernels and without, in one run.

The stages follow each other in a step of the search, one simulation in every game or `leaves` of them: `select`
(choices included), `step` (the last move, legality, superko, the result), `encode` (planes and global inputs),
`network`, `answer` (what else the evaluator does: symmetries, the legal mask, softmax), `expand_and_backup` (expansion
and backup) and `rest`. A stage's time is its own, without that of stages inside it. On CUDA, where a search replays a
step as one graph, the steps are made operation by operation here, and the clock is events in the stream: a stage that
waits for the host's launches is charged for that. What the graph spares is the difference to `bench search`.

Lines are JSON on stdout; on stderr the same stands as a table.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from zerogo import kernels
from zerogo.bench import report, show_table, whole_numbers
from zerogo.bench.net import Setup, add_network_arguments
from zerogo.bench.search import Games, add_search_arguments, check_search_arguments
from zerogo.config import SearchConfig
from zerogo.evaluator import Evaluator
from zerogo.search import Search, SearchState
from zerogo.search import search as steps

REST = "rest"
STAGES = ("select", "step", "encode", "network", "answer", "expand_and_backup", REST)
# The functions of a step by the names that `Search` calls them by, and the stage that each is.
PARTS = {"select_leaves": "select", "step_leaves": "step", "expand_and_backup": "expand_and_backup"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network_arguments(parser)
    add_search_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Prints two lines for every size and batch: with compiled kernels and plain."""
    check_search_arguments(args)
    for size in whole_numbers(args.size):
        for batch in whole_numbers(args.batch):
            _measure(args, Setup.of(args, size, batch * args.leaves), batch)


@torch.inference_mode()
def _measure(args: argparse.Namespace, setup: Setup, batch: int) -> None:
    """Times whole moves of both kinds in turn, and prints the round of each in which a step was fastest."""
    watches: dict[str, Watch] = {}
    for kind in ("compiled", "plain"):
        with _kernels(kind):
            watches[kind] = Watch(
                setup, SearchConfig(algorithm=args.algorithm, leaves=args.leaves, cuda_graph=False), args.sims, batch
            )
    best: dict[str, dict[str, float]] = {}
    for _ in range(args.rounds):
        for kind, watch in watches.items():
            with _kernels(kind):
                found = watch.play(args.seconds)
            best[kind] = min(best.get(kind, found), found, key=lambda stages: sum(stages.values()))
    common = setup.line("profile") | {
        "blocks": args.blocks,
        "channels": args.channels,
        "algorithm": args.algorithm,
        "sims": args.sims,
    }
    for kind, stages in best.items():
        total = sum(stages.values())
        line = common | {
            "batch": batch,
            "leaves": args.leaves,
            "spread": args.spread,
            "kernels": kind,
            "us_per_step": round(total),
        }
        line["stages_us"] = {name: round(microseconds, 1) for name, microseconds in stages.items()}
        report(line | {"shares": {name: round(microseconds / total, 4) for name, microseconds in stages.items()}})
    show_table(("us per step", *best), _rows(best))


def _rows(best: dict[str, dict[str, float]]) -> Iterator[tuple[str, ...]]:
    totals = {kind: sum(stages.values()) for kind, stages in best.items()}
    for name in STAGES:
        yield (name, *(f"{stages[name]:.0f} ({stages[name] / totals[kind]:.0%})" for kind, stages in best.items()))
    yield ("together", *(f"{total:.0f}" for total in totals.values()))


def _kernels(kind: str) -> contextlib.AbstractContextManager:
    return kernels.plain() if kind == "plain" else contextlib.nullcontext()


class Watch:
    """Games whose search is timed stage by stage."""

    def __init__(self, setup: Setup, settings: SearchConfig, sims: int, batch: int) -> None:
        self.device = setup.device
        self.marks: list[tuple[str, Any]] = []
        self.stage = REST
        evaluator = Evaluator(
            Timed(setup.evaluator.network, self, {"__call__": "network"}),
            Timed(setup.evaluator.encoder, self, {"planes": "encode", "globals": "encode"}),
            setup.evaluator.symmetries,
        )
        self.games = Games(
            setup, Search(self.timed("answer", evaluator), settings, root_evaluator=evaluator), sims, batch
        )

    def play(self, seconds: float) -> dict[str, float]:
        """Returns the microseconds that the stages of one step took, the mean over whole searches of at least so many
        seconds.
        """
        spent, number_of_steps = dict.fromkeys(STAGES, 0.0), 0
        while sum(spent.values()) < seconds:
            with self._watching():
                self.games.move(self.games.sims)
            for name, duration in self._durations():
                spent[name] += duration
            number_of_steps += self.steps
        return {name: 1e6 * duration / number_of_steps for name, duration in spent.items()}

    def timed(self, stage: str, function: Callable) -> Callable:
        """Returns the function, its time charged to a stage."""

        def call(*arguments: Any, **named: Any) -> Any:
            before, self.stage = self.stage, stage
            self._mark()
            try:
                return function(*arguments, **named)
            finally:
                self.stage = before
                self._mark()

        return call

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        """Times the parts of every step inside a `with` block, and counts the steps."""
        originals = {name: getattr(steps, name) for name in PARTS}
        self.marks, self.steps = [], 0
        for name, stage in PARTS.items():
            setattr(steps, name, self.timed(stage, originals[name]))
        self.games.search.step = self._counted(self.games.search.step)
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(steps, name, original)
            del self.games.search.step

    def _counted(self, step: Callable) -> Callable:
        """Returns a step that is timed and counted; what is between steps is nobody's time."""
        timed = self.timed(REST, step)

        def call(search_state: SearchState) -> None:
            timed(search_state)
            self.marks.append(("", self.marks[-1][1]))
            self.steps += 1

        return call

    def _mark(self) -> None:
        """Notes that the present stage begins here, or goes on after one inside it."""
        self.marks.append((self.stage, self._moment()))

    def _moment(self) -> Any:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _durations(self) -> Iterator[tuple[str, float]]:
        """Yields the seconds from each mark to the next with the stage that they belong to."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        for (stage, start), (_, end) in zip(self.marks, self.marks[1:], strict=False):
            if stage:
                yield stage, start.elapsed_time(end) / 1e3 if self.device.type == "cuda" else end - start


class Timed:
    """An object of whose methods some are charged to stages."""

    def __init__(self, inner: Any, watch: Watch, stages: dict[str, str]) -> None:
        self.inner = inner
        self.methods = {name: watch.timed(stage, getattr(inner, name)) for name, stage in stages.items()}

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["methods"].get(name) or getattr(self.__dict__["inner"], name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.methods["__call__"](*arguments, **named)
