"""Game records: what sgfmill reads back from the files, and what is refused. Their positions: replay by the plain
rules, and batches against it."""

import random
from pathlib import Path

import pytest
import torch
from sgfmill.sgf import Sgf_game
from tables import tables

from zerogo import board, coords, sgf
from zerogo.errors import InputError
from zerogo.game import Colour, GameState, Move
from zerogo.rules import Rules
from zerogo.sgf import Edit, GameRecord, positions, read_text, replay, result_text, rules_text, since_edit, to_text

TABLES = tables("sgf")


def read(record: GameRecord) -> Sgf_game:
    return Sgf_game.from_string(to_text(record))


def read_moves(game: Sgf_game, size: int) -> list[tuple[str, int]]:
    """Returns (colour, action) of the main line, through coords and not through the module's own conversion."""
    found = []
    for node in game.get_main_sequence()[1:]:
        colour, _ = node.get_move()
        found.append((colour, coords.from_sgf(node.get_raw(colour.upper()).decode(), size)))
    return found


@pytest.mark.parametrize("size", [1, 5, 9, 19, 20, 25])
def test_moves_and_passes_come_back(size: int) -> None:
    moves = [*range(0, size * size, 3), size * size, size * size - 1, size * size, size * size]
    game = read(GameRecord(Rules(size), moves))
    assert game.get_size() == size
    assert read_moves(game, size) == [("bw"[k % 2], move) for k, move in enumerate(moves)]


def test_root_properties() -> None:
    names = ("zero ] \\ one", "Weiß")
    match = {"event": "cup", "round": "3", "date": "2024-02-29", "comment": "hi"}
    root = read(GameRecord(Rules(9, komi=7.5), [40], "B+R", *names, **match)).get_root()
    assert [root.get(name) for name in ("FF", "GM", "CA", "SZ", "KM")] == [4, 1, "UTF-8", 9, 7.5]
    assert [root.get(name) for name in ("PB", "PW", "RE", "DT")] == [*names, "B+R", "2024-02-29"]
    assert [root.get(name) for name in ("EV", "RO", "C")] == ["cup", "3", "hi"] and root.get("AP")[0] == "zerogo"
    assert not root.has_property("HA") and not root.has_property("PL")
    more = read(GameRecord(Rules(5), [], properties={"GN": "final", "RU": "AGA"})).get_root()
    assert (more.get("GN"), more.get("RU")) == ("final", "AGA")


def test_komi_is_always_written_and_today_is_the_date() -> None:
    root = read(GameRecord(Rules(9, komi=0.0), [])).get_root()
    assert root.get("KM") == 0.0 and root.get("RE") == "?"
    assert len(root.get("DT")) == len("YYYY-MM-DD")


def test_handicap_stones_and_white_first() -> None:
    game = read(GameRecord(Rules(9), [40], handicap=[24, 56], first="w"))
    root = game.get_root()
    assert root.get("HA") == 2 and root.get("PL") == "w"
    assert set(root.get("AB")) == {(8 - row, column) for row, column in (coords.row_col(24, 9), coords.row_col(56, 9))}
    assert read_moves(game, 9) == [("w", 40)]
    single = read(GameRecord(Rules(9), [40], handicap=[24], first="w")).get_root()
    assert not single.has_property("HA") and len(single.get("AB")) == 1  # FF[4] knows no HA[1]


def test_comments_belong_to_their_moves() -> None:
    nodes = read(GameRecord(Rules(5), [0, 1, 2], comments=[None, "0.5 ] \\ a:b\nsecond line"])).get_main_sequence()
    assert [node.has_property("C") for node in nodes] == [False, False, True, False]
    assert nodes[2].get("C") == "0.5 ] \\ a:b\nsecond line"


def test_colours_that_do_not_alternate() -> None:
    game = read(GameRecord(Rules(9), [40, 41, 42], colours=["b", "b", "w"]))
    assert read_moves(game, 9) == [("b", 40), ("b", 41), ("w", 42)]
    assert GameRecord(Rules(9), [40, 41], colours=["b", "w"]) == GameRecord(Rules(9), [40, 41])
    assert GameRecord(Rules(9), [40, 41], first="w").turns() == ["w", "b"]


