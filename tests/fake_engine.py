"""A GTP engine for tests, in their process: `Fake(MODE, FILE)`; campaign/fake_program.py makes a program of it. Plays
the first legal point for some moves, then passes.

The modes other than "good" go wrong on purpose, as their names say; FILE is where some of them leave a mark."""

from __future__ import annotations

import os

from sgfmill.boards import Board
from sgfmill.common import format_vertex, move_from_vertex

COMMANDS = "boardsize clear_board final_score genmove komi list_commands name play quit version".split()
KATA_COMMANDS = ["kata-set-rules", "set_random_seed"]
ANSWERS = {"name": "Fake", "version": "1.0", "quit": ""}
TROUBLE_AT = 5  # stones that have been played when trouble begins
PASS_AT = 14
GREETINGS = {"misleading": "=== the engine ===\n\n", "banner": "Welcome to the engine!\n\nLoading ...\n"}
MOVES = {"garbage": "banana", "off-board": "T19", "resign": "resign", "empty": ""}  # of those in trouble


class Trouble(Exception):
    """What a program does instead of answering: `kind` is "crash" (status, last words), "hang", "mute", "babble"."""

    def __init__(self, kind: str, status: int = 0, words: str = "") -> None:
        self.kind, self.status, self.words = kind, status, words


class Engine:
    """An engine with the simple ko rule and without suicide. Each command is a method, which returns the answer or
    raises ValueError with the words of a refusal."""

    points = 0.0

    def __init__(self, mode: str, file: str) -> None:
        self.mode, self.file = mode, file
        self.boardsize("9")

    def boardsize(self, size: str) -> None:
        if int(size) > 19:
            raise ValueError("unacceptable size")
        self.size = int(size)
        self.clear_board()

    def clear_board(self) -> None:
        self.board, self.ko, self.count = Board(self.size), None, 0

    def komi(self, points: str) -> None:
        self.points = float(points)

    def play(self, colour: str, vertex: str) -> None:
        if not self.plays(colour, move_from_vertex(vertex, self.size)):
            raise ValueError("illegal move")

    def plays(self, colour: str, point: tuple[int, int] | None) -> bool:
        """Plays and returns True, or returns False for what is illegal."""
        ko = None
        if point is not None:
            if (colour, point) == self.ko or self.board.get(*point):
                return False
            before = self.board.copy()
            banned = self.board.play(*point, colour)
            if self.board.get(*point) is None:
                self.board = before
                return False
            ko = ("bw"[colour == "b"], banned)
        self.ko, self.count = ko, self.count + 1
        return True

    def genmove(self, colour: str) -> str:
        if self.mode == "crash-once" and not os.path.exists(self.file):
            open(self.file, "w").close()
            raise Trouble("crash", 7)
        if self.count >= TROUBLE_AT:
            if self.mode in ("crash", "hang", "mute", "babble"):
                raise Trouble(self.mode, 3, "fatal: out of ideas")
            if self.mode == "refuse":
                raise ValueError("not now")
            if self.mode == "illegal":
                return format_vertex(self.board.list_occupied_points()[0][1])
            if self.mode in MOVES:
                return MOVES[self.mode]
        points = [] if self.count >= PASS_AT else self.board.board_points
        point = next((point for point in points if self.plays(colour, point)), None)
        if point is None:
            self.plays(colour, None)
        return format_vertex(point)

    def final_score(self) -> str:
        if self.mode == "unsure":
            raise ValueError("no idea")
        score = self.board.area_score() - self.points
        return f"{'B' if score > 0 else 'W'}+{abs(score):.1f}" if score else "0"


class Fake:
    """The program: `greeting` is what it says at its start, `answer` what it says to a line."""

    def __init__(self, mode: str = "good", file: str = "") -> None:
        if mode == "dead":
            raise Trouble("crash", 1, "cannot find my network")
        self.mode, self.file = mode, file
        self.engine, self.end = Engine(mode, file), "\r\n" if mode == "dos" else "\n"
        self.greeting = GREETINGS.get(mode, "")

    def answer(self, line: str) -> str:
        words = line.split()
        number = words.pop(0) if words[0].isdigit() and self.mode != "innumerate" else ""
        number = "" if self.mode == "unnumbered" else number
        status, answer = "=", ANSWERS.get(words[0], "")
        if words[0] == "list_commands":
            answer = "\n".join(COMMANDS + (KATA_COMMANDS if self.mode == "kata" else []))
        elif words[0] in COMMANDS and words[0] not in ANSWERS:
            try:
                answer = getattr(self.engine, words[0])(*words[1:]) or ""
            except ValueError as error:
                status, answer = "?", str(error)
            except Trouble as trouble:
                if trouble.kind == "babble":
                    return "I think C3\n\n"
                raise
        elif words[0] in KATA_COMMANDS:
            open(self.file, "a").write(" ".join(words) + "\n")
        elif words[0] not in ANSWERS and self.mode != "innumerate":
            status, answer = "?", "unknown command"
        is_twice = self.mode == "twice" and words[0] == "genmove" and self.engine.count >= TROUBLE_AT
        return (1 + is_twice) * f"{status}{number} {answer}{self.end}{self.end}"
