"""Matches between two players, and all pairings of several: every game of a match in lock-step, in one batch.

A game is a function of (players, rules, seed, its number) alone, so it comes out the same alone and among thousands,
and a match that was interrupted goes on with the games that are missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import torch

from zerogo import draws
from zerogo.arena.games import Terms, play_all
from zerogo.arena.result import MatchResult, Played, result_of
from zerogo.errors import InputError
from zerogo.players import Player, StatefulPlayer
from zerogo.rules import Rules

if TYPE_CHECKING:
    from zerogo.config import GameConfig

COLOURS = ("paired", "a_black")
AT_ONCE = 1024  # games of one batch, which bounds the memory of trees; a game doesn't depend on it
AT_ONCE_WITH_GUESTS = 32  # fewer where processes play one game after the other, so that games end, and are kept, early

GUEST_PLIES = 6  # a point, where an engine plays and no cap is set: engines that capture dead stones before they pass take their time

# Called with the games played so far: a game that goes on counts as the share of the move cap that it has reached.
OnProgress = Callable[[float], None]
# Called with the games that have just ended.
OnGames = Callable[[list[Played]], None]


def cap_for(game: GameConfig, players: Sequence[Player], size: int) -> int:
    """Returns the ply at which these players' games end: the config's; where that leaves it open, engines get more than
    networks, who learned with it."""
    has_guest = any(isinstance(player, StatefulPlayer) for player in players)
    return GUEST_PLIES * size**2 if has_guest and not game.move_cap else game.plies(size)


def play_match(
    player_a: Player,
    player_b: Player,
    rules: Rules,
    num_games: int,
    seed: int,
    *,
    colours: str = "paired",
    opening_plies: int = 0,
    move_cap: int | None = None,
    device: torch.device | str = "cpu",
    on_progress: OnProgress | None = None,
    on_games: OnGames | None = None,
    finished: Sequence[Played] = (),
    first_game: int = 0,
    at_once: int | None = None,
) -> MatchResult:
    """Returns what came of `num_games` games of A against B.

    colours: "paired" gives A Black in games with even numbers and White in the odd ones, games 2k and 2k + 1 with one
    opening; "a_black" gives A Black in all. opening_plies: moves at the start that the random player makes, drawn from
    the seed and the pair's number. move_cap: ply at which a game ends, None for 2 * size * size. on_games: called with
    games as soon as they end. finished: games that an interrupted match has left, which are not played again.
    first_game: the first game's number. at_once: games of one batch, None for AT_ONCE, or fewer where a player is a
    guest. Where both players are one and the same object, one call chooses the moves of both sides.

    Games end by two passes or at the cap, and are counted as `games.score` says. Players of ours never resign; a guest
    may, and loses a game by an illegal move and whatever else goes wrong with it, while the match goes on."""
    _require_sense(colours, num_games, opening_plies, at_once, move_cap)
    cap = 2 * rules.size**2 if move_cap is None else move_cap
    terms = Terms((player_a, player_b), rules, seed, colours == "paired", opening_plies, cap, device)
    wanted = range(first_game, first_game + num_games)
    games = [game for game in finished if game.number in wanted]
    missing = sorted(set(wanted) - {game.number for game in games})
    done = len(games)
    games += play_all(
        terms,
        missing,
        at_once or (AT_ONCE_WITH_GUESTS if terms.stateful_players else AT_ONCE),
        on_games or (lambda games: None),
        (lambda played: None) if on_progress is None else (lambda played: on_progress(done + played)),
    )
    return result_of(
        sorted(games, key=lambda game: game.number),
        cap,
        name_a=player_a.name,
        name_b=player_b.name,
        rules=rules,
        seed=seed,
        opening_plies=opening_plies,
        is_self=player_a is player_b,
        is_paired=colours == "paired",
    )


def _require_sense(colours: str, num_games: int, opening_plies: int, at_once: int | None, move_cap: int | None) -> None:
    """Raises InputError for options that no match can have."""
    if colours not in COLOURS:
        raise InputError(f"match: colours are {colours!r}; allowed are {', '.join(COLOURS)}")
    if num_games < 1 or opening_plies < 0 or (at_once is not None and at_once < 1):
        raise InputError(
            f"match: {num_games} games, {opening_plies} opening plies, {at_once} at once; allowed are 1, 0 and 1 or more"
        )
    if move_cap is not None and move_cap < 1:
        raise InputError(f"match: the move cap is {move_cap} plies; it must be 1 or more")


def round_robin(
    players: Sequence[Player],
    rules: Rules,
    num_games: int,
    seed: int,
    *,
    on_result: Callable[[MatchResult], None] | None = None,
    on_progress: OnProgress | None = None,
    on_games: Callable[[int, list[Played]], None] | None = None,
    finished: Mapping[int, Sequence[Played]] | None = None,
    **options,
) -> list[MatchResult]:
    """Returns the matches of every player against every other, (0, 1), (0, 2), …, (1, 2), …: `num_games` each, each
    with a seed of its own.

    on_result: called with each match when it is over. on_progress: with the games of all matches so far. on_games: with
    a match's index and games of it that have just ended. finished: an interrupted match's games, by the index. options:
    as for `play_match`."""
    results: list[MatchResult] = []
    for index, (i, j) in enumerate(combinations(range(len(players)), 2)):
        before = index * num_games
        options["on_progress"] = None if on_progress is None else lambda done, before=before: on_progress(before + done)
        options["on_games"] = None if on_games is None else lambda games, index=index: on_games(index, games)
        options["finished"] = (finished or {}).get(index, ())
        match_seed = int(draws.key(seed, i, j)) % 2**62  # so that the games of two matches don't draw alike
        result = play_match(players[i], players[j], rules, num_games, match_seed, **options)
        results.append(result)
        if on_result is not None:
            on_result(result)
    return results
