"""Game records: what sgfmill reads back from the files, what the world writes, what is refused; their positions: replay
by the plain rules, and batches against it."""

import json
from pathlib import Path

import pytest
import torch
from boards import random_games
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sgfmill.sgf import Sgf_game
from tables import tables

from zerogo import board, sgf
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.rules import SCORING, SUPERKO, Rules, coords, rulesets
from zerogo.sgf import Edit, GameRecord, Remark, positions, read_text, replay, to_text

TABLES, NO_REMARKS = tables("sgf"), [Remark(), Remark()]


def by_sgfmill(record: GameRecord) -> Sgf_game:
    return Sgf_game.from_string(to_text(record))


def test_winrates_and_scores_make_graphs() -> None:
    remarks = [(None, 0.525, 0.75, 600), ("mine", 0.1, -3.0, 8), (None, None, 2.0), (None, 1.0)]
    record = GameRecord(Rules(5), [0, 1, 2, 3], remarks=[Remark(*remark) for remark in remarks])
    nodes, remarks = by_sgfmill(record).get_main_sequence()[1:], TABLES["written remarks"]
    found = [[node.get_raw(name).decode() if node.has_property(name) else "" for node in nodes] for name in remarks]
    assert dict(zip(remarks, found, strict=True)) == remarks


@pytest.mark.parametrize(("rules", "fields", "there", "absent"), TABLES["the text of a file"])
def test_the_text_of_a_file(rules: dict, fields: dict, there: list[str], absent: list[str]) -> None:
    """A pass is the empty value; unnamed rules are written in full, komi without exponent, unknown dates not at all."""
    text = to_text(GameRecord(Rules(**rules), **{"moves": []} | fields))
    assert all(part in text for part in there) and not any(part in text for part in absent), text


@pytest.mark.parametrize(("fields", "what"), TABLES["bad records"])
def test_bad_records_are_refused(fields: dict, what: str, tmp_path: Path) -> None:
    edits = [Edit(move, {int(point): stones[point] for point in stones}) for move, stones in fields.pop("edits", [])]
    with pytest.raises(InputError, match=what):
        sgf.write(tmp_path / "game.sgf", GameRecord(Rules(5), **fields, edits=edits))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("text", "num_states", "problem"), TABLES["problems of replay"])
def test_replay_says_what_is_wrong(text: str, num_states: int, problem: str | None) -> None:
    """Nothing is wrong with a game that goes on after two passes."""
    states, found = replay(read_text(f"(;SZ[5]KM[0]RU[Chinese]{text})"))
    assert len(states) == num_states
    assert found is None if problem is None else found.startswith(problem)


def test_a_game_may_not_be_endless(monkeypatch) -> None:
    monkeypatch.setattr("zerogo.sgf.record.MOST_MOVES", 2)
    assert replay(GameRecord(Rules(5), [0, 1, 2]))[1] == "move 3 is beyond the 2 moves that a game may have"


@pytest.mark.parametrize("superko", ["simple", "positional", "situational"])
def test_batches_are_the_same_positions(superko: str) -> None:
    """Stones, side to move, legal moves with superko, captures, passes: at every third move up to two passes."""
    rules = Rules(5, 7.0, superko, suicide=superko == "situational")
    states, actions = zip(*random_games([rules] * 4, 58), strict=True)
    state, moves = states[-1], torch.stack(actions[:-1], dim=1)
    records = [GameRecord(rules, [*row[:ply], 25, 25]) for row, ply in zip(moves.tolist(), state.ply, strict=True)]
    asked = [(record, number) for record in records for number in range(0, len(record.moves) + 1, 3)]
    batch = positions(*zip(*asked, strict=True))
    legal = board.legal_actions(batch)
    for index, (record, number) in enumerate(asked):
        state = replay(record, number)[0][-1]
        assert batch.stones[index].tolist() == state.stones() and int(batch.to_play[index]) == state.to_play.value
        assert bool(batch.finished[index]) == state.is_over and int(batch.passes[index]) == state.passes
        if not state.is_over:
            assert legal[index].nonzero().flatten().tolist() == [move.action(5) for move in state.legal_moves()]
        assert batch.captures[index].tolist() == [state.captures[Colour.BLACK], state.captures[Colour.WHITE]]


