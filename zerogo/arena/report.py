"""A match report: one HTML page with the ratings, who won as which colour, how games ended, a few final boards, and
links to the games. It needs no other file, no script and no network; the template escapes all values."""

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch

from zerogo import scoring
from zerogo.arena import elo
from zerogo.arena.journal import GAMES_FOLDER, game_file
from zerogo.arena.result import MatchResult, PlayedGame, render
from zerogo.show import picture
from zerogo.system.runtime import make_directory, write_atomically

REPORT_FILE = "report.html"
BOARDS = 6  # final boards of a match
ALL_BOARDS = 36  # of a page with many matches
LISTED_GAMES = 400  # links to the games of one match
BINS = 21  # of a histogram of scores


def write_report(
    out_dir: str | Path,
    results: Sequence[MatchResult],
    names: Sequence[str],
    ratings: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Writes `report.html` into a folder and returns its path; the page holds its pictures and links to the games in
    `games/`.

    results: the matches, one or more. names: the players. ratings: their `rating_table` over the paired matches, since
    one with fixed colours says little of strength; empty where nobody was rated, as in games of one player against
    itself. settings: what else is to be shown of the matches."""
    out_dir, paired = make_directory(out_dir), [result for result in results if result.is_paired]
    boards = max(1, min(BOARDS, ALL_BOARDS // len(results)))

    def points_of(player: str, other: str) -> tuple[float, int]:
        """Returns a player's points against another, and the number of their games."""
        met = [result for result in paired if {result.name_a, result.name_b} == {player, other}]
        points = [one.points_a if one.name_a == player else 1 - one.points_a for one in met]
        return sum(map(np.sum, points)), sum(map(len, points))

    page = render(
        REPORT_FILE,
        names=names,
        rules=vars(results[0].rules),
        ratings=ratings,
        points_of=points_of,
        matches=[_match(result, out_dir, boards) for result in results],
        settings=None if settings is None else json.dumps(settings, indent=1),
    )
    path = out_dir / REPORT_FILE
    write_atomically(path, lambda file: file.write(page.encode()))
    return path


def _match(result: MatchResult, out_dir: Path, boards: int) -> dict[str, Any]:
    """Returns a match's summary with what only the page shows: intervals by colour, scores, boards and links."""
    rows = [("all", (result.wins, result.draws, result.losses), result.interval)]
    for label, is_black in () if result.is_self else (("as Black", True), ("as White", False)):
        wins, draws, losses = counts = result.by_colour(is_black)
        rows += [(label, counts, elo.wilson_interval(wins + draws / 2, sum(counts)))] if sum(counts) else []
    return result.summary() | {
        "by_colour": [(label, *counts, interval) for label, counts, interval in rows],
        "scores": bin_scores(np.array([game.score_black for game in result.counted])),
        "boards": [_board(result, game, out_dir) for game in choose_games(result, boards)],
        "listed": [_game(result, game, out_dir) for game in result.games[:LISTED_GAMES]],
    }


def choose_games(result: MatchResult, number: int) -> list[PlayedGame]:
    """Returns games to show: one of each way to end and of each colour first, then some at even distances."""
    kinds: dict[tuple, int] = {}
    for index, game in enumerate(result.games):
        ending = game.stop.kind if game.stop else "cap" if game.capped else "passes"
        kinds.setdefault((ending, game.a_is_black), index)
        kinds.setdefault(("winner", game.outcome_a), index)
    spread = np.linspace(0, result.num_games - 1, min(number, result.num_games)).round().astype(int).tolist()
    indices = list(dict.fromkeys([*kinds.values(), *spread, *range(result.num_games)]))[:number]
    return [result.games[index] for index in sorted(indices)]


def _game(result: MatchResult, game: PlayedGame, out_dir: Path) -> dict[str, Any]:
    """Returns what the page says of a game; the link is empty where the game's file is not in the folder."""
    path = f"{GAMES_FOLDER}/{game_file((result.name_a, result.name_b), game.number)}"
    black, white = (result.name_a, result.name_b) if game.a_is_black else (result.name_b, result.name_a)
    link = quote(path) if (out_dir / path).exists() else ""
    facts = {"number": game.number + 1, "result": game.result_text, "moves": len(game.moves), "link": link}
    return facts | {"black": black, "white": white}


def _board(result: MatchResult, game: PlayedGame, out_dir: Path) -> dict[str, Any]:
    """Returns a game with a picture of its final board, the last stone marked; where it was counted as an area, with
    who owns which empty point."""
    size, stones = result.rules.size, torch.from_numpy(np.ascontiguousarray(game.stones)).to(torch.int8)
    last = next((move for move in reversed(game.moves) if move < size**2), None)
    is_area = result.rules.scoring == "area" and game.stop is None
    owners = scoring.area_ownership_black(stones.unsqueeze(0))[0].to(torch.float32) if is_area else None
    image = picture.board_image(stones, last, owners, cell=max(12, min(26, 250 // (size + 1))))
    facts = {"height": image.shape[0], "width": image.shape[1], "png": base64.b64encode(picture.png(image)).decode()}
    return _game(result, game, out_dir) | facts


def bin_scores(scores: np.ndarray) -> dict[str, Any] | None:
    """Returns how many scores [K] lie in bins around zero, of games that Black won, that were drawn and that White won;
    None without scores."""
    if not len(scores):
        return None
    end = max(1.0, float(np.abs(scores).max()))
    edges = np.linspace(-end, end, BINS + 1)
    sides = {"black": scores[scores > 0], "drawn": scores[scores == 0], "white": scores[scores < 0]}
    counts = {side: np.histogram(of_side, edges)[0].tolist() for side, of_side in sides.items()}
    return counts | {"edges": edges.tolist(), "highest": max(map(sum, zip(*counts.values(), strict=True)))}
