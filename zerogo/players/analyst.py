"""What thinks about positions for a person: a network with its search, or plain playouts. Players move; a analyst also
says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from zerogo import batching, board, runtime
from zerogo import checkpoint as checkpoints
from zerogo.config import SearchConfig
from zerogo.errors import InputError
from zerogo.evaluator import Evaluation, Evaluator
from zerogo.players.player import knows
from zerogo.players.playout import PlayoutEvaluator, playout_preview_black, playouts_of
from zerogo.search import Search

if TYPE_CHECKING:
    from zerogo.checkpoint import Checkpoint
    from zerogo.config import EvaluationConfig
    from zerogo.rules import Rules
    from zerogo.search.games import Game

LEAVES = 8  # of a step, where one game has the device for itself
SIMULATIONS_A_LEAF = 8  # at least, of a move: several leaves a step cost strength where a move has few simulations
OWNERSHIP_PLAYOUTS = 64
QUICK_PLAYOUTS = 16
KINDS = "mcts:N (N playouts a move), the path of a checkpoint, or the folder of a run"


@dataclass(frozen=True)
class Analyst:
    """What thinks about positions.

    name: for people. sizes: the board sides that it knows, None for any. search: PUCT, which has no end that must be
    known before; it keeps its tree and takes several leaves a step. simulations: of a move, where nothing else is
    asked. evaluate: all that the network says of positions, averaged over the symmetries. quick: the same of one
    symmetry. device: where it thinks."""

    name: str
    sizes: Collection[int] | None
    search: Search
    simulations: int
    evaluate: Callable[..., Evaluation]
    quick: Callable[..., Evaluation]
    device: torch.device

    def knows(self, size: int) -> bool:
        """Says whether it thinks about boards of a side."""
        return knows(self, size)

    @torch.inference_mode()
    def inform(self, states: board.State, quick: bool = False, turn: int | None = None) -> Evaluation:
        """Returns all there is to know of positions without a search: prior, value, ownership and score are never None.

        Where a network has no head for the score it is the sum of the ownership less komi; where it has none for the
        ownership, playouts tell it. quick: by one symmetry instead of all eight. turn: by this one, 0 to 7; playouts
        say the same of all."""
        if turn is not None and isinstance(self.evaluate, Evaluator):
            found = self.evaluate.turned(states, turn)
        else:
            found = (self.quick if quick else self.evaluate)(states)
        ownership, score = found.ownership, found.score
        if ownership is None:
            ownership, _, _ = _from_mover(states, *playout_preview_black(states, OWNERSHIP_PLAYOUTS))
        if score is None:
            komi = torch.where(states.to_play == board.BLACK, states.rules.komi, -states.rules.komi)
            score = ownership.float().sum((1, 2)) - komi
        return dataclasses.replace(found, ownership=ownership.float(), score=score.float())

    def of_game(self, game: Game) -> Search:
        """Returns the same search over another game, such as Go with forbidden moves."""
        return Search(self.search.evaluator, self.search.settings, game, self.search.root_evaluator)


def make_analyst(
    spec: str,
    settings: EvaluationConfig,
    device: torch.device,
    dtype: torch.dtype,
    checkpoint: Checkpoint | None = None,
    *,
    simulations: int | None = None,
    leaves: int | None = None,
) -> Analyst:
    """Returns what thinks by a word such as "mcts:200" or a checkpoint's path.

    settings: the config's section `evaluation`. checkpoint: that of the path, where it was read already. simulations:
    of a move, by default what the word or the settings say. leaves: of a step, by default up to LEAVES as the
    simulations bear it. Raises InputError for an unknown word (the random player thinks nothing) and for a checkpoint
    that can't be loaded."""
    playouts = playouts_of(spec)
    if playouts is None and checkpoint is None and not Path(spec).exists():
        raise InputError(f"{spec!r} can't think about positions; allowed are {KINDS}")
    number = simulations or playouts or settings.simulations
    leaves = leaves or min(LEAVES, max(1, number // SIMULATIONS_A_LEAF))
    if playouts is not None:
        analyst = analyst_of_playouts(playouts, device, leaves)
    else:
        checkpoint = checkpoint or checkpoints.load_newest(spec)
        analyst = analyst_of_checkpoint(checkpoint, settings, device, dtype, leaves)
    return dataclasses.replace(analyst, simulations=number)


def with_fitting_leaves(analyst: Analyst, rules: Rules) -> tuple[Analyst, str]:
    """Returns the analyst with as many leaves a step as keep its device busy with one game, and why so many.

    Its evaluator is timed in growing batches, up to what the simulations of a move bear. What is found differs between
    machines, and by the moment, and so the moves may differ."""
    search = analyst.search

    @torch.inference_mode()
    def rate(size: int) -> float:
        states, keys = board.new_games(size, rules, analyst.device), torch.arange(size, device=analyst.device)
        legal = board.legal_actions(states)
        return batching.speed(
            lambda: search.evaluator(states, legal=legal, key=keys), size, lambda: runtime.synchronize(analyst.device)
        )

    found = batching.find(rate, max(1, analyst.simulations // SIMULATIONS_A_LEAF))
    settings = dataclasses.replace(search.settings, leaves=found.size)
    fitting = Search(search.evaluator, settings, search.game, search.root_evaluator)
    return dataclasses.replace(analyst, search=fitting), f"{found.size} leaves of the tree in a step: {found.why()}"


def analyst_of_checkpoint(
    checkpoint: Checkpoint, settings: EvaluationConfig, device: torch.device, dtype: torch.dtype, leaves: int = LEAVES
) -> Analyst:
    """Returns the averaged network of a checkpoint with PUCT by its own constants."""
    network, encoder = checkpoint.network(averaged=True), checkpoint.encoder()
    whole = Evaluator.from_network(network, encoder, device, dtype, "all")
    leaf = Evaluator.from_network(network, encoder, device, dtype, settings.symmetry, heads=("policy", "value"))
    search = Search(leaf, _open_ended(checkpoint.config.search, leaves))
    name = f"{Path(checkpoint.config.run.name).name}@{checkpoint.step}"
    quick = whole.with_symmetries("random")
    return Analyst(name, checkpoint.sizes, search, settings.simulations, whole, quick, torch.device(device))


def analyst_of_playouts(simulations: int, device: torch.device | str = "cpu", leaves: int = LEAVES) -> Analyst:
    """Returns plain MCTS: its values are means of playouts, its ownership theirs."""
    evaluator = PlayoutEvaluator()
    settings = SearchConfig(algorithm="puct", c_puct=1.1, fpu_reduction=0.0)
    search = Search(evaluator, _open_ended(settings, leaves))
    return Analyst(
        f"mcts:{simulations}", None, search, simulations, _many_playouts, _few_playouts, torch.device(device)
    )


def _open_ended(settings: SearchConfig, leaves: int) -> SearchConfig:
    """Returns settings for a search that may be stopped at any time and goes on with the next move: Gumbel's halving
    needs a known end.
    """
    return dataclasses.replace(settings, algorithm="puct", keep_tree=True, forced_playouts=0.0, leaves=leaves)


def _few_playouts(states: board.State, legal: Tensor | None = None) -> Evaluation:
    """Returns what some playouts say, which takes hardly longer than one step of the search."""
    return _many_playouts(states, legal, QUICK_PLAYOUTS)


def _many_playouts(states: board.State, legal: Tensor | None = None, number: int = OWNERSHIP_PLAYOUTS) -> Evaluation:
    """Returns what many playouts say: an even prior, and value, ownership and score as their means."""
    even = PlayoutEvaluator()(states, legal=legal).prior
    ownership, score, value = _from_mover(states, *playout_preview_black(states, number))
    return Evaluation(prior=even, value=value, ownership=ownership, score=score)


def _from_mover(states: board.State, ownership: Tensor, score: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns Black's ownership [B, N, N], score [B] and value [B] as the side to move sees them."""
    sign = torch.where(states.to_play == board.BLACK, 1.0, -1.0)
    return ownership * sign.view(-1, 1, 1), score * sign, value * sign