def test_stones_that_are_set_up_in_the_middle() -> None:
    record = read_text("(;SZ[5]KM[0]RU[Chinese];B[aa];AW[bb]AE[aa]PL[B];AB[cc];PL[B]B[dd];W[ee];AE[ee];PL[W])")
    assert record.edits == [Edit(1, {6: 2, 0: 0, 12: 1}, "b"), Edit(3, {24: 0}, "w")]
    assert record.moves == [0, 18, 24] and record.turns() == ["b", "b", "w"]

    record = read_text("(;SZ[3]KM[0]RU[Chinese];B[aa]C[x];W[bb];AE[aa]AB[cc];B[ac]C[y];W[ca];AW[ba])")
    states, problem = replay(record)
    assert problem is None and states[2].stones() == [[0, 0, 0], [0, 2, 0], [0, 0, 1]] and len(states[2].history) == 2
    assert states[-1].stones() == [[0, 2, 2], [0, 2, 0], [1, 0, 1]]
    part = sgf.since_edit(record, 3)
    assert (part.moves, part.setup, part.remarks) == ([6], states[2].stones(), [Remark("y")])
    assert part.first == "b" and part.edits == []
    assert sgf.since_edit(record, 1).moves == [0] and sgf.since_edit(record, 1).setup is None
    batch = positions([record] * 5, range(5))
    assert batch.stones.tolist() == [state.stones() for state in states] and batch.to_play.tolist() == [1, 2, 1, 2, 1]

    record = GameRecord(Rules(5), [0, 0, 1], edits=[Edit(2, {5: 1})])
    with pytest.raises(InputError, match="SGF: move 2, white A5, is illegal"):
        sgf.since_edit(record)
    assert sgf.since_edit(record, 1).moves == [0]


def test_what_positions_refuses() -> None:
    good, bad = GameRecord(Rules(5), [0, 1]), GameRecord(Rules(5), [0, 0])
    assert positions([good, bad], [2, 1]).stones.shape == (2, 5, 5)
    refused = [([good, bad], [2, 2], "record 1: move 2, white A5, is illegal: occupied"), ([], [], "0 records")]
    refused += [([good], [number], "record 0: SGF: the .* allowed are 0 to 2") for number in (-1, 3)]
    for records, numbers, what in [*refused, ([good], [1, 2], "1 records and 2 move")]:
        with pytest.raises(InputError, match=what):
            positions(records, numbers)


DATA = Path(__file__).parent / "data" / "sgf"
KGS, FOX = ((DATA / name).read_text("utf-8") for name in ("kgs.sgf", "fox.sgf"))
BROKEN = json.loads((DATA / "broken.json").read_text())  # a file, its bytes as Latin-1, and what is said of it


def points(text: str, size: int) -> list[int]:
    return [coords.from_gtp(word, size) for word in text.split()]


def test_games_of_kgs_and_fox() -> None:
    record = read_text(KGS)
    assert record.rules == rulesets.named("japanese", 19, 0.5) and record.notes == []
    assert sorted(record.handicap) == sorted(points("D4 Q16", 19)) and record.setup is None and record.first == "w"
    assert record.moves == points("D16 Q4 C14", 19) and record.turns() == ["w", "b", "w"] and record.colours is None
    assert (record.black, record.white, record.result, record.date) == ("black", "white", "W+Resign", "2011-01-02")
    assert record.comment == "white [3d]: hi\nblack [1d]: hi\n" and record.remarks == [*NO_REMARKS, Remark("first")]
    assert record.properties.items() >= {"OT": "5x30 byo-yomi", "TM": "1800", "BR": "1d"}.items()

    record = read_text(FOX)
    assert record.rules == rulesets.named("chinese", 19, 7.5) and record.properties["BR"] == "7级"
    assert record.notes == ["KM is 375, hundredths of a stone; the komi is assumed to be 7.5 points"]


def test_variations(tmp_path: Path) -> None:
    (tmp_path / "game.sgf").write_text(KGS)
    lines = sgf.variations(tmp_path / "game.sgf")
    assert [line.remarks for line in lines] == [[*NO_REMARKS, Remark(text)] for text in ("first", "second")]
    assert lines[0] == sgf.read(tmp_path / "game.sgf") and lines[1].moves[-1] == 361
    (tmp_path / "deep.sgf").write_text("(;SZ[9]KM[7](;B[aa](;W[bb];B[cc])(;W[dd]))(;B[ee])(;B[ff](;W[gg])))")
    assert [[coords.to_sgf(move, 9) for move in line.moves] for line in sgf.variations(tmp_path / "deep.sgf")] == [
        ["aa", "bb", "cc"], ["aa", "dd"], ["ee"], ["ff", "gg"],
    ]  # fmt: skip


@pytest.mark.parametrize("row", (DATA / "starts.txt").read_text().splitlines())
def test_starts(row: str) -> None:
    start, handicap, setup, first = (word.strip() for word in row.split("|")[:4])
    record, stones = read_text(f"(;SZ[9]KM[0]RU[Chinese]{start})"), points(setup, 9)
    assert sorted(record.handicap) == sorted(points(handicap, 9)) and record.first == first
    rows = [[int(row * 9 + column in stones) for column in range(9)] for row in range(9)]
    assert record.setup == (rows if stones else None)


