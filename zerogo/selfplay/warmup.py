"""Random games before the network plays: they teach it what a won position and an owned point are.

A fresh network passes as readily as it plays, so its first games would be two plies long. Games of the random player
that spares its eyes end with boards that are full of living strings; value and ownership are learned from them, the
policy is not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from zerogo import board, flood, scoring
from zerogo.players import RandomPlayer
from zerogo.selfplay.games import EndReason, SelfPlayResult
from zerogo.selfplay.opening import begin
from zerogo.selfplay.recorder import Recorder

if TYPE_CHECKING:
    from zerogo.config import Config

AT_ONCE = 1024


def random_games(config: Config, num_games: int, seed: int, first_game: int, device: torch.device) -> SelfPlayResult:
    """Returns finished games of the random player, numbered from `first_game`; their samples' policy weighs nothing."""
    collected, start = SelfPlayResult(), time.monotonic()
    for first in range(first_game, first_game + num_games, AT_ONCE):
        _play(config, torch.arange(first, min(first + AT_ONCE, first_game + num_games)), seed, device, collected)
    collected.seconds = time.monotonic() - start
    return collected


def _play(config: Config, numbers: torch.Tensor, seed: int, device: torch.device, collected: SelfPlayResult) -> None:
    player = RandomPlayer()
    states = begin(config, numbers, seed, device)
    numbers = numbers.to(device)
    recorder = Recorder(len(numbers), int(states.cap.max()), states.board_size, device)
    exists = torch.nn.functional.pad(flood.unpack_rows(states.on_board).flatten(1), (0, 1), value=True)  # the pass too
    even = exists / exists.sum(1, keepdim=True)
    unknown = torch.zeros(len(numbers), device=device)
    while True:
        lane = (~states.finished).nonzero().squeeze(1)
        if lane.numel() == 0:
            break
        going = board.select(states, lane)
        actions = player.choose(going, numbers[lane], seed)
        everywhere = torch.ones_like(lane, dtype=torch.bool)
        recorder.write(lane, going, actions, even[lane], unknown[lane], everywhere, network_step=0)
        states = board.put_(states, lane, board.step_(going, actions))
        collected.moves += len(lane)
    score, length = scoring.final_score_black(states), states.ply.to(torch.int64)
    lane = torch.arange(len(numbers), device=device)
    samples = recorder.samples(lane, length, score, scoring.final_ownership_black(states), numbers, policy_weight=0.0)
    collected.samples.append(samples.packed())
    collected.lengths += length.tolist()
    collected.scores_black += score.tolist()
    collected.sizes += states.rules.size.tolist()
    collected.komi += states.rules.komi.tolist()
    ends = torch.where(states.passes >= 2, int(EndReason.PASSES), int(EndReason.CAPPED))
    collected.ends += ends.tolist()
