"""Pictures: what stands where, in text and in pixels."""

from __future__ import annotations

import numpy as np
import torch

from zerogo import picture


def some_stones() -> torch.Tensor:
    stones = torch.zeros((3, 3), dtype=torch.int8)
    stones[0, 2], stones[1, 1] = 1, 2
    return stones


def test_text_has_coordinates_and_the_last_move_in_brackets():
    assert picture.board_text(some_stones(), last_action=2).splitlines() == [
        "   A B C",
        " 3 . .(X)3",
        " 2 . O . 2",
        " 1 . . . 1",
        "   A B C",
    ]
    assert picture.board_text(some_stones(), last_action=9).splitlines()[-1] == "last move: pass"
    assert "(" not in picture.board_text(some_stones())


def test_text_of_the_largest_board_skips_i_and_stays_aligned():
    lines = picture.board_text(torch.zeros((25, 25), dtype=torch.int8)).splitlines()
    assert "I" not in lines[0] and lines[0].endswith("Z")
    assert len({len(line.rstrip("0123456789")) for line in lines[1:-1]}) == 1


def test_image_shows_stones_where_they_are():
    image = picture.board_image(some_stones(), cell=20)
    assert image.dtype == np.uint8 and image.shape == (80, 80, 3)
    assert tuple(image[20, 60]) == picture.BLACK
    assert tuple(image[40, 40]) == picture.WHITE


def test_image_shows_ownership_policy_last_move_and_caption():
    ownership = torch.zeros(3, 3)
    ownership[2, 0], ownership[0, 2] = -1.0, -1.0
    policy = torch.zeros(10)
    policy[8], policy[9] = 0.75, 0.25
    plain = picture.board_image(some_stones(), cell=20)
    image = picture.board_image(some_stones(), last_action=9, ownership_black=ownership, policy=policy, caption="B+1", cell=20)
    assert image.shape[0] > 80 and image.shape[1] == 80
    assert tuple(image[60, 20]) == picture.WHITE, "White's empty point carries a white square"
    assert tuple(image[20, 60]) == picture.WHITE, "a dead black stone carries a white square"
    assert image[68, 68, 2] > plain[68, 68, 2], "the likely move is tinted blue"
    ringed = picture.board_image(some_stones(), last_action=4, cell=20)
    assert (ringed == np.array(picture.MARK)).all(-1).any() and not (plain == np.array(picture.MARK)).all(-1).any()


def test_image_of_one_point_and_of_the_largest_board():
    for size in (1, 25):
        policy = torch.full((size * size + 1,), 1 / (size * size + 1))
        image = picture.board_image(torch.zeros((size, size), dtype=torch.int8), size * size, torch.ones(size, size), policy)
        assert image.shape[1] == (size + 1) * 24


def test_mosaic_keeps_every_picture():
    images = [np.full((10, 12, 3), shade, dtype=np.uint8) for shade in (10, 20, 30)]
    whole = picture.mosaic(images, columns=2, gap=2)
    assert whole.shape == (2 * 12 + 2, 2 * 14 + 2, 3)
    assert [int((whole == shade).all(-1).sum()) for shade in (10, 20, 30)] == [120, 120, 120]
