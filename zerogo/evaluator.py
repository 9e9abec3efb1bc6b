"""From positions to predictions: features, board symmetries, network, legal moves."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from zerogo import board, scoring
from zerogo.board import flood, rng, symmetry
from zerogo.board.rng import Purpose
from zerogo.config.sections import SYMMETRIES
from zerogo.errors import InputError, quote
from zerogo.features import Encoder, on_board_mask
from zerogo.network import InferenceNetwork, Network, inference_copy
from zerogo.system.tensors import TensorFields

# How outputs on the board are rotated and reflected; the others are the same for every symmetry.
BOARD_OUTPUTS = {"policy": symmetry.transform_actions, "ownership": symmetry.transform_planes}
SEARCH_HEADS = ("policy", "value")  # the outputs that a search without scores reads
_DRAW = 1  # seed of all draws of symmetries


@dataclass(frozen=True)
class Evaluation(TensorFields):
    """The predictions for B positions, from the side to move's view.

    prior: float32 [B, A], 0 where illegal, sums to 1. value: float32 [B] in [-1, 1]. ownership: float32 [B, N, N] in
    [-1, 1], 0 off the board, None if the network lacks that head. score: float32 [B], points with komi, from the head
    of that name, or else the sum of the ownership; None without either."""

    prior: Tensor
    value: Tensor
    ownership: Tensor | None = None
    score: Tensor | None = None


class Evaluator:
    """Evaluates positions with a network; except on the CPU, the host reads no tensor back.

    network: an `InferenceNetwork`, or a callable that takes the same arguments and has a `dtype`. symmetries: "none"
    evaluates the board as it is, "random" under one of the 8 symmetries, drawn for each game (unbiased, at no extra
    cost), "all" averages the 8 (8 times the cost, exactly equivariant)."""

    def __init__(self, network: InferenceNetwork, encoder: Encoder, symmetries: str = "none") -> None:
        if symmetries not in SYMMETRIES:
            raise InputError(f"symmetries are {quote(symmetries)}; allowed are {', '.join(SYMMETRIES)}")
        self.network, self.encoder, self.symmetries = network, encoder, symmetries
        self._padded, num_planes = (getattr(network, name, 0) for name in ("padded_planes", "num_planes"))
        assert num_planes in (0, encoder.num_planes), f"{encoder.num_planes} planes, not {num_planes}"
        self._others = WeakValueDictionary({symmetries: self})  # an unused evaluator is freed, with its network

    @staticmethod
    def from_network(
        network: Network,
        encoder: Encoder,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        symmetries: str = "none",
        heads: tuple[str, ...] | None = None,
    ) -> Evaluator:
        """Returns an evaluator over a copy of the network, see `inference_copy`."""
        return Evaluator(inference_copy(network, device, dtype, heads), encoder, symmetries)

    def with_symmetries(self, symmetries: str) -> Evaluator:
        """Returns the evaluator over the same network with these symmetries: the same object while
        anyone holds it, since a search's captured graph is bound to one evaluator."""
        other = self._others.get(symmetries) or Evaluator(self.network, self.encoder, symmetries)
        self._others[symmetries], other._others = other, self._others
        return other

    @torch.inference_mode()
    def __call__(self, state: board.State, legal: Tensor | None = None, key: Tensor | None = None) -> Evaluation:
        """Returns the evaluation of B positions.

        legal: bool [B, A], the moves that get prior, at least one per game; by default `board.legal_actions`. key:
        int64 [B], which draws each game's symmetry; by default the position's hash, side to move and ply."""
        legal = board.legal_actions(state) if legal is None else legal
        shape = (state.num_games, state.board_size**2 + 1)
        assert legal.dtype == torch.bool and legal.shape == shape, (
            f"legal is {legal.dtype} {list(legal.shape)}, not bool {list(shape)}"
        )
        planes, inputs = self.encoder.planes(state, self.network.dtype, self._padded), self.encoder.globals(state)
        if self.symmetries == "all":
            turns = range(symmetry.NUM_SYMMETRIES)
            evaluations = [self._evaluate(planes, inputs, state, legal, index) for index in turns]
            each = zip(*(evaluation.tensors() for evaluation in evaluations), strict=True)
            return evaluations[0].with_tensors(torch.stack(tensors).mean(0) for tensors in each)  # priors, not logits
        index = None
        if self.symmetries == "random":
            key = rng.key(state.hash, state.to_play, state.ply) if key is None else key
            index = rng.below(symmetry.NUM_SYMMETRIES, _DRAW, Purpose.SYMMETRY, key)  # mixed again: any integer will do
        return self._evaluate(planes, inputs, state, legal, index)

    @torch.inference_mode()
    def evaluate_in_symmetry(self, state: board.State, symmetry_index: int) -> Evaluation:
        """Returns the evaluation of B positions, every board under one symmetry, 0 to 7, regardless of `symmetries`."""
        planes, inputs = self.encoder.planes(state, self.network.dtype, self._padded), self.encoder.globals(state)
        return self._evaluate(planes, inputs, state, board.legal_actions(state), symmetry_index)

    def _evaluate(
        self, planes: Tensor, inputs: Tensor, state: board.State, legal: Tensor, index: int | Tensor | None
    ) -> Evaluation:
        """Applies the symmetries, runs the network, and applies the inverse symmetries to its outputs. index: one
        symmetry, or one per game (int64 [B]), or None for the boards as they are."""
        size = None if state.rules.same_size else state.rules.size
        if index is not None:
            planes = symmetry.transform_planes(planes, index, size)
        outputs = self.network(planes, inputs, on_board_mask(state))
        if index is not None:
            back = symmetry.INVERSE[index] if isinstance(index, int) else symmetry.inverse(index)
            turned = {name: of(outputs[name], back, size) for name, of in BOARD_OUTPUTS.items() if name in outputs}
            outputs = outputs | turned
        ownership, score = outputs.get("ownership"), outputs.get("score")
        ownership = None if ownership is None else torch.tanh(ownership)
        return Evaluation(
            prior=torch.softmax(torch.where(legal, outputs["policy"], -torch.inf), dim=-1),
            value=torch.tanh(outputs["value"]),
            ownership=ownership,
            score=score_of(ownership, state) if score is None and ownership is not None else score,
        )


def score_of(ownership: Tensor, state: board.State) -> Tensor:
    """Returns the side to move's points, komi included, by its ownership: [B, N, N] -> float32 [B].

    Ownership adds up to the area. By territory, each stone placed so far costs its side a point of that: it fills a
    point, or is a prisoner."""
    komi = state.rules.komi
    if state.rules.any_territory:
        placed = flood.count(state.black) - flood.count(state.white) + state.captures[:, 1] - state.captures[:, 0]
        komi = torch.where(state.rules.scoring == scoring.AREA, komi, komi + placed)
    return ownership.float().sum((1, 2)) - torch.where(state.to_play == board.BLACK, komi, -komi)
