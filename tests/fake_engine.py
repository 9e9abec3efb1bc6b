"""A GTP engine for tests: `fake_engine.py MODE [FILE]`. Plays the first legal point for some moves, then passes.

The modes other than "good" go wrong on purpose, as their names say; FILE is where some of them leave a mark."""

from __future__ import annotations

import os
import sys
import time

from sgfmill.boards import Board
from sgfmill.common import format_vertex, move_from_vertex

COMMANDS = "boardsize clear_board final_score genmove komi list_commands name play quit version".split()
KATA_COMMANDS = ["kata-set-rules", "set_random_seed"]
MODE, FILE, *_ = *sys.argv[1:], ""
TROUBLE_AT = 5  # stones that have been played when trouble begins
PASS_AT = 14
GREETINGS = {"misleading": "=== the engine ===\n\n", "banner": "Welcome to the engine!\n\nLoading ...\n"}
MOVES = {"garbage": "banana", "off-board": "T19", "resign": "resign", "empty": ""}  # of those in trouble


class Engine:
    """An engine with the simple ko rule and without suicide. Each command is a method, which returns the answer or
    raises ValueError with the words of a refusal."""

    points = 0.0

    def __init__(self) -> None:
        self.boardsize("9")

    def list_commands(self) -> str:
        return "\n".join(COMMANDS + (KATA_COMMANDS if MODE == "kata" else []))

    def name(self) -> str:
        return "Fake"

    def version(self) -> str:
        return "1.0"

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
        if MODE == "crash-once" and not os.path.exists(FILE):
            open(FILE, "w").close()
            os._exit(7)
        if self.count >= TROUBLE_AT:
            trouble()
            if MODE == "illegal":
                return format_vertex(self.board.list_occupied_points()[0][1])
            if MODE in MOVES:
                return MOVES[MODE]
        points = [] if self.count >= PASS_AT else self.board.board_points
        point = next((point for point in points if self.plays(colour, point)), None)
        if point is None:
            self.plays(colour, None)
        return format_vertex(point)

    def final_score(self) -> str:
        if MODE == "unsure":
            raise ValueError("no idea")
        score = self.board.area_score() - self.points
        return f"{'B' if score > 0 else 'W'}+{abs(score):.1f}" if score else "0"


def trouble() -> None:
    """Does what the mode is for, where that is more than another answer."""
    if MODE == "crash":
        print("fatal: out of ideas", file=sys.stderr, flush=True)
        os._exit(3)
    if MODE == "hang":
        open(FILE, "a").write(f"{os.getpid()}\n") if FILE else None
        time.sleep(600)
    if MODE == "mute":
        sys.stdout.close()
        os.close(1)
        time.sleep(600)
    if MODE == "refuse":
        raise ValueError("not now")


def main() -> None:
    if MODE == "dead":
        sys.exit("cannot find my network")
    time.sleep(0.8 if MODE == "slow" else 0)
    print(end=GREETINGS.get(MODE, ""), flush=True)
    engine, end = Engine(), "\r\n" if MODE == "dos" else "\n"
    for line in sys.stdin:
        words = line.split()
        number = words.pop(0) if words[0].isdigit() and MODE != "innumerate" else ""
        number = "" if MODE == "unnumbered" else number
        if MODE == "noisy":
            print("= thinking \n\n? info " * 5000, file=sys.stderr, flush=True)
        if MODE == "babble" and words[0] == "genmove" and engine.count >= TROUBLE_AT:
            print("I think C3\n", flush=True)
            continue
        status, answer = "=", ""
        if words[0] in COMMANDS and words[0] != "quit":
            try:
                answer = getattr(engine, words[0])(*words[1:]) or ""
            except ValueError as error:
                status, answer = "?", str(error)
        elif words[0] in KATA_COMMANDS:
            open(FILE, "a").write(" ".join(words) + "\n")
        elif words[0] != "quit" and MODE != "innumerate":
            status, answer = "?", "unknown command"
        times = 2 if MODE == "twice" and words[0] == "genmove" and engine.count >= TROUBLE_AT else 1
        print(end=times * f"{status}{number} {answer}{end}{end}", flush=True)
        if words[0] == "quit":
            return


if __name__ == "__main__":
    main()