def test_a_setup_and_edits() -> None:
    setup = [[1, 2, 0], [0, 0, 0], [0, 0, 2]]
    record = GameRecord(Rules(3), [4, 6], setup=setup, first="w", edits=[Edit(1, {8: 0, 7: 1}, "b"), Edit(2, {2: 2})])
    nodes = read(record).get_main_sequence()
    assert nodes[0].get_setup_stones() == ({(2, 0)}, {(0, 2), (2, 1)}, set())
    assert nodes[0].get("PL") == "w" and [node.get_move()[0] for node in nodes] == [None, "w", None, "b", None]
    assert nodes[2].get_setup_stones() == ({(0, 1)}, set(), {(0, 2)}) and nodes[2].get("PL") == "b"
    assert nodes[4].get_setup_stones() == (set(), {(2, 2)}, set())


def test_winrates_and_scores_make_graphs() -> None:
    record = GameRecord(Rules(5), [0, 1, 2, 3], comments=[None, "mine"], visits=[600, 8])
    record.winrates_black, record.scores_black = [0.525, 0.1, None, 1.0], [0.75, -3.0, 2.0]
    nodes = read(record).get_main_sequence()[1:]
    found = [[node.get_raw(name).decode() if node.has_property(name) else "" for node in nodes] for name in WRITTEN]
    assert dict(zip(WRITTEN, found, strict=True)) == WRITTEN


WRITTEN = {
    "SBKV": ["52.50", "10.00", "", "100.00"],
    "SBKS": ["0.75", "-3.00", "2.00", ""],
    "C": ["0.47 0.53 0.00 -0.8 v=600", "mine", "", "0.00 1.00 0.00 0.0"],
}


def test_the_text_of_a_file() -> None:
    """A pass is the empty value; rules that no word names are written in full, komi never with an exponent, and an
    unknown date is not today's."""
    assert ";B[];W[])" in to_text(GameRecord(Rules(9), [81, 81]))
    assert "ZGRU" not in to_text(GameRecord(Rules(5, 7.5, "simple"), []))  # RU[Chinese] says it all
    text = to_text(GameRecord(Rules(5), []))
    assert "RU[Chinese]" in text and '"ko":"POSITIONAL"' in text
    assert "ZGRU" not in to_text(GameRecord(Rules(5, 7.5, "situational"), [], properties={"RU": "AGA"}))
    for komi, shown in ((1e-7, "KM[0.0000001]"), (-3.5, "KM[-3.5]")):
        assert shown in to_text(GameRecord(Rules(5, komi), []))
    assert "DT[" not in to_text(GameRecord(Rules(5), [], date=None))


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write the game record"):
        sgf.write(tmp_path / "missing" / "game.sgf", GameRecord(Rules(5), []))


def test_names_of_rules_and_results() -> None:
    assert rules_text(Rules()) == "Chinese"
    assert rules_text(Rules(suicide=True)) == "Tromp-Taylor"
    assert rules_text(Rules(scoring="territory")) == "Japanese"
    assert [result_text(score) for score in (3.5, -2.0, 0.0, 360.5)] == ["B+3.5", "W+2", "0", "B+360.5"]
    assert [result_text(score, by_resignation=True) for score in (1.0, -1.0)] == ["B+R", "W+R"]


@pytest.mark.parametrize(("fields", "what"), TABLES["bad records"])
def test_bad_records_are_refused(fields: dict, what: str, tmp_path: Path) -> None:
    edits = [Edit(move, {int(point): stones[point] for point in stones}) for move, stones in fields.pop("edits", [])]
    with pytest.raises(InputError, match=what):
        sgf.write(tmp_path / "game.sgf", GameRecord(Rules(5), **fields, edits=edits))
    assert not list(tmp_path.iterdir())


