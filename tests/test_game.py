import random

import pytest
from boards import parse, show
from sgfmill.boards import Board as SgfmillBoard
from tables import tables

from zerogo.errors import InputError
from zerogo.game import Colour, GameState, Move, Point
from zerogo.rules import SUPERKO, Rules, coords

BLACK, WHITE = Colour.BLACK, Colour.WHITE
PASS = Move.pass_turn()
REASONS, CASES = tables("game")["why illegal"], tables("pinned")


def at(vertex: str, size: int) -> Move:
    return Move.from_action(coords.from_gtp(vertex, size), size)


def play_all(game: GameState, vertices: str) -> GameState:
    """Plays GTP vertices in turn, `pass` among them."""
    for vertex in vertices.split():
        game = game.play(at(vertex, game.rules.size))
    return game


def from_diagram(diagram: str | list[str], to_play: Colour, **rules: object) -> GameState:
    stones = parse(diagram)
    return GameState.from_stones(stones, to_play, Rules(size=len(stones), **rules))


@pytest.mark.parametrize(("rows", "player", "vertex", "reason"), REASONS.values(), ids=REASONS)
def test_why_illegal(rows: str, player: str, vertex: str, reason: str | None) -> None:
    """How the reason begins under simple ko without suicide."""
    game = from_diagram(rows.split(), Colour[player], superko="simple")
    found = game.why_illegal(at(vertex, game.rules.size))
    assert (found or "") == "" if reason is None else found.startswith(reason)


@pytest.mark.parametrize("point", [(9, 0), (0, 9), (-1, 4), (4, -1)])
def test_off_the_board(point: tuple[int, int]) -> None:
    game = GameState.new(Rules(size=9))
    assert game.why_illegal(Move.play(Point(*point))).startswith("off the board: row")
    with pytest.raises(InputError, match="off the board"):
        game.play(Move.play(Point(*point)))


def test_two_passes_in_a_row_end_the_game() -> None:
    game = play_all(GameState.new(Rules(size=5, komi=0.5)), "pass C3 pass")
    assert not game.is_over
    game = game.play(PASS)
    assert game.is_over and game.score_black() == -25.5
    assert game.legal_moves() == []
    for move in (PASS, at("A1", 5)):
        assert game.why_illegal(move) == "game over: both players have passed"
        with pytest.raises(InputError, match="illegal move of black: game over"):
            game.play(move)


@pytest.mark.parametrize("superko", SUPERKO)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_pinned_case(case: dict, superko: str) -> None:
    """Moves that are legal under every ko rule, and one more, `last`, that is legal only under some. "send two, return
    one" was tried with GNU Go; in "triple ko" the sixth move makes the start again."""
    rules = {"superko": superko, "suicide": case.get("suicide", False)}
    game = play_all(from_diagram(case["diagram"], Colour(case["to_play"]), **rules), case["moves"])
    move = at(case["last"], game.rules.size)
    reason = game.why_illegal(move)
    assert (reason is None) == (superko in case["legal_under"]), reason
    if reason is None and "after" in case:
        assert show(game.play(move).stones()).split() == case["after"]


@pytest.mark.parametrize("superko", SUPERKO)
def test_on_1x1_there_is_one_game(superko: str) -> None:
    game = GameState.new(Rules(size=1, superko=superko))
    assert game.legal_moves() == [PASS] and game.why_illegal(at("A1", 1)).startswith("suicide")
    assert game.play(PASS).legal_moves() == [PASS] and game.play(PASS).play(PASS).is_over
    suicidal = GameState.new(Rules(size=1, superko=superko, suicide=True))
    assert (at("A1", 1) in suicidal.legal_moves()) == (superko != "positional")
    assert game.play(PASS).play(PASS).area_score_black() == 0.0


