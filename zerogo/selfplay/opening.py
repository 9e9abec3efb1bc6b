"""How a run's games begin: the rules and the board of each, and games of the random player before the network plays."""

import time
from bisect import bisect
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from zerogo import board, scoring
from zerogo.board import exact_legal_rows, flood, rng
from zerogo.board.position import Position, own_and_opponent
from zerogo.board.rng import Purpose
from zerogo.config import GameConfig
from zerogo.rules import Rules
from zerogo.selfplay.record import EndReason, Recorder, SelfPlayResult

RANDOM_GAMES_TOGETHER = 1024


def begin_games(game: GameConfig, numbers: Tensor, seed: int, device: torch.device) -> board.State:
    """Returns new games by their numbers (int64 [K], on the host); N is the side of the largest board."""
    rules = draw_rules(game, numbers, seed)
    return board.new_games(len(numbers), rules, device, [game.plies(one.size) for one in rules], game.largest_size)


def draw_rules(game: GameConfig, numbers: Tensor, seed: int) -> list[Rules]:
    """Returns the rules of games by their numbers (int64 [K], on the host), drawn by the shares in the settings."""
    shares = {
        Purpose.SIZE: [(size, share) for size, share, _ in game.sizes] or [(game.size, 1.0)],
        Purpose.SUPERKO: list(game.superko_shares.items()) or [(game.superko, 1.0)],
        Purpose.SUICIDE: [(True, game.suicide_share), (game.suicide, 1.0 - game.suicide_share)],
    }
    sizes, superko, suicide = (_choose_options(options, numbers, seed, purpose) for purpose, options in shares.items())
    drawn = rng.uniform(rng.key(seed, numbers, Purpose.KOMI), 2).tolist()
    komi = [game.komi_of(size) for size in sizes]
    for k, (share, where) in enumerate(drawn):
        if share < game.random_komi_share:
            choices = game.komi_choices(komi[k])
            komi[k] = choices[int(where * len(choices))]
    return [Rules(*one, game.scoring) for one in zip(sizes, komi, superko, suicide, strict=True)]


def _choose_options(options: Sequence[tuple[Any, float]], numbers: Tensor, seed: int, purpose: Purpose) -> list[Any]:
    """Returns one option for each game, drawn in proportion to its share."""
    edges = list(accumulate(share for _, share in options))
    drawn = rng.uniform(rng.key(seed, numbers, purpose), 1).squeeze(1).tolist()
    return [options[min(bisect(edges, where * edges[-1]), len(options) - 1)][0] for where in drawn]


def sparing_rows(position: Position, on_board: Tensor, legal: Tensor) -> Tensor:
    """Returns the legal points that are no eye of the side to move: legal int32 [B, N] -> int32 [B, N]."""
    own_stones, _ = own_and_opponent(position)
    return legal & ~flood.eyes(own_stones, on_board)


def draw_point(uniform: Tensor, rows: Tensor) -> Tensor:
    """Returns a point drawn from each row of points (int32 [B, N]), P if empty, by uniform float32 [B]: int64 [B]."""
    points = flood.unpack_rows(rows).flatten(1)
    until = points.cumsum(1, dtype=torch.int32)
    # The rank is below the total, since uniform is below 1 by more than the rounding.
    rank = (uniform * until[:, -1]).to(torch.int32)
    return (until <= rank.unsqueeze(1)).sum(1)


class RandomPlayer:
    """Plays uniformly at random among the legal points that are not its own eyes; passes if there is none."""

    name = "random"

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns the moves: int64 [B]; game_ids int64 [B]. Each is a function of (seed, game, ply) alone."""
        rows = sparing_rows(states, states.on_board, exact_legal_rows(states))
        keys = rng.key(seed, game_ids, states.ply, Purpose.MOVE)
        return draw_point(rng.uniform(keys, 1).squeeze(1), rows)


def random_games(game: GameConfig, num_games: int, seed: int, first_game: int, device: torch.device) -> SelfPlayResult:
    """Returns games of the random player, numbered from `first_game`; their samples have policy weight 0.

    A fresh network passes as readily as it plays, so its first games would be two plies long. The random player spares
    its eyes, so its games end with boards full of living strings, which teach value and ownership."""
    collected, start = SelfPlayResult(), time.monotonic()
    for number in range(first_game, first_game + num_games, RANDOM_GAMES_TOGETHER):
        numbers = torch.arange(number, min(number + RANDOM_GAMES_TOGETHER, first_game + num_games))
        _play_random(game, numbers, seed, device, collected)
    collected.seconds = time.monotonic() - start
    return collected


def _play_random(game: GameConfig, numbers: Tensor, seed: int, device: torch.device, collected: SelfPlayResult) -> None:
    player = RandomPlayer()
    states = begin_games(game, numbers, seed, device)
    numbers = numbers.to(device)
    recorder = Recorder.empty(len(numbers), int(states.cap.max()), states.board_size, device)
    exists = torch.nn.functional.pad(flood.unpack_rows(states.on_board).flatten(1), (0, 1), value=True)  # the pass too
    even = exists / exists.sum(1, keepdim=True)
    while len(going := (~states.finished).nonzero().squeeze(1)):
        before = states.select(going)
        actions = player.choose(before, numbers[going], seed)
        fields = {"actions": actions, "policy": even[going], "root_value": torch.zeros(len(going), device=device)}
        fields |= {"policy_weight": torch.ones_like(going), "network_step": torch.zeros_like(going)}
        recorder.write(going, before, game=numbers[going], **fields)
        states = board.put_(states, going, board.step_(before, actions))
        collected.moves += len(going)
    score, ownership = scoring.result_black(states)
    length = states.ply.to(torch.int64)
    samples = recorder.samples(length, score, ownership, is_resigned=torch.zeros_like(states.finished))
    # There was no search, so policies have weight 0, and the result stands for the root values.
    unsearched = {"policy_weight": torch.zeros_like(samples.policy_weight)}
    samples = replace(samples, **unsearched, short_values=samples.value.unsqueeze(1).expand(-1, 3))
    collected.samples.append(samples.packed())
    ends = torch.where(states.passes >= 2, int(EndReason.PASSES), int(EndReason.CAPPED))
    collected.add_finished(states, score, ends, ownership)