def test_write_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "game.sgf"
    path.write_text("x" * 10_000)
    sgf.write(path, GameRecord(Rules(5), [12], comments=["ü"]))
    game = Sgf_game.from_bytes(path.read_bytes())
    assert read_moves(game, 5) == [("b", 12)] and game.get_last_node().get("C") == "ü"
    assert [entry.name for entry in tmp_path.iterdir()] == ["game.sgf"]


def random_record(seed: int, size: int, plies: int, rules: Rules | None = None) -> GameRecord:
    """Returns a game of random legal moves, some of them passes."""
    draw = random.Random(seed)
    rules = rules or Rules(size)
    state, moves = GameState.new(rules), []
    while len(moves) < plies and not state.is_over:
        legal = state.legal_moves()
        move = draw.choice(legal[:-1] or legal) if draw.random() < 0.95 else legal[-1]
        moves.append(move.action(size))
        state = state.play(move)
    return GameRecord(rules, moves)


def test_replay_gives_every_state() -> None:
    record = random_record(3, 5, 40)
    states, problem = replay(record)
    assert problem is None and len(states) == len(record.moves) + 1
    state = GameState.new(record.rules)
    for number, action in enumerate(record.moves):
        assert states[number].stones() == state.stones() and states[number].history == state.history
        state = state.play(Move.from_action(action, 5))
    assert states[-1].stones() == state.stones() and states[-1].captures == state.captures
    assert len(replay(record, 7)[0]) == 8


@pytest.mark.parametrize(("text", "num_states", "problem"), TABLES["problems of replay"])
def test_replay_says_what_is_wrong(text: str, num_states: int, problem: str | None) -> None:
    """Nothing is wrong with a game that goes on after two passes."""
    states, found = replay(read_text(f"(;SZ[5]KM[0]RU[Chinese]{text})"))
    assert len(states) == num_states
    assert found is None if problem is None else found.startswith(problem)


# Send two, return one; the earlier position had White to move.
SEND_TWO = "b A2,w C2,b E5,w D1,b E6,w B1,b B2,w A1,b C1,w B1"
SEND_TWO_BLACK = "b A2,w C2,b B2,w D1,b E6,w B1,b pass,w A1,b C1,w B1"  # the same, but it had Black to move


SUPERKO = {"chinese": (True, True), "tromp-taylor": (False, False), "aga": (True, False)}


@pytest.mark.parametrize(("rules", "legal"), SUPERKO.items())
def test_superko_is_that_of_the_rules(rules: str, legal: tuple[bool, bool]) -> None:
    """As GNU Go 3.8 says with --simple-ko, --positional-superko and --situational-superko."""
    for sequence, is_legal in zip((SEND_TWO, SEND_TWO_BLACK), legal, strict=True):
        moves = [word.split() for word in sequence.split(",")]
        text = "".join(f";{colour.upper()}[{coords.to_sgf(coords.from_gtp(vertex, 9), 9)}]" for colour, vertex in moves)
        problem = replay(read_text(f"(;SZ[9]KM[0]RU[{rules}]{text})"))[1]
        assert (problem is None) == is_legal
        assert is_legal or problem.startswith("move 10, white B1, is illegal: superko")


def test_two_moves_in_a_row() -> None:
    states, problem = replay(read_text("(;SZ[5]KM[0]RU[Chinese];B[aa];B[bb];B[cc];W[dd];W[ee])"))
    assert problem is None and [state.to_play for state in states[1:]] == [Colour.WHITE] * 3 + [Colour.BLACK] * 2
    assert sum(map(sum, states[-1].stones())) == 3 + 2 * 2


@pytest.mark.parametrize("superko", ["simple", "positional", "situational"])
def test_batches_are_the_same_positions(superko: str) -> None:
    """Stones, side to move, legal moves (superko included), captures and passes, at every third move of games of
    several lengths."""
    rules = Rules(5, 7.0, superko, suicide=superko == "situational")
    records = [random_record(seed, 5, 60, rules) for seed in range(4)]
    asked = [(record, number) for record in records for number in range(0, len(record.moves) + 1, 3)]
    batch = positions(*zip(*asked, strict=True))
    legal = board.legal_actions(batch).tolist()
    for index, (record, number) in enumerate(asked):
        state = replay(record, number)[0][-1]
        assert batch.stones[index].tolist() == state.stones() and int(batch.to_play[index]) == state.to_play.value
        assert bool(batch.finished[index]) == state.is_over and int(batch.passes[index]) == state.passes
        if not state.is_over:
            assert legal[index] == state.legal_mask()
        assert batch.captures[index].tolist() == [state.captures[Colour.BLACK], state.captures[Colour.WHITE]]


