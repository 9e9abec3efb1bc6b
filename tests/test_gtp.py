"""GTP line by line: a scripted conversation for every command and every error; how clients write lines; what is said,
played, read and written."""

import io
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import gtp_talk
import pytest
import tiny
from gtp_talk import ROOT, SCRIPTS, Talk, raw, requests_of
from tables import tables

from zerogo import checkpoint, sgf, tuning
from zerogo.errors import InputError
from zerogo.gtp import __main__ as program
from zerogo.gtp.engine import COMMANDS
from zerogo.gtp.protocol import Input, Reply, Request, parse
from zerogo.system.runtime import TOO_LONG

TABLES = tables("gtp")
TESTED_ELSEWHERE = {"list_commands", "cputime", "gomill-cpu_time", "printsgf", "gogui-analyze_commands"}
TESTED_ELSEWHERE |= {"kata-search", "kata-search_cancellable"}


@pytest.fixture
def talk() -> Talk:
    engine = gtp_talk.engine("mcts:8", "game.size=5", "game.komi=7")
    engine.options.simulations = 8
    return Talk(engine)


@pytest.mark.parametrize("name", SCRIPTS)
def test_conversations(name: str, talk: Talk) -> None:
    """Each line is answered as the script says."""
    found = []
    for line in requests_of(SCRIPTS[name]):
        found += [f"> {line}", *(row.rstrip() for row in talk.ask(line).splitlines())]
    assert "\n".join(found) == SCRIPTS[name]


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
    def broken(engine: object) -> str:
        raise KeyError("lost")

    monkeypatch.setitem(COMMANDS, "undo", replace(COMMANDS["undo"], handler=broken))
    assert raw(talk.engine, "4 undo\n5 name") == "?4 internal error: KeyError\n\n=5 zerogo\n\n"
    assert len(talk.engine.said) == 1 and "internal error in undo: KeyError at" in talk.engine.said[0]