@pytest.mark.parametrize("size, num_games", {2: 20, 3: 15, 4: 10, 5: 6, 6: 3, 7: 3, 9: 2, 13: 1, 19: 1}.items())
def test_random_games_agree_with_sgfmill(size: int, num_games: int) -> None:
    colours, from_below = {None: 0, "b": 1, "w": 2}, range(size - 1, -1, -1)  # sgfmill counts rows from the bottom
    kinds = (("positional", False), ("situational", True), ("simple", False))[: 3 if size < 13 else 1]
    for number in range(num_games):
        for superko, suicide in kinds:
            rng = random.Random(f"{size} {number} {superko}")
            game = GameState.new(Rules(size=size, superko=superko, suicide=suicide))
            board, placed = SgfmillBoard(size), {BLACK: 0, WHITE: 0}
            while not game.is_over and game.ply < 3 * size * size:
                legal, player, before, stones = game.legal_moves(), game.to_play, game, game.stones()
                move = PASS if len(legal) == 1 or rng.random() < 0.02 else rng.choice(legal[:-1])
                game = game.play(move)
                if move.point is not None:
                    row, column = size - 1 - move.point.row, move.point.column
                    ko = board.play(row, column, "b" if player is BLACK else "w")
                    assert (None if ko is None else Point(size - 1 - ko[0], ko[1])) == game.ko
                    placed[player] += 1
                found = game.stones()
                assert [[colours[board.get(row, k)] for k in range(size)] for row in from_below] == found
                assert before.stones() == stones
                for colour in Colour:  # captures are those of the other
                    left = sum(row.count(colour.value) for row in found)
                    assert game.captures[colour.other] == placed[colour] - left
                assert (game.to_play, game.ply) == (player.other, before.ply + 1)
            assert board.area_score() == game.area_score_black()


def test_area_and_territory_with_dead_stones() -> None:
    diagram = """
    . X O . .
    X X O . O
    . X O O .
    . X O . X
    O X O . .
    """
    game = from_diagram(diagram, BLACK, komi=0.5)
    dead = [Point(4, 0), Point(3, 4)]
    assert game.area_score_black() == (7 + 1) - (8 + 3)  # A2 and A3 touch both colours, so do the points beside E2
    assert game.area_score_black(dead) == (6 + 4) - (7 + 8)
    assert [game.territory_score_black(dead[:n]) for n in (1, 2)] == [(4 + 1) - 3, (4 + 1) - (8 + 1)]
    assert game.score_black(dead) == -5.5
    taken = from_diagram(diagram, BLACK, komi=0.5, scoring="territory")
    assert taken.score_black(dead) == -4.5


def test_captures_count_as_prisoners_and_an_empty_board_is_nobodys() -> None:
    game = play_all(GameState.new(Rules(size=3, scoring="territory", komi=0)), "A2 A3 B3")
    assert game.captures == {BLACK: 1, WHITE: 0}
    assert game.territory_score_black() == 7 + 1
    assert GameState.new(Rules(size=5)).area_score_black() == 0 == GameState.new(Rules(size=5)).territory_score_black()


def test_free_and_impossible_handicap() -> None:
    for size, handicap in [(19, 1), (19, 10), (9, -1), (8, 5), (7, 5), (6, 2), (1, 2)]:
        with pytest.raises(InputError, match=f"handicap: {handicap} stones on {size}x{size}; "):
            coords.fixed_handicap(size, handicap)
    game = GameState.new(Rules(size=3), handicap=[Point(0, 0), Point(1, 1)])
    assert show(game.stones()).split() == ["X..", ".X.", "..."] and game.to_play is WHITE
    every = [Point(row, column) for row in range(3) for column in range(3)]
    for points in (every, [Point(0, 0)], [Point(0, 0), Point(0, 0)], [Point(0, 0), Point(0, 3)]):
        with pytest.raises(InputError, match="allowed are 0 and 2 to 8"):
            GameState.new(Rules(size=3), handicap=points)
    assert GameState.new(Rules(size=3), handicap=[]).to_play is BLACK


@pytest.mark.parametrize("stones", [[[0, 0], [0]], [[0]], [[0, 3], [0, 0]], [[1, 1], [1, 1]], [[1, 2], [2, 0]]])
def test_bad_stones_are_refused(stones: list[list[int]]) -> None:
    with pytest.raises(InputError, match="stones: "):
        GameState.from_stones(stones, BLACK, Rules(size=2))
