"""A match report: one HTML page with the ratings, who won as which colour, how games ended, a few final boards, and
links to the games.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from zerogo import elo, picture, scoring
from zerogo.arena.journal import GAMES_FOLDER, game_file
from zerogo.arena.page import escaped, figure, histogram_svg, interval_svg, link, page, shares_bar, table
from zerogo.arena.result import FORFEIT, NO_MOVE, RESIGNED, MatchResult
from zerogo.arena.standings import points_table
from zerogo.rules import Rules
from zerogo.runtime import make_directory, write_atomically
from zerogo.sgf import result_text

if TYPE_CHECKING:
    from zerogo.config import Config

REPORT_FILE = "report.html"
BOARDS = 6  # final boards of a match
ALL_BOARDS = 36  # of a page with many matches
LISTED_GAMES = 400  # links to the games of one match


def write_report(
    out_dir: str | Path,
    results: Sequence[MatchResult],
    names: Sequence[str],
    ratings: elo.Ratings | None,
    config: Config | Rules,
) -> Path:
    """Writes `report.html` into a folder and returns its path; the page holds its pictures and links to the games in
    `games/`.

    results: the matches. names: the players in the order of the ratings, which rest on the paired matches alone, since
    one with fixed colours says little of strength. ratings: None where nobody was rated, as in games of one player
    against itself. config: the settings of the matches, or their rules alone."""
    out_dir = make_directory(out_dir)
    rules = results[0].rules if results else config if isinstance(config, Rules) else config.game.rules()
    title = (
        f"{' · '.join(names)}: {rules.size}x{rules.size}"
        if len(names) < 4
        else f"{len(names)} players: {rules.size}x{rules.size}"
    )
    parts = [f"<h1>{escaped(title)}</h1>", f'<p class="soft">{escaped(_settings_line(results, rules))}</p>']
    if ratings is not None:
        parts.append(_ratings_section([result for result in results if result.is_paired], names, ratings))
    boards = max(1, min(BOARDS, ALL_BOARDS // max(1, len(results))))
    parts += [_match_section(result, out_dir, boards) for result in results]
    if not isinstance(config, Rules):
        settings = json.dumps(config.to_dict(), indent=1)
        parts.append(
            f"<h2>Settings</h2>\n<details><summary>all settings</summary><pre>{escaped(settings)}</pre></details>"
        )
    path = out_dir / REPORT_FILE
    write_atomically(path, lambda file: file.write(page(title, "\n".join(parts)).encode()))
    return path


def result_words(result: MatchResult, game: int) -> str:
    """Returns a game's result as an SGF says it: "B+3.5", "0" for a draw, "W+R" by resignation, "B+F" by the other
    side's fault.
    """
    stop = result.stops.get(game)
    if stop is not None:
        return f"{'W' if stop.black_lost else 'B'}+{'R' if stop.kind == RESIGNED else 'F'}"
    return result_text(float(result.score_black[game]))


def _settings_line(results: Sequence[MatchResult], rules: Rules) -> str:
    games = sum(result.num_games for result in results)
    words = [f"{games} games", f"komi {rules.komi:g}", f"{rules.scoring} scoring", f"{rules.superko} superko"]
    words.append("suicide allowed" if rules.suicide else "no suicide")
    if results:
        seeds = {result.seed for result in results}
        words.append(f"seed {min(seeds)}" if len(seeds) == 1 else "a seed for each match")
        plies = max(result.opening_plies for result in results)
        words += [f"{plies} random opening moves"] if plies else []
    return ", ".join(words)


# Ratings


def _ratings_section(results: Sequence[MatchResult], names: Sequence[str], ratings: elo.Ratings) -> str:
    """Returns the Elo table, the strongest first, and for three players or more who won what against whom."""
    points = points_table(names, results)
    won, games = points.sum(1), (points + points.T).sum(1)
    least, most = float(np.min(ratings.low)), float(np.max(ratings.high))
    order = np.argsort(-ratings.elo, kind="stable")
    rows = []
    for rank, k in enumerate(order, start=1):
        low, value, high = float(ratings.low[k]), float(ratings.elo[k]), float(ratings.high[k])
        interval = f"{low:.0f} to {high:.0f}" if high > low else "anchor"
        share = f"{100 * won[k] / games[k]:.1f} %" if games[k] else "-"
        chart = interval_svg(low, value, high, least, most)
        rows.append(
            [
                f"{rank}. {escaped(names[k])}",
                f"<b>{value:.0f}</b>",
                interval,
                chart,
                f"{won[k]:g}",
                f"{games[k]:g}",
                share,
            ]
        )
    head = ["player", "Elo", "95 % interval", "", "points", "games", "won"]
    parts = ["<h2>Ratings</h2>", table(head, rows)]
    if len(names) > 2:
        parts.append("<h3>Points of each (row) against each (column)</h3>")
        rows = [[escaped(names[i]), *("" if i == j else _of_games(points, i, j) for j in order)] for i in order]
        parts.append(table(["", *(escaped(names[j]) for j in order)], rows))
    return "\n".join(parts)


def _of_games(points: np.ndarray, i: int, j: int) -> str:
    games = points[i, j] + points[j, i]
    return f"{points[i, j]:g} of {games:g}" if games else "-"


# One match


def _match_section(result: MatchResult, out_dir: Path, boards: int) -> str:
    """Returns all that is to be said of one match."""
    name_b = "itself" if result.is_self else result.name_b
    bar = shares_bar(
        (result.wins, result.draws, result.losses), ("#2f7d5b", "#c9c1b2", "#b5523f"), ("#fff", "#2a2620", "#fff")
    )
    legend = (
        f'<p class="soft">won, drawn and lost by {escaped(result.name_a)}{" as Black" if result.is_self else ""}</p>'
    )
    counted = result.score_black[result.counted]
    chart = histogram_svg(counted, "results of the counted games")
    parts = [
        f"<h2>{escaped(result.name_a)} against {escaped(name_b)}</h2>",
        f"<p>{escaped(_headline(result))}</p>{bar}{legend}",
        f'<div class="columns"><div><h3>By colour</h3>{_colour_table(result)}{chart}</div>',
        f"<div><h3>How the games ended</h3>{_endings_table(result)}</div></div>",
        _faults(result),
        f'<h3>Final boards</h3><div class="boards">{_boards(result, out_dir, boards)}</div>',
        _games_list(result, out_dir),
    ]
    return "\n".join(part for part in parts if part)


def _headline(result: MatchResult) -> str:
    low, high = (100 * end for end in result.interval)
    words = f"{result.name_a} scores {100 * result.win_rate:.1f} % of {result.num_games} games (95 % interval {low:.1f} to {high:.1f} %)"
    difference, least, most = result.elo_difference
    if not result.is_self:
        words += f", Elo {_signed(difference)} ({_signed(least)} to {_signed(most)})"
    return words + "."


def _signed(value: float) -> str:
    return f"{value:+.0f}" if math.isfinite(value) else "+∞" if value > 0 else "-∞"


def _colour_table(result: MatchResult) -> str:
    """Returns A's results in all, as Black and as White, each with its interval."""
    rows = [["all", *_counts((result.wins, result.draws, result.losses), result.interval)]]
    for label, is_black in (("as Black", True), ("as White", False)):
        wins, draws, losses = counts = result.by_colour(is_black)
        if sum(counts):
            rows.append([label, *_counts(counts, elo.wilson_interval(wins + draws / 2, wins + draws + losses))])
    rows = rows[:1] if result.is_self else rows
    return table([escaped(result.name_a), "won", "drawn", "lost", "points", "95 % interval"], rows)


