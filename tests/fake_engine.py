"""A GTP engine for tests, without torch: `fake_engine.py MODE [FILE]`. Plays the first legal point for some moves, then
passes.

The modes other than "good" go wrong on purpose, as their names say; FILE is where some of them leave a mark.
"""

from __future__ import annotations

import os
import sys
import time

LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
COMMANDS = [
    "boardsize",
    "clear_board",
    "final_score",
    "genmove",
    "komi",
    "list_commands",
    "name",
    "play",
    "quit",
    "version",
]
MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
FILE = sys.argv[2] if len(sys.argv) > 2 else ""
TROUBLE_AT = 5  # stones that have been played when trouble begins
PASS_AT = 14


class Board:
    """Stones by point, with captures; the ko rule is the simple one."""

    def __init__(self, size: int) -> None:
        self.size, self.stones, self.ko, self.count = size, {}, None, 0

    def near(self, point: tuple[int, int]) -> list[tuple[int, int]]:
        row, column = point
        around = [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
        return [(r, c) for r, c in around if 0 <= r < self.size and 0 <= c < self.size]

    def region(self, start: tuple[int, int]) -> tuple[set, set]:
        """Returns the points connected to one that are like it, and what lies around them."""
        kind, found, edge, todo = self.stones.get(start), {start}, set(), [start]
        while todo:
            for point in self.near(todo.pop()):
                if self.stones.get(point) != kind:
                    edge.add(point)
                elif point not in found:
                    found.add(point)
                    todo.append(point)
        return found, edge

    def is_dead(self, point: tuple[int, int]) -> bool:
        return all(other in self.stones for other in self.region(point)[1])

    def play(self, colour: str, point: tuple[int, int] | None) -> bool:
        """Plays and returns True, or returns False for what is illegal."""
        if point is None:
            self.ko, self.count = None, self.count + 1
            return True
        if point in self.stones or (point, colour) == self.ko:
            return False
        self.stones[point] = colour
        dead = [
            other for other in self.near(point) if self.stones.get(other) not in (None, colour) and self.is_dead(other)
        ]
        taken = {stone for other in dead for stone in self.region(other)[0]}
        for other in taken:
            del self.stones[other]
        if self.is_dead(point):
            del self.stones[point]
            return False
        own, edge = self.region(point)
        free = [other for other in edge if other not in self.stones]
        self.ko = (
            (next(iter(taken)), "bw"[colour == "b"]) if len(taken) == 1 and len(own) == 1 and len(free) == 1 else None
        )
        self.count += 1
        return True

    def genmove(self, colour: str) -> tuple[int, int] | None:
        """Plays and returns the first legal point, None for a pass."""
        points = [(row, column) for row in range(self.size) for column in range(self.size)]
        points = [] if self.count >= PASS_AT else points
        point = next((point for point in points if self.play(colour, point)), None)
        if point is None:
            self.play(colour, None)
        return point

    def area(self) -> int:
        """Returns Black's area less White's."""
        total, seen = 0, set()
        for point in ((row, column) for row in range(self.size) for column in range(self.size)):
            if point in seen:
                continue
            found, edge = self.region(point)
            seen |= found
            owners = {self.stones[point]} if point in self.stones else {self.stones[other] for other in edge}
            total += len(found) * {("b",): 1, ("w",): -1}.get(tuple(owners), 0)
        return total


def vertex(point: tuple[int, int] | None) -> str:
    return "pass" if point is None else f"{LETTERS[point[1]]}{point[0] + 1}"


def place(text: str) -> tuple[int, int] | None:
    return None if text.lower() == "pass" else (int(text[1:]) - 1, LETTERS.index(text[0].upper()))


def trouble(board: Board) -> str | None:
    """Does what the mode is for, and returns an answer to `genmove` that is none of a good engine's."""
    if MODE == "crash-once":
        if not os.path.exists(FILE):
            open(FILE, "w").close()
            os._exit(7)
        return None
    if board.count < TROUBLE_AT:
        return None
    if MODE == "crash":
        sys.stderr.write("fatal: out of ideas\n")
        sys.stderr.flush()
        os._exit(3)
    if MODE == "hang":
        open(FILE, "a").write(f"{os.getpid()}\n") if FILE else None
        time.sleep(600)
    if MODE == "mute":
        sys.stdout.close()
        os.close(1)
        time.sleep(600)
    answers = {
        "illegal": vertex(next(iter(board.stones), None)),
        "garbage": "banana",
        "off-board": "T19",
        "resign": "resign",
        "empty": "",
    }
    return answers.get(MODE)


def main() -> None:
    if MODE == "dead":
        sys.exit("cannot find my network")
    if MODE == "slow":
        time.sleep(0.8)
    if MODE == "misleading":
        print("=== the engine ===\n", flush=True)
    if MODE == "banner":
        print("Welcome to the engine!\n\nLoading ...", flush=True)
    board, komi = Board(9), 0.0
    for line in sys.stdin:
        words = line.split()
        number = words.pop(0) if words[0].isdigit() and MODE != "innumerate" else ""
        name, *words = words
        number = "" if MODE == "unnumbered" else number
        answer, status = "", "="
        if MODE == "noisy":
            sys.stderr.write("= thinking \n\n? info " * 5000 + "\n")
            sys.stderr.flush()
        if name == "list_commands":
            answer = "\n".join(COMMANDS + (["kata-set-rules", "set_random_seed"] if MODE == "kata" else []))
        elif name in ("kata-set-rules", "set_random_seed"):
            open(FILE, "a").write(" ".join([name, *words]) + "\n")
        elif name == "name":
            answer = "Fake"
        elif name == "version":
            answer = "1.0"
        elif name == "boardsize":
            board = Board(int(words[0]))
            status, answer = ("?", "unacceptable size") if board.size > 19 else ("=", "")
        elif name == "clear_board":
            board = Board(board.size)
        elif name == "komi":
            komi = float(words[0])
        elif name == "play":
            status, answer = ("=", "") if board.play(words[0], place(words[1])) else ("?", "illegal move")
        elif name == "genmove":
            answer = trouble(board)
            if MODE == "refuse" and board.count >= TROUBLE_AT:
                status, answer = "?", "not now"
            elif MODE == "babble" and board.count >= TROUBLE_AT:
                print("I think C3\n", flush=True)
                continue
            elif answer is None:
                answer = vertex(board.genmove(words[0]))
        elif name == "final_score":
            score = board.area() - komi
            said = f"{'B' if score > 0 else 'W'}+{abs(score):.1f}" if score else "0"
            status, answer = ("?", "no idea") if MODE == "unsure" else ("=", said)
        elif name == "quit":
            print(f"={number}\n", flush=True)
            return
        else:
            status, answer = ("=", "") if MODE == "innumerate" else ("?", "unknown command")
        end = "\r\n" if MODE == "dos" else "\n"
        if MODE == "twice" and name == "genmove" and board.count >= TROUBLE_AT:
            sys.stdout.write(f"={number} {answer}\n\n")
        sys.stdout.write(f"{status}{number} {answer}{end}{end}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