def test_a_stream_that_fails_after_its_beginning_is_closed(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(engine: object, stream: object) -> None:
        stream.begin()
        stream.line("info")
        raise InputError("late")

    monkeypatch.setitem(COMMANDS, "lz-analyze", replace(COMMANDS["lz-analyze"], handler=broken))
    nothing = replace(COMMANDS["kata-analyze"], handler=lambda engine, stream: None)
    monkeypatch.setitem(COMMANDS, "kata-analyze", nothing)
    assert raw(talk.engine, "4 lz-analyze\n5 kata-analyze\n6 name") == "=4\ninfo\n\n=5\n\n=6 zerogo\n\n"


def test_nothing_for_people_looks_like_a_reply(talk: Talk) -> None:
    """Lizzie merges stderr into stdout."""
    lines = "play b Z9, play b C3, play w C3, kata-set-rules japanese, boardsize 26, loadsgf none.sgf, nonsense"
    for line in [*lines.split(", "), "kata-analyze 1 what true"]:
        talk.ask(line)
    assert talk.engine.said[0] == "zerogo: white C3 is illegal: occupied: a stone stands on C3"
    talk.engine.warn("play = ? info\nhold -> it")
    rows = [row for text in talk.engine.said for row in text.splitlines()]
    assert rows and not any(row.startswith(("=", "?", "info", "play", "hold")) or " -> " in row for row in rows)


def test_rules_that_fall_short_of_their_name_say_so(talk: Talk) -> None:
    deviation = talk.value("kata-set-rules japanese")
    assert deviation.startswith("zerogo's japanese rules differ") and deviation in "".join(talk.engine.said)
    assert deviation in talk.value("showboard") and "japanese" in talk.value("gogui-title")
    assert talk.value("kgs-rules chinese").startswith("zerogo's chinese-kgs rules differ")
    talk.value("kata-set-rule suicide true")
    assert "differ" not in talk.value("showboard")


@pytest.mark.parametrize("player", ["mcts:8", "random"])
def test_it_plays_a_game_to_its_end(player: str) -> None:
    talk = Talk(gtp_talk.engine(player, "game.size=3", "game.komi=0.5", "--no-resign", "--seed", "3"))
    moves = []
    while moves[-2:] != ["pass", "pass"]:
        moves.append(talk.value(f"genmove {'bw'[len(moves) % 2]}"))
        assert len(moves) < 200
    assert talk.value("genmove b") == "pass"  # and also when it is over
    assert talk.value("genmove w") == "pass"
    played = talk.value("move_history").split("\n")[::-1]
    assert played[: len(moves)] == [f"{('black', 'white')[ply % 2]} {move}" for ply, move in enumerate(moves)]
    record = sgf.read_text(talk.value("printsgf"))
    assert len(record.moves) == len(moves) + 2 and record.result == talk.value("final_score")


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


def test_it_resigns_where_all_is_lost_and_it_may(talk: Talk) -> None:
    """On an open board on which White can't make up for the komi."""
    talk.value("komi -60")
    talk.value("gogui-play_sequence b C3 w D3 b C2 w D2 b B4 w D4 b B3 w C4 b B2 w pass b A1 w pass b C1 w pass b C5")
    talk.value("kata-set-param maxVisits 40")
    talk.value("cgos-opponent_name Anna")
    assert talk.value("genmove w") == "resign"
    assert talk.value("last_move") == "black C5"
    record = sgf.read_text(talk.value("printsgf"))
    assert (record.result, record.white, record.black) == ("B+R", "zerogo mcts:8", "Anna")
    assert "I gave Black" in talk.value("kgs-chat private anna hi")
    talk.value("undo")
    assert sgf.read_text(talk.value("printsgf")).result == "?"
    talk.value("kata-set-param allowResignation false")
    assert talk.value("genmove w") != "resign"
    talk.value("kata-set-param allowResignation true")
    talk.value("undo")
    assert talk.value("reg_genmove w") != "resign"
    assert talk.value("lz-genmove_analyze w 10").endswith("\nplay resign")


def test_thinking_goes_on_in_the_tree_that_is_there(talk: Talk) -> None:
    talk.value("kata-set-param maxVisits 40")
    talk.value("genmove b")
    session = talk.engine.session
    session.set_position(talk.engine.game)
    assert session.visits > 1
    talk.value("clear_cache")
    session.set_position(talk.engine.game)
    assert session.visits <= 1


def test_a_game_goes_to_a_file_and_back_up_to_any_move_and_bad_words_are_refused(talk: Talk, tmp_path: Path) -> None:
    talk.value("komi 3.5")
    talk.value("gogui-play_sequence b C3 w D3 b pass w pass")
    score = talk.value("final_score")
    path = tmp_path / "a game.sgf"
    assert talk.value(f"printsgf {path}") == ""
    assert sgf.read(path).result == score
    talk.value("boardsize 9")
    assert talk.value(f"loadsgf {path}") == ""
    shown = [talk.value(line) for line in ("query_boardsize", "get_komi", "last_move")]
    assert shown == ["5", "3.5", "white pass"]
    assert talk.value(f"loadsgf {path} 2") == "" and talk.value("last_move") == "black C3"
    assert talk.value(f"loadsgf {path} 1") == "" and talk.value("move_history") == ""
    assert talk.value(f"loadsgf {path} 99") == "" and talk.value("last_move") == "white pass"
    assert talk.ask(f"loadsgf {path} 0").startswith("? move is '0'")
    assert talk.value("undo") == "" and talk.value("last_move") == "black pass"
    assert "\n\n" not in talk.value("printsgf") and talk.value("printsgf -") == talk.value("printsgf")
    assert talk.ask(f"loadsgf {tmp_path}").startswith("? ")
    path.write_text("(;SZ[5];B[aa];W[aa])")
    assert re.fullmatch(r"\? .*a game.sgf: move 2, white A5, is illegal: occupied.*", talk.ask(f"loadsgf {path}"))
    assert talk.value(f"loadsgf {path} 2") == "" and talk.value("last_move") == "black A5"
    for place in (tmp_path, tmp_path / "none" / "a.sgf"):
        assert talk.ask(f"printsgf {place}").startswith("? cannot write")


def test_a_file_without_rules_is_played_by_those_that_were_told_not_by_those_of_the_file_before(tmp_path: Path) -> None:
    talk = Talk(gtp_talk.engine("mcts:8", "--rules", "tromp-taylor", "--komi", "7"))
    files = {"japanese": "RU[Japanese]KM[6.5]", "none": "", "unknown": "RU[Nim]", "cgos": "RU[TT--]KM[5.5]"}
    for name, said in files.items():
        (tmp_path / name).write_text(f"(;SZ[5]{said};B[aa];W[bb])")
    commands = {"name": ("7", "POSITIONAL", "AREA"), "kata-set-rules aga": ("7", "SITUATIONAL", "AREA")}
    for command, told in (commands | {"komi 3": ("3", "SITUATIONAL", "AREA")}).items():
        expected = {"japanese": ("6.5", "SIMPLE", "TERRITORY"), "cgos": ("5.5", "POSITIONAL", "AREA")}
        expected |= {"none": told, "unknown": told}
        talk.value(command)
        for name in ("japanese", "none", "japanese", "unknown", "cgos"):
            talk.value(f"loadsgf {tmp_path / name}")
            rules = json.loads(talk.value("kata-get-rules"))
            assert (talk.value("get_komi"), rules["ko"], rules["scoring"]) == expected[name]
            notes, talk.engine.said[:] = "".join(talk.engine.said), []
            assert (f"komi is taken to be {told[0]}" in notes) == (expected[name] == told)
    talk.value(f"loadsgf {tmp_path / 'none'}")
    assert "aga: " in talk.value("showboard")


def test_printsgf_overwrites_game_records_alone(talk: Talk, tmp_path: Path) -> None:
    talk.value("play b C3")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "other.sgf").symlink_to(tmp_path / "read.md")
    others = {"read.md": "# Such as (;SZ[9];B[ee])", "a.py": "print((1;2))"}
    for name, content in (others | {"empty.sgf": "", "old.sgf": "(;SZ[9])"}).items():
        (tmp_path / name).write_text(content)
    for name in ("read.md", "a.py", "other.sgf", "fifo"):
        assert "over what is no game record" in talk.ask(f"printsgf {tmp_path / name}")
    assert {name: (tmp_path / name).read_text() for name in others} == others
    for name in ("new.sgf", "empty.sgf", "old.sgf", "new.sgf"):
        assert talk.value(f"printsgf {tmp_path / name}") == "" and sgf.read(tmp_path / name).moves == [12]


