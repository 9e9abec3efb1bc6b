"""Rows of many tensors at once, by Numba as torch writes them."""

from collections.abc import Callable

import pytest
import torch
from implementations import NUMBA
from torch import Tensor

from zerogo.kernels import copies

EACH = pytest.mark.parametrize("way", ["plain", NUMBA])


def tables(number: int) -> list[Tensor]:
    """Tensors of all types and widths, one wider than a block, one with rows further apart than they are wide."""
    torch.manual_seed(number)
    wide = torch.randint(-9, 9, (number, 1500), dtype=torch.int16)
    rows = torch.rand(number, 6, 2)[:, :4]
    return [
        torch.rand(number) < 0.5,
        torch.randint(-(2**62), 2**62, (number, 3)),
        wide,
        rows,
        torch.rand(number),
        torch.rand(number, 0, 3),
    ]


@EACH
@pytest.mark.parametrize("places", [[4, 0, 7], [5], []])
def test_rows_are_put_where_they_belong(places: list[int], way: str, use: Callable) -> None:
    use(way)
    index, new = torch.tensor(places, dtype=torch.int64), tables(len(places))
    wanted, found, whole = tables(8), tables(8), [part.contiguous() for part in tables(8)]
    for to, source in zip(wanted, new, strict=True):
        to[index] = source
    copies.put_(found, index, new)
    copies.put_from_host_(whole, index, new)
    for some in (found, whole):
        assert all(torch.equal(one, other) for one, other in zip(some, wanted, strict=True))


@EACH
def test_types_become_those_of_the_target(way: str, use: Callable) -> None:
    use(way)
    targets = [torch.zeros(4, 2, dtype=dtype) for dtype in (torch.int16, torch.float16, torch.bool)]
    numbers = torch.tensor([[1, 0], [3, -2]])
    copies.put_(targets, torch.tensor([3, 1]), [numbers, numbers.to(torch.float32) / 4, numbers != 0])
    assert targets[0].tolist() == [[0, 0], [3, -2], [0, 0], [1, 0]]
    assert targets[1].tolist() == [[0, 0], [0.75, -0.5], [0, 0], [0.25, 0]]
    assert targets[2].tolist() == [[False, False], [True, True], [False, False], [True, False]]
