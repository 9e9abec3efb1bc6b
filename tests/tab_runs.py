"""A log directory with what the Go tab shows: a run on 5x5 with two networks, games, numbers and matches."""

import json
import os
from pathlib import Path

import tiny
from tables import tables

from zerogo import board, checkpoint, sgf
from zerogo.rules import Rules
from zerogo.system.tensors import state_of

RULES = Rules(5, 0.5)
GAMES = tables("tab")["games"]  # moves, result, Black, White; the first two are the same up to a turn of the board


def make_log_directory(root: Path) -> Path:
    """Fills a folder, and returns it: the run "tiny", and beside it a network that is none."""
    run = root / "tiny"
    for number, (name, (moves, result, black, white)) in enumerate(GAMES.items()):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        remarks = [sgf.Remark(None, 0.5 + 0.05 * ply) for ply in range(len(moves))]
        sgf.write(run / name, sgf.GameRecord(RULES, moves, result, black, white, remarks))
        os.utime(run / name, (1e9 + number, 1e9 + number))
    settings = tiny.config("game.size=5", "game.komi=0.5", "game.move_cap=60")
    for step in (5, 9):
        found = tiny.fresh_checkpoint(settings, step)
        checkpoint.save(checkpoint.path_of(run, step), found)
    states = board.step(board.new_games(3, [RULES] * 3), board.new_games(3, RULES).to_play.long())
    found.run = {"games": {"states": state_of(states)}}
    checkpoint.save(run / "snapshots" / "snapshot-000000009.pt", found)
    (run / "config.yaml").write_text("run: {}\n")
    (run / "logs").mkdir()
    numbers = {"step": 3000, "time": 1e9, "selfplay/games_per_s": 2.5, "sanity/capped_share": 0.9}
    told = {1.0: 0.5, 2.0: None}  # the last is none: it has diverged
    lines = [json.dumps(numbers | {"time/minutes": at, "sanity/policy_kl_nats": kl}) + "\n" for at, kl in told.items()]
    lines += ['{"step": 2000}\n', "[1]\n", '{"step": 4000, "cut']  # matches of an earlier step; no line of a run
    (run / "logs" / "metrics.jsonl").write_text("".join(lines))
    meeting = {"player": "tiny@9", "opponent": "random", "size": 5, "points": 3.0, "games": 4}
    more = {"pairs": [0, 0, 1, 0, 1], "seed": 1}
    (run / "matches.jsonl").write_text(json.dumps(meeting | more) + "\n")
    return root