def test_with_a_folder_of_games_no_other_file_is_read_or_written(tmp_path: Path) -> None:
    games = tmp_path / "games"
    games.mkdir()
    (games / "out").symlink_to(tmp_path)
    talk = Talk(gtp_talk.engine("mcts:8", "--games", str(games)))
    (tmp_path / "a.sgf").write_text("(;SZ[5];B[aa])")
    for name in ("../a.sgf", str(tmp_path / "a.sgf"), "out/a.sgf", "../b.sgf", "out/b.sgf", "/dev/null"):
        for command in ("loadsgf", "printsgf"):
            assert "is not below" in talk.ask(f"{command} {name}")
    assert talk.value("printsgf c.sgf") == "" and talk.value(f"printsgf {games / 'd.sgf'}") == ""
    assert talk.value("loadsgf d.sgf") == "" and sorted(os.listdir(tmp_path)) == ["a.sgf", "games"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a network that has learned nothing, for 3x3."""
    path = tmp_path_factory.mktemp("run") / "checkpoints" / "step-00000001.pt"
    checkpoint.save(path, tiny.fresh_checkpoint(tiny.config("evaluation.simulations=16")))
    return path


def test_a_network_plays_on_its_own_board_only(trained: Path) -> None:
    talk = Talk(gtp_talk.engine(str(trained)))
    assert (talk.value("query_boardsize"), talk.value("get_komi"), talk.engine.options.simulations) == ("3", "4.5", 16)
    assert talk.ask("boardsize 9") == "? unacceptable size" and talk.engine.said[-1].endswith("plays on 3x3 only")
    assert re.fullmatch("pass|[A-C][1-3]", talk.value("genmove b")) and talk.value("final_score")[0] in "BW0"
    with pytest.raises(InputError, match="plays on 3x3 only; game.size is 9"):
        gtp_talk.engine(str(trained), "game.size=9")


def test_a_run_s_folder_and_options(trained: Path) -> None:
    options = ("--simulations", "4", "--komi", "-2.5", "--rules", "japanese", "--leaves", "2")
    talk = Talk(gtp_talk.engine(str(trained.parent.parent), *options))
    engine = talk.engine
    assert (engine.options.simulations, engine.options.most_simulations, engine.game.rules.komi) == (4, 4, -2.5)
    assert engine.game.rules.scoring == "territory"
    assert engine.said[0].startswith("zerogo: zerogo's japanese rules differ")
    assert engine.analyst.search.settings.leaves == 2 and "tiny" in talk.value("gogui-title")


def test_leaves_are_measured_where_that_is_asked_for(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "speed", lambda work, size, device: 1e3 * size)
    engine = gtp_talk.engine(str(trained), "--simulations", "32", "--leaves", "0")
    assert (engine.analyst.search.settings.leaves, engine.analyst.search.settings.algorithm) == (4, "puct")
    assert any(line.startswith("4 leaves of the tree in a step: ") for line in engine.said), engine.said


@pytest.mark.parametrize(("arguments", "words"), TABLES["wrong words"])
def test_wrong_words_on_the_command_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended:
        program.parse(arguments)
    assert ended.value.code == 2 and words in capsys.readouterr().err


def talked_with(player: str, log: Path | str, text: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / "sent").write_bytes(text)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    with (folder / "sent").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        program.main(program.parse(f"--checkpoint {player} --device cpu game.size=5 --log {log}".split()))
    return sys.stdout.buffer.getvalue().decode()


def test_bytes_through_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Bytes that are no text, half lines and an end in the middle of an analysis: it ends as it should, every id
    answered, and all stands in its log."""
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


def test_a_log_that_cannot_be_written_ends_no_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    assert talked_with("random", "/dev/full", b"1 name\n2 quit\n", tmp_path, monkeypatch) == "=1 zerogo\n\n=2\n\n"
    assert capsys.readouterr().err.count("cannot write the log /dev/full: No space left on device; it ends here") == 1