@pytest.mark.parametrize(("text", "expected"), TABLES["what is read"])
def test_what_is_read(text: str, expected: dict) -> None:
    """Passes and points, sizes, komi, old names of properties, values over lines with escapes, a setup."""
    record = read_text(f"(;{text})")
    fields = vars(record) | vars(record.rules)
    assert json.loads(json.dumps({name: fields[name] for name in expected})) == expected


def test_utf8_wins_over_a_wrong_name_and_other_rules_are_told() -> None:
    assert read_text(b"(;SZ[9]KM[0]CA[UTF-8]PB[" + "囲碁".encode()[:-1] + b"];B[ee])").moves == [40]
    assert read_text("(;CA[GB2312]PB[徐嘉泽 对 陈俊升])".encode()).black == "徐嘉泽 对 陈俊升"
    for name in ("JOSÉ", "JOÃO", "BÅ", "the players’"):  # with a letter or bracket, one of GBK, Big5 or Shift-JIS
        record = read_text(f"(;SZ[9]KM[0]PB[{name}]PW[ANA];B[ee])".encode("cp1252"))
        assert (record.black, record.white) == (name, "ANA")
    record = read_text("(;SZ[9]RU[koSIMPLEscoreAREAtaxNONEsui0whbN-1])")
    assert record.rules == rulesets.named("chinese", 9, 0.0) and "bonus for handicap stones is not" in record.notes[-1]


@pytest.mark.parametrize(("text", "name"), TABLES["rules"])
def test_rules(text: str, name: str) -> None:
    record = read_text(f"(;SZ[9]KM[6]RU[{text}])")
    assert record.rules == rulesets.named(name, 9, 6.0)
    assert bool(record.notes) == (text in ("", "Nim", '{"tax":"ALL"}'))
    again = read_text(to_text(record))
    assert again == record and (not text or f"RU[{text}]" in to_text(record))


NAMES = json.loads((DATA / "names.json").read_text())  # a text for each encoding
ENCODED = [(encoding, f"CA[{encoding}]", NAMES[encoding]) for encoding in NAMES]
for name in ("gb18030", "big5", "cp932", "euc_jp", "euc_kr", "iso8859-1", "utf-8"):  # which the file does not name
    ENCODED += [(name, charset, NAMES[name]) for charset in ("", "CA[UTF-8]", "CA[nonsense]", "CA[rot13]", "CA[]")]
for name in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"):  # with byte order marks
    ENCODED += [(name, charset, "囲碁 Ü") for charset in ("", "CA[UTF-8]", "CA[GB2312]", f"CA[{name}]")]


@pytest.mark.parametrize(("encoding", "charset", "name"), ENCODED)
def test_encodings(encoding: str, charset: str, name: str) -> None:
    """The names hold characters whose second byte is a bracket or a backslash."""
    record = read_text(f"(;SZ[9]KM[0]{charset}PB[{name}]C[{name}];B[ee])".encode(encoding))
    assert record.black == name and record.moves == [40]


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_get_one_sentence(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"{kind}.sgf"
    path.write_bytes(BROKEN[kind]["file"].encode("latin-1"))
    for reader in (sgf.read, sgf.variations):
        with pytest.raises(InputError, match=BROKEN[kind]["sentence"]) as caught:
            reader(path)
        sentence = str(caught.value)
        assert sentence.startswith(str(path)) and "\n" not in sentence and len(sentence) < 300 + len(str(path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    bad = {"No such file": tmp_path / "none.sgf", "it is a folder": tmp_path, "null (byte|char)": Path("a\0b")}
    for what, path in bad.items():
        with pytest.raises(InputError, match=f"cannot read the game record .*{what}"):
            sgf.read(path)


def test_ten_thousand_variations_within_each_other(tmp_path: Path) -> None:
    path = tmp_path / "deep.sgf"
    path.write_bytes(b"(;SZ[9]KM[7]" + b"(;B[aa]" * 10_000 + b")" * 10_001)
    assert len(sgf.read(path).moves) == 10_000 and len(sgf.variations(path)) == 1
    path.write_bytes(b"(;SZ[9]KM[7]" + b"(;B[aa]" * 10_000)
    with pytest.raises(InputError, match="cut off"):
        sgf.read(path)


GOOD = [path.read_bytes() for path in sorted(DATA.glob("*.sgf"))]
pieces = st.binary(max_size=6) | st.sampled_from([b"[", b"]", b"(", b")", b";", b"\\"])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.sampled_from(GOOD), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 12), pieces), max_size=6))
@example(base=b"(;SZ[\xe0])", cuts=[])
@example(base=b"(;CA[idna];B[aa])\xff", cuts=[])
@example(base=b"(;CA[unicode_escape]PB[\\x]\xff)", cuts=[])
@example(base=b"(;CA[undefined]\xff)", cuts=[])
@example(base="(;SZ[９]KM[７]HA[²])".encode(), cuts=[])
def test_mutations_raise_nothing_else(base: bytes, cuts: list[tuple[int, int, bytes]]) -> None:
    """A file with pieces replaced is read or refused; what is read can be replayed, written and read again."""
    for start, length, piece in cuts:
        base = base[:start] + piece + base[start + length :]
    try:
        record = read_text(base)
    except InputError as error:
        assert "\n" not in str(error)
        return
    replay(record)
    assert read_text(to_text(record)) == read_text(to_text(read_text(to_text(record))))


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=20).map(str.strip)


