"""The engine: takes lines, keeps the queue, lets all positions that there is room for be searched together, and
replies.
"""

from __future__ import annotations

import heapq
import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import zerogo
from zerogo import runtime
from zerogo.analysis import reply
from zerogo.analysis.batch import Batch, Job, Kind, power_of_two
from zerogo.analysis.query import Query, QueryError, parse
from zerogo.analysis.referee import Referee
from zerogo.analysis.settings import Settings, shown, whole
from zerogo.errors import InputError
from zerogo.players.analyst import Analyst

FEWEST_LANES = 4
MOST_POINTS = 2**21  # of the boards that a network sees at a time: 800 MB for each layer of 96 channels in float32
READ_POINTS = 2**15  # of the boards that are read at a time, each with up to 16 moves to look after
ACTIONS = ("query_version", "query_models", "clear_cache", "terminate", "terminate_all")


@dataclass(frozen=True)
class Limits:
    """positions: most that are searched at a time, of one kind. memory: bytes for all trees. nodes: most of one tree, a
    power of two.
    """

    positions: int = 1024
    memory: int = 2**31
    nodes: int = 2**17


class Engine:
    """Answers lines of KataGo's analysis protocol.

    analyst: what thinks. settings: where a query says nothing else. write: called with each reply. clock: seconds.

    Positions are begun by priority, then in the order of their arrival. Unless a time limit or an action ends its
    search, a reply depends on its query alone, not on what else is asked: exactly so without a network; a network's
    float32 rounds by the size of the batch, which changed the sixth digit of most replies and the visits of none of 60.
    """

    def __init__(
        self,
        analyst: Analyst,
        write: Callable[[dict[str, Any]], None],
        settings: Settings | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.analyst, self.write, self.clock = analyst, write, clock
        self.settings, self.limits = settings or Settings(), limits or Limits()
        self._referee = Referee()
        self._waiting: list[tuple[int, int, Job]] = []  # a heap
        self._batches: list[Batch] = []
        self._open: dict[str, list[Job]] = {}
        self._said: set[str] = set()  # warnings about rules
        self._arrived = 0

    @property
    def is_busy(self) -> bool:
        """Whether any position waits or is searched."""
        return bool(self._open)

    def take(self, line: str | bytes) -> None:
        """Takes a line: replies at once to errors and actions, and queues a query's positions."""
        fields: dict[str, Any] = {}
        try:
            if not line.strip():
                return
            fields = _object(line)
            if isinstance(fields.get("action"), str):
                self._act(fields)
            else:
                self._queue(parse(fields, self.settings, self.analyst.sizes))
        except QueryError as error:
            self.write({"id": fields["id"], "field": error.field, "error": str(error)})
        except InputError as error:
            self.write({"error": str(error)})
        except RecursionError:  # what json could read may still be too deep to be checked, shown or sent back
            known = {"id": fields["id"]} if "id" in fields else {}
            self.write(known | {"error": "the brackets of the line are nested too deeply"})

    def step(self) -> bool:
        """Begins what there is room for, runs one step of all searches and writes what is due; returns whether there is
        more to do.
        """
        self._begin()
        for batch in self._batches:
            batch.step()
            self._tell(batch)
        self._batches = [batch for batch in self._batches if batch.running]
        return self.is_busy

    def _queue(self, query: Query) -> None:
        self._referee.check(query)
        most = self._most_visits(query)
        visits = min(query.settings.max_visits, most)
        for field, warning in query.warnings:
            if warning not in self._said:
                self.write({"id": query.id, "field": field, "warning": warning})
            if field == "rules":  # thousands of queries may have the same: once is enough
                self._said.add(warning)
        if visits < query.settings.max_visits:
            self.write(
                {
                    "id": query.id,
                    "field": "maxVisits",
                    "warning": f"a search here ends with {most} visits, for want of memory",
                }
            )
        for turn, priority in query.turns:
            job = Job(query, turn, priority, visits, self._arrived)
            self._arrived += 1
            self._open.setdefault(query.id, []).append(job)
            heapq.heappush(self._waiting, (-priority, job.number, job))

    def _most_visits(self, query: Query) -> int:
        node = Kind(query.rules.size, 1, query.restrictions is not None).lane_bytes // 3
        fitting = max(1, self.limits.memory // node)
        return min(self.limits.nodes, power_of_two(fitting + 1) // 2)

    def _act(self, fields: dict[str, Any]) -> None:
        """Does what an action asks, and answers with it."""
        action = fields["action"]
        if action not in ACTIONS:
            raise QueryError(f"action is {shown(action)}; allowed are {', '.join(ACTIONS)}", "action")
        if action == "query_version":
            fields = fields | {"version": zerogo.__version__, "git_hash": runtime.code_revision()}
        elif action == "query_models":
            fields = fields | {"models": [self._model()]}
        elif action == "clear_cache":
            self._referee.clear()
        else:
            self._terminate(fields)
        self.write(fields)

    def _model(self) -> dict[str, Any]:
        name = self.analyst.name
        known = {"name": name, "internalName": name, "maxBatchSize": self.limits.positions, "usesHumanSLProfile": False}
        return known | {"version": 1, "usingFP16": "false"}

    def _terminate(self, fields: dict[str, Any]) -> None:
        """Ends positions: those that wait are answered without results, those that are searched with what there is, in
        the next step.
        """
        turns = fields.get("turnNumbers")
        if turns is not None:
            if not isinstance(turns, list):
                raise QueryError(f"turnNumbers are {shown(turns)}; they must be a list of turn numbers", "turnNumbers")
            try:
                turns = {whole("a turn", turn, -math.inf, math.inf) for turn in turns}
            except InputError as error:
                raise QueryError(str(error), "turnNumbers") from None
        ids: Iterable[str] = list(self._open)
        if fields["action"] == "terminate":
            if not isinstance(fields.get("terminateId"), str):
                raise QueryError('terminate needs a text "terminateId"', "terminateId")
            ids = [fields["terminateId"]]
        for name in ids:
            for job in list(self._open.get(name, ())):
                if turns is None or job.turn in turns:
                    self._end(job)

    def _end(self, job: Job) -> None:
        job.is_stopped = True
        if job.lane < 0:  # it stays in the heap until its turn comes
            self.write(reply.nothing(job))
            self._close(job)

    def _close(self, job: Job) -> None:
        jobs = self._open[job.query.id]
        jobs.remove(job)
        if not jobs:
            del self._open[job.query.id]

    def _begin(self) -> None:
        """Lets waiting positions begin, strictly in their order: one that needs much memory is not put off by later
        ones.
        """
        while (kind := self._next_kind()) is not None:
            batch = next(
                (batch for batch in self._batches if batch.kind == kind and batch.num_free), None
            ) or self._new_batch(kind)
            if batch is None:
                return
            jobs, room = [], batch.num_free
            while len(jobs) < room and self._next_kind() == kind:
                jobs.append(heapq.heappop(self._waiting)[2])
            now = self.clock()
            for job in jobs:
                job.began, job.next_report = now, now + job.query.first_report
            batch.place(jobs)

    def _next_kind(self) -> Kind | None:
        """Returns the kind of the position whose turn it is, None where none waits."""
        while self._waiting and self._waiting[0][2].is_stopped:
            heapq.heappop(self._waiting)
        return Kind.of(self._waiting[0][2]) if self._waiting else None

    def _new_batch(self, kind: Kind) -> Batch | None:
        """Returns a batch for those of a kind that wait, None where there is no room for it now."""
        wanted = sum(not job.is_stopped and Kind.of(job) == kind for _, _, job in self._waiting)
        taken = sum(len(batch.jobs) for batch in self._batches if batch.kind == kind)
        free = self.limits.memory - sum(batch.bytes for batch in self._batches)
        fitting = MOST_POINTS // (kind.size**2 * self.analyst.search.settings.leaves)
        lanes = min(max(FEWEST_LANES, wanted), self.limits.positions - taken, free // kind.lane_bytes, max(1, fitting))
        if lanes < 1 and self._batches:
            return None
        self._batches.append(Batch(self.analyst, kind, max(1, lanes)))
        return self._batches[-1]

    def _tell(self, batch: Batch) -> None:
        """Writes the reports that are due and the final replies, and takes out what is finished."""
        now = self.clock()
        for job in batch.running:
            job.is_stopped = job.is_stopped or now - job.began >= job.query.settings.max_time
        done = dict.fromkeys(batch.spent())
        due = [job for job in batch.running if now >= job.next_report and job not in done]
        self._report(batch, due, is_during_search=True)
        self._report(batch, list(done), is_during_search=False)
        now = self.clock()  # a report takes its time, and the search must get some too
        for job in due:
            job.next_report = now + job.query.report_every
        batch.remove(list(done))
        for job in done:
            self._close(job)

    def _report(self, batch: Batch, jobs: list[Job], is_during_search: bool) -> None:
        at_once = max(1, READ_POINTS // batch.kind.size**2)
        for start in range(0, len(jobs), at_once):
            some = jobs[start : start + at_once]
            for job, finding in zip(some, batch.read(some), strict=True):
                self.write(reply.analysis(job, finding, is_during_search))


def _object(line: str | bytes) -> dict[str, Any]:
    """Returns a line's JSON object. Raises InputError for anything else, and where it has no id."""
    try:
        text = line.decode() if isinstance(line, bytes) else line
        fields = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except ValueError as error:  # of UTF-8, too
        raise InputError(f"could not parse input line as json request: {error}") from None
    if not isinstance(fields, dict):
        raise InputError(f"the line is {shown(fields)}; a request must be a JSON object")
    if not isinstance(fields.get("id"), str):
        raise InputError('a request must have a text "id" field')
    return fields


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    """Returns the number of a text such as 1.5. Raises ValueError for 1e999, which could not be sent back as JSON."""
    return number if math.isfinite(number := float(text)) else _no_number(text)
