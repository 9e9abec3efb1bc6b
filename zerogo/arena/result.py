"""The result of a match on the host: its games, and counts, ratings, lines and a page for people.

A result becomes plain data first (`summary`, `rating_table`); lines and pages are Jinja2 templates over these, which
escape all values of a page. The page needs no other file, no script and no network."""

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import numpy as np
import torch

from zerogo import scoring, sgf
from zerogo.arena import elo
from zerogo.rules import Rules
from zerogo.show import picture
from zerogo.system.runtime import make_directory, write_atomically

NO_MOVE = -1
RESIGNED = "resigned"
FORFEIT = "forfeit"
SAME_SCORE = 0.01  # points: an engine that writes one digit agrees
GAMES_FOLDER = "games"  # of a match, with its SGF files
REPORT_FILE = "report.html"
BOARDS = 6  # final boards of a match
ALL_BOARDS = 36  # of a page with many matches
LISTED_GAMES = 400  # links to the games of one match
BINS = 21  # of a histogram of scores
TEMPLATES = jinja2.Environment(  # of this folder; values in pages are escaped
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=jinja2.select_autoescape(["html"]),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    extensions=["jinja2.ext.do"],
)


def render(template: str, **values: Any) -> str:
    """Returns the text of a template of this folder over plain values."""
    return TEMPLATES.get_template(template).render(values)


def file_word(name: str) -> str:
    """Returns a player's name as a part of a file's: of a long one the middle is left out."""
    word = re.sub(r"[^\w.@#-]+", "_", name)
    return word if len(word) <= 40 else f"{word[:19]}_{word[-20:]}"


@dataclass(frozen=True)
class Stop:
    """The end of a game whose board is not counted. kind: RESIGNED or FORFEIT. black_lost: whether Black resigned or
    was at fault. reason: in words, without the player's name, such as "no answer to 'genmove b' within 60 s"."""

    kind: str
    black_lost: bool
    reason: str = ""


@dataclass(frozen=True)
class PlayedGame:
    """One finished game. number: in the match. moves: actions by ply. score_black: points, komi included; nan where the
    game was stopped. area_black: Black's points on the final board, before komi. capped: ended by the
    move cap. stones: int8 [N, N], the final board. stop: None where the board was counted. final_scores: what engines
    answered to `final_score`, by their names, such as {"gnugo:10": "B+3.5"}."""

    number: int
    a_is_black: bool
    moves: list[int]
    score_black: float
    area_black: int
    capped: bool
    stones: np.ndarray
    stop: Stop | None = None
    final_scores: dict[str, str] = field(default_factory=dict)

    @property
    def outcome_black(self) -> int:
        """1 where Black won, however the game ended, 0 for a draw, -1 where White won."""
        if self.stop is not None:
            return -1 if self.stop.black_lost else 1
        return int(np.sign(self.score_black))

    @property
    def outcome_a(self) -> int:
        """1 where A won, 0 for a draw, -1 where B won."""
        return self.outcome_black if self.a_is_black else -self.outcome_black

    @property
    def result_text(self) -> str:
        """SGF's RE: "B+3.5", "0" for a draw, "W+R" by resignation, "B+F" where White was at fault."""
        if self.stop is None:
            return sgf.result_text(self.score_black)
        return f"{'W' if self.stop.black_lost else 'B'}+{'R' if self.stop.kind == RESIGNED else 'F'}"

    def file_name(self, names: tuple[str, str]) -> str:
        """Returns the name of the game's SGF: A-vs-B-0001.sgf for game 0; names: of A and B."""
        return "-vs-".join(map(file_word, names)) + f"-{self.number + 1:04d}.sgf"

    def record(self, names: tuple[str, str], rules: Rules) -> sgf.GameRecord:
        """Returns the game for a file; names: of A and B. The comment tells how it ended unless by two passes."""
        black, white = names if self.a_is_black else names[::-1]
        comment = [f"{black if self.stop.black_lost else white}: {self.stop.reason}"] if self.stop else []
        comment += ["ended at the move cap and scored as it stands"] if self.capped else []
        comment += [f"{name} says {text}" for name, text in self.final_scores.items()]
        of_match = {"event": f"{names[0]} against {names[1]}", "round": str(self.number + 1)}
        return sgf.GameRecord(rules, self.moves, self.result_text, black, white, comment="\n".join(comment), **of_match)


