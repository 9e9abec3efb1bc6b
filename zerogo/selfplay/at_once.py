"""How many games are played at once, and how many leaves of a tree a step takes, where the settings leave that to the
machine (0).

Games come first: they fill the network's batch without changing what is searched. Several leaves a step make a search a
little weaker, so they only fill what memory, or the number of games that are wanted, leaves open."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from zerogo import batching, board, kernels, runtime
from zerogo.players import RandomPlayer
from zerogo.players.analyst import SIMULATIONS_A_LEAF
from zerogo.replay import position_fields
from zerogo.search.captured import captured
from zerogo.selfplay.games import SelfPlay
from zerogo.selfplay.opening import begin

if TYPE_CHECKING:
    from zerogo.config import Config
    from zerogo.evaluator import Evaluator

FEWEST, MOST = 64, 65536  # what a step of the search costs whatever its batch, as much as some positions, is not timed
MEMORY_SHARE = 0.4  # of what is free: the training and the network's own work need room, too
DIFFERENT = 64  # positions that are measured; larger batches repeat them
PLIES_A_POINT = 0.4


def fitted(config: Config, evaluator: Evaluator, device: torch.device, most_games: int = MOST) -> tuple[Config, str]:
    """Returns the config with numbers in place of selfplay.games 0 and search.leaves 0, and why these; nothing where
    both are set.

    The evaluator is timed on positions of random games in growing batches. most_games: that there is any use for.
    """
    games, leaves = config.selfplay.games, config.search.leaves
    if games and leaves:
        return config, ""
    most_games = games or max(1, min(most_games, _games_in_memory(config, evaluator, device)))
    most_leaves = leaves or _most_leaves(config)
    found = _measured(config, evaluator.with_symmetries(config.search.symmetry_leaf), device, most_games * most_leaves)
    games = games or max(1, min(most_games, found.size // (leaves or 1)))
    leaves = leaves or min(most_leaves, max(1, found.size // games))
    return with_numbers(config, games, leaves), f"{_words(games, leaves)}: {found.why()}"


def with_numbers(config: Config, games: int, leaves: int) -> Config:
    """Returns the config with these numbers where it has 0."""
    selfplay = dataclasses.replace(config.selfplay, games=config.selfplay.games or games)
    return dataclasses.replace(
        config, selfplay=selfplay, search=dataclasses.replace(config.search, leaves=config.search.leaves or leaves)
    )


def _words(games: int, leaves: int) -> str:
    return f"{games:,} games at once" + (f", {leaves} leaves of each tree in a step" if leaves > 1 else "")


def _most_leaves(config: Config) -> int:
    """Returns how many leaves a step may take of one tree: few of a search with few simulations."""
    settings = config.selfplay
    simulations = settings.cheap_simulations if settings.full_share < 1 else settings.full_simulations
    return max(1, simulations // SIMULATIONS_A_LEAF)


def _measured(config: Config, evaluator: Evaluator, device: torch.device, most: int) -> batching.Batch:
    """Returns the batch that keeps the device busy with this evaluator, replayed as a CUDA graph if a search does so
    and it is faster.
    """
    states = _middle_games(config, device)
    legal = board.legal_actions(states)
    legal[:, -1] = True  # in games that are over, too: an evaluator wants a move
    has_graph = config.search.cuda_graph and kernels.compiled("tree", device) is not None

    def rate(size: int) -> float:
        lane = torch.arange(size, device=device)
        some, moves = board.select(states, lane % DIFFERENT), legal[lane % DIFFERENT]

        def work() -> Any:
            return evaluator(some, legal=moves, key=lane)

        found = batching.speed(work, size, lambda: runtime.synchronize(device))
        replay = captured(work, device) if has_graph else None
        return (
            found if replay is None else max(found, batching.speed(replay, size, lambda: runtime.synchronize(device)))
        )

    return batching.find(rate, most, FEWEST)


def _middle_games(config: Config, device: torch.device) -> board.State:
    """Returns games of the run after random moves: encoders have more to do there than on empty boards."""
    numbers, player = torch.arange(DIFFERENT), RandomPlayer()
    states = begin(config, numbers, config.run.seed, device)
    for _ in range(int(PLIES_A_POINT * states.board_size**2)):
        states = board.step(states, player.choose(states, numbers.to(device), config.run.seed))
    return states


def _games_in_memory(config: Config, evaluator: Evaluator, device: torch.device) -> int:
    """Returns for how many games, each with its tree and what is written down of it, there is memory; MOST where nobody
    knows.
    """
    free = runtime.free_bytes(device)
    if free is None:
        return MOST
    one = SelfPlay(with_numbers(_of_games(config, 1), 1, 1), evaluator, device, config.run.seed)
    written = sum(
        tensor.nbytes for name, tensor in position_fields(one.states).items() if name != "rows"
    )  # which the recorder has already
    return int(MEMORY_SHARE * free) // (_bytes(one.search_state) + _bytes(one.recorder) + written * one.max_plies)


def _of_games(config: Config, games: int) -> Config:
    return dataclasses.replace(config, selfplay=dataclasses.replace(config.selfplay, games=games))


def _bytes(thing: Any) -> int:
    """Returns the memory of all tensors inside a dataclass or the like."""
    if isinstance(thing, Tensor):
        return thing.nbytes
    parts = thing.values() if isinstance(thing, dict) else getattr(thing, "__dict__", {}).values()
    return sum(_bytes(part) for part in parts)
