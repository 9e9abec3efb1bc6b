"""Ladders on CUDA: a warp reads the strings of a game one after the other, each to the end, without waiting for the
host.

What is read is what `features.ladders` says, in depth; what comes first is decided by `ladder_moves`, by place where
nothing else does. A line is a stack of frames in scratch memory: frame d holds the board after the d-th attack, the
string in atari and the answers that are left, and what takes the attack back. A line of more attacks than half the
points and a row is given up, too: where nothing is captured each fills two points, and in thousands of ladders none was
deeper than twice the board's side."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import ladder_moves as moves
from zerogo.kernels.cuda.rows import any_point, count, first_plane, flood, load_rows, neighbours, store_rows

MOST_PROGRAMS = 4096
MOST_SCRATCH = 2**27  # bytes
MOST_SLOTS = 8  # programs that share the strings of a game where there are few games
PLANES = tl.constexpr(6)  # of a frame
READING, SAFE, CAUGHT, GIVEN_UP = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)


def read(
    black: Tensor, white: Tensor, on_board: Tensor, mover: Tensor | None, most: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns what `features.ladders.Ladders` holds, in its order: three times int32 [B, 2, N], and int64 [B].

    black, white, on_board: bit rows int32 [B, N]. mover: int8 [B], whose moves alone are asked for; None for
    everybody's. most: answers that are listed after a first move before it is given up."""
    num_games, size = black.shape
    found = torch.zeros(3, num_games, 2, size, dtype=torch.int32, device=black.device)
    given_up = torch.zeros(num_games, dtype=torch.int32, device=black.device)
    depth = size * size // 2 + size
    slots = max(1, min(MOST_SLOTS, MOST_PROGRAMS // max(1, 2 * num_games)))
    frame_bytes = 4 * PLANES.value * size
    programs = max(1, min(2 * num_games * slots, MOST_PROGRAMS, MOST_SCRATCH // (depth * frame_bytes)))
    frames = torch.empty(programs, depth, PLANES.value, size, dtype=torch.int32, device=black.device)
    whose = black if mover is None else mover.contiguous()  # what is not asked for may be anything
    given = black.contiguous(), white.contiguous(), on_board.contiguous(), whose
    ladders_kernel[(programs,)](
        *given,
        frames,
        found,
        given_up,
        num_games,
        slots,
        most,
        N=size,
        DEPTH=depth,
        FOR_MOVER=mover is not None,
        num_warps=1,
    )
    return *found.unbind(0), given_up.to(torch.int64)


@triton.jit(do_not_specialize=["num_games", "slots", "most"])  # it takes seconds to compile
def ladders_kernel(
    black, white, on_board, mover, frames, found, given_up, num_games, slots, most,
    N: tl.constexpr, DEPTH: tl.constexpr, FOR_MOVER: tl.constexpr,
):  # fmt: skip
    """Reads the strings of some sides of some games; where few games share out many programs, every so-manieth
    string.
    """
    stack = frames + tl.program_id(0).to(tl.int64) * DEPTH * PLANES * N
    for task in range(tl.program_id(0), num_games * slots * 2, tl.num_programs(0)):
        colour = task % 2
        game, slot = task // 2 // slots, task // 2 % slots
        first, second = load_rows(black, game, N), load_rows(white, game, N)
        own, other = tl.where(colour == 0, first, second), tl.where(colour == 0, second, first)
        exists = load_rows(on_board, game, N)
        is_movers = colour == 0
        if FOR_MOVER:
            is_movers = tl.load(mover + game) == colour + 1
        caught, catching, escaping, number = _read_side(
            own, other, exists, is_movers, stack, slot, slots, most, N, DEPTH, FOR_MOVER
        )
        _add_rows(found, game * 2 + colour, caught, N)
        _add_rows(found, (num_games + game) * 2 + colour, catching, N)
        _add_rows(found, (2 * num_games + game) * 2 + colour, escaping, N)
        tl.atomic_add(given_up + game, number, mask=number > 0)


@triton.jit
def _add_rows(found, index, rows, N: tl.constexpr):
    """Adds points to a plane that other programs add to."""
    lane = tl.arange(0, 32)
    tl.atomic_or(found + index.to(tl.int64) * N + lane, rows, mask=(lane < N) & (rows != 0))


@triton.jit
def _read_side(
    own,
    other,
    exists,
    is_movers,
    stack,
    slot,
    slots,
    most,
    N: tl.constexpr,
    DEPTH: tl.constexpr,
    FOR_MOVER: tl.constexpr,
):
    """Returns the stones of one side that are caught, the moves that catch and that save, and how many readings were
    given up, of every so-manieth weak string."""
    none = tl.zeros_like(own)
    caught, catching, escaping, given_up, met = none, none, none, tl.sum(none, 0), tl.sum(none, 0)
    empty = exists & ~(own | other)
    # A stone next to three empty points makes its string strong; this spares the floods of most strings.
    left = own & ~flood(moves.next_to_several(empty, True) & own, own)
    while any_point(left):
        target = flood(first_plane(left), left)
        left &= ~target
        liberties = neighbours(target) & empty
        number = count(liberties)
        is_wanted = (number == 1) | (number == 2)
        if FOR_MOVER:
            is_wanted &= is_movers == (number == 1)
        is_own_turn = is_wanted & (met % slots == slot)
        met += is_wanted.to(tl.int32)
        if is_own_turn:
            in_atari = number == 1
            one, two = moves.attacks(own, other, target, exists, none)
            starts = tl.where(in_atari, liberties, one | two)
            while any_point(starts):
                start = first_plane(starts)
                starts &= ~start
                result, saving = _read(own, other, target, exists, start, in_atari, stack, most, N, DEPTH)
                is_caught = (result == CAUGHT) & ~any_point(saving)
                caught |= tl.where(is_caught, target, 0)
                catching |= tl.where(is_caught & ~in_atari, start, 0)
                escaping |= saving
                given_up += (result == GIVEN_UP).to(tl.int32)
    return caught, catching, escaping, given_up


@triton.jit
def _read(own, other, target, exists, start, in_atari, stack, most, N: tl.constexpr, DEPTH: tl.constexpr):
    """Returns what becomes of a string after a first move of the attacker, `start`, or of one in atari, whose last
    liberty that is; and of the latter the moves that save it, all of which are looked for.

    Two states take turns. Attacking: the string has two liberties, `first` and then `second` are tried. Defending: it
    is in atari at frame `depth`, `answers` are left. A frame was reached by `move`, which took `dead`; `later` is what
    the attacker may try in its place."""
    none, zero = tl.zeros_like(own), tl.sum(tl.zeros_like(own), 0)
    first, second, dead, move, later, answer, saving = tl.where(in_atari, 0, start), none, none, none, none, none, none
    attacking, depth, result = (in_atari == 0).to(tl.int32), in_atari.to(tl.int32) - 1, zero
    answers = none
    if in_atari:
        answers = moves.answers(own, other, target, exists, in_atari)
    listed = count(answers)
    while result == READING:
        goes_back, is_saved = depth != depth, depth != depth
        if attacking != 0:
            if any_point(first):
                works, taken = moves.attack(own, other, target, exists, first)
                if works:
                    own, other, dead, move, later = own & ~taken, other | first, taken, first, second
                    answers = moves.answers(own, other, target, exists, depth != depth)
                    attacking, depth, listed = zero, depth + 1, listed + count(answers)
                    result = tl.where((listed > most) | (depth == DEPTH), GIVEN_UP, result)
                else:
                    first, second = second, none
            else:  # the answer that led here saves the string
                goes_back, is_saved = depth >= 0, depth >= 0
                result = tl.where(depth < 0, SAFE, result)
        else:
            if any_point(answers):
                reply = moves.next_answer(own, other, target, exists, answers)
                answers &= ~reply
                answer = tl.where(depth == 0, reply, answer)
                own_after, other_after, target_after, ko, liberties = moves.defend(own, other, target, exists, reply)
                is_saved = liberties > 2
                if liberties == 2:
                    _store_frame(stack, depth, own, other, target, answers, dead, move | later, N)
                    own, other, target, attacking = own_after, other_after, target_after, zero + 1
                    first, second = moves.attacks(own, other, target, exists, ko)
            else:
                depth -= 1
                goes_back = depth >= 0
                result = tl.where(depth < 0, CAUGHT, result)
        if goes_back:
            own, other, target, answers, dead, tried = _load_frame(stack, depth, N)
            move, later, attacking = tried & other, tried & ~other, zero
        if is_saved & in_atari & (depth == 0):
            saving |= answer
        elif is_saved:
            own, other, first, second, attacking, depth = own | dead, other & ~move, later, none, zero + 1, depth - 1
    return result, saving


@triton.jit
def _store_frame(stack, depth, own, other, target, answers, dead, tried, N: tl.constexpr):
    """tried: the attacker's move, which is one of its stones, and what it may try in its place, which is empty."""
    index = depth * PLANES
    store_rows(stack, index, own, N)
    store_rows(stack, index + 1, other, N)
    store_rows(stack, index + 2, target, N)
    store_rows(stack, index + 3, answers, N)
    store_rows(stack, index + 4, dead, N)
    store_rows(stack, index + 5, tried, N)


@triton.jit
def _load_frame(stack, depth, N: tl.constexpr):
    index = depth * PLANES
    own, other, target = load_rows(stack, index, N), load_rows(stack, index + 1, N), load_rows(stack, index + 2, N)
    return (
        own,
        other,
        target,
        load_rows(stack, index + 3, N),
        load_rows(stack, index + 4, N),
        load_rows(stack, index + 5, N),
    )
