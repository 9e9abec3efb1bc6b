"""Conversations with a GTP engine in this process in which a line may wait for what the engine says."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterator, Sequence

from zerogo.gtp.commands import serve
from zerogo.gtp.engine import Engine
from zerogo.gtp.protocol import Input, Output

LONG = 60.0  # seconds after which a conversation has hung
Wait = Callable[[str], bool]


class Conversation:
    """A session in this process whose next line may wait until the engine has written something."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.written, self._changed = engine, "", threading.Condition()

    def hold(self, script: Sequence[str | Wait]) -> str:
        """Returns all that is written when the lines of a script come; a function of what is written so far holds up
        the line behind it.
        """
        serve(self.engine, Input(self._lines(script)), Output(io.StringIO(), self._note))
        return self.written

    def _note(self, text: str) -> None:
        with self._changed:
            self.written += text
            self._changed.notify_all()

    def _lines(self, script: Sequence[str | Wait]) -> Iterator[str]:
        for item in script:
            if isinstance(item, str):
                yield item
                continue
            with self._changed:
                assert self._changed.wait_for(lambda item=item: item(self.written), LONG), (
                    f"hung after {self.written!r}"
                )


def infos(number: int) -> Wait:
    """Says whether so many lines of analysis are there."""
    return lambda written: len(re.findall(r"^info ", written, re.MULTILINE)) >= number


def says(text: str, times: int = 1) -> Wait:
    """Says whether a text is there so many times."""
    return lambda written: written.count(text) >= times
