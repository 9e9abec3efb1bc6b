"""Where the time of a simulation goes, by stage, with compiled kernels and without, in one run.

The stages follow each other in a step of the search, one simulation in every game or `leaves` of them: `select`
(choices included), `step` (the last move, legality, superko, the result), `encode` (planes and global inputs),
`network`, `answer` (what else the evaluator does: symmetries, the legal mask, softmax), `expand_and_backup` (expansion
and backup) and `rest`. A stage's time is its own, without that of stages inside it. On CUDA, where a search replays a
step as one graph, the steps are made operation by operation here, and the clock is events in the stream: a stage that
waits for the host's launches is charged for that. What the graph spares is the difference to `bench search`.

Lines are JSON on stdout; on stderr the same stands as a table."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from zerogo import bench, kernels
from zerogo.bench.net import NetworkSetup
from zerogo.bench.search import SearchedGames, add_tree_arguments, check_tree_arguments, tree_line
from zerogo.config import SearchConfig
from zerogo.evaluator import Evaluator
from zerogo.runtime import synchronize
from zerogo.search import Search, SearchState
from zerogo.search import search as steps

REST = "rest"
STAGES = ("select", "step", "encode", "network", "answer", "expand_and_backup", REST)
# The functions of a step by the names that `Search` calls them by, and the stage that each is.
PARTS = {"select": "select", "step_leaves": "step", "expand_and_backup": "expand_and_backup"}
KINDS = {"compiled": contextlib.nullcontext, "plain": kernels.plain}


def add_profile_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `profile`."""
    add_tree_arguments(parser)


@torch.inference_mode()
def run_profile(args: argparse.Namespace) -> None:
    """Prints two lines for every size and batch, with compiled kernels and plain: the round of each in which a step was
    fastest."""
    check_tree_arguments(args)
    for size, batch in bench.cases(args):
        setup = NetworkSetup.of(args, size, batch * args.leaves)
        settings = SearchConfig(algorithm=args.algorithm, leaves=args.leaves, cuda_graph=False)
        rounds = bench.in_turn(args, {kind: StageClock(setup, settings, batch, kind).play for kind in KINDS})
        best = {kind: min(found, key=lambda stages: sum(stages.values())) for kind, found in rounds.items()}
        totals = {kind: sum(stages.values()) for kind, stages in best.items()}
        for kind, stages in best.items():
            line = tree_line("profile", setup, batch) | {"kernels": kind, "us_per_step": round(totals[kind])}
            line["stages_us"] = {name: round(microseconds, 1) for name, microseconds in stages.items()}
            line["shares"] = {name: round(microseconds / totals[kind], 4) for name, microseconds in stages.items()}
            bench.report(line)
        rows = [
            (name, *(f"{best[kind][name]:.0f} ({best[kind][name] / totals[kind]:.0%})" for kind in best))
            for name in STAGES
        ]
        together = ("together", *(f"{total:.0f}" for total in totals.values()))
        bench.show_table(("us per step", *best), [*rows, together])


class StageClock:
    """Games whose search is timed stage by stage, with kernels of one kind."""

    def __init__(self, setup: NetworkSetup, settings: SearchConfig, batch: int, kind: str) -> None:
        self.device, self.stage, self.kernels = setup.device, REST, KINDS[kind]
        self.marks: list[tuple[str, Any]] = []
        evaluator = Evaluator(
            Timed(setup.evaluator.network, self, {"__call__": "network"}),
            Timed(setup.evaluator.encoder, self, {"planes": "encode", "globals": "encode"}),
            setup.evaluator.symmetries,
        )
        search = Search(self.timed("answer", evaluator), settings, root_evaluator=evaluator)
        with self.kernels():
            self.games = SearchedGames(setup, search, setup.args.sims, batch)

    def play(self, seconds: float) -> dict[str, float]:
        """Returns the microseconds that the stages of one step took, the mean over whole searches of at least so many
        seconds."""
        spent, number_of_steps = dict.fromkeys(STAGES, 0.0), 0
        while sum(spent.values()) < seconds:
            with self.kernels(), self._watching():
                self.games.move(self.games.sims)
            for name, duration in self._durations():
                spent[name] += duration
            number_of_steps += self.steps
        return {name: 1e6 * duration / number_of_steps for name, duration in spent.items()}

    def timed(self, stage: str, function: Callable) -> Callable:
        """Returns the function, its time charged to a stage."""

        def _call(*arguments: Any, **named: Any) -> Any:
            before, self.stage = self.stage, stage
            self._mark()
            try:
                return function(*arguments, **named)
            finally:
                self.stage = before
                self._mark()

        return _call

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

        def _call(search_state: SearchState) -> None:
            timed(search_state)
            self.marks.append(("", self.marks[-1][1]))
            self.steps += 1

        return _call

    def _mark(self) -> None:
        """Notes that the present stage begins here, or goes on after one inside it."""
        if self.device.type == "cuda":
            moment = torch.cuda.Event(enable_timing=True)
            moment.record()
        else:
            moment = time.perf_counter()
        self.marks.append((self.stage, moment))

    def _durations(self) -> Iterator[tuple[str, float]]:
        """Yields the seconds from each mark to the next with the stage that they belong to."""
        synchronize(self.device)
        for (stage, start), (_, end) in zip(self.marks, self.marks[1:], strict=False):
            if stage:
                yield stage, start.elapsed_time(end) / 1e3 if self.device.type == "cuda" else end - start


class Timed:
    """An object of whose methods some are charged to stages."""

    def __init__(self, inner: Any, clock: StageClock, stages: dict[str, str]) -> None:
        self.inner = inner
        self.methods = {name: clock.timed(stage, getattr(inner, name)) for name, stage in stages.items()}

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["methods"].get(name) or getattr(self.__dict__["inner"], name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.methods["__call__"](*arguments, **named)