def test_batches_of_different_boards() -> None:
    records = [random_record(1, 3, 6), random_record(2, 7, 30), GameRecord(Rules(5, 0.5), [0, 25], colours=["b", "b"])]
    batch = positions(records, [len(record.moves) for record in records])
    assert batch.board_size == 7
    for index, record in enumerate(records):
        size = record.rules.size
        assert batch.stones[index, :size, :size].tolist() == replay(record)[0][-1].stones()
        assert not batch.stones[index, size:].any() and not batch.stones[index, :, size:].any()
        assert batch.rules.at(index) == record.rules
    assert int(batch.to_play[2]) == board.WHITE


def test_the_side_to_move_is_the_records() -> None:
    record = read_text("(;SZ[5]KM[0]RU[Chinese]PL[W];B[aa];B[bb];AW[ee]PL[B])")
    batch = positions([record] * 3, [0, 1, 2])
    assert batch.to_play.tolist() == [board.BLACK, board.BLACK, board.BLACK]
    assert positions([GameRecord(Rules(5), [], first="w")], [0]).to_play.tolist() == [board.WHITE]


def test_edits() -> None:
    record = read_text("(;SZ[3]KM[0]RU[Chinese];B[aa]C[x];W[bb];AE[aa]AB[cc];B[ac]C[y];W[ca];AW[ba])")
    states, problem = replay(record)
    assert problem is None and states[2].stones() == [[0, 0, 0], [0, 2, 0], [0, 0, 1]] and len(states[2].history) == 1
    assert states[-1].stones() == [[0, 2, 2], [0, 2, 0], [1, 0, 1]]
    part = since_edit(record, 3)
    assert (part.moves, part.setup, part.comments) == ([6], states[2].stones(), ["y"])
    assert part.first == "b" and part.edits == []
    assert since_edit(record, 1).moves == [0] and since_edit(record, 1).setup is None
    batch = positions([record] * 5, range(5))
    assert batch.stones.tolist() == [state.stones() for state in states] and batch.to_play.tolist() == [1, 2, 1, 2, 1]


def test_edits_after_illegal_moves_are_refused() -> None:
    record = GameRecord(Rules(5), [0, 0, 1], edits=[Edit(2, {5: 1})])
    with pytest.raises(InputError, match="SGF: move 2, white A5, is illegal"):
        since_edit(record)
    assert since_edit(record, 1).moves == [0]


def test_what_positions_refuses() -> None:
    good, bad = GameRecord(Rules(5), [0, 1]), GameRecord(Rules(5), [0, 0])
    with pytest.raises(InputError, match="record 1: move 2, white A5, is illegal: occupied"):
        positions([good, bad], [2, 2])
    assert positions([good, bad], [2, 1]).stones.shape == (2, 5, 5)
    for records, numbers, what in (([], [], "0 records"), ([good], [1, 2], "1 records and 2 move")):
        with pytest.raises(InputError, match=what):
            positions(records, numbers)
    for number in (-1, 3):
        with pytest.raises(InputError, match="record 0: SGF: the .* allowed are 0 to 2"):
            positions([good], [number])


def test_positions_can_be_stepped_on_from() -> None:
    state = positions([GameRecord(Rules(5), [0, 1]), GameRecord(Rules(5), [12], first="w")], [2, 1])
    after = board.step(state, torch.tensor([coords.from_gtp("E5", 5), 25]))
    assert after.stones[0, 0].tolist() == [1, 2, 0, 0, 1] and after.stones[1, 2, 2] == 2
