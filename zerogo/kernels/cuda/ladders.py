"""Ladders on CUDA: a warp reads the strings of one side of a game one by one, without waiting for the host.
`features.readings.Ladders` defines ladders.

Boards are planes of bit rows, row r in lane r (see `rows`), in registers: defender and attacker, their stones; target,
the string in danger; exists, the board. The reading is depth first, with the same order of moves as `cpu.ladders`. A
stack of frames in scratch memory undoes moves: frame d holds the board after the d-th attack, the string in atari, the
answers that are left, and what undoes the attack. A reading with more attacks than half the points and a row is given
up, too: without captures each attack fills two points, and in thousands of ladders none was deeper than twice the
board's side."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import launch, rows
from zerogo.kernels.cuda.rows import any_point, count, first_plane, flood, load_rows, neighbours, shifts, store_rows

MOST_PROGRAMS = 4096
MOST_SCRATCH = 2**27  # bytes
MOST_SLOTS = 8  # programs that share the strings of a game if there are few games
PLANES = tl.constexpr(6)  # of a frame
READING, SAFE, CAUGHT, GIVEN_UP = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)


def read_ladders(
    black: Tensor, white: Tensor, on_board: Tensor, mover: Tensor | None, max_answers: int, ko: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Returns the ladders of B positions; see `cpu.ladders.read_ladders`."""
    num_games, size = black.shape
    ladders = torch.zeros(3, num_games, 2, size, dtype=torch.int32, device=black.device)
    given_up = torch.zeros(num_games, dtype=torch.int32, device=black.device)
    depth = size * size // 2 + size
    slots = max(1, min(MOST_SLOTS, MOST_PROGRAMS // max(1, 2 * num_games)))
    frame_bytes = 4 * PLANES.value * size
    programs = max(1, min(2 * num_games * slots, MOST_PROGRAMS, MOST_SCRATCH // (depth * frame_bytes)))
    frames = torch.empty(programs, depth, PLANES.value, size, dtype=torch.int32, device=black.device)
    whose = black if mover is None else mover  # results that are not requested may be anything
    bans = black if ko is None else ko
    arguments = black, white, on_board, whose, bans, frames, ladders, given_up, num_games, slots, max_answers
    kinds = {"FOR_MOVER": mover is not None, "AS_KATAGO": ko is not None}
    launch(ladders_kernel, programs, *arguments, N=size, DEPTH=depth, **kinds, num_warps=1)
    return *ladders.unbind(0), given_up.to(torch.int64)


@triton.jit(do_not_specialize=["num_games", "slots", "max_answers"])  # it takes seconds to compile
def ladders_kernel(
    black, white, on_board, mover, bans, frames, ladders, given_up, num_games, slots, max_answers,
    N: tl.constexpr, DEPTH: tl.constexpr, FOR_MOVER: tl.constexpr, AS_KATAGO: tl.constexpr,
):  # fmt: skip
    """Each program reads the strings of one side of a game, then those of the side `num_programs` tasks further. If
    there are few games, `slots` programs share a side: program s of them reads its weak strings s, s + slots, s + 2 *
    slots, …"""
    stack = frames + tl.program_id(0).to(tl.int64) * DEPTH * PLANES * N
    for task in range(tl.program_id(0), num_games * slots * 2, tl.num_programs(0)):
        colour = task % 2
        game, slot = task // 2 // slots, task // 2 % slots
        first, second = load_rows(black, game, N), load_rows(white, game, N)
        defender, attacker = tl.where(colour == 0, first, second), tl.where(colour == 0, second, first)
        exists = load_rows(on_board, game, N)
        is_movers = colour == 0
        if FOR_MOVER:
            is_movers = tl.load(mover + game) == colour + 1
        ban = tl.zeros_like(defender)
        if AS_KATAGO:
            ban = rows.point_rows(tl.load(bans + game).to(tl.int32), N)
        caught, catching, escaping, number = _read_side(
            defender, attacker, exists, ban, is_movers, stack, slot, slots, max_answers, N, DEPTH, FOR_MOVER, AS_KATAGO
        )
        _add_rows(ladders, game * 2 + colour, caught, N)
        _add_rows(ladders, (num_games + game) * 2 + colour, catching, N)
        _add_rows(ladders, (2 * num_games + game) * 2 + colour, escaping, N)
        tl.atomic_add(given_up + game, number, mask=number > 0)


@triton.jit
def _add_rows(ladders, index, rows, N: tl.constexpr):
    """Adds points to a plane that other programs add to."""
    lane = tl.arange(0, 32)
    tl.atomic_or(ladders + index.to(tl.int64) * N + lane, rows, mask=(lane < N) & (rows != 0))


@triton.jit
def _read_side(
    defender, attacker, exists, ban, is_movers, stack, slot, slots, max_answers,
    N: tl.constexpr, DEPTH: tl.constexpr, FOR_MOVER: tl.constexpr, AS_KATAGO: tl.constexpr,
):  # fmt: skip
    """Returns for one side's weak strings of one slot the stones that are caught, the moves that catch, the moves that
    save, and how many readings were given up."""
    none = tl.zeros_like(defender)
    caught, catching, escaping, given_up, met = none, none, none, tl.sum(none, 0), tl.sum(none, 0)
    empty = exists & ~(defender | attacker)
    # A stone next to three empty points makes its string strong; this saves the floods of most strings.
    left = defender & ~flood(_next_to_several(empty, True) & defender, defender)
    while any_point(left):
        target = flood(first_plane(left), left)
        left &= ~target
        liberties = neighbours(target) & empty
        number = count(liberties)
        is_wanted = (number == 1) | (number == 2)
        if FOR_MOVER:
            is_wanted &= is_movers == (number == 1)
        is_in_slot = is_wanted & (met % slots == slot)
        met += is_wanted.to(tl.int32)
        if is_in_slot:
            in_atari = number == 1
            one, two = _attacks(defender, attacker, target, exists, ban)
            starts = tl.where(in_atari, liberties, one | two)
            while any_point(starts):
                start = first_plane(starts)
                starts &= ~start
                result, saving = _read(
                    defender, attacker, target, exists, start, in_atari, stack, max_answers, N, DEPTH, AS_KATAGO
                )
                is_caught = (result == CAUGHT) & ~any_point(saving)
                caught |= tl.where(is_caught, target, 0)
                catching |= tl.where(is_caught & ~in_atari, start, 0)
                escaping |= saving
                given_up += (result == GIVEN_UP).to(tl.int32)
    return caught, catching, escaping, given_up


@triton.jit
def _read(
    defender, attacker, target, exists, start, in_atari, stack, max_answers,
    N: tl.constexpr, DEPTH: tl.constexpr, AS_KATAGO: tl.constexpr,
):  # fmt: skip
    """Returns the fate of a string after the attacker's first move `start`, or of one in atari with last liberty
    `start`; and all moves that save the latter. Attacking: the string has two liberties; `first`, then `second` are
    tried. Defending: it is in atari at frame `depth`, with `answers` left. A frame was reached by `move`, which
    captured `dead`; `later`, the attacker's other move, shares its plane on the stack."""
    none, zero = tl.zeros_like(defender), tl.sum(tl.zeros_like(defender), 0)
    first, second, dead, move, later, answer, saving = tl.where(in_atari, 0, start), none, none, none, none, none, none
    attacking, depth, result, answers = (in_atari == 0).to(tl.int32), in_atari.to(tl.int32) - 1, zero, none
    if in_atari:
        answers = _answers(defender, attacker, target, exists, in_atari)
    listed = count(answers)
    while result == READING:
        goes_back, is_saved = depth != depth, depth != depth
        if attacking != 0:
            if any_point(first):
                works, gone = _attack(defender, attacker, target, exists, first, depth if AS_KATAGO else zero)
                if works:
                    defender, attacker, dead, move, later = defender & ~gone, attacker | first, gone, first, second
                    answers = _answers(defender, attacker, target, exists, depth != depth)
                    attacking, depth, listed = zero, depth + 1, listed + count(answers)
                    result = tl.where((listed > max_answers) | (depth == DEPTH), GIVEN_UP, result)
                else:
                    first, second = second, none
            else:  # the answer that led here saves the string
                goes_back, is_saved = depth >= 0, depth >= 0
                result = tl.where(depth < 0, SAFE, result)
        else:
            if any_point(answers):
                reply = _next_answer(defender, attacker, target, exists, answers)
                answers &= ~reply
                answer = tl.where(depth == 0, reply, answer)
                new_defender, new_attacker, new_target, ko, number = _defend(defender, attacker, target, exists, reply)
                is_saved = number > 2
                if number == 2:
                    frame = defender, attacker, target, answers, dead, move | later
                    for k in tl.static_range(PLANES):
                        store_rows(stack, depth * PLANES + k, frame[k], N)
                    tl.debug_barrier()  # which is read on the way back
                    defender, attacker, target, attacking = new_defender, new_attacker, new_target, zero + 1
                    first, second = _attacks(defender, attacker, target, exists, ko)
                    if _is_double_ko(defender, attacker, target, exists, AS_KATAGO):  # as if no answer were left
                        attacking, depth, answers = zero, depth + 1, none
            else:
                depth -= 1
                goes_back = depth >= 0
                result = tl.where(depth < 0, CAUGHT, result)
        if goes_back:
            defender, attacker, target, answers, dead, tried = [
                load_rows(stack, depth * PLANES + k, N) for k in (0, 1, 2, 3, 4, 5)
            ]
            move, later, attacking = tried & attacker, tried & ~attacker, zero
        if is_saved & in_atari & (depth == 0):
            saving |= answer
        elif is_saved:
            defender, attacker, first, second = defender | dead, attacker & ~move, later, none
            attacking, depth = zero + 1, depth - 1
    return result, saving


# The moves of a ladder


@triton.jit
def _attacks(defender, attacker, target, exists, ko):
    """Returns the attacker's moves against a string with two liberties, the more promising one first; empty planes, at
    the end, for moves not worth trying.

    The more promising move leaves the extension with fewer new empty points; if it gains three at once, it saves the
    string. ko: where the attacker may not play."""
    empty = exists & ~(defender | attacker)
    liberties = neighbours(target) & empty
    one = first_plane(liberties)
    two = liberties & ~one
    gained_by_two, gained_by_one = neighbours(two) & empty, neighbours(one) & empty
    is_better = count(gained_by_two) <= count(gained_by_one)
    one = tl.where((count(gained_by_two & ~one) < 3) & ~any_point(one & ko), one, 0)
    two = tl.where((count(gained_by_one & ~two) < 3) & ~any_point(two & ko), two, 0)
    comes_first = (is_better & any_point(one)) | ~any_point(two)
    return tl.where(comes_first, one, two), tl.where(comes_first, two, one)


@triton.jit
def _attack(defender, attacker, target, exists, move, depth):
    """Returns whether an attacker's move is allowed, and the stones that it captures. A move that opens a ko is not
    allowed, as the ko saves the string, except at the first move of KataGo's ladders (depth below 0), where the
    defender may retake."""
    empty = exists & ~(defender | attacker | move)
    near = neighbours(move)
    dead = _dead(near & defender & ~target, defender, empty)
    empty |= dead
    is_legal = any_point(near & empty)
    if is_legal == 0:
        is_legal = any_point(neighbours(flood(move, attacker | move)) & empty)
    return is_legal & ((depth < 0) | ~_is_ko(near, attacker, dead, empty)), dead


@triton.jit
def _is_double_ko(defender, attacker, target, exists, AS_KATAGO: tl.constexpr):
    """Returns whether the attacker wins by two kos, which only KataGo looks at; see `cpu.ladders`."""
    empty = exists & ~(defender | attacker)
    liberties = neighbours(target) & empty
    is_dead = any_point(target) == 0
    if AS_KATAGO:
        is_dead = any_point(neighbours(liberties) & (empty | attacker)) == 0
    if is_dead:
        one = first_plane(liberties)
        is_dead = _takes_one(defender, one, empty) & _takes_one(defender, liberties & ~one, empty)
    if is_dead:
        left = flood(neighbours(target) & attacker, attacker)
        while any_point(left):
            string = flood(first_plane(left), left)
            left &= ~string
            is_dead = is_dead & (count(neighbours(string) & empty) != 1)
    return is_dead


@triton.jit
def _takes_one(defender, move, empty):
    """Returns whether exactly one of the strings next to a point is in atari, and is a single stone, and whether
    connecting there leaves at most two liberties."""
    joined = flood(move, defender | move)
    left, single = neighbours(move) & defender, tl.sum(tl.zeros_like(defender), 0)
    while any_point(left):
        stone = first_plane(left)
        string = flood(stone, defender)
        left &= ~stone
        in_atari = count(neighbours(string) & empty) == 1
        single += tl.where(in_atari, tl.where(count(string) == 1, 1, 2), 0)
    return (single == 1) & (count(neighbours(joined) & empty & ~move) < 3)


@triton.jit
def _defend(defender, attacker, target, exists, move):
    """Plays a defender's move. Returns the stones of both sides and the target after it, the point of a ko that it
    opens, and the target's liberties, none after a suicide."""
    empty = exists & ~(defender | attacker | move)
    near = neighbours(move)
    dead = _dead(near & attacker, attacker, empty)
    ko = tl.where(_is_ko(near, defender, dead, empty | dead), dead, 0)
    defender, attacker, empty = defender | move, attacker & ~dead, empty | dead
    if any_point(near & target):
        joins = any_point(near & defender & ~target)
        target |= move
        if joins:
            target = flood(target, defender)
    return defender, attacker, target, ko, count(neighbours(target) & empty)


@triton.jit
def _answers(defender, attacker, target, exists, is_all):
    """Returns the defender's moves: the extension, and captures of strings in atari that touch the target; unless
    `is_all`, no captures if the extension saves it anyway."""
    empty = exists & ~(defender | attacker)
    near = neighbours(target)
    last, touching = near & empty, near & attacker
    moves = last
    # A stone with two empty neighbours is not in atari, nor is its string.
    free = _next_to_several(empty, False) & attacker
    if any_point(touching & ~free) & (is_all | (count(neighbours(last) & empty) < 3)):
        left = flood(touching, attacker)
        left &= ~flood(free & left, left)
        while any_point(left):
            string = flood(first_plane(left), left)
            left &= ~string
            liberties = neighbours(string) & empty
            moves |= tl.where(count(liberties) == 1, liberties, 0)
    return moves


@triton.jit
def _next_answer(defender, attacker, target, exists, left):
    """Returns the next one of the answers left: captures in the order of points, then the extension."""
    takes = left & ~(neighbours(target) & exists & ~(defender | attacker))
    return tl.where(any_point(takes), first_plane(takes), left)


@triton.jit
def _next_to_several(empty, THREE: tl.constexpr):
    """Returns the points next to at least two, or three, points of the plane. Bits may lie beyond the last column."""
    left, right, up, down = shifts(empty)
    if THREE:
        points = (left & right & (up | down)) | ((left | right) & up & down)
    else:
        points = (left & right) | (up & down) | ((left | right) & (up | down))
    return points


@triton.jit
def _dead(suspects, stones, empty):
    """Returns the strings that contain a suspect and have no liberty."""
    suspects &= ~neighbours(empty)
    dead = tl.zeros_like(stones)
    if any_point(suspects):
        strings = flood(suspects, stones)
        dead = strings & ~flood(neighbours(empty) & strings, strings)
    return dead


@triton.jit
def _is_ko(near, friends, dead, empty):
    """Returns whether a move has captured one stone and is alone with that point as its only liberty. near: the points
    next to the move."""
    return (count(dead) == 1) & ~any_point(near & friends) & ~any_point((near & empty) ^ dead)
