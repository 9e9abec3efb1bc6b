"""The eight transforms against numpy, and as a group."""

import pytest
import torch

from zerogo.board import symmetry

ALL = range(symmetry.NUM_SYMMETRIES)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool])
def test_planes_actions_and_inverses(dtype: torch.dtype) -> None:
    planes = torch.randint(0, 2, (8, 3, 5, 5)).to(dtype)
    actions, each = torch.randint(0, 2, (8, 26)).to(dtype), torch.arange(8)
    turned, ownership = symmetry.transform_planes(planes, each), symmetry.transform_planes(planes[:, 0], each)
    policy = symmetry.transform_actions(actions, each)
    for s in ALL:
        expected = torch.rot90(planes[s].flip(-1) if s >= 4 else planes[s], s % 4, (-2, -1))
        assert torch.equal(turned[s], expected) and torch.equal(ownership[s], expected[0])
        assert torch.equal(symmetry.transform_planes(planes, s)[s], expected)
        assert torch.equal(symmetry.transform_planes(planes[:, 0], s)[s], expected[0])
        assert torch.equal(symmetry.transform_actions(actions, s)[s], policy[s])
    back = symmetry.inverse(each)
    assert torch.equal(symmetry.transform_planes(turned, back), planes)
    assert torch.equal(symmetry.transform_planes(ownership, back), planes[:, 0])
    assert torch.equal(symmetry.transform_actions(policy, back), actions)
    with pytest.raises(AssertionError, match="no square board"):
        symmetry.transform_actions(actions[:, :12], 0)


def test_a_smaller_board_turns_in_its_corner() -> None:
    sizes = torch.tensor([5, 3, 1, 4, 2, 3, 4, 5], dtype=torch.int32)
    planes, actions = torch.rand(8, 3, 5, 5), torch.rand(8, 26)
    for turn in (*ALL, torch.arange(8), torch.tensor([7, 5, 3, 1, 6, 4, 2, 0])):
        each = torch.full((8,), turn) if isinstance(turn, int) else turn
        moved = symmetry.transform_planes(planes, turn, sizes)
        flat = symmetry.transform_planes(planes[:, 0], turn, sizes)
        points = symmetry.transform_actions(actions, turn, sizes)
        for k, size in enumerate(sizes.tolist()):
            s, off = int(each[k]), torch.ones(5, 5, dtype=torch.bool)
            off[:size, :size] = False
            corner = symmetry.transform_planes(planes[k : k + 1, :, :size, :size], s)[0]
            assert torch.equal(moved[k, :, :size, :size], corner)
            assert torch.equal(flat[k], moved[k, 0]) and torch.equal(flat[k][off], planes[k, 0][off])
            own = actions[k : k + 1, :-1].view(1, 5, 5)[:, :size, :size]
            assert torch.equal(points[k, :-1].view(5, 5)[:size, :size], symmetry.transform_planes(own, s)[0])
            assert points[k, -1] == actions[k, -1]
        back = symmetry.INVERSE[turn] if isinstance(turn, int) else symmetry.inverse(turn)
        assert torch.equal(symmetry.transform_planes(moved, back, sizes), planes)
    each, same = torch.arange(8), torch.full((8,), 5, dtype=torch.int32)
    assert torch.equal(symmetry.transform_planes(planes, each, same), symmetry.transform_planes(planes, each))


def test_memory_layout_changes_nothing() -> None:
    planes, each = torch.rand(6, 4, 7, 7), torch.tensor([0, 3, 5, 5, 7, 1])
    spread = symmetry.transform_planes(planes.to(memory_format=torch.channels_last), each)
    assert torch.equal(spread, symmetry.transform_planes(planes, each))
    assert spread.is_contiguous(memory_format=torch.channels_last)