@st.composite
def game_records(draw: st.DrawFn) -> GameRecord:
    """Any record that a file can hold."""
    size = draw(st.integers(1, 25))
    komi, superko = draw(st.integers(-100, 100)) / 2, draw(st.sampled_from(SUPERKO))
    rules = Rules(size, komi, superko, draw(st.booleans()), draw(st.sampled_from(SCORING)))
    moves = draw(st.lists(st.integers(0, size * size), max_size=12))
    first = draw(st.sampled_from("bw"))
    result = draw(st.sampled_from(["B+3.5", "W+R", "0", "?"]))
    record = GameRecord(rules, moves, result, "Black", draw(texts) or "White", first=first)
    if moves and draw(st.booleans()):
        colours = draw(st.lists(st.sampled_from("bw"), min_size=len(moves), max_size=len(moves)))
        record = GameRecord(rules, moves, first=first, colours=colours)
    record.event, record.round, record.date = draw(texts), draw(texts), draw(st.sampled_from([None, "2024-02-29"]))
    record.comment = draw(texts)
    shares, scores = st.integers(0, 10_000).map(lambda n: n / 10_000), st.integers(-9999, 9999).map(lambda n: n / 100)
    remarks = st.builds(Remark, st.none() | texts.filter(bool), st.none() | shares, scores, st.none())
    record.remarks = draw(st.lists(remarks, max_size=len(moves)))
    places = draw(st.lists(st.integers(0, size * size - 1), max_size=6, unique=True))
    if draw(st.booleans()) and 1 < len(places) < size * size:
        record.handicap, record.first, record.colours = places, "w", None
    elif places and draw(st.booleans()):
        record.setup = [[0] * size for _ in range(size)]
        for place in places:
            record.setup[place // size][place % size] = 2
    if moves and places and draw(st.booleans()):
        stones = dict.fromkeys(places, draw(st.integers(0, 2)))
        record.edits = [Edit(draw(st.integers(1, len(moves))), stones, draw(st.sampled_from(["", "b", "w"])))]
    record.properties = {"GN": draw(texts)} if draw(st.booleans()) else {}
    return record


@settings(max_examples=150, deadline=None, derandomize=True)
@given(record=game_records())
def test_what_is_written_comes_back(record: GameRecord) -> None:
    """By this reader all of it, by sgfmill's the board, its stones and the moves."""
    again, game = read_text(to_text(record)), by_sgfmill(record)
    record.properties = {name: value for name, value in record.properties.items() if value}
    assert again == GameRecord(**vars(record)) and again.notes == []
    root, size = game.get_root(), record.rules.size
    told = {"PB": record.black, "PW": record.white, "RE": record.result, "EV": record.event, "RO": record.round}
    told |= {"C": record.comment, "FF": 4, "GM": 1, "CA": "UTF-8"} | record.properties
    assert {name: root.get(name) if root.has_property(name) else "" for name in told} == told
    assert (game.get_size(), root.get("KM")) == (size, record.rules.komi)
    moves = [node.get_move() for node in game.get_main_sequence() if node.get_move()[0]]
    points = [None if point is None else (size - 1 - point[0]) * size + point[1] for _, point in moves]
    assert [colour for colour, _ in moves] == record.turns()
    assert points == [None if action == size * size else action for action in record.moves]
    stones = record.start() or [[0] * size for _ in range(size)]
    for colour, places in enumerate(root.get_setup_stones()[:2], start=1):
        expected = {(size - 1 - r, c) for r in range(size) for c in range(size) if stones[r][c] == colour}
        assert places == expected
    has_handicap = len(record.handicap) > 1
    assert (root.get("HA") if root.has_property("HA") else 0) == (len(record.handicap) if has_handicap else 0)