def _counts(counts: tuple[int, int, int], interval: tuple[float, float]) -> list[str]:
    wins, draws, losses = counts
    share = 100 * (wins + draws / 2) / max(1, sum(counts))
    return [
        f"{wins}",
        f"{draws}",
        f"{losses}",
        f"{share:.1f} %",
        f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f} %",
    ]


def _endings_table(result: MatchResult) -> str:
    """Returns how many games ended in which way, and what they were like."""
    games, capped = result.num_games, int((result.capped & result.counted).sum())
    rows = [["two passes", f"{int(result.counted.sum()) - capped}"], ["move cap, scored as it stood", f"{capped}"]]
    for kind, word in ((RESIGNED, "resigned"), (FORFEIT, "lost by a fault")):
        for name, count in zip((result.name_a, result.name_b), result.stopped(kind), strict=True):
            rows.append([f"{escaped(name)} {word}", f"{count}"])
    rows = [row for row in rows if row[1] != "0"]
    rows.append(["won by Black", f"{100 * result.black_win_rate:.1f} %"])
    rows.append(["the whole board Black's", f"{100 * result.whole_board_black:.1f} %"])
    rows.append(["moves a game", f"{result.lengths.mean():.1f} ({result.lengths.min()} to {result.lengths.max()})"])
    rows.append(["different games", f"{result.num_different_games} of {games}"])
    return table(["", "games"], rows)


