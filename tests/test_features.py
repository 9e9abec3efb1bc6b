"""The encoders against a plain implementation, from both sides' view, and on boards of different sizes."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from zerogo import board, flood
from zerogo.errors import InputError
from zerogo.features import ENCODERS, make_encoder, on_board_mask
from zerogo.rules import Rules


def play_random(rules: list[Rules], plies: int, seed: int = 0) -> tuple[board.State, list[Tensor]]:
    """Returns games after random legal moves, passes only where nothing else is legal, and the stones after each ply from 0 on."""
    generator = torch.Generator().manual_seed(seed)
    state = board.new_games(len(rules), rules)
    stones = [state.stones]
    for _ in range(plies):
        weights = board.legal_actions(state).to(torch.float32)
        weights[:, -1] = 1e-6
        state = board.step(state, torch.multinomial(weights, 1, generator=generator).squeeze(1))
        stones.append(state.stones)
    return state, stones


def slow_zero17(stones: list[Tensor], to_play: int, size: int, game: int) -> Tensor:
    """Returns AlphaGo Zero's planes of one game, from its stones after each ply: the paper's words as loops."""
    side = stones[0].shape[-1]
    planes = torch.zeros(17, side, side)
    for ago in range(8):
        if ago < len(stones):
            position = stones[-1 - ago][game]
            for row in range(size):
                for column in range(size):
                    colour = int(position[row, column])
                    if colour == to_play:
                        planes[ago, row, column] = 1
                    elif colour != 0:
                        planes[8 + ago, row, column] = 1
    if to_play == 1:
        planes[16, :size, :size] = 1
    return planes


def swap_colours(state: board.State) -> board.State:
    """Returns the same games with the colours swapped, the side to move included, and komi from the other side."""
    rules = dataclasses.replace(state.rules, komi=-state.rules.komi)
    swapped = {"black": state.white, "white": state.black, "recent": state.recent.flip(2), "to_play": 3 - state.to_play}
    return dataclasses.replace(state, rules=rules, **swapped)


@pytest.mark.parametrize("plies", [0, 1, 5, 8, 23])
def test_zero17_agrees_with_the_plain_one(plies: int) -> None:
    sizes = [5, 3, 5, 2]
    state, stones = play_random([Rules(size) for size in sizes], plies, seed=plies)
    encoder = make_encoder("zero17", komi_input=True)
    planes = encoder.planes(state)
    assert planes.shape == (4, encoder.num_planes, 5, 5) and planes.dtype == torch.float32
    assert planes.is_contiguous(memory_format=torch.channels_last)
    going = [game for game in range(4) if not state.finished[game]]
    assert going
    for game in going:
        expected = slow_zero17(stones, int(state.to_play[game]), sizes[game], game)
        assert torch.equal(planes[game], expected), f"game {game}"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.uint8])
def test_dtypes(dtype: torch.dtype) -> None:
    state, _ = play_random([Rules(7)] * 3, 12)
    encoder = make_encoder("zero17", komi_input=False)
    assert torch.equal(encoder.planes(state, dtype).float(), encoder.planes(state)) and encoder.planes(state, dtype).dtype == dtype


@pytest.mark.parametrize("name", list(ENCODERS))
def test_swapped_colours_look_the_same_to_the_mover(name: str) -> None:
    state, _ = play_random([Rules(5, komi=6.5)] * 2, 9)
    other = swap_colours(state)
    encoder = make_encoder(name, komi_input=True)
    planes, mirrored = encoder.planes(state), encoder.planes(other)
    assert torch.equal(planes[:, :16], mirrored[:, :16])
    assert torch.equal(planes[:, 16], 1 - mirrored[:, 16])
    assert torch.equal(encoder.globals(state), encoder.globals(other))


def test_komi_is_the_movers() -> None:
    state = board.new_games(3, [Rules(5, komi=24.5), Rules(9, komi=7.0), Rules(19, komi=-7.5)])
    encoder = make_encoder("zero17", komi_input=True)
    black = encoder.globals(state)
    assert torch.allclose(black, torch.tensor([[-2.45], [-7 / 18], [7.5 / 38]]))
    white = board.step(state, torch.full((3,), 0))
    assert torch.allclose(encoder.globals(white), -black)
    assert make_encoder("zero17", komi_input=False).globals(state).shape == (3, 0)


def test_on_board_mask() -> None:
    assert on_board_mask(board.new_games(2, Rules(4))) is None
    state = board.new_games(2, [Rules(4), Rules(2)])
    mask = on_board_mask(state)
    assert mask.dtype == torch.bool and mask.flatten(1).sum(1).tolist() == [16, 4] and mask[1, :2, :2].all()
    assert torch.equal(mask, flood.unpack_rows(state.on_board))


def test_unknown_encoder() -> None:
    with pytest.raises(InputError, match="zero18.*zero17"):
        make_encoder("zero18", komi_input=True)
