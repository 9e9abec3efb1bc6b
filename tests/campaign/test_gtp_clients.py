"""What each client sends, in its order and its manner, and what it must find in the replies to go on."""

import re

import gtp_clients as clients
import gtp_talk
import pytest
from gtp_talk import QUICKSTART, converse, infos, raw
from tables import tables

from zerogo.game import Colour
from zerogo.gtp.engine import Engine

TABLES = tables("gtp")


@pytest.fixture(scope="module")
def started() -> Engine:
    return gtp_talk.engine(QUICKSTART, "--simulations", "16", "--komi", "7")


@pytest.fixture
def engine(started: Engine) -> Engine:
    start = "boardsize 5; komi 7; clear_board; time_settings 0 1 0; kata-set-rules tromp-taylor; clear_cache"
    assert raw(started, start.split("; ")).count("=") == 6
    started.said.clear()
    return started


def contents(written: str) -> list[str]:
    """Returns the contents of replies that all succeeded."""
    found = clients.sabaki_ids(written)
    assert all(sign == "=" for sign, _ in found), written
    return [content for _, content in found]


def numbered(*lines: str, first: int = 0) -> list[str]:
    return [f"{first + number} {line}" for number, line in enumerate(lines)]


def test_sabaki_starts_and_syncs(engine: Engine) -> None:
    """Attaches without ids; its tracker sends komi before boardsize, and sends several commands without waiting."""
    start = ["name", "version", "protocol_version", "list_commands", "komi 5.5", "boardsize 5", "clear_board"]
    start += ["play B C3", "play W D2"]
    name, version, protocol, commands, *rest = contents(raw(engine, start))
    assert (name, protocol, rest) == ("zerogo", "2", [""] * 5) and version
    offered = commands.split("\n")
    assert engine.game.rules.komi == 5.5
    # It takes the first of these that is offered, and reads all but kata-… in ten-thousandths: a bare `analyze` must
    # not be there.
    wanted = ("analyze", "kata-analyze", "lz-analyze")
    assert next(found for found in wanted if found in offered) == "kata-analyze"
    wanted = ("genmove_analyze", "kata-genmove_analyze")
    assert next(found for found in wanted if found in offered) == "kata-genmove_analyze"


@pytest.mark.parametrize("command", ["kata-analyze", "lz-analyze"])
@pytest.mark.parametrize(("colour", "sign"), [("B", 1), ("W", -1)])
def test_sabaki_analyses_and_goes_on(command: str, colour: str, sign: int, engine: Engine) -> None:
    """It interrupts by protocol_version; of every line it reads all moves but passes, with the whole of their lines."""
    shown = "ownership true" if command == "kata-analyze" else ""
    raw(engine, "play b B2")
    written = converse(engine, [f"{command} {colour} 5 {shown}", infos(3), "protocol_version", "undo"])
    analysis, protocol, undone = contents(written)
    assert (protocol, undone) == ("2", "")
    for line in analysis.split("\n"):
        variations, ownership = clients.sabaki_variations(line, 5, sign)
        assert len(variations) == len(re.findall(r"move [A-E]\d", line)) > 0
        assert all(0 <= found["winrate"] <= 100 and found["pv"][0] == found["move"] for found in variations)
        if shown:
            assert ownership is not None and all(found["score"] is not None for found in variations)
            assert sum(ownership) > 0, "Black's stone, whoever is to move"


def test_sabaki_generates_moves(engine: Engine) -> None:
    """The tracker takes the move from a line that begins with `play`; further commands wait until the reply has
    ended."""
    for command in ("kata-genmove_analyze B 50", "lz-genmove_analyze W 50"):
        reply, name = contents(raw(engine, [command, "name"]))
        assert re.fullmatch(r"play (pass|resign|[A-E][1-5])", reply.split("\n")[-1]) and name == "zerogo"
    assert len(engine.game.moves) == 2


def test_sabaki_replays_with_handicap(engine: Engine) -> None:
    lines = ["clear_board", "set_free_handicap B2 D4 D2", "play W C3", "undo", "play W pass", "play B C4", "play B B3"]
    assert contents(raw(engine, lines)) == [""] * 7
    assert raw(engine, "play B B3") == "? illegal move\n\n", "and Sabaki says that it could not sync"


