"""A position as the rules need it, and one move in all games at once.

The key to the speed is `atari`: the stones whose string has exactly one liberty. With it, the legality of a point
depends on its neighbours only, and a move can only change strings that it touches: its own, at most four of the
opponent's, and those next to captured stones. `find_atari` recomputes it from the stones, and tests compare the two.

These torch operations never wait for a device. They are the reference for the kernels, which do legality and moves
inside larger operations (`kernels/*/board.py`)."""

from dataclasses import dataclass, replace
from functools import cache, reduce

import torch
from torch import Tensor

from zerogo.board import flood, rng
from zerogo.rules import MAX_SIZE
from zerogo.system.tensors import TensorFields

BLACK, WHITE = 1, 2


@dataclass(frozen=True)
class Position(TensorFields):
    """Positions of B games, with all that the rules except superko need. Rows are bit rows (see `zerogo.board.flood`).

    black, white, atari: int32 [B, N] stones, and the stones whose string has exactly one liberty. to_play: int8 [B], 1
    or 2. passes: int8 [B], consecutive passes just made. ply: int32 [B]. ko: int16 [B], the point banned by the simple
    ko rule, -1 for none. hash: int64 [B], Zobrist hash of the stones. captures: int32 [B, 2], stones captured so far by
    Black, by White. finished: bool [B]. In samples for an encoder atari and hash are None."""

    black: Tensor
    white: Tensor
    atari: Tensor
    to_play: Tensor
    passes: Tensor
    ply: Tensor
    ko: Tensor
    hash: Tensor
    captures: Tensor
    finished: Tensor

    @property
    def num_games(self) -> int:
        """B."""
        return self.black.shape[0]

    @property
    def board_size(self) -> int:
        """N, the side of the tensors."""
        return self.black.shape[-1]

    @property
    def num_actions(self) -> int:
        """A = N * N + 1, the last the pass."""
        return self.board_size**2 + 1

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.black.device

    @property
    def stones(self) -> Tensor:
        """int8 [B, N, N]: 0 empty, 1 black, 2 white."""
        return flood.unpack_rows(self.black).to(torch.int8) + 2 * flood.unpack_rows(self.white).to(torch.int8)


def own_and_opponent(position: Position) -> tuple[Tensor, Tensor]:
    """Returns the stones of the side to move and of its opponent: int32 [B, N] each."""
    is_black = (position.to_play == BLACK).unsqueeze(-1)
    return torch.where(is_black, position.black, position.white), torch.where(is_black, position.white, position.black)


