"""Outputs of KataGo's networks next to the engine's, where its files are there."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from zerogo import board, checkpoint
from zerogo.features import make_encoder, on_board_mask
from zerogo.network import inference_copy
from zerogo.rules import Rules, coords
from zerogo.sgf.record import play_moves

SHARED = Path(__file__).parents[3] / "shared" / "katago"
with_files = pytest.mark.skipif(not SHARED.exists(), reason="KataGo's networks are not in ../shared/katago")
INPUTS = make_encoder("katago22", komi_input=True)


def replayed(cases: list[dict]) -> board.State:
    """Returns the positions of records as one batch."""
    side, records = max(case["size"] for case in cases), [case["moves"].split() for case in cases]
    longest = max(map(len, records))
    colours, actions = torch.zeros(len(cases), longest, dtype=torch.int8), torch.full((len(cases), longest), -1)
    for row, (case, moves) in enumerate(zip(cases, records, strict=True)):
        for ply, move in enumerate(moves):
            action = coords.from_gtp(move[2:], case["size"])
            colours[row, ply] = "BW".index(move[0]) + 1
            actions[row, ply] = coords.on_other_board(action, case["size"], side)
    rules = [Rules(*(case[key] for key in ("size", "komi", "superko", "suicide", "scoring"))) for case in cases]
    rules = [dataclasses.replace(rule, komi=float(rule.komi)) for rule in rules]
    start = torch.zeros(len(cases), side, side, dtype=torch.int8), torch.ones(len(cases), dtype=torch.int8)
    following = torch.tensor([2 - "BW".index(moves[-1][0]) if moves else 1 for moves in records], dtype=torch.int8)
    return play_moves(*start, rules, colours, actions, following)


@with_files
@pytest.mark.parametrize("name", ["g170-b6c96-s175395328-d26788732", "b7c96h3tfrs-test5-cnorm"])
def test_outputs_are_the_engines(name: str) -> None:
    """Positions of many sizes and rules in one padded batch."""
    told = json.loads((SHARED / "raw_outputs.json").read_text())["positions"]
    cases = [case for case in told if case["network"] == name]
    state, network = replayed(cases), checkpoint.load(SHARED / f"{name}.bin.gz").network()
    network.optimism = cases[0]["optimism"]
    given = INPUTS.planes(state), INPUTS.globals(state), on_board_mask(state)
    outputs, side = inference_copy(network)(*given), state.board_size
    for row, case in enumerate(cases):
        size, sign = case["size"], 1 if state.to_play[row] == 2 else -1
        policy = outputs["policy"][row, :-1].view(side, side)[:size, :size].flatten()
        logits = torch.cat([policy, outputs["policy"][row, -1:]])
        is_legal = torch.tensor([chance is not None for chance in case["policy"]])
        legal = board.legal_actions(state)[row, :-1].view(side, side)[:size, :size].flatten()
        assert torch.equal(legal, is_legal[:-1])
        prior = torch.softmax(torch.where(is_legal, logits, -torch.inf), 0)
        expected = torch.tensor([chance or 0.0 for chance in case["policy"]])
        torch.testing.assert_close(prior, expected, atol=1e-5, rtol=0)
        value = case["white_win"] - case["white_loss"]
        assert sign * float(torch.tanh(outputs["value"][row])) == pytest.approx(value, abs=1e-5)
        assert sign * float(outputs["score"][row]) == pytest.approx(case["white_lead"], abs=2e-3)
        ownership = sign * torch.tanh(outputs["ownership"][row, :size, :size]).flatten()
        torch.testing.assert_close(ownership, torch.tensor(case["white_ownership"]), atol=1e-4, rtol=0)
