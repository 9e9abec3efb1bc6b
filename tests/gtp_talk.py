"""Conversations with a GTP engine: in this process with every reply taken apart, or with a process of its own."""

from __future__ import annotations

import io
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from zerogo.gtp.__main__ import parse
from zerogo.gtp.commands import serve
from zerogo.gtp.engine import Engine, make_engine
from zerogo.gtp.protocol import Input, Output

ROOT = Path(__file__).parent.parent


def engine(checkpoint: str = "mcts:8", *arguments: str) -> Engine:
    """Returns the engine that a command line asks for; what it says to people is in `engine.said`."""
    said: list[str] = []
    made = make_engine(
        parse(["--checkpoint", checkpoint, "--device", "cpu", "--precision", "float32", *arguments]), said.append
    )
    made.said = said
    return made


def raw(talking: Engine, text: str | Iterable[str]) -> str:
    """Returns all that the engine writes when these lines have come, and then the end of the input."""
    output = io.StringIO()
    serve(talking, Input(text.split("\n") if isinstance(text, str) else text), Output(output))
    return output.getvalue()


def replies(text: str) -> list[str]:
    """Returns the replies in what an engine wrote, each with its sign, without the blank line; checks that each has
    one.
    """
    assert text == "" or text.endswith("\n\n"), f"the last reply is not closed: {text!r}"
    assert "\n\n\n" not in text, f"a blank line too many: {text!r}"
    return text.split("\n\n")[:-1]


@dataclass
class Talk:
    """A conversation with one engine in this process, line by line. refused: the commands that were answered by `?`."""

    engine: Engine
    asked: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def ask(self, line: str) -> str:
        """Returns the reply to one line with its sign: "= D4", "? illegal move"; empty where there is none. A refusal
        changes nothing.
        """
        before = state_of(self.engine)
        found = replies(raw(self.engine, [line]))
        assert len(found) <= 1, f"{len(found)} replies to one line: {found}"
        self.asked.append(line)
        if found and found[0].startswith("?"):
            self.refused.append(line)
            assert state_of(self.engine) == before, f"{line!r} was refused and changed something"
        return found[0] if found else ""

    def value(self, line: str) -> str:
        """Returns the text of a successful reply without its sign."""
        reply = self.ask(line)
        assert reply.startswith("="), f"{line!r} was answered by {reply!r}"
        return reply[1:].lstrip(" ")


def state_of(talking: Engine) -> tuple:
    """Returns all that a refused command must leave alone."""
    game = talking.game
    clock = (talking.clock.settings, dict(talking.clock.left), talking.clock.lag)
    whole = (game.rules, game.start, game.first, list(game.moves), list(game.handicap), game.state, game.start_id)
    return (
        *whole,
        clock,
        vars(talking.options).copy(),
        talking.rules_name,
        talking.opponent,
        talking.own_colour,
        talking.result,
    )


def transcript(
    talk: Talk, script: str, dress: Callable[[str, int], str] = lambda line, number: line, number: bool = False
) -> str:
    """Returns a script as the engine answers it: lines that begin with `> ` are sent (as `dress` writes them), and its
    replies below.

    number: whether the lines were given ids, which the replies must bear; they are taken off again.
    """
    found = []
    for index, line in enumerate(row for row in script.strip().splitlines() if row.startswith("> ")):
        reply = talk.ask(dress(line[2:], index))
        if number:
            assert reply[1:].startswith(str(index)), f"{line!r}: no id in {reply!r}"
            reply = reply[0] + reply[1 + len(str(index)) :]
        found += [line, *(row.rstrip() for row in reply.splitlines())]
    return "\n".join(found)


class Process:
    """An engine as a process of its own; `ask` sends a line and waits for its reply, however long that takes up to a
    minute.
    """

    def __init__(self, *arguments: str, cwd: Path = ROOT) -> None:
        command = (sys.executable, "-m", "zerogo.gtp", *arguments)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, cwd=cwd, **pipes)
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def send(self, text: str) -> None:
        """Writes text in one go."""
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def line(self) -> str:
        """Returns the next line that the engine writes."""
        line = self._lines.get(timeout=60)
        assert line is not None, f"the engine has gone: {self.process.stderr.read()}"
        return line

    def reply(self) -> str:
        """Returns the next whole reply."""
        rows = []
        while row := self.line():
            rows.append(row)
        return "\n".join(rows)

    def ask(self, line: str) -> str:
        """Returns the reply to a line."""
        self.send(line + "\n")
        return self.reply()

    def end(self) -> tuple[int, str]:
        """Closes the engine's input and returns its exit status and what it wrote to stderr."""
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors
