"""What a file or a text from a stranger may take of this process, and what a message says of it."""

import contextlib
import os
import pickle
import re
import tracemalloc
import zipfile
from pathlib import Path

import gtp_talk
import numpy as np
import pytest

from zerogo import checkpoint, config, sgf
from zerogo.analysis.engine import AnalysisEngine
from zerogo.analysis.query import FIELDS, AnalysisSettings, parse, read_config
from zerogo.errors import InputError, quote
from zerogo.gtp.engine import COMMANDS
from zerogo.replay.shards import load_shard
from zerogo.system import bounds
from zerogo.system.runtime import MOST_OF_A_LINE

READERS = (sgf.read, config.load, read_config, checkpoint.load, load_shard)


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__module__)
def test_only_regular_files_are_opened(read, tmp_path: Path, monkeypatch) -> None:
    """A device has no end, and who opens a FIFO waits for a writer."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    opened, os_open = [], os.open
    monkeypatch.setattr(os, "open", lambda path, *flags, **more: opened.append(path) or os_open(path, *flags, **more))
    for path in ("/dev/zero", "/dev/tty", tmp_path / "fifo", tmp_path / "link", tmp_path):
        with pytest.raises(InputError, match="a regular file is needed"):
            read(path)
    assert not opened


@pytest.mark.parametrize("read", [sgf.read, config.load, read_config], ids=lambda read: read.__module__)
def test_a_huge_file_takes_no_more_memory_than_is_allowed(read, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sgf.files, "MOST_BYTES", 2**18)
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(InputError, match="has more than 262144 bytes, the limit for a "):
        read(tmp_path / "huge")
    assert peak_memory(lambda: read(tmp_path / "huge")) < 2 * 2**18


@pytest.mark.parametrize("read", [checkpoint.load, load_shard], ids=lambda read: read.__module__)
def test_an_archive_of_many_members_is_refused_before_they_are_listed(read, tmp_path: Path, monkeypatch) -> None:
    with zipfile.ZipFile(tmp_path / "many", "w") as archive:
        for number in range(25_000):
            archive.writestr(zipfile.ZipInfo(f"{number}.npy"), b"")
    monkeypatch.setattr(zipfile, "ZipInfo", None)  # what zipfile makes of each member
    with pytest.raises(InputError, match="many is refused: its list of members has more than 1048576 bytes"):
        read(tmp_path / "many")


@pytest.mark.parametrize(("value", "number"), [(pickle.EMPTY_LIST, 100_001), (pickle.NONE, 1_000_001)])
def test_a_small_pickle_of_many_values_is_refused_and_not_loaded(value, number, tmp_path: Path, monkeypatch) -> None:
    with zipfile.ZipFile(tmp_path / "lists.pt", "w") as archive:
        archive.writestr("lists/data.pkl", pickle.PROTO + b"\2" + number * value + pickle.STOP)
    monkeypatch.setattr(checkpoint.torch, "load", None)
    with pytest.raises(InputError, match="more than 1000000 plain values, or 100000 lists"):
        checkpoint.load(tmp_path / "lists.pt")


@pytest.mark.parametrize("text", ["[" * 90_000, b'{"a":' * 90_000, "[" + "1," * 100_000 + "1]"])
def test_nested_and_long_json_is_refused(text) -> None:
    with pytest.raises(ValueError, match="nested too deeply|more than 100000 values"):
        bounds.parse_json(text)


def peak_memory(call) -> int:
    """Returns how many bytes a call allocates at most at a time; it may refuse."""
    tracemalloc.start()
    try:
        with contextlib.suppress(InputError):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


WIDE = '"\N{GRINNING FACE}'
LINES = [WIDE + "a" * (2**18 - 9) + '"', WIDE + "a" * (2**20 - 9) + '"', "[" + "[],{}," * 4_000 + "1]"]
LINES += ["{" + ",".join(f'"{k}":{number}' for k in range(number)) + "}" for number in (14_900, 90_000)]


@pytest.mark.parametrize("line", LINES, ids=range(5))
def test_a_line_takes_twice_the_memory_that_it_may_have(line: str) -> None:
    engine = AnalysisEngine(gtp_talk.engine("mcts:4", "game.size=5").analyst, [].append)
    data = line.encode()
    assert peak_memory(lambda: engine.take(data)) < 2.5 * MOST_OF_A_LINE


@pytest.mark.parametrize("unit", [b"(;B[aa])", b";", b"[aa]", b"(;"])
def test_a_game_of_many_small_parts_is_refused_before_it_is_parsed(unit: bytes, monkeypatch) -> None:
    monkeypatch.setattr(sgf.files.sgf_grammar, "parse_sgf_game", None)
    number = sgf.files.MOST_TOKENS // len(re.findall(rb"[;()]|\[", unit)) + 1
    with pytest.raises(InputError, match="its first game has more than 300000 nodes"):
        sgf.read_text(b"(;SZ[9]AB[aa]" + unit * number + b")")


def test_a_long_text_is_not_copied_before_it_is_parsed(monkeypatch) -> None:
    monkeypatch.setattr(sgf.files, "MOST_BYTES", 2**22)
    plain, wide = b"(;SZ[9]C[" + b"x" * 2**22 + b"])", "(;SZ[9]C[\N{GRINNING FACE}".encode() + b"x" * 2**20 + b"])"
    assert peak_memory(lambda: sgf.files.parse(plain, "plain")) < 1.1 * 2**22
    with pytest.raises(InputError, match="not all of them ASCII; allowed are 1048576"):
        sgf.files.parse(wide, "wide")


def test_a_message_quotes_little() -> None:
    for value in ("A" * 10_000, ["long" * 100] * 100, {"k" * 1000: 1}, 10**2000, b"x" * 1000):
        assert len(quote(value)) <= 80
    assert quote("it's") == repr("it's")


def test_an_array_is_as_large_as_its_member(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive, archive.open("policy.npy", "w") as member:
        header = {"descr": "|i1", "fortran_order": False, "shape": (2**50,)}
        np.lib.format.write_array_header_1_0(member, header)
        member.write(b"\0" * 1000)
    with pytest.raises(InputError, match="an array.s header claims more than its 1128 bytes"):
        load_shard(tmp_path / "x.npz")


LONG = "A" * 3000
SENT = [LONG, f"b {LONG}", f"{LONG} 1", f"1 1 {LONG}", f"maxVisits {LONG}", f"fischer {LONG} 1", f"kgs none {LONG}"]
SENT += [f'{{"ko":"{LONG}"}}', f'{{"{LONG}":1}}', "[" * 3000, f"b 1 minmoves {LONG}", f"b 1 allow b {LONG} 1"]
VALUES = [LONG, [LONG], [["B", LONG]], {LONG: 1}, {"ko": LONG}, [{"moves": [LONG]}]]


def quotes_too_much(message: str) -> bool:
    return re.search(r"([A\[])\1{80}", message) is not None


def test_refusals_of_gtp_quote_little() -> None:
    talking = gtp_talk.engine("mcts:8", "game.size=5")
    replies = [gtp_talk.raw(talking, [f"{name} {words}"]) for name in COMMANDS if name != "quit" for words in SENT]
    refusals = [text for text in [*replies, *talking.said] if not text.startswith("=")]
    assert len(refusals) > 500
    assert not [text[:100] for text in refusals if "internal error" in text or quotes_too_much(text)]


def refusal(call, *arguments) -> str:
    try:
        call(*arguments)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("value", VALUES, ids=range(6))
def test_refusals_of_queries_and_configs_quote_little(value) -> None:
    query = {"id": "a", "boardXSize": 5, "boardYSize": 5}
    refusals = [refusal(parse, query | {field: value}, AnalysisSettings()) for field in FIELDS - {"id"}]
    for key in config.KEYS:
        section, name = key.split(".")
        refusals.append(refusal(config.from_dict, {section: {name: value}}))
        refusals.append(refusal(config.from_dict, {section: {LONG: value}, LONG: value}))
        refusals.append(refusal(config.load, None, [f"{key}={value}"]))
    refusals += [refusal(config.load, None, [text]) for text in (LONG, f"{LONG}=1", f"game.{LONG}=1")]
    assert len(list(filter(None, refusals))) > 100
    assert not [text[:100] for text in refusals if quotes_too_much(text)]
