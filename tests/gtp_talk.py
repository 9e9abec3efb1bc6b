"""Conversations with a GTP engine in this process. No clock goes on by itself, and no thread reads.

Golden conversations lie in data/gtp, a file each, as they go from a fresh engine on 5x5 with a komi of 7, or from the
player and options of a line `$ PLAYER OPTIONS`: a line with `> ` before it is sent; the lines below are the whole
reply, and behind `! `, where a script has that, what people are told. Lines `+ NAME TEXT` make files (see
`put_file`)."""

import io
import itertools
import os
import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import tiny

from zerogo import __version__
from zerogo.gtp.__main__ import parse
from zerogo.gtp.commands import serve
from zerogo.gtp.engine import Engine, make_engine
from zerogo.gtp.protocol import INTERRUPT
from zerogo.players.move_choice import Judge

ROOT = Path(__file__).parent.parent
QUICKSTART = "checkpoints/quickstart-5x5.pt"
FILES = sorted((Path(__file__).parent / "data" / "gtp").glob("*.txt"))
SCRIPTS = {path.stem: path.read_text().replace("VERSION", __version__).strip() for path in FILES}
Wait = Callable[[str], bool]


def requests_of(script: str) -> list[str]:
    """Returns the lines of a script that are sent."""
    return [line[2:] for line in script.splitlines() if line.startswith("> ")]


def engine(checkpoint: str = "mcts:8", *arguments: str) -> Engine:
    """Returns the engine of a command line; `engine.said` is what it says to people. Each look at its clock: 10 ms."""
    said: list[str] = []
    options = ["--checkpoint", checkpoint, "--device", "cpu", "--precision", "float32", "--seed", "1", *arguments]
    made = make_engine(parse(options), said.append)
    made.said, made.now = said, itertools.count(1000, 0.01).__next__
    made.judge = Judge(made.analyst, made.now)
    return made


class Script:
    """An input whose lines come in their order, a line behind functions when each of them has held once of what is
    written so far; then it ends."""

    POLLS = 20_000  # how often it may be asked in vain for a line

    def __init__(self, items: Iterable[str | Wait], output: io.StringIO) -> None:
        self._items, self._output, self._polls = deque(items), output, 0

    def is_waiting(self) -> bool:
        """Says whether a line, or the end, has come."""
        while self._items and not isinstance(self._items[0], str):
            self._polls += 1
            assert self._polls < self.POLLS, f"hung after {self._output.getvalue()!r}"
            if not self._items[0](self._output.getvalue()):
                return False
            self._items.popleft()
            self._polls = 0
        return True

    def take(self) -> str | None:
        """Returns the next line as soon as it comes, None at the end."""
        while not self.is_waiting():
            pass
        return self._items.popleft() if self._items else None

    def asks_to_stop(self) -> bool:
        """Says whether the next line is GoGui's interrupt, and has come."""
        return self.is_waiting() and bool(self._items) and INTERRUPT.fullmatch(self._items[0]) is not None


def converse(talking: Engine, script: Iterable[str | Wait]) -> str:
    """Returns all that is written when the lines of a script come (see `Script`), and then the end of the input."""
    output = io.StringIO()
    serve(talking, Script(script, output), output.write, lambda line: None)
    return output.getvalue()


def raw(talking: Engine, text: str | Iterable[str]) -> str:
    """Returns all that the engine writes when these lines have come, and then the end of the input."""
    return converse(talking, text.split("\n") if isinstance(text, str) else text)


def infos(number: int) -> Wait:
    """Says whether so many lines of analysis are there."""
    return lambda written: len(re.findall(r"^info ", written, re.MULTILINE)) >= number


@dataclass
class Talk:
    """A conversation with one engine in this process, line by line; each reply is well formed."""

    engine: Engine

    def ask(self, line: str) -> str:
        """Returns the reply to one line with its sign: "= D4", "? illegal move", or "". A refusal changes nothing."""
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


def perform(script: str) -> str:
    """Returns the conversation by a script; a refused command changes no file of the working directory."""
    for line in script.splitlines():
        if line.startswith("+ "):
            put_file(*line[2:].split(" ", 1))
    first = script.partition("\n")[0]
    words = first.removeprefix("$ ") if first.startswith("$ ") else "mcts:8 game.size=5 game.komi=7"
    talk, shown, tells = Talk(engine(*words.split())), [], "\n! " in script
    talk.engine.options.simulations = 8
    for line in script.splitlines():
        shown += [line] if line[:2] in ("$ ", "+ ", "> ") else []
        if line.startswith("> "):
            talk.engine.said.clear()
            before, reply = tiny.files(Path()), talk.ask(line[2:].replace("FOLDER", os.getcwd()))
            assert reply[:1] != "?" or tiny.files(Path()) == before
            shown += [row.rstrip() for row in reply.splitlines()]
            rows = "\n".join(talk.engine.said).splitlines()
            assert not any(map(looks_like_a_reply, rows))
            shown += map("! {}".format, rows) if tells else []
    text = "\n".join(shown).replace(os.getcwd(), "FOLDER")
    return re.sub(r"DT\[\d{4}-\d\d-\d\d\]", "DT[TODAY]", text)


def looks_like_a_reply(row: str) -> bool:
    """Says whether Lizzie, which merges stderr into stdout, takes a line for a reply."""
    return row.startswith(("=", "?", "info", "play", "hold")) or " -> " in row


def put_file(name: str, text: str = "") -> None:
    """Makes a file with a text, a FIFO for `|`, a link for `-> TARGET`."""
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    if text == "|":
        os.mkfifo(path)
    elif text.startswith("-> "):
        path.symlink_to(text[3:])
    else:
        path.write_text(text)


def state_of(talking: Engine) -> tuple:
    """Returns all that a refused command must leave alone."""
    game, clock = talking.game, talking.clock
    whole = (game.rules, game.start, game.first, list(game.moves), list(game.handicap), game.state, game.start_id)
    times = (clock.settings, dict(clock.left), clock.lag, vars(talking.options).copy())
    return *whole, *times, talking.rules_name, talking.opponent, talking.own_colour, talking.game.result
