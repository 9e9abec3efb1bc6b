"""GNU Go as the oracle of legality, on both boards: it has flags for each superko kind and for suicide."""

import os
import shutil
import subprocess

import pytest
from boards import Lockstep, all_moves, kinds
from tables import tables

from zerogo.game import Colour, GameState, Move
from zerogo.rules import SUPERKO, Rules, coords

# Debian installs it where a service's PATH often does not look.
GNUGO = shutil.which("gnugo") or shutil.which("gnugo", path=os.pathsep.join(("/usr/games", "/usr/local/games")))
KO_FLAGS = {"simple": "--simple-ko", "positional": "--positional-superko", "situational": "--situational-superko"}
SUICIDE_FLAGS = {False: "--forbid-suicide", True: "--allow-all-suicide"}

REASON = "GNU Go is not installed (no gnugo on PATH nor in /usr/games), so legality is not compared with it"
pytestmark = pytest.mark.skipif(GNUGO is None, reason=REASON)


def ask(commands: list[str], superko: str, suicide: bool) -> list[str]:
    """Returns GNU Go's answers to GTP commands; asserts that it refuses none."""
    flags = ("--mode", "gtp", "--quiet", KO_FLAGS[superko], SUICIDE_FLAGS[suicide])
    text = "\n".join(commands) + "\n"
    done = subprocess.run((GNUGO, *flags), input=text, capture_output=True, text=True, timeout=120)
    answers = [answer.strip() for answer in done.stdout.split("\n\n") if answer.strip()]
    assert len(answers) == len(commands), f"{len(answers)} answers to {len(commands)} commands: {done.stderr}"
    for command, answer in zip(commands, answers, strict=True):
        assert answer.startswith("="), f"{command}: {answer}"
    return [answer.removeprefix("=").strip() for answer in answers]


class Transcript:
    """The GTP commands that tell one game to GNU Go, and at each ply what it is asked about every point and should
    say."""

    def __init__(self, rules: Rules) -> None:
        self.rules, self.commands = rules, [f"boardsize {rules.size}", "clear_board"]
        self.expected: list[str | None] = [None, None]

    def add(self, command: str, expected: str | None = None) -> None:
        self.commands.append(command)
        self.expected.append(expected)

    def check(self) -> None:
        answers = ask(self.commands, self.rules.superko, self.rules.suicide)
        for index, (command, answer, expected) in enumerate(zip(self.commands, answers, self.expected, strict=True)):
            if expected is not None and answer != expected:
                played = [line for line in self.commands[:index] if line.startswith("play")]
                told = f"{command}: GNU Go says {answer}, we {expected}"
                pytest.fail(f"{self.rules}: {told}, after\n" + "\n".join(played))


def letter(colour: Colour) -> str:
    return "b" if colour is Colour.BLACK else "w"


def is_beyond_gnugo(game: GameState, move: Move) -> bool:
    """Returns whether a move is a suicide under a superko rule: GNU Go 3.8 never sees that such a move repeats a
    position.

    Tried on 5x5 with --positional-superko --allow-all-suicide: after `w B4, b E2, w C5, b E3, w A4, b A5, w pass` it
    lets Black play B5, though the suicide of two stones makes the position after A4 again. What a suicide leaves behind
    it does remember."""
    if move.point is None or game.rules.superko == "simple" or game.board.string_at(move.point) is not None:
        return False
    return move.point in game.board.removed_by(game.to_play, move.point)


def compare_random_games(rules: list[Rules], seed: str, pass_share: float, plies: int) -> Lockstep:
    """Plays random games on `board` and `game`, which are compared on the way, and asks GNU Go about every point at
    every ply of each."""
    played = Lockstep(rules, seed, pass_share=pass_share, long=1e9)
    transcripts = [Transcript(rule) for rule in rules]
    for _ in range(plies):
        going = [index for index, game in enumerate(played.games) if not game.is_over]
        for index in going:
            colour = letter(played.games[index].to_play)
            for move, reason in zip(all_moves(rules[index].size), played.why[index], strict=True):
                if reason in ("", "ko", "superko") and is_beyond_gnugo(played.games[index], move):
                    continue
                vertex = coords.to_gtp(move.action(rules[index].size), rules[index].size)
                transcripts[index].add(f"is_legal {colour} {vertex}", "1" if reason == "" else "0")
        before = played.games[:]
        played.step()
        played.compare()
        for index in going:
            size, move = rules[index].size, played.games[index].last_move
            transcripts[index].add(f"play {letter(before[index].to_play)} {coords.to_gtp(move.action(size), size)}")
    for transcript in transcripts:
        transcript.check()
    return played


GAMES = [(2, 3, 60), (3, 4, 120), (4, 3, 150), (5, 3, 150), (7, 1, 150), (9, 1, 200), (13, 1, 100)]


@pytest.mark.parametrize("size, copies, plies", GAMES)
def test_is_legal_agrees_in_random_games(size: int, copies: int, plies: int) -> None:
    played = compare_random_games(kinds(size, copies), f"GNU Go {size}", 0.02, plies)
    assert played.reasons["superko"] > 0 or size > 9


def test_is_legal_agrees_on_19x19() -> None:
    compare_random_games([Rules(size=19), Rules(size=19, superko="situational", suicide=True)], "GNU Go 19", 0.0, 120)


@pytest.mark.parametrize("superko", SUPERKO)
@pytest.mark.parametrize("name", [name for name in tables("pinned") if name.startswith("send two")])
def test_send_two_return_one(name: str, superko: str) -> None:
    case = tables("pinned")[name]
    transcript = Transcript(Rules(size=9, superko=superko))
    for ply, vertex in enumerate(case["moves"].split()):
        transcript.add(f"play {'bw'[ply % 2]} {vertex}")
    transcript.add(f"is_legal w {case['last']}", "1" if superko in case["legal_under"] else "0")
    transcript.check()


@pytest.mark.parametrize("size", [7, 8, 9, 13, 18, 19])
def test_fixed_handicap_agrees(size: int) -> None:
    counts = range(2, 5 if size == 7 or size % 2 == 0 else 10)
    commands = [line for count in counts for line in (f"boardsize {size}", "clear_board", f"fixed_handicap {count}")]
    for count, answer in zip(counts, ask(commands, "simple", False)[2::3], strict=True):
        assert set(answer.split()) == {coords.to_gtp(point, size) for point in coords.fixed_handicap(size, count)}
