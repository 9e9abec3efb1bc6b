"""Breaks rules, scoring, targets, backup and replay in thirty ways, one at a time in a copy, and says which of them the
tests notice: `python tests/campaign/mutations.py [NAME ...]`. The status is 0 if at least 28 of 30 are noticed.

Each of the two implementations of an operation, torch's and the CPU's kernels, is broken alone: the tests that compare
them must see it. A name is the file's and a number."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LEAST = 28 / 30


class Mutation(NamedTuple):
    """A text of a file, which stands there once, what takes its place, and the test files that must notice."""

    path: str
    old: str
    new: str
    tests: str


MUTATIONS = [
    # The rules of one game
    Mutation("game.py", "len(removed) == 1 and len(string.stones) == 1", "len(removed) == 1", "game"),
    Mutation("game.py", "(after, self.to_play.other) if", "after if", "game"),
    Mutation("game.py", "taker = self.to_play.other if move.point in removed else", "taker = self.to_play or", "game"),
    # The rules of many games
    Mutation("board/position.py", "(after.passes >= 2)", "(after.passes >= 3)", "board"),
    Mutation("board/position.py", "is_taken & (number == 1) &", "is_taken &", "board"),
    Mutation("board/position.py", "(own_stones & ~position.atari) |", "own_stones |", "board"),
    Mutation("board/position.py", "~(relieved | string)", "~string", "board"),
    Mutation("board/position.py", "torch.where(is_black == is_taken, number", "torch.where(is_black, number", "board"),
    Mutation("board/__init__.py", "unsqueeze(1)) & 1) == 1", "unsqueeze(1)) & 1) == 0", "board"),
    Mutation("kernels/cpu/board.py", "((at ^ ply) & 1) == 1", "((at ^ ply) & 1) == 0", "board"),
    Mutation("kernels/cpu/board.py", "captures[k, 1 - whose]", "captures[k, whose]", "board"),
    Mutation("kernels/cpu/board.py", "lost[game, 1, row] |= removed[game, 1, row]", "pass", "board"),
    # Scoring
    Mutation("scoring.py", "is_vital.any(1) | (hidden <= 1)", "is_vital.any(1) | (hidden <= 2)", "scoring"),
    Mutation("scoring.py", "(counts >= 2)", "(counts >= 1)", "scoring"),
    Mutation("scoring.py", "- flood.count(black & dead)", "+ flood.count(black & dead)", "scoring"),
    Mutation("kernels/cpu/scoring.py", "work[ONCE + row] & work[STRING + row]", "work[STRING + row]", "scoring"),
    Mutation("kernels/cpu/scoring.py", "away <= 1", "away <= 2", "scoring"),
    # Targets
    Mutation("selfplay/record.py", '["actions"][game, (ply + 1)', '["actions"][game, ply', "selfplay"),
    Mutation("selfplay/record.py", "ownership_black[game] * sign.view(-1, 1, 1)", "ownership_black[game]", "selfplay"),
    Mutation("selfplay/record.py", "[game, ply] * sign.unsqueeze(1)", "[game, ply]", "selfplay"),
    Mutation("selfplay/record.py", "~is_resigned[game]", "is_resigned[game]", "selfplay"),
    Mutation("search/gumbel.py", "(nodes.node_value + number * average) / (1.0 + number)", "average", "search_kernels"),
    Mutation("search/puct.py", "torch.minimum(needed, weight)", "weight", "search search_toys"),
    # Backup
    Mutation("search/tree.py", "(step & 1) == 0, value, -value", "(step & 1) == 0, value, value", "search_kernels"),
    Mutation("search/__init__.py", "torch.where(leaves.finished, leaves.result, value)", "value", "search_kernels"),
    Mutation("kernels/cpu/tree.py", "value, score = -value, -score", "score = -score", "search_toys"),
    Mutation("kernels/cpu/tree.py", "leaves.result[k] if leaves.finished[k] else leaves", "leaves", "search_toys"),
    # Replay
    Mutation("replay/__init__.py", "(total**a - c**a)", "total**a", "replay"),
    Mutation(
        "replay/__init__.py",
        "torch.arange(self._num_stored - number, self._num_stored)",
        "torch.arange(number)",
        "replay",
    ),
    Mutation("replay/__init__.py", "append(numbers[~is_held])", "append(numbers)", "replay"),
]
NAMES = [f"{mutation.path}:{1 + number}" for number, mutation in enumerate(MUTATIONS)]


def is_noticed(mutation: Mutation, copy: Path) -> bool:
    """Says whether the tests fail with a mutation; the copy is afterwards what it was before."""
    path = copy / "zerogo" / mutation.path
    text = path.read_text()
    assert text.count(mutation.old) == 1, f"{mutation.path} has {mutation.old!r} {text.count(mutation.old)} times"
    path.write_text(text.replace(mutation.old, mutation.new))
    files = [f"tests/test_{name}.py" for name in mutation.tests.split()]
    command = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files)
    done = subprocess.run(command, cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)}, capture_output=True, text=True)
    path.write_text(text)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode == 1


def main(names: list[str]) -> int:
    """Tries mutations by name, all by default; prints a line for each and returns the exit status."""
    chosen = [number for number, name in enumerate(NAMES) if not names or name in names]
    noticed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "zerogo"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "runs"))
        for number in chosen:
            found = is_noticed(MUTATIONS[number], copy)
            noticed += found
            print(f"{'noticed ' if found else 'SURVIVES'} {NAMES[number]}: {MUTATIONS[number].new}", flush=True)
    print(f"{noticed} of {len(chosen)} are noticed")
    return 0 if noticed >= LEAST * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
