"""Thousands of good, bent and broken lines: each request is answered once, nothing breaks, a refusal changes
nothing."""

import io
import random
import re
from collections.abc import Iterator
from pathlib import Path

import gtp_talk
import pytest
from gtp_talk import QUICKSTART, SCRIPTS, requests_of, state_of
from tables import tables

from zerogo.gtp import protocol
from zerogo.gtp.commands import QUIT
from zerogo.gtp.engine import COMMANDS, Engine, answer

TABLES = tables("gtp")
ANALYSIS, WORDS = TABLES["analysis"], TABLES["words"]
WORDS.append("x" * 5000)
LETTERS = 'abcdefghjkoprtwABCDE0123456789 -_.,#{}"\t\x00\x07\x7fé囲'
DANGEROUS = ("printsgf", "loadsgf")  # they write and read whatever a line names


def corpus() -> list[str]:
    """Returns the good lines, and those of the scripts that must be refused."""
    scripted = [line for script in SCRIPTS.values() for line in requests_of(script)]
    return [line for line in (*scripted, *ANALYSIS, *COMMANDS) if line.split()[0] not in DANGEROUS]


def bent(line: str, draw: random.Random) -> str:
    """Returns a line with something wrong in it."""
    words = line.split(" ")
    place = draw.randrange(len(words) + 1)
    kind = draw.randrange(9)
    if kind == 0:
        words.insert(place, draw.choice(WORDS))
    elif kind == 1 and len(words) > 1:
        words.pop(min(place, len(words) - 1))
    elif kind == 2:
        words[min(place, len(words) - 1)] = draw.choice(WORDS)
    elif kind == 3:
        words = words + words[1:] * draw.randrange(1, 4)
    elif kind == 4:
        draw.shuffle(words)
    elif kind == 5:
        return line.swapcase()
    text = " ".join(words)
    for _ in range(draw.randrange(4) if kind > 5 else 0):
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice(LETTERS) * draw.randrange(2) + text[at + draw.randrange(2) :]
    return text


def lines(number: int, seed: int) -> Iterator[str]:
    """Yields lines: most of them good moves and commands, a third bent, some rubbish; ids before half of them."""
    draw, good = random.Random(seed), corpus()
    vertices = [f"{letter}{row}" for letter in "ABCDE" for row in range(1, 6)]
    for index in range(number):
        kind = draw.random()
        if kind < 0.3:
            line = f"play {draw.choice('bw')} {draw.choice(vertices)}"
        elif kind < 0.35:
            line = f"boardsize {draw.randrange(1, 8)}"
        elif kind < 0.62:
            line = draw.choice(good)
        elif kind < 0.95:
            line = bent(draw.choice(good), draw)
        else:
            line = "".join(draw.choice(LETTERS) for _ in range(draw.randrange(30)))
        if draw.random() < 0.5:
            line = f"{index} {line}"
        words = protocol.parse(line)
        if words is None or (words.command not in (*DANGEROUS, QUIT) and not is_large(words)):
            yield line


def is_large(request: protocol.Request) -> bool:
    """Whether a request makes a board on which everything takes long."""
    return request.command == "boardsize" and any(word.isdigit() and 9 < int(word) <= 25 for word in request.arguments)


class Impatient:
    """An input that has always more to say, so that nothing takes long."""

    def is_waiting(self) -> bool:
        return True


def converse(engine: Engine, number: int, seed: int) -> list[str]:
    """Returns the first words of the replies to so many lines, after looking at each of them."""
    engine.interrupted = lambda: True
    signs = []
    for line in lines(number, seed):
        request = protocol.parse(line)
        if request is None:
            continue
        before, output = state_of(engine), io.StringIO()
        answer(engine, request, Impatient(), output.write)
        written = output.getvalue()
        check(request, written, line)
        signs.append(written[0])
        if written.startswith("?"):
            assert state_of(engine) == before, f"{line!r} was refused and changed something"
    assert not [text for text in engine.said if "internal error" in text]
    return signs


def check(request: protocol.Request, written: str, line: str) -> None:
    """One reply with the request's id, one blank line, at its end; nothing that is only known inside."""
    assert written.startswith((f"={request.id}", f"?{request.id}")), f"{line!r}: {written!r}"
    whole = written.endswith("\n\n") and written.count("\n\n") == 1
    assert whole and not written[1 + len(request.id)].isdigit(), f"{line!r}: {written!r}"
    assert "Traceback" not in written and "internal error" not in written, f"{line!r}: {written!r}"
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", written), f"{line!r}: {written!r}"
    assert not written.startswith("?") or written.count("\n") == 2, f"{line!r}: a refusal of several lines: {written!r}"


@pytest.mark.parametrize(("player", "number"), [("random", 6_000), ("mcts:1", 1_000)])
def test_many_lines(player: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them breaks anything, and many do something."""
    engine = gtp_talk.engine(player, "game.size=5", "game.komi=7")
    monkeypatch.chdir(tmp_path)
    signs = converse(engine, number, seed=number)
    assert len(signs) > 0.8 * number and 0.2 < signs.count("=") / len(signs) < 0.8
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_more_lines(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = gtp_talk.engine(["random", "mcts:2", QUICKSTART][seed % 3], "game.size=5")
    monkeypatch.chdir(tmp_path)
    converse(engine, 20_000, seed)
