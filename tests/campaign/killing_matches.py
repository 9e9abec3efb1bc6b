"""Kills a match again and again, at chosen points of its file writing and at random moments, and looks at what is left.

As a script, `killing_matches.py FOLDER SEED TIMES`. Forked from one process that has torch loaded, that takes a second
each."""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from matches import command, config, dying, written

from zerogo import arena
from zerogo.arena import match

GAMES = 12


def play(folder: Path, resume: bool) -> None:
    """Plays the match, or goes on with it: an engine against the random player, three games at once."""
    match.ENGINE_GAMES_AT_ONCE = 3
    settings = config("evaluation.engine_processes=1")
    arena.evaluate([command("good"), "random"], GAMES, settings, folder, opening_plies=2, resume=resume)


def play_and_die(folder: Path, drawn: random.Random, at_a_file: bool) -> None:
    """Starts or resumes the match in a child process, which dies while it writes files, or at a random moment."""
    number, after, delay = drawn.randint(1, 12), drawn.random() < 0.5, drawn.uniform(0.05, 0.8)
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        counter = [0]
        if at_a_file:
            os.replace = dying(number, os.replace, after, counter)
            os.fsync = dying(number, os.fsync, after, counter)
        else:
            happens = match.MatchGames.play_ply
            match.MatchGames.play_ply = lambda games: (time.sleep(0.01), happens(games))[1]
        try:
            play(folder, resume=(folder / "match.json").exists())
            os._exit(0)
        finally:
            os._exit(1)
    if not at_a_file:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # A match of a few games may be over before the random moment.
    assert status in ((9,) if at_a_file else (-9, 0)), f"the match ended with {status} before it was to die"


def main(folder: Path, seed: int, times: int) -> None:
    drawn, before, grown = random.Random(seed), {}, 0
    for number in range(times):
        if len(before) >= GAMES - 3:
            break
        play_and_die(folder / "killed", drawn, number % 2 == 0)
        after = written(folder / "killed")
        for _, game in after:
            assert (folder / "killed" / "games" / f"fake_program-vs-random-{game + 1:04d}.sgf").stat().st_size > 0
        assert all(after[key] == line for key, line in before.items()), "a finished game was lost or changed"
        grown += 0 < len(before) < len(after)
        before = after
    play(folder / "killed", resume=True)
    play(folder / "whole", resume=False)
    assert written(folder / "killed") == written(folder / "whole")
    one, other = (json.loads((folder / name / "result.json").read_text())["matches"] for name in ("killed", "whole"))
    assert one == other and not list((folder / "killed").rglob("*.tmp"))
    print(f"{len(before)} games before the last start, {grown} times more than before")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