TWOGTP = """protocol_version; name; version; list_commands; boardsize 5; clear_board; komi 7.5; cputime; boardsize 5;
clear_board; time_settings 300 0 0; genmove b; play w pass; genmove b; play w pass; genmove b; play w pass; final_score;
cputime; quit""".replace("\n", " ").split("; ")


@pytest.mark.parametrize("player", [QUICKSTART, "mcts:4", "random"])
def test_gogui_twogtp(player: str) -> None:
    """The stream that gogui-twogtp was seen to send; nothing is answered after quit."""
    engine = gtp_talk.engine(player, "game.size=5", "--simulations", "4")
    found = contents(raw(engine, [*TWOGTP, "genmove b", "name"]))
    assert len(found) == len(TWOGTP)
    replies = dict(zip(TWOGTP, found, strict=True))  # the last of equal lines
    assert replies["protocol_version"] == "2" and "genmove" in replies["list_commands"].split("\n")
    assert re.fullmatch(r"pass|resign|[A-E][1-5]", replies["genmove b"])
    assert re.fullmatch(r"0|[BW]\+\d+(\.\d+)?", replies["final_score"]) and float(replies["cputime"]) > 0


def test_gogui_attaches_and_shows(engine: Engine) -> None:
    """It asks what there is to show, runs each command, and reads boards by counting words."""
    lines = ["list_commands", "protocol_version", "name", "version", "gogui-analyze_commands", "gogui-interrupt"]
    offered, _, _, _, shown, interrupt, title = contents(raw(engine, [*lines, "gogui-title"]))
    assert interrupt == "" and title
    assert {"gogui-interrupt", "gogui-analyze_commands", "gg-undo"} <= set(offered.split("\n"))
    raw(engine, "play b C3")
    for found in clients.gogui_commands(shown):
        name, *arguments = found.command.split()
        words = [{"%m": "white", "%c": "black"}.get(word, word) for word in arguments]
        (content,) = contents(raw(engine, " ".join([name, *words])))
        if found.type in ("dboard", "cboard", "bwboard"):
            rows = clients.gogui_board(content, 5)
            assert found.type != "dboard" or all(-1 <= float(word) <= 1 for row in rows for word in row)
        if found.type in ("varc", "var"):
            assert re.fullmatch(rf"{clients.VERTEX}( {clients.VERTEX})*", content)
        if found.type == "param":
            assert all(re.fullmatch(r"\[(bool|string)\] \w+ \S+", row) for row in content.split("\n"))
    assert len(engine.game.moves) == 1


def test_gogui_plays_and_navigates(engine: Engine) -> None:
    """No time limit is 0 1 0; positions go over by gogui-setup, games by gogui-play_sequence and gg-undo."""
    lines = ["time_settings 0 1 0", "gogui-play_sequence b C3 w D3 b pass", "gg-undo 2", "play w B3", "undo"]
    lines += ["final_status_list dead"]
    assert contents(raw(engine, lines)) == [""] * 6
    assert engine.game.moves == [(Colour.BLACK, 12)]
    lines = ["clear_board", "gogui-setup b A1 w B1 b C3", "gogui-setup_player w"]
    assert contents(raw(engine, lines)) == [""] * 3
    assert (engine.game.to_play, sum(map(sum, engine.game.state.stones()))) == (Colour.WHITE, 4)
    assert raw(engine, "gogui-play_sequence w D4 b D4") == "? illegal move\n\n"
    assert not engine.game.moves, "a sequence that can't be played whole is not played"


def test_gogui_interrupts_a_genmove(engine: Engine) -> None:
    """`# interrupt` asks for the move now; it is a comment, which gets no reply."""
    engine.options.simulations, before = 10**6, engine.options.simulations
    try:
        written = converse(engine, ["genmove b", "# interrupt", "name"])
    finally:
        engine.options.simulations = before
    move, name = contents(written)
    assert re.fullmatch(r"pass|resign|[A-E][1-5]", move) and name == "zerogo"


def test_gogui_cleans_up_after_passes(engine: Engine) -> None:
    rows = [[0, 2, 0, 1, 0], [1, 1, 1, 1, 1], [0, 1, 0, 1, 0], [1, 1, 1, 1, 1], [0, 1, 0, 1, 0]]
    engine.game.set_up(rows, Colour.BLACK)
    raw(engine, ["play b pass", "play w pass"])
    assert contents(raw(engine, "final_status_list dead")) == ["B5"]
    moves = [contents(raw(engine, "kgs-genmove_cleanup b"))[0] for _ in range(3)]
    assert set(moves[:2]) == {"A5", "C5"} and moves[2] == "pass"


def test_lizzie_starts(engine: Engine) -> None:
    """Numbers every command and dies on a reply without; the version must look like one of Leela Zero's from 0.15
    on."""
    written = raw(engine, numbered("name", "version", "boardsize 5", "komi 7.0", "time_settings 0 5 1", first=1))
    assert clients.lizzie_ids(written) == [1, 2, 3, 4, 5]
    name, version, *rest = contents(written)
    assert not name.startswith("KataGo") and clients.lizzie_version_is_fine(version) and rest == [""] * 3


def test_lizzie_ponders(engine: Engine) -> None:
    """Ponders without a colour and goes on by any command; every number must go through Integer.parseInt."""
    raw(engine, "7 play b C3")
    ponder = "8 lz-analyze 1"
    avoided = "10 lz-analyze 1 avoid b A1,B2 30 avoid w C2,pass 30"
    written = converse(engine, [ponder, infos(2), "9 name", avoided, infos(4), "11 undo", "12 name"])
    assert clients.lizzie_ids(written) == [8, 9, 10, 11, 12]
    for line in written.split("\n"):
        if line.startswith("info"):
            moves = clients.lizzie_moves(line)
            assert [found["order"] for found in moves] == list(range(len(moves)))
            assert all(0 <= found[key] <= 10_000 for found in moves for key in ("winrate", "prior", "lcb"))
            assert moves[0]["pv"]
    tenth = written.split("=10\n")[1].split("\n\n")[0]
    assert not re.search(r"move (C2|pass) ", tenth)


def test_lizzie_plays(engine: Engine) -> None:
    lines = ("time_settings 0 1 1", "lz-genmove_analyze b 10", "genmove w", "undo", "undo", "fixed_handicap 2")
    written = raw(engine, numbered(*lines))
    assert clients.lizzie_ids(written) == list(range(6))
    assert re.search(r"^play ([A-E][1-5]|pass|resign)$", written, re.MULTILINE)


PROBES = TABLES["lizgoban's probes"]


def test_lizgoban_probes(engine: Engine) -> None:
    """It sends its next line as soon as the last reply has begun, and believes the sign; what it only tells itself goes
    out as `name`."""
    sent = ["name" if sign is None else line for line, sign in PROBES]
    written = raw(engine, numbered(*sent))
    signs = {int(number): sign for sign, number in re.findall(r"^([=?])(\d+)", written, re.MULTILINE)}
    assert [signs[number] for number in range(len(PROBES))] == [sign or "=" for _, sign in PROBES]
    assert not engine.game.moves and not any(map(any, engine.game.state.stones()))


@pytest.mark.parametrize("colour", ["b", "w"])
def test_lizgoban_analyses(colour: str, engine: Engine) -> None:
    shown = "ownership true minmoves 30 pvVisits true pvEdgeVisits true movesOwnership true rootInfo true"
    region = "allow B B2,C3,D4 1 allow W B2,C3,D4 1"
    script = ["4 kata-raw-nn 0", f"5 kata-analyze {colour} interval 5 {shown}", infos(3), "6 name"]
    written = converse(engine, [*script, f"7 kata-analyze {colour} interval 5 {shown} {region}", infos(5), "8 name"])
    lines = [line for line in written.split("\n") if line.startswith("info")]
    for line in lines:
        suggestions, ownership, root = clients.lizgoban_parts(line)
        assert len(ownership) == 25 and 0 <= float(root["winrate"]) <= 1
        assert int(root["visits"]) == 1 + sum(found["visits"] for found in suggestions)
        for found in suggestions:
            assert len(found["pv"]) == len(found["pvVisits"]) == len(found["pvEdgeVisits"])
            assert found["visits"] == 0 or len(found["movesOwnership"]) == 25
            assert all(key in found for key in ("winrate", "prior", "lcb", "scoreMean", "scoreLead"))
    assert len(clients.lizgoban_parts(lines[0])[0]) == 26, "30 moves were asked for"
    assert {found["move"] for found in clients.lizgoban_parts(lines[-1])[0]} == {"B2", "C3", "D4"}


