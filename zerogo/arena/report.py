"""A match report: one HTML page with the ratings, who won as which colour, how games ended, a few final boards, and
links to the games. It needs no other file, no script and no network; whatever comes from outside is escaped."""

import base64
import json
import math
import string
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch

from zerogo import scoring
from zerogo.arena import elo
from zerogo.arena.journal import GAMES_FOLDER, game_file
from zerogo.arena.result import FORFEIT, RESIGNED, MatchResult, PlayedGame, meetings_of, rating_rows
from zerogo.show import picture
from zerogo.system.runtime import make_directory, write_atomically

TEMPLATE = Path(__file__).with_name("report.html")
REPORT_FILE = "report.html"
BOARDS = 6  # final boards of a match
ALL_BOARDS = 36  # of a page with many matches
LISTED_GAMES = 400  # links to the games of one match


def write_report(
    out_dir: str | Path,
    results: Sequence[MatchResult],
    names: Sequence[str],
    ratings: elo.Ratings | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Writes `report.html` into a folder and returns its path; the page holds its pictures and links to the games in
    `games/`.

    results: the matches, one or more. names: the players in the order of the ratings, which rest on the paired matches
    alone, since one with fixed colours says little of strength. ratings: None where nobody was rated, as in games of
    one player against itself. settings: what else is to be shown of the matches."""
    out_dir, size = make_directory(out_dir), results[0].rules.size
    title = f"{' · '.join(names) if len(names) < 4 else f'{len(names)} players'}: {size}x{size}"
    parts = [f"<h1>{escape(title)}</h1>", f'<p class="soft">{escape(_settings_line(results))}</p>']
    if ratings is not None:
        parts.append(_ratings_section([result for result in results if result.is_paired], names, ratings))
    boards = max(1, min(BOARDS, ALL_BOARDS // len(results)))
    parts += [_match_section(result, out_dir, boards) for result in results]
    if settings is not None:
        text = escape(json.dumps(settings, indent=1))
        parts.append(f"<h2>Settings</h2>\n<details><summary>all settings</summary><pre>{text}</pre></details>")
    page = string.Template(TEMPLATE.read_text(encoding="utf-8")).substitute(title=escape(title), body="\n".join(parts))
    path = out_dir / REPORT_FILE
    write_atomically(path, lambda file: file.write(page.encode()))
    return path


def _settings_line(results: Sequence[MatchResult]) -> str:
    games, rules = sum(result.num_games for result in results), results[0].rules
    words = [f"{games} games", f"komi {rules.komi:g}", f"{rules.scoring} scoring", f"{rules.superko} superko"]
    words.append("suicide allowed" if rules.suicide else "no suicide")
    seeds = {result.seed for result in results}
    words.append(f"seed {min(seeds)}" if len(seeds) == 1 else "a seed for each match")
    plies = max(result.opening_plies for result in results)
    return ", ".join(words + ([f"{plies} random opening moves"] if plies else []))


# Ratings


def _ratings_section(results: Sequence[MatchResult], names: Sequence[str], ratings: elo.Ratings) -> str:
    """Returns the Elo table, the strongest first, and for three players or more who won what against whom."""
    order, rows = [], []
    for k, interval, won, games in rating_rows(names, results, ratings):
        order.append(k)
        chart = _interval_svg(ratings, k)
        row = [f"{len(order)}. {escape(names[k])}", f"<b>{ratings.elo[k]:.0f}</b>", interval, chart]
        rows.append([*row, f"{won:g}", f"{games:g}", f"{100 * won / games:.1f} %" if games else "-"])
    parts = ["<h2>Ratings</h2>", _table(["player", "Elo", "95 % interval", "", "points", "games", "won"], rows)]
    if len(names) > 2:
        meetings, points = meetings_of(names, results), np.zeros((len(names), len(names)))
        points[meetings.i, meetings.j], points[meetings.j, meetings.i] = meetings.points.T
        met = points + points.T
        cells = {(i, j): f"{points[i, j]:g} of {met[i, j]:g}" if met[i, j] else "-" for i in order for j in order}
        rows = [[escape(names[i]), *("" if i == j else cells[i, j] for j in order)] for i in order]
        parts.append("<h3>Points of each (row) against each (column)</h3>")
        parts.append(_table(["", *(escape(names[j]) for j in order)], rows))
    return "\n".join(parts)


# One match


def _match_section(result: MatchResult, out_dir: Path, boards: int) -> str:
    """Returns all that is to be said of one match."""
    name_b = "itself" if result.is_self else result.name_b
    shares = _shares_bar(result.wins, result.draws, result.losses)
    whose = f"{escape(result.name_a)}{' as Black' if result.is_self else ''}"
    scores = np.array([game.score_black for game in result.counted])
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in result.faults() + result.agreements())
    pictures = "\n".join(_board(result, game, out_dir) for game in chosen_games(result, boards))
    parts = [
        f"<h2>{escape(result.name_a)} against {escape(name_b)}</h2>",
        f'<p>{escape(_headline(result))}</p>{shares}<p class="soft">won, drawn and lost by {whose}</p>',
        f'<div class="columns"><div><h3>By colour</h3>{_colour_table(result)}{histogram_svg(scores)}</div>',
        f"<div><h3>How the games ended</h3>{_endings_table(result)}</div></div>",
        f"<ul>{remarks}</ul>" if remarks else "",
        f'<h3>Final boards</h3><div class="boards">{pictures}</div>',
        _games_list(result, out_dir),
    ]
    return "\n".join(part for part in parts if part)


def _headline(result: MatchResult) -> str:
    low, high = (100 * end for end in result.interval)
    words = f"{result.name_a} scores {100 * result.win_rate:.1f} % of {result.num_games} games"
    words += f" (95 % interval {low:.1f} to {high:.1f} %)"
    difference, least, most = (
        f"{value:+.0f}" if math.isfinite(value) else "+∞" if value > 0 else "-∞" for value in result.elo_difference
    )
    return f"{words}." if result.is_self else f"{words}, Elo {difference} ({least} to {most})."


def _colour_table(result: MatchResult) -> str:
    """Returns A's results in all, as Black and as White, each with its interval."""
    rows = []
    for label, is_black in (("all", None), ("as Black", True), ("as White", False)):
        wins, draws, losses = result.by_colour(is_black)
        games, points = wins + draws + losses, wins + draws / 2
        if not games or (result.is_self and is_black is not None):
            continue
        low, high = result.interval if is_black is None else elo.wilson_interval(points, games)
        shares = [f"{100 * points / games:.1f} %", f"{100 * low:.1f} to {100 * high:.1f} %"]
        rows.append([label, f"{wins}", f"{draws}", f"{losses}", *shares])
    return _table([escape(result.name_a), "won", "drawn", "lost", "points", "95 % interval"], rows)


def _endings_table(result: MatchResult) -> str:
    """Returns how many games ended in which way, and what they were like."""
    counts = {"two passes": len(result.counted) - result.num_capped, "move cap, scored as it stood": result.num_capped}
    for kind, word in ((RESIGNED, "resigned"), (FORFEIT, "lost by a fault")):
        for name, count in zip((result.name_a, result.name_b), result.stopped(kind), strict=True):
            counts[f"{escape(name)} {word}"] = count
    rows = [[ending, f"{count}"] for ending, count in counts.items() if count]
    rows.append(["won by Black", f"{100 * result.black_win_rate:.1f} %"])
    rows.append(["the whole board Black's", f"{100 * result.whole_board_black:.1f} %"])
    rows.append(["moves a game", f"{result.lengths.mean():.1f} ({result.lengths.min()} to {result.lengths.max()})"])
    rows.append(["different games", f"{result.num_different_games} of {result.num_games}"])
    return _table(["", "games"], rows)


# Boards and games


def chosen_games(result: MatchResult, number: int) -> list[PlayedGame]:
    """Returns games to show: one of each way to end and of each colour first, then some at even distances."""
    kinds: dict[tuple, int] = {}
    for index, game in enumerate(result.games):
        ending = game.stop.kind if game.stop else "cap" if game.capped else "passes"
        kinds.setdefault((ending, game.a_is_black), index)
        kinds.setdefault(("winner", game.outcome_a), index)
    spread = np.linspace(0, result.num_games - 1, min(number, result.num_games)).round().astype(int).tolist()
    wanted = list(dict.fromkeys([*kinds.values(), *spread, *range(result.num_games)]))[:number]
    return [result.games[index] for index in sorted(wanted)]


def _board(result: MatchResult, game: PlayedGame, out_dir: Path) -> str:
    """Returns a final board with the last stone marked; where it was counted as an area, with who owns which empty
    point."""
    size, stones = result.rules.size, torch.from_numpy(np.ascontiguousarray(game.stones)).to(torch.int8)
    last = next((move for move in reversed(game.moves) if move < size**2), None)
    is_area = result.rules.scoring == "area" and game.stop is None
    owners = scoring.area_ownership_black(stones.unsqueeze(0))[0].to(torch.float32) if is_area else None
    image = picture.board_image(stones, last, owners, cell=max(12, min(26, 250 // (size + 1))))
    black, white = (result.name_a, result.name_b) if game.a_is_black else (result.name_b, result.name_a)
    name = _game_link(result, game, out_dir, f"game {game.number + 1}")
    caption = f"{name}: <b>{game.result_text}</b>, {len(game.moves)} moves<br>● {escape(black)}<br>○ {escape(white)}"
    alt = f"final board of game {game.number + 1}, {game.result_text}"
    data = base64.b64encode(picture.png(image)).decode()
    source = f'width="{image.shape[1]}" height="{image.shape[0]}" alt="{alt}" src="data:image/png;base64,{data}"'
    return f"<figure><img {source}><figcaption>{caption}</figcaption></figure>"


def _game_link(result: MatchResult, game: PlayedGame, out_dir: Path, text: str) -> str:
    """Returns a link to the game's file where it is there, else the text alone."""
    path = f"{GAMES_FOLDER}/{game_file((result.name_a, result.name_b), game.number)}"
    return f'<a href="{escape(quote(path))}">{escape(text)}</a>' if (out_dir / path).exists() else escape(text)


def _games_list(result: MatchResult, out_dir: Path) -> str:
    """Returns the links to all games of a match, or to the first of very many."""
    items = []
    for game in result.games[:LISTED_GAMES]:
        name = _game_link(result, game, out_dir, f"{game.number + 1}: {game.result_text}")
        items.append(f"<li>{name} {'●' if game.a_is_black else '○'}</li>")
    more = f", the first {len(items)}" if len(items) < result.num_games else ""
    legend = f'<p class="soft">{escape(result.name_a)} is Black where ● stands.</p>'
    summary = f"all {result.num_games} games{more}"
    return f'<details><summary>{summary}</summary>{legend}<ul class="games">{"".join(items)}</ul></details>'


# Pieces of HTML


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table; cells: HTML."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>\n{body}</tbody></table></div>'


def _shares_bar(wins: int, draws: int, losses: int) -> str:
    """Returns a bar that is cut by counts, with the counts in it."""
    looks = ((wins, "#2f7d5b", "#fff"), (draws, "#c9c1b2", "#2a2620"), (losses, "#b5523f", "#fff"))
    cells = [
        f'<div style="width:{100 * n / (wins + draws + losses):.3f}%;background:{colour};color:{ink}">{n}</div>'
        for n, colour, ink in looks
        if n
    ]
    return f'<div class="bar">{"".join(cells)}</div>'


def _interval_svg(ratings: elo.Ratings, k: int) -> str:
    """Returns player k's interval as a line with the Elo as a dot, on an axis of all players' intervals."""
    least, most = ratings.low.min(), ratings.high.max()
    ends = (ratings.low[k], ratings.elo[k], ratings.high[k])
    left, middle, right = (6 + 228 * (end - least) / max(1e-9, most - least) for end in ends)
    axis = '<line x1="6" x2="234" y1="9" y2="9" stroke="#ded6c8"/>'
    style = 'y1="9" y2="9" stroke="#97bead" stroke-width="4" stroke-linecap="round"'
    line = f'<line x1="{left:.1f}" x2="{right:.1f}" {style}/>'
    dot = f'<circle cx="{middle:.1f}" cy="9" r="4.5" fill="#2f7d5b"/>'
    return f'<svg width="240" height="18" role="img">{axis}{line}{dot}</svg>'


def histogram_svg(scores: np.ndarray, width: int = 420, height: int = 120, bins: int = 21) -> str:
    """Returns how often scores [K] lie where, as bars around zero: dark parts are above it, light ones below. Empty
    without scores."""
    if not len(scores):
        return ""
    end = max(1.0, float(np.abs(scores).max()))
    edges = np.linspace(-end, end, bins + 1)
    highest = max(1, int(np.histogram(scores, edges)[0].max()))
    each, top = (width - 20) / bins, height - 34
    floor = np.full(bins, 14.0 + top)
    parts = {"#2b2b2e": scores[scores > 0], "#8a8378": scores[scores == 0], "#c4bcad": scores[scores < 0]}
    shapes = []
    for colour, part in parts.items():
        counts = np.histogram(part, edges)[0]
        for index in counts.nonzero()[0]:
            tall = top * counts[index] / highest
            floor[index] -= tall
            place = f'x="{11 + index * each:.1f}" width="{each - 2:.1f}" y="{floor[index]:.1f}" height="{tall:.1f}"'
            words = f"{counts[index]} games, {edges[index]:+.1f} to {edges[index + 1]:+.1f} points"
            shapes.append(f'<rect {place} fill="{colour}"><title>{words}</title></rect>')
    shapes.append(f'<line x1="10" x2="{width - 10}" y1="{14 + top}" y2="{14 + top}" stroke="#766e62"/>')
    labels = ((10, f"W+{end:g}", "start"), (width / 2, "results of the counted games", "middle"))
    for x, text, anchor in (*labels, (width - 10, f"B+{end:g}", "end")):
        shapes.append(f'<text x="{x}" y="{height - 5}" text-anchor="{anchor}">{text}</text>')
    return f'<svg width="{width}" height="{height}" role="img">{"".join(shapes)}</svg>'
