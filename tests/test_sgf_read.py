"""Reading game records: what the world writes, what is broken, and that what is written comes back."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tables import tables

from zerogo import coords, rulesets
from zerogo.errors import InputError
from zerogo.rules import SCORING, SUPERKO, Rules
from zerogo.sgf import Edit, GameRecord, read, read_text, replay, to_text, variations, write

TABLES = tables("sgf")
DATA = Path(__file__).parent / "data" / "sgf"
KGS, FOX = ((DATA / name).read_text() for name in ("kgs.sgf", "fox.sgf"))
BROKEN = json.loads((DATA / "broken.json").read_text())  # a file, its bytes as Latin-1, and what is said of it


def points(text: str, size: int) -> list[int]:
    return [coords.from_gtp(word, size) for word in text.split()]


def test_a_game_of_kgs() -> None:
    record = read_text(KGS)
    assert record.rules == rulesets.named("japanese", 19, 0.5) and record.notes == []
    assert sorted(record.handicap) == sorted(points("D4 Q16", 19)) and record.setup is None and record.first == "w"
    assert record.moves == points("D16 Q4 C14", 19) and record.turns() == ["w", "b", "w"] and record.colours is None
    assert (record.black, record.white, record.result, record.date) == ("black", "white", "W+Resign", "2011-01-02")
    assert record.comment == "white [3d]: hi\nblack [1d]: hi\n" and record.comments == [None, None, "first"]
    assert record.properties.items() >= {"OT": "5x30 byo-yomi", "TM": "1800", "BR": "1d"}.items()


def test_a_game_of_fox() -> None:
    record = read_text(FOX)
    assert record.rules == rulesets.named("chinese", 19, 7.5) and record.properties["BR"] == "7级"
    assert record.notes == ["KM is 375, hundredths of a stone; the komi is taken to be 7.5 points"]


def test_variations(tmp_path: Path) -> None:
    (tmp_path / "game.sgf").write_text(KGS)
    lines = variations(tmp_path / "game.sgf")
    assert [line.comments for line in lines] == [[None, None, "first"], [None, None, "second"]]
    assert lines[0] == read(tmp_path / "game.sgf") and lines[1].moves[-1] == 361
    (tmp_path / "deep.sgf").write_text("(;SZ[9]KM[7](;B[aa](;W[bb];B[cc])(;W[dd]))(;B[ee])(;B[ff](;W[gg])))")
    assert [[coords.to_sgf(move, 9) for move in line.moves] for line in variations(tmp_path / "deep.sgf")] == [
        ["aa", "bb", "cc"], ["aa", "dd"], ["ee"], ["ff", "gg"],
    ]  # fmt: skip


@pytest.mark.parametrize("rest", [" and (;SZ[5]KM[0])\nthe end", "(;SZ[30])", "\n(;SZ[9];B[aa]\n\n"])
def test_of_a_collection_the_first_game_is_read(rest: str) -> None:
    assert read_text(f"a letter\n(;SZ[9]KM[7];B[aa]){rest}").moves == [0]


STARTS = (DATA / "starts.txt").read_text().splitlines()


@pytest.mark.parametrize("row", STARTS)
def test_starts(row: str) -> None:
    start, handicap, setup, first = (word.strip() for word in row.split("|")[:4])
    record, stones = read_text(f"(;SZ[9]KM[0]RU[Chinese]{start})"), points(setup, 9)
    assert sorted(record.handicap) == sorted(points(handicap, 9)) and record.first == first
    rows = [[int(row * 9 + column in stones) for column in range(9)] for row in range(9)]
    assert record.setup == (rows if stones else None)


def test_a_setup_of_both_colours() -> None:
    record = read_text("(;SZ[3]KM[0]RU[Chinese]AB[aa][bb]AW[cc]PL[W]HA[2];W[ca])")
    assert record.setup == [[1, 0, 0], [0, 1, 0], [0, 0, 2]] and record.first == "w" and record.handicap == []
    assert record.start() == record.setup


def test_setup_in_the_middle() -> None:
    record = read_text("(;SZ[5]KM[0]RU[Chinese];B[aa];AW[bb]AE[aa]PL[B];AB[cc];B[dd];W[ee];AE[ee])")
    assert record.edits == [Edit(1, {6: 2, 0: 0, 12: 1}, "b"), Edit(3, {24: 0})]
    assert record.moves == [0, 18, 24] and record.turns() == ["b", "b", "w"]


def test_moves_of_one_colour_and_both_in_a_node() -> None:
    record = read_text("(;SZ[5]KM[0]RU[Chinese]B[aa];B[bb];W[cc]B[dd])")
    assert record.moves == [0, 6, 12, 18] and record.colours == ["b", "b", "w", "b"]


@pytest.mark.parametrize(("move", "size", "action"), TABLES["passes and points"])
def test_passes_and_points(move: str, size: int, action: int | None) -> None:
    if action is None:
        with pytest.raises(InputError, match="move 1: Black plays on no point"):
            read_text(f"(;SZ[{size}];B[{move}])")
    else:
        assert read_text(f"(;SZ[{size}];B[{move}])").moves == [action]


@pytest.mark.parametrize(("text", "size"), TABLES["sizes"])
def test_sizes(text: str, size: int) -> None:
    assert read_text(f"(;{text})").rules.size == size


def test_old_property_names() -> None:
    record = read_text("(;GaMe[1]SiZe[9]KoMi[5.5]PlayerBlack[Anna]AddBlack[aa]AddWhite[bb];Black[cc];White[tt])")
    assert record.rules.komi == 5.5 and record.black == "Anna" and record.moves == [20, 81]


@pytest.mark.parametrize(("root", "komi"), TABLES["komi"])
def test_komi(root: str, komi: float) -> None:
    assert read_text(f"(;SZ[19]{root})").rules.komi == komi


@pytest.mark.parametrize(("text", "name"), TABLES["rules"])
def test_rules(text: str, name: str) -> None:
    record = read_text(f"(;SZ[9]KM[6]RU[{text}])")
    assert record.rules == rulesets.named(name, 9, 6.0)
    assert bool(record.notes) == (text in ("", "Nim", '{"tax":"ALL"}'))
    again = read_text(to_text(record))
    assert again == record and (not text or f"RU[{text}]" in to_text(record))


def test_values_over_lines_and_escapes() -> None:
    record = read_text("(;SZ[5]KM[0]PB[An\\\nna\n B]C[a \\] b \\\\ c: d\\\ne\tf\r\ng];B[aa]C[\\[x\\]])")
    assert record.black == "Anna  B" and record.comment == "a ] b \\ c: de f\ng" and record.comments == ["[x]"]


NAMES = json.loads((DATA / "names.json").read_text())  # a text for each encoding


@pytest.mark.parametrize("encoding", NAMES)
def test_encodings_that_the_file_names(encoding: str) -> None:
    """The names hold characters whose second byte is a bracket or a backslash."""
    data = f"(;SZ[9]KM[0]CA[{encoding}]PB[{NAMES[encoding]}]C[{NAMES[encoding]}];B[ee])".encode(encoding)
    record = read_text(data)
    assert record.black == NAMES[encoding] and record.moves == [40]


@pytest.mark.parametrize("encoding", ["gb18030", "big5", "cp932", "euc_jp", "euc_kr", "iso8859-1", "utf-8"])
@pytest.mark.parametrize("charset", ["", "CA[UTF-8]", "CA[nonsense]", "CA[rot13]", "CA[]"])
def test_encodings_that_the_file_does_not_name(encoding: str, charset: str) -> None:
    data = f"(;SZ[9]KM[0]{charset}PB[{NAMES[encoding]}]C[{NAMES[encoding]}];B[ee])".encode(encoding)
    assert read_text(data).black == NAMES[encoding]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_byte_order_marks(encoding: str) -> None:
    for charset in ("", "CA[UTF-8]", "CA[GB2312]", f"CA[{encoding}]"):
        assert read_text(f"(;SZ[9]KM[0]{charset}PB[囲碁 Ü];B[ee])".encode(encoding)).black == "囲碁 Ü"


def test_utf8_wins_over_a_wrong_name() -> None:
    assert read_text("(;CA[GB2312]PB[徐嘉泽 对 陈俊升])".encode()).black == "徐嘉泽 对 陈俊升"
    assert read_text("(;CA[ISO-8859-1]PB[Müller])".encode()).black == "Müller"


def test_half_a_character_is_no_reason_to_fail() -> None:
    cut = b"(;SZ[9]KM[0]CA[UTF-8]PB[" + "囲碁".encode()[:-1] + b"];B[ee])"
    assert read_text(cut).moves == [40]


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_get_one_sentence(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"{kind}.sgf"
    path.write_bytes(BROKEN[kind]["file"].encode("latin-1"))
    for reader in (read, variations):
        with pytest.raises(InputError, match=BROKEN[kind]["sentence"]) as caught:
            reader(path)
        sentence = str(caught.value)
        assert sentence.startswith(str(path)) and "\n" not in sentence and len(sentence) < 300 + len(str(path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    bad = {"No such file": tmp_path / "none.sgf", "Is a directory": tmp_path, "null byte": Path("a\0b")}
    for what, path in bad.items():
        with pytest.raises(InputError, match=f"cannot read the game record .*{what}"):
            read(path)


def test_files_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.sgf"
    path.write_bytes(b"(;SZ[9])" + b" " * 3_000_000)
    assert read(path).rules.size == 9
    monkeypatch.setattr("zerogo.sgf.tree.MOST_BYTES", 2**20)
    with pytest.raises(InputError, match="larger than 1 MiB"):
        read(path)


@pytest.mark.parametrize("filling", [b"x", b"\n", b"\\]", b"\\\\", b"\r\n", "囲碁".encode(), "围棋".encode("gbk")])
def test_a_comment_of_ten_megabytes(filling: bytes) -> None:
    size = 10_000_000 // len(filling)
    record = read_text(b"(;SZ[9]KM[7]C[" + filling * size + b"];B[ee])")
    assert record.moves == [40] and len(record.comment) >= size


def test_ten_thousand_variations_within_each_other(tmp_path: Path) -> None:
    path = tmp_path / "deep.sgf"
    path.write_bytes(b"(;SZ[9]KM[7]" + b"(;B[aa]" * 10_000 + b")" * 10_001)
    assert len(read(path).moves) == 10_000 and len(variations(path)) == 1
    path.write_bytes(b"(;SZ[9]KM[7]" + b"(;B[aa]" * 10_000)
    with pytest.raises(InputError, match="cut off"):
        read(path)


def test_more_lines_than_can_be_listed(tmp_path: Path) -> None:
    """Each level of nesting has a second line: 5,000 lines of up to 5,000 moves."""
    path = tmp_path / "comb.sgf"
    path.write_bytes(b"(;SZ[9]KM[7]" + b"(;B[aa]" * 5_000 + b"(;W[bb])" + b")(;B[cc])" * 5_000 + b")")
    with pytest.raises(InputError, match="all variations together have 12512502 nodes"):
        variations(path)
    assert len(read(path).moves) == 5_001


def test_illegal_moves_are_read_and_found_by_replay() -> None:
    record = read_text("(;SZ[9]KM[7]RU[Chinese];B[ee];W[ee];B[aa])")
    states, problem = replay(record)
    assert len(states) == 2 and problem == "move 2, white E5, is illegal: occupied: a stone stands on E5"


GOOD = (
    KGS.encode(),
    FOX.encode(),
    b"(;SZ[5]KM[0]RU[NZ]AB[aa:bb]AW[ee]PL[W];W[dd]SBKV[51.20]C[a\\]b];B[];AE[aa](;W[tt])(;W[ab]))",
)


pieces = st.binary(max_size=6) | st.sampled_from([b"[", b"]", b"(", b")", b";", b"\\"])


@settings(max_examples=300, deadline=None)
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


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="(;)[]\\BWACSZKMabt19:\n ﷐\ud800", max_size=60))
def test_arbitrary_texts_raise_nothing_else(text: str) -> None:
    try:
        read_text("(;" + text)
    except InputError:
        pass


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
    record.comments = [text or None for text in draw(st.lists(texts, max_size=len(moves)))] + ["x"] * (len(moves) > 0)
    record.comments = record.comments[-len(moves) :] if moves else []
    if draw(st.booleans()):
        record.winrates_black = [draw(st.integers(0, 10000)) / 10000 for _ in moves]
        record.scores_black = [draw(st.integers(-9999, 9999)) / 100 for _ in moves]
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


@settings(max_examples=150, deadline=None)
@given(record=game_records())
def test_what_is_written_comes_back(record: GameRecord) -> None:
    again = read_text(to_text(record))
    record.properties = {name: value for name, value in record.properties.items() if value}
    while record.comments and record.comments[-1] is None:
        record.comments.pop()
    assert again == GameRecord(**vars(record)) and again.notes == []


@settings(max_examples=100, deadline=None)
@given(record=game_records())
def test_an_independent_parser_reads_the_same(record: GameRecord) -> None:
    """Moves, stones, komi, size and result, by PyPI's `sgf`."""
    parser = pytest.importorskip("sgf", reason="PyPI's sgf is not installed; pip install -e '.[test]' brings it")
    size, (game,) = record.rules.size, parser.parse(to_text(record))
    root = game.root.properties
    assert (float(root["KM"][0]), int(root["SZ"][0]), root["RE"]) == (record.rules.komi, size, [record.result])
    nodes = [node.properties for node in game.rest or [] if "B" in node.properties or "W" in node.properties]
    found = [("b", node["B"][0]) if "B" in node else ("w", node["W"][0]) for node in nodes]
    assert found == list(zip(record.turns(), (coords.to_sgf(move, size) for move in record.moves), strict=True))
    stones = root.get("AB", []) + root.get("AW", [])
    start = sum(record.start(), [])
    assert sorted(stones) == sorted(coords.to_sgf(point, size) for point in range(size * size) if start[point])


def test_files_come_back(tmp_path: Path) -> None:
    record = GameRecord(Rules(9), [40, 41, 81], "B+R", "a ] b", "Weiß", date="2024-01-02", handicap=[20, 60], first="w")
    write(tmp_path / "game.sgf", record)
    assert read(tmp_path / "game.sgf") == record
