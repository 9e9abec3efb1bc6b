"""A GTP engine for tests: `fake_engine.py MODE [FILE]`. Plays the first legal point for some moves, then
passes.

The modes other than "good" go wrong on purpose, as their names say; FILE is where some of them leave a mark."""

from __future__ import annotations

import os
import sys
import time

from sgfmill.boards import Board
from sgfmill.common import format_vertex, move_from_vertex

COMMANDS = "boardsize clear_board final_score genmove komi list_commands name play quit version".split()
MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
FILE = sys.argv[2] if len(sys.argv) > 2 else ""
TROUBLE_AT = 5  # stones that have been played when trouble begins
PASS_AT = 14


class Game:
    """A board with the simple ko rule and without suicide."""

    def __init__(self, size: int) -> None:
        self.size, self.board, self.ko, self.count = size, Board(size), None, 0

    def play(self, colour: str, point: tuple[int, int] | None) -> bool:
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

    def genmove(self, colour: str) -> tuple[int, int] | None:
        """Plays and returns the first legal point, None for a pass."""
        points = [] if self.count >= PASS_AT else self.board.board_points
        point = next((point for point in points if self.play(colour, point)), None)
        if point is None:
            self.play(colour, None)
        return point


def trouble(game: Game) -> str | None:
    """Does what the mode is for, and returns an answer to `genmove` that is none of a good engine's."""
    if MODE == "crash-once":
        if not os.path.exists(FILE):
            open(FILE, "w").close()
            os._exit(7)
        return None
    if game.count < TROUBLE_AT:
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
        "illegal": format_vertex(game.board.list_occupied_points()[0][1]),
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
    game, komi = Game(9), 0.0
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
            game = Game(int(words[0]))
            status, answer = ("?", "unacceptable size") if game.size > 19 else ("=", "")
        elif name == "clear_board":
            game = Game(game.size)
        elif name == "komi":
            komi = float(words[0])
        elif name == "play":
            status, answer = (
                ("=", "") if game.play(words[0], move_from_vertex(words[1], game.size)) else ("?", "illegal move")
            )
        elif name == "genmove":
            answer = trouble(game)
            if MODE == "refuse" and game.count >= TROUBLE_AT:
                status, answer = "?", "not now"
            elif MODE == "babble" and game.count >= TROUBLE_AT:
                print("I think C3\n", flush=True)
                continue
            elif answer is None:
                answer = format_vertex(game.genmove(words[0]))
        elif name == "final_score":
            score = game.board.area_score() - komi
            said = f"{'B' if score > 0 else 'W'}+{abs(score):.1f}" if score else "0"
            status, answer = ("?", "no idea") if MODE == "unsure" else ("=", said)
        elif name == "quit":
            print(f"={number}\n", flush=True)
            return
        else:
            status, answer = ("=", "") if MODE == "innumerate" else ("?", "unknown command")
        end = "\r\n" if MODE == "dos" else "\n"
        if MODE == "twice" and name == "genmove" and game.count >= TROUBLE_AT:
            sys.stdout.write(f"={number} {answer}\n\n")
        sys.stdout.write(f"{status}{number} {answer}{end}{end}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