def find_atari(black: Tensor, white: Tensor, on_board: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the stones whose string has exactly one liberty, and those whose string has none: int32 [B, N] each.

    Uses floods alone, for all strings at once: a string has one liberty exactly if, for every bit of the points'
    indices, it does not touch both a liberty with that bit and one without."""
    with_bit, empty = _index_bits(black.shape[-1], black.device), (on_board & ~(black | white)).unsqueeze(1)
    seeds = flood.neighbours(torch.cat([empty & with_bit, empty & ~with_bit], dim=1))
    colours = [stones.unsqueeze(1).expand_as(seeds) for stones in (black, white)]
    ones, zeros = (flood.flood(seeds, colours[0]) | flood.flood(seeds, colours[1])).split(len(with_bit), dim=1)
    has_two, has_some = _union(ones & zeros), _union(ones | zeros)
    stones = black | white
    return stones & has_some & ~has_two, stones & ~has_some


@cache
def _index_bits(board_size: int, device: torch.device) -> Tensor:
    """Returns for each bit of the points' indices the points whose index has it: int32 [n, N]."""
    index = torch.arange(board_size * board_size, device=device).view(board_size, board_size)
    num_bits = max(1, (board_size**2 - 1).bit_length())
    return flood.pack_rows(torch.stack([(index >> bit) & 1 != 0 for bit in range(num_bits)]))


def legal_rows(position: Position, on_board: Tensor, suicide: Tensor | None) -> Tensor:
    """Returns the legal points, superko not considered: int32 [B, N]; none in a finished game.

    suicide: bool [B], None if no game allows it. A point is legal if a neighbour is empty, an own string with another
    liberty, or an opponent's string in atari, and it is not banned by ko."""
    own_stones, opponent = own_and_opponent(position)
    empty = on_board & ~(own_stones | opponent)
    legal = flood.neighbours(empty | (own_stones & ~position.atari) | (opponent & position.atari))
    if suicide is not None:
        legal = torch.where(suicide.unsqueeze(-1), -1, legal)
    legal = legal & empty & ~flood.points_to_rows(position.ko.to(torch.int64), position.board_size)
    return torch.where(position.finished.unsqueeze(-1), 0, legal)


def play(
    position: Position, actions: Tensor, on_board: Tensor, suicide: Tensor | None, cap: Tensor
) -> tuple[Position, Tensor]:
    """Returns the positions after one action in every running game, and the black and white stones that it removed,
    int32 [B, 2, N]. actions: int64 [B], legal (not checked).

    cap: int32 [B], the ply at which a game is finished. Two passes in a row finish it, too. Finished games stay
    unchanged."""
    own_stones, opponent = own_and_opponent(position)
    place = flood.points_to_rows(torch.where(position.finished, -1, actions), position.board_size)
    own_stones = own_stones | place
    strings = _touched_strings(place, own_stones, opponent)
    is_captured = ((strings & position.atari.unsqueeze(1)) != 0).any(-1)
    is_captured[:, 0] = False
    string, captured = strings[:, 0], _union(torch.where(is_captured.unsqueeze(-1), strings, 0))
    opponent = opponent & ~captured
    empty = on_board & ~(own_stones | opponent)
    dead = torch.zeros_like(own_stones)
    if suicide is not None:
        is_dead = suicide & ((flood.neighbours(string) & empty) == 0).all(-1)
        dead = torch.where(is_dead.unsqueeze(-1), string, 0)
    has_one_liberty = (flood.count(flood.neighbours(strings) & (empty | dead).unsqueeze(1)) == 1) & ~is_captured
    in_atari = _union(torch.where(has_one_liberty.unsqueeze(-1), strings, 0))
    # Strings in atari next to removed stones now have two liberties or more, their last one and a new one.
    relieved = _strings_beside(captured, own_stones & position.atari)
    if suicide is not None:
        relieved |= _strings_beside(dead, opponent & position.atari)
    own_stones = own_stones & ~dead
    atari = ((position.atari & ~(relieved | string)) | in_atari) & (own_stones | opponent)
    after, removed = _after(position, actions, own_stones, opponent, atari, captured, dead)
    return replace(after, finished=after.finished | (after.passes >= 2) | (after.ply >= cap)), removed


def _union(planes: Tensor) -> Tensor:
    """Returns the points of any plane: int32 [B, n, N] -> int32 [B, N]; torch has no such reduction."""
    return reduce(torch.bitwise_or, planes.unbind(1))


def _touched_strings(place: Tensor, own_stones: Tensor, opponent: Tensor) -> Tensor:
    """Returns the placed stone's own string, then the opponent's strings on its left, right, upper and lower side,
    empty for none: int32 [B, N] -> int32 [B, 5, N]."""
    above, below = torch.zeros_like(place), torch.zeros_like(place)
    above[:, :-1], below[:, 1:] = place[:, 1:], place[:, :-1]
    seeds = torch.stack([place, place >> 1, place << 1, above, below], dim=1)
    return flood.flood(seeds, torch.stack([own_stones, *[opponent] * 4], dim=1))


def _strings_beside(removed: Tensor, stones: Tensor) -> Tensor:
    return flood.flood(flood.neighbours(removed) & stones, stones)


def _after(
    before: Position, actions: Tensor, own_rows: Tensor, opponent: Tensor, atari: Tensor, captured: Tensor, dead: Tensor
) -> tuple[Position, Tensor]:
    """Assembles the position after a move: colours, ko, hash, captures and counters.

    captured: the opponent's stones that the move removed. dead: its own, in a suicide, where it captured none. The
    simple ko rule bans a point if a single stone was captured there by a single stone, whose only liberty is that
    point."""
    is_black, by_colour = before.to_play == BLACK, (before.to_play == BLACK).unsqueeze(-1)
    goes_on, pass_action = ~before.finished, before.board_size**2
    removed, is_taken = captured | dead, (captured != 0).any(-1)
    number = flood.count(removed)
    by_black = torch.where(is_black == is_taken, number, 0)  # a suicide's stones are the opponent's captures
    keys = point_keys(before.board_size, before.device)
    placed_key = torch.where(goes_on, keys[actions + torch.where(is_black, 0, pass_action + 1)], 0)
    removed_key = hash_rows(removed, torch.where(is_black ^ is_taken, 0, 1))
    lone = flood.points_to_rows(actions, before.board_size) & atari & ~flood.neighbours(own_rows)
    is_ko = is_taken & (number == 1) & (lone != 0).any(-1)
    ko = torch.where(is_ko, flood.first_point(removed), -1).to(torch.int16)
    is_pass = actions >= pass_action
    passes = torch.where(goes_on, torch.where(is_pass, before.passes + 1, 0), before.passes).to(torch.int8)
    after = Position(
        black=torch.where(by_colour, own_rows, opponent),
        white=torch.where(by_colour, opponent, own_rows),
        atari=atari,
        to_play=torch.where(goes_on, 3 - before.to_play, before.to_play),
        passes=passes,
        ply=before.ply + goes_on.to(torch.int32),
        ko=torch.where(goes_on, ko, before.ko),
        hash=before.hash ^ placed_key ^ removed_key,
        captures=before.captures + torch.stack([by_black, number - by_black], dim=1),
        finished=before.finished,
    )
    return after, torch.stack([torch.where(by_colour, dead, captured), torch.where(by_colour, captured, dead)], dim=1)


# Hashes


@cache
def zobrist_keys(device: torch.device) -> Tensor:
    """Returns the Zobrist keys of (colour, row, column) on a 25x25 board, so that a position's hash does not depend on
    the batch's largest side: int64 [2, 25, 25] for (black, white), row, column."""
    return rng.split(rng.key(0x60), 2 * MAX_SIZE * MAX_SIZE).view(2, MAX_SIZE, MAX_SIZE).to(device)


@cache
def point_keys(board_size: int, device: torch.device) -> Tensor:
    """Returns the keys of all actions: int64 [2 * A], Black's points and 0 for the pass, then White's."""
    table = zobrist_keys(device)[:, :board_size, :board_size].reshape(2, -1)
    return torch.nn.functional.pad(table, (0, 1)).flatten()


def hash_rows(rows: Tensor, colour: Tensor | int | slice) -> Tensor:
    """Returns the XOR of the keys of a plane's points as stones of a colour: int32 [..., N] -> int64 [...].

    colour: 0 for Black, 1 for White, as int64 [...] or one for all planes; slice(2): planes [..., 2, N] of both."""
    keys = zobrist_keys(rows.device)[colour, : rows.shape[-1], : rows.shape[-1]]
    words = torch.where(flood.unpack_rows(rows), keys, 0).flatten(-2)
    while (half := words.shape[-1] // 2) > 0:  # by halves, as torch has no XOR reduction
        words = torch.cat([words[..., :half] ^ words[..., half : 2 * half], words[..., 2 * half :]], dim=-1)
    return words.squeeze(-1)


def hash_stones(black: Tensor, white: Tensor) -> Tensor:
    """Returns the Zobrist hash of positions: int32 [..., N] each -> int64 [...]."""
    both = hash_rows(torch.stack((black, white), dim=-2), slice(2))  # both at once, to save launches
    return both[..., 0] ^ both[..., 1]