def _faults(result: MatchResult) -> str:
    """Returns what went wrong, and whether engines count as the referee does; empty where there is nothing to say."""
    words = []
    for game, stop in sorted(result.stops.items()):
        if stop.kind == FORFEIT:
            name = result.name_a if result.loser_is_a(game) else result.name_b
            words.append(f"game {result.first_game + game + 1}: {name}: {stop.reason}")
    for name in dict.fromkeys((result.name_a, result.name_b)):
        same, same_winner, said = result.agreement(name)
        if said:
            words.append(
                f"{name} counts the end as the referee does in {same} of {said} games, with the same winner in {same_winner}"
            )
    return f"<ul>{''.join(f'<li>{escaped(word)}</li>' for word in words)}</ul>" if words else ""


# Boards and games


def chosen_games(result: MatchResult, number: int) -> list[int]:
    """Returns indices of games to show: one of each way to end and of each colour first, then some at even
    distances.
    """
    kinds: dict[tuple, int] = {}
    for game in range(result.num_games):
        stop = result.stops.get(game)
        ending = "cap" if result.capped[game] and stop is None else stop.kind if stop else "passes"
        kinds.setdefault((ending, bool(result.a_is_black[game])), game)
        kinds.setdefault(("winner", int(result.outcome_a[game])), game)
    spread = np.linspace(0, result.num_games - 1, min(number, result.num_games)).round().astype(int).tolist()
    wanted = list(dict.fromkeys([*kinds.values(), *spread, *range(result.num_games)]))[:number]
    return sorted(wanted)


def _boards(result: MatchResult, out_dir: Path, number: int) -> str:
    return "\n".join(_board(result, game, out_dir) for game in chosen_games(result, number))


def _board(result: MatchResult, game: int, out_dir: Path) -> str:
    """Returns a final board with the last stone marked; where it was counted as an area, with who owns which empty
    point.
    """
    stones = torch.from_numpy(np.ascontiguousarray(result.stones[game])).to(torch.int8)
    moves = result.moves[game]
    placed = moves[(moves != NO_MOVE) & (moves < result.rules.size**2)]
    last = int(placed[-1]) if len(placed) else None
    is_area = result.rules.scoring == "area" and game not in result.stops
    owners = scoring.area_ownership_black(stones.unsqueeze(0))[0].to(torch.float32) if is_area else None
    cell = max(12, min(26, 250 // (result.rules.size + 1)))
    image = picture.board_image(stones, last, owners, cell=cell)
    black, white = (result.name_a, result.name_b) if result.a_is_black[game] else (result.name_b, result.name_a)
    outcome, number = result_words(result, game), result.first_game + game + 1
    name = _game_link(result, game, out_dir, f"game {number}")
    caption = f"{name}: <b>{escaped(outcome)}</b>, {int(result.lengths[game])} moves<br>● {escaped(black)}<br>○ {escaped(white)}"
    return figure(image, caption, f"final board of game {number}, {outcome}")


def _game_link(result: MatchResult, game: int, out_dir: Path, text: str) -> str:
    """Returns a link to the game's file where it is there, else the text alone."""
    path = f"{GAMES_FOLDER}/{game_file((result.name_a, result.name_b), result.first_game + game)}"
    return link(path, text) if (out_dir / path).exists() else escaped(text)


def _games_list(result: MatchResult, out_dir: Path) -> str:
    """Returns the links to all games of a match, or to the first of very many."""
    shown = min(result.num_games, LISTED_GAMES)
    items = []
    for game in range(shown):
        text = f"{result.first_game + game + 1}: {result_words(result, game)}"
        items.append(f"<li>{_game_link(result, game, out_dir, text)} {'●' if result.a_is_black[game] else '○'}</li>")
    more = "" if shown == result.num_games else f", the first {shown}"
    legend = f'<p class="soft">{escaped(result.name_a)} is Black where ● stands.</p>'
    summary = f"all {result.num_games} games{more}"
    return f'<details><summary>{summary}</summary>{legend}<ul class="games">{"".join(items)}</ul></details>'
