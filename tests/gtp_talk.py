"""Conversations with a GTP engine: in this process with every reply taken apart, or with a process of its own.

Golden conversations lie in data/gtp, a file each, as they go from a fresh engine on 5x5 with a komi of 7: a line with
`> ` before it is sent; the lines below are the whole reply."""

import io
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zerogo import __version__
from zerogo.gtp.__main__ import parse
from zerogo.gtp.commands import serve
from zerogo.gtp.engine import Engine, make_engine
from zerogo.gtp.protocol import Input

ROOT = Path(__file__).parent.parent
QUICKSTART = "checkpoints/quickstart-5x5.pt"
LONG = 60.0  # seconds after which a conversation has hung
FILES = sorted((Path(__file__).parent / "data" / "gtp").glob("*.txt"))
SCRIPTS = {path.stem: path.read_text().replace("VERSION", __version__).strip() for path in FILES}
Wait = Callable[[str], bool]


def requests_of(script: str) -> list[str]:
    """Returns the lines of a script that are sent."""
    return [line[2:] for line in script.splitlines() if line.startswith("> ")]


def engine(checkpoint: str = "mcts:8", *arguments: str) -> Engine:
    """Returns the engine that a command line asks for; what it says to people is in `engine.said`."""
    said: list[str] = []
    options = ["--checkpoint", checkpoint, "--device", "cpu", "--precision", "float32", "--seed", "1", *arguments]
    made = make_engine(parse(options), said.append)
    made.said = said
    return made


def raw(talking: Engine, text: str | Iterable[str]) -> str:
    """Returns all that the engine writes when these lines have come, and then the end of the input."""
    output = io.StringIO()
    serve(talking, Input(text.split("\n") if isinstance(text, str) else text), output.write)
    return output.getvalue()


def converse(talking: Engine, script: Sequence[str | Wait]) -> str:
    """Returns all that is written when the lines of a script come; a function of what is written so far holds up the
    line behind it."""
    output, changed = io.StringIO(), threading.Condition()

    def write(text: str) -> None:
        with changed:
            output.write(text)
            changed.notify_all()

    def lines() -> Iterator[str]:
        for item in script:
            if isinstance(item, str):
                yield item
                continue
            with changed:
                is_there = changed.wait_for(lambda item=item: item(output.getvalue()), LONG)
                assert is_there, f"hung after {output.getvalue()!r}"

    serve(talking, Input(lines()), write)
    return output.getvalue()


def infos(number: int) -> Wait:
    """Says whether so many lines of analysis are there."""
    return lambda written: len(re.findall(r"^info ", written, re.MULTILINE)) >= number


@dataclass
class Talk:
    """A conversation with one engine in this process, line by line; each reply is well formed."""

    engine: Engine

    def ask(self, line: str) -> str:
        """Returns the reply to one line with its sign: "= D4", "? illegal move"; empty where there is none. A refusal
        changes nothing."""
        before, written = state_of(self.engine), raw(self.engine, [line])
        assert written == "" or (written.endswith("\n\n") and written.count("\n\n") == 1 and "\n\n\n" not in written)
        if written.startswith("?"):
            assert state_of(self.engine) == before, f"{line!r} was refused and changed something"
        return written.removesuffix("\n\n")

    def value(self, line: str) -> str:
        """Returns the text of a successful reply without its sign."""
        reply = self.ask(line)
        assert reply.startswith("="), f"{line!r} was answered by {reply!r}"
        return reply[1:].lstrip(" ")


def state_of(talking: Engine) -> tuple:
    """Returns all that a refused command must leave alone."""
    game, clock = talking.game, talking.clock
    whole = (game.rules, game.start, game.first, list(game.moves), list(game.handicap), game.state, game.start_id)
    times = (clock.settings, dict(clock.left), clock.lag, vars(talking.options).copy())
    return *whole, *times, talking.rules_name, talking.opponent, talking.own_colour, talking.resignation


@dataclass
class Process:
    """An engine as a process of its own; `ask` sends a line and waits for its reply, up to a minute."""

    arguments: Sequence[str]
    _lines: queue.Queue[str | None] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        command = (sys.executable, "-m", "zerogo.gtp", *self.arguments)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, cwd=ROOT, **pipes)
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
        return "\n".join(iter(self.line, ""))

    def ask(self, line: str) -> str:
        """Returns the reply to a line."""
        self.send(line + "\n")
        return self.reply()

    def end(self) -> tuple[int, str]:
        """Closes the engine's input and returns its exit status and what it wrote to stderr."""
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors
