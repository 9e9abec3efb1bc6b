"""The process that has torch. It takes requests from a connection and answers there, JSON objects as messages:

    {"id": 7, "job": "think", "fields": {…}}  gets {"id": 7, "part": {…}}, any number, and {"id": 7, "done": true}
                                              or {"id": 7, "error": "a sentence"}
    {"cancel": 7}                             ends it, wherever it is
    {"end": true}                             ends the process, as does the end of the connection

Long jobs are done one at a time, in the order of their arrival; short ones in between. It runs at a low priority and
with one thread, so that a run beside it keeps the machine."""

import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from zerogo.errors import InputError

NICENESS = 10  # a run with all cores gives it a tenth of one


class JobLoop:
    """Does jobs that come by a connection."""

    def __init__(self, desk: Any, connection: Connection) -> None:
        self.desk, self.connection = desk, connection
        self._long: deque[tuple[int, Iterator]] = deque([(0, self._begin())])

    def run(self) -> None:
        """Does what is asked until a request or the server ends it."""
        while True:
            if not self._long or self.connection.poll():
                request = json.loads(self.connection.recv_bytes())
                if "end" in request:
                    return
                self._take(request)
            elif not self._step(*self._long[0]):
                self._long.popleft()
                self.desk.cpu = time.process_time()

    def _begin(self) -> Iterator:
        """Makes compiled loops ready while nobody waits for a board; only then other processes go first."""
        yield from self.desk.warm()
        with suppress(OSError):
            os.nice(NICENESS)

    def _take(self, request: dict[str, Any]) -> None:
        from zerogo.tensorboard_plugin.jobs import JOBS, LONG

        if "cancel" in request:
            for entry in [entry for entry in self._long if entry[0] == request["cancel"]]:
                self._long.remove(entry)
                self._answer({"id": entry[0], "done": True})
            return
        number, work = request["id"], JOBS[request["job"]](self.desk, request["fields"])
        if JOBS[request["job"]] in LONG:
            self._long.append((number, work))
        else:
            while self._step(number, work):
                pass

    def _step(self, number: int, work: Iterator) -> bool:
        """Takes the next part of a job, and answers with it; returns whether the job goes on."""
        try:
            part = next(work, None)
        except InputError as error:
            self._answer({"id": number, "error": str(error)})
        except KeyError as error:
            self._answer({"id": number, "error": f"the request lacks {error}"})
        except Exception as error:  # one request must not end the others
            print(f"the Go tab: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self._answer({"id": number, "error": f"this could not be done ({type(error).__name__})"})
        else:
            self._answer({"id": number, "done": True} if part is None else {"id": number, "part": part})
            return part is not None
        return False

    def _answer(self, fields: dict[str, Any]) -> None:
        try:
            text = json.dumps(fields, allow_nan=False)
        except ValueError:
            text = json.dumps({"id": fields["id"], "error": "the result has NaN or infinite numbers"})
        self.connection.send_bytes(text.encode())


if __name__ == "__main__":
    from zerogo.tensorboard_plugin.jobs import Desk

    with suppress(EOFError, ConnectionError):
        JobLoop(Desk(), Connection(int(sys.argv[1]))).run()