def test_lizgoban_lets_it_play(engine: Engine) -> None:
    lines = ["time_settings 0 1 1", "kata-set-param allowResignation false", "name"]
    lines += ["kata-genmove_analyze b interval 10 ownership true minmoves 30"]
    lines += ["kata-set-param allowResignation true", "genmove w"]
    written = raw(engine, numbered(*lines))
    found = contents(written)
    assert re.match(r"play [A-E][1-5]$|play pass$", found[3].split("\n")[-1]) and len(engine.game.moves) == 2


def test_cgos_plays_a_game(engine: Engine) -> None:
    """Looks for the commands, then sends no ids; it keeps the last line before `play`, which must be there without an
    interval, too."""
    (offered,) = contents(raw(engine, "list_commands"))
    wanted = ("cgos-genmove_analyze", "kata-genmove_analyze", "lz-genmove_analyze")
    assert next(name for name in wanted if name in offered.split("\n")) == "kata-genmove_analyze"
    names = [name for name in offered.split("\n") if name.startswith("cgos-")]
    start = ["boardsize 5", "komi 7.0", "time_settings 60 0 0", "clear_board", *(f"{name} x" for name in names)]
    assert contents(raw(engine, start)) == [""] * len(start)
    replies = contents(raw(engine, ["time_left b 60 0", "kata-genmove_analyze b ownership true"]))
    sections, move = clients.cgos_last_line(replies[1])
    assert move == sections["info"][0][1] and len(sections["ownership"]) == 25
    known = sections["info"][0]
    values = dict(zip(known[: known.index("pv") : 2], known[1 : known.index("pv") : 2], strict=False))
    assert 0 <= float(values["winrate"]) <= 1 and "." in values["winrate"] and float(values["scoreLead"]) is not None
    replies = contents(raw(engine, ["play w pass", "time_left b 55 0", "lz-genmove_analyze b 100000"]))
    sections, move = clients.cgos_last_line(replies[2])
    assert 0 <= int(sections["info"][0][5]) <= 10_000
    assert contents(raw(engine, ["cgos-gameover 2026-01-01 B+1", "quit"])) == ["", ""]


def test_cgos_scores_the_board_as_it_stands() -> None:
    """No dead stones are taken off there: it captures what would cost it the game before it passes."""
    engine = gtp_talk.engine("mcts:24", "game.size=5", "--komi", "6.5", "--no-resign")
    rows = [[0, 2, 0, 1, 0], [1, 1, 1, 1, 2], [0, 1, 0, 1, 2], [1, 1, 1, 1, 2], [0, 2, 2, 2, 0]]
    engine.game.set_up(rows, Colour.BLACK)
    passes = 0
    for _ in range(20):
        move = contents(raw(engine, "genmove b"))[0]
        passes = passes + 1 if move == "pass" else 0
        if move == "pass":
            break
        assert contents(raw(engine, "play w pass")) == [""]
    assert passes and engine.game.state.score_black() > 0


def test_kgs(engine: Engine) -> None:
    lines = ["list_commands", "kgs-game_over", "kgs-rules chinese", "boardsize 5", "komi 7.5", "clear_board"]
    lines += ["kgs-time_settings byoyomi 60 10 3", "time_left b 60 0", "time_left w 60 0"]
    lines += ["place_free_handicap 2", "genmove w"]
    lines += ["play b pass", "time_left w 9 3", "genmove w", "kgs-chat game anna how are you?", "undo"]
    lines += ["kgs-time_settings canadian 60 30 5", "kgs-time_settings absolute 60", "kgs-time_settings none"]
    found = contents(raw(engine, lines))
    assert len(found) == len(lines) and len(found[9].split()) == 2 and found[14]
    assert engine.game.rules.komi == 7.5 and engine.rules_name == "chinese-kgs"
    raw(engine, ["clear_board", "play b pass", "play w pass"])
    assert contents(raw(engine, ["final_status_list dead", "final_score", "kgs-game_over"])) == ["", "W+7.5", ""]
    (move,) = contents(raw(engine, "kgs-genmove_cleanup w"))
    assert re.fullmatch(r"[A-E][1-5]|pass", move)


@pytest.mark.parametrize("rules", ["chinese", "japanese", "aga", "new_zealand"])
def test_kgs_rules(rules: str, engine: Engine) -> None:
    assert raw(engine, f"kgs-rules {rules}").startswith("=")
    assert engine.game.rules.scoring == ("territory" if rules == "japanese" else "area")