@dataclass
class MatchResult:
    """The games of player A against player B, by rising number. is_self: whether both are one player.
    is_paired: games 2k and 2k + 1 share an opening, with colours swapped.

    wins, losses: games that A, and B, won. counted: the games whose final boards were counted, those in which nobody
    resigned or was at fault. num_capped: games that ended at the move cap. lengths: plies of each game, int64 [G].
    points_a: 1 where A won, 0.5 for a draw, 0 where B won, float64 [G]."""

    name_a: str
    name_b: str
    rules: Rules
    seed: int
    opening_plies: int
    is_self: bool
    is_paired: bool
    games: list[PlayedGame]

    def __post_init__(self) -> None:
        self.num_games = len(self.games)
        self.wins, self.draws, self.losses = self.by_colour(None)
        self.counted = [game for game in self.games if game.stop is None]
        self.num_capped = sum(game.capped for game in self.games)
        self.lengths = np.array([len(game.moves) for game in self.games], dtype=np.int64)
        self.points_a = np.array([(game.outcome_a + 1) / 2 for game in self.games], dtype=np.float64)

    def by_colour(self, a_is_black: bool | None) -> tuple[int, int, int]:
        """Returns A's (wins, draws, losses) as Black, as White, or for None in all games."""
        outcomes = [game.outcome_a for game in self.games if a_is_black in (None, game.a_is_black)]
        return outcomes.count(1), outcomes.count(0), outcomes.count(-1)

    @property
    def win_rate(self) -> float:
        """A's points a game, 0 to 1; nan without games."""
        return float(self.points_a.mean()) if self.games else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of A's win rate, with regard to how the games of a pair depend on each other."""
        if not self.is_paired:
            return elo.wilson_interval(float(self.points_a.sum()), self.num_games)
        return elo.pair_interval(*self.pair_points())

    def pair_points(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns A's points in each whole pair, 0 to 2, and in games whose partner is not among these."""
        points, begin = self.points_a, self.games[0].number % 2
        end = begin + (self.num_games - begin) // 2 * 2
        return points[begin:end].reshape(-1, 2).sum(1), np.concatenate([points[:begin], points[end:]])

    @property
    def elo_difference(self) -> tuple[float, float, float]:
        """A's Elo less B's, and its 95 % interval; infinite where one won all."""
        low, high = self.interval
        return elo.elo_of(self.win_rate), elo.elo_of(low), elo.elo_of(high)

    @property
    def mean_score(self) -> float:
        """A's mean score in points, komi included, over the games that were counted; nan where none was."""
        scores = [game.score_black if game.a_is_black else -game.score_black for game in self.counted]
        return float(np.mean(scores, dtype=np.float32)) if scores else math.nan

    @property
    def black_win_rate(self) -> float:
        """Black's points a game, 0 to 1, draws as half."""
        return sum((game.outcome_black + 1) / 2 for game in self.games) / self.num_games

    @property
    def whole_board_black(self) -> float:
        """Share of games at whose end every point of the board was Black's."""
        return sum(game.area_black == self.rules.size**2 for game in self.counted) / self.num_games

    @property
    def num_different_games(self) -> int:
        """Number of games that differ in their moves."""
        return len({tuple(game.moves) for game in self.games})

    def stopped(self, kind: str) -> tuple[int, int]:
        """Returns the number of games that A, and B, resigned or forfeited: kind RESIGNED or FORFEIT."""
        outcomes = [game.outcome_a for game in self.games if game.stop is not None and game.stop.kind == kind]
        return outcomes.count(-1), outcomes.count(1)

    def agreement(self, name: str) -> tuple[int, int, int]:
        """Returns the number of games in which a player's score equals the referee's, in which it has the same winner,
        and in which it exists."""
        scores = [(parse_score(game.final_scores.get(name, "")), game) for game in self.counted]
        pairs = [(score, game) for score, game in scores if score is not None]
        same = sum(abs(score - game.score_black) < SAME_SCORE for score, game in pairs)
        return same, sum(int(np.sign(score)) == game.outcome_black for score, game in pairs), len(pairs)

    def summary(self) -> dict[str, Any]:
        """Returns the result as plain values for lines and page; infinite and unknown numbers are None."""
        players = [self.name_a, self.name_b]
        difference = [value if math.isfinite(value) else None for value in self.elo_difference]
        scorers = [name for name in dict.fromkeys(players) if any(name in game.final_scores for game in self.games)]
        scores = {name: dict(zip(("same", "same_winner", "of"), self.agreement(name), strict=True)) for name in scorers}
        same = "is_self wins draws losses win_rate black_win_rate whole_board_black seed opening_plies"
        return {name: getattr(self, name) for name in same.split()} | {
            "players": players,
            "games": self.num_games,
            "as_black": list(self.by_colour(True)),
            "as_white": list(self.by_colour(False)),
            "win_rate_interval": list(self.interval),
            "elo_difference": difference[0],
            "elo_interval": difference[1:],
            "counted": len(self.counted),
            "mean_score": self.mean_score if self.counted else None,
            "different_games": self.num_different_games,
            "mean_length": float(self.lengths.mean()),
            "shortest_and_longest": [int(self.lengths.min()), int(self.lengths.max())],
            "capped": self.num_capped,
            "resigned": list(self.stopped(RESIGNED)),
            "forfeits": list(self.stopped(FORFEIT)),
            "faults": [
                f"game {game.number + 1}: {self.name_a if game.outcome_a < 0 else self.name_b}: {game.stop.reason}"
                for game in self.games
                if game.stop is not None and game.stop.kind == FORFEIT
            ],
            "own_scores": scores,
            "agreements": [
                f"{name} agrees with the referee on the score in {score['same']} of {score['of']} games, "
                f"on the winner in {score['same_winner']}"
                for name, score in scores.items()
                if score["of"]
            ],
        }

    def lines(self) -> list[str]:
        """Returns the result in lines for a person: wins by colour, intervals, scores and faults."""
        return render("match.txt", **self.summary()).splitlines()


def parse_score(text: str) -> float | None:
    """Returns Black's points of an engine's answer to `final_score`, "B+3.5", "W+0.5" or "0" for a draw; None for
    another answer."""
    if text.strip().lower() in ("0", "draw", "jigo"):
        return 0.0
    winner, plus, points = text.strip().partition("+")
    try:
        score = float(points.split()[0])
    except (ValueError, IndexError):
        return None
    return {"B": score, "W": -score}.get(winner.upper()) if plus and math.isfinite(score) else None


# The ratings of all who have met


def rating_table(names: Sequence[str], results: Sequence[MatchResult]) -> list[dict[str, Any]]:
    """Returns each player's Elo with its interval, points and games over all matches as plain values, the strongest
    first; the weakest is at 0 without an interval."""
    numbers = {name: k for k, name in enumerate(names)}
    points = [(one.name_a, one.name_b, float(one.points_a.sum()), float((1 - one.points_a).sum())) for one in results]
    meetings = elo.Meetings.of_results(numbers, points)
    ratings = elo.bradley_terry(meetings, anchor=int(elo.bradley_terry(meetings, of=[]).elo.argmin()))
    won, games = meetings.sums(*meetings.points.T), meetings.sums(*2 * [meetings.points.sum(1)])
    columns = {"elo": ratings.elo, "low": ratings.low, "high": ratings.high, "points": won, "games": games}
    order = np.argsort(-ratings.elo, kind="stable").tolist()
    return [{"player": names[k]} | {name: float(values[k]) for name, values in columns.items()} for k in order]


def rating_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the lines of an Elo table. rows: as of `rating_table`, or without points and games."""
    width = max(len(name) for name in ["player", *(row["player"] for row in rows)])
    return render("ratings.txt", rows=rows, width=width).splitlines()


# The page


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
    one with fixed colours says little of strength; empty for games of a player against itself. settings: of the
    matches, as plain values."""
    out_dir, paired = make_directory(out_dir), [result for result in results if result.is_paired]
    boards = max(1, min(BOARDS, ALL_BOARDS // len(results)))

    def points_of(player: str, other: str) -> tuple[float, int]:
        """Returns a player's points against another, and the number of their games."""
        matches = [result for result in paired if {result.name_a, result.name_b} == {player, other}]
        points = [one.points_a if one.name_a == player else 1 - one.points_a for one in matches]
        return sum(map(np.sum, points)), sum(map(len, points))

    facts = {"rules": vars(results[0].rules), "matches": [_match(result, out_dir, boards) for result in results]}
    facts["settings"] = None if settings is None else json.dumps(settings, indent=1)
    page = render(REPORT_FILE, names=names, ratings=ratings, points_of=points_of, **facts)
    path = out_dir / REPORT_FILE
    write_atomically(path, page.encode(errors="replace"))
    return path


def _match(result: MatchResult, out_dir: Path, boards: int) -> dict[str, Any]:
    """Returns a match's summary with the further fields of the page: intervals by colour, scores, boards and links."""
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
    """Returns the fields of a game on the page; the link is empty where the game's file is not in the folder."""
    names = (result.name_a, result.name_b)
    path, (black, white) = f"{GAMES_FOLDER}/{game.file_name(names)}", names if game.a_is_black else names[::-1]
    facts = {"number": game.number + 1, "result": game.result_text, "moves": len(game.moves)}
    return facts | {"black": black, "white": white, "link": quote(path) if (out_dir / path).exists() else ""}


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
