"""GTP line by line: a scripted conversation for every command and every error; how clients write lines; what is said,
played, read and written."""

import io
import re
import sys
from dataclasses import replace
from pathlib import Path

import gtp_talk
import pytest
import tiny
from gtp_talk import ROOT, SCRIPTS, Talk, perform, raw, requests_of
from tables import tables

from zerogo import checkpoint, tuning
from zerogo.errors import InputError
from zerogo.gtp import __main__ as program
from zerogo.gtp.engine import COMMANDS
from zerogo.gtp.protocol import Input, Reply, Request, parse
from zerogo.system.runtime import TOO_LONG

TABLES = tables("gtp")
TESTED_ELSEWHERE = {"cputime", "gomill-cpu_time", "kata-search_cancellable"}


@pytest.fixture
def talk() -> Talk:
    engine = gtp_talk.engine("mcts:8", "game.size=5", "game.komi=7")
    engine.options.simulations = 8
    return Talk(engine)


@pytest.mark.parametrize("name", SCRIPTS)
def test_conversations(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is answered as the script says."""
    monkeypatch.chdir(tmp_path)
    assert perform(SCRIPTS[name]) == SCRIPTS[name]


def test_every_command_is_in_a_conversation() -> None:
    asked = {line.split()[0] for script in SCRIPTS.values() for line in requests_of(script)}
    others = {name for name, command in COMMANDS.items() if not command.needs_search}  # those are in test_gtp_analyze
    assert others - asked == TESTED_ELSEWHERE


@pytest.mark.parametrize(("line", "expected"), TABLES["parse"])
def test_parse(line: str, expected: list | None) -> None:
    """A line is an id, a command and its arguments, or nothing."""
    assert parse(line) == (expected and Request(*expected))


def test_a_line_without_end_is_refused(talk: Talk) -> None:
    assert raw(talk.engine, [TOO_LONG.decode(), "name"]).startswith("? this line had more than 1048576 bytes\n\n= ")


def test_a_reply_holds_no_blank_line() -> None:
    file = io.StringIO()
    Reply("3", file.write, Input([])).send("one\n\n \ntwo  \n")
    Reply("", file.write, Input([])).send("\nno\n", sign="?")
    assert file.getvalue() == "=3 one\ntwo\n\n?\nno\n\n"


def test_what_breaks_inside_is_refused_and_the_talk_goes_on(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that fails after its beginning is closed."""

    def broken(engine: object, stream: object = None) -> None:
        if stream is None:
            raise KeyError("lost")
        stream.begin()
        stream.line("info")
        raise InputError("late")

    for name, handler in {"undo": broken, "lz-analyze": broken, "kata-analyze": lambda engine, stream: None}.items():
        monkeypatch.setitem(COMMANDS, name, replace(COMMANDS[name], handler=handler))
    assert raw(talk.engine, "4 undo\n5 name") == "?4 internal error: KeyError\n\n=5 zerogo\n\n"
    assert len(talk.engine.said) == 1 and "internal error in undo: KeyError at" in talk.engine.said[0]
    assert raw(talk.engine, "4 lz-analyze\n5 kata-analyze\n6 name") == "=4\ninfo\n\n=5\n\n=6 zerogo\n\n"


def test_nothing_for_people_looks_like_a_reply(talk: Talk) -> None:
    talk.engine.warn("play = ? info\nhold -> it")
    assert talk.engine.said and not any(map(gtp_talk.looks_like_a_reply, "\n".join(talk.engine.said).splitlines()))


def test_games_of_a_match_differ() -> None:
    """Games of one network against itself used to be one game, as every process had the same seed."""
    words, said = ["--checkpoint", str(ROOT / gtp_talk.QUICKSTART), "--device", "cpu", "--simulations", "8"], []
    for _ in range(2):
        gtp_talk.make_engine(gtp_talk.parse(words), said.append)
    seeds = re.findall(r"random seed (\d+) ", "\n".join(said))
    assert len(set(seeds)) == len(seeds) == 2
    lines = ["genmove b", "genmove w", "genmove b", "clear_board", "genmove b", "genmove w", "genmove b"]
    of_seed = [raw(gtp_talk.engine(words[1], "--simulations", "8", "--seed", seed), lines) for seed in ("5", "5", "6")]
    assert of_seed[0] == of_seed[1] != of_seed[2]


def test_the_tree_is_kept_until_it_is_to_be_forgotten(talk: Talk) -> None:
    talk.value("kata-set-param maxVisits 40")
    talk.value("genmove b")
    session = talk.engine.session
    for line, is_kept in ((f"komi {talk.value('get_komi')}", True), ("clear_cache", False)):
        talk.value(line)
        session.set_position(talk.engine.game)
        assert (session.visits > 1) == is_kept, line


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a network that has learned nothing, for 3x3."""
    path = tmp_path_factory.mktemp("run") / "checkpoints" / "step-00000001.pt"
    checkpoint.save(path, tiny.fresh_checkpoint(tiny.config("evaluation.simulations=16", "game.random_komi_share=1")))
    return path


def test_a_run_s_folder_and_options(trained: Path) -> None:
    assert gtp_talk.engine(str(trained)).options.simulations == 16
    with pytest.raises(InputError, match="plays on 3x3 only; game.size is 9"):
        gtp_talk.engine(str(trained), "game.size=9")
    options = ("--simulations", "4", "--komi", "-2.5", "--rules", "japanese", "--leaves", "2")
    talk = Talk(gtp_talk.engine(str(trained.parent.parent), *options))
    engine = talk.engine
    assert (engine.options.simulations, engine.options.most_simulations, engine.game.rules.komi) == (4, 4, -2.5)
    assert engine.game.rules.scoring == "territory"
    assert engine.said[0].startswith("zerogo: zerogo's japanese rules differ")
    raw(engine, "komi 4.5\nkomi 15")
    told = [f"zerogo: komi is {komi}, but {engine.name} learned only komi from 0 to 14" for komi in (-2.5, 15)]
    assert [said.partition(" and may")[0] for said in engine.said if "learned" in said] == told
    assert engine.analyst.search.settings.leaves == 2 and "tiny" in talk.value("gogui-title")


def test_leaves_are_measured_where_that_is_asked_for(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "speed", lambda work, size, device: 1e3 * size)
    engine = gtp_talk.engine(str(trained), "--simulations", "32", "--leaves", "0")
    assert (engine.analyst.search.settings.leaves, engine.analyst.search.settings.algorithm) == (4, "puct")
    assert any(line.startswith("4 leaves of the tree in a step: ") for line in engine.said), engine.said


def talked_with(player: str, log: Path | str, text: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / "sent").write_bytes(text)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    with (folder / "sent").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        program.main(program.parse(f"--checkpoint {player} --device cpu game.size=5 --log {log}".split()))
    return sys.stdout.buffer.getvalue().decode()


def test_bytes_through_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """No text, half lines, an end during an analysis: it ends as it should, ids are answered, all is in its log."""
    sent = [f"{number} {line}" for number, line in enumerate(requests_of(SCRIPTS["moves"]))]
    noise = b"\xff\xfe # \x00\n# \x80\r\n\n\xc3 x\n"
    text = noise + "\n".join(sent).encode() + b"\n" + noise + b"77 showboard\n88 lz-analyze 1"
    monkeypatch.chdir(tmp_path)
    written, errors = talked_with("mcts:1", tmp_path / "log", text, tmp_path, monkeypatch), capsys.readouterr().err
    assert "GTP ready\n" in errors and "Traceback" not in errors and "internal error" not in errors
    assert (tmp_path / "log").read_text().count("\n< =77") == 1
    requests = list(filter(None, map(parse, text.decode("utf-8", "replace").split("\n"))))
    heads = [line for line in written.split("\n") if re.match(r"[=?]", line)]
    assert len(heads) == len(requests)
    assert all(re.match(rf"[=?]{request.id}(\D|$)", head) for request, head in zip(requests, heads, strict=True))
    assert written.endswith("\n\n") and "=77\n   A B C D E\n" in written


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_log_that_cannot_be_written_ends_no_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    assert talked_with("random", "/dev/full", b"1 name\n2 quit\n", tmp_path, monkeypatch) == "=1 zerogo\n\n=2\n\n"
    assert capsys.readouterr().err.count("cannot write the log /dev/full: No space left on device; it ends here") == 1
