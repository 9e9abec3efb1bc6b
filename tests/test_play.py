"""Play in the terminal: scripted people against bots, what is shown, what is saved, and how it ends."""

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
import torch
from tables import tables

from zerogo import checkpoint, sgf
from zerogo.__main__ import main_play, parse_play
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.play import TerminalGame, TextStyle, result_text
from zerogo.players.analyst import Analysis, Candidate
from zerogo.players.engine import Choice, Engine
from zerogo.players.live import LiveGame
from zerogo.rules import Rules, coords

TABLES, TALKS = tables("play"), sorted((Path(__file__).parent / "data" / "play").glob("*.txt"))


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Returns what plays with typed lines and command line words, and returns what was shown."""

    def run(lines: str, words: str) -> str:
        typed = "".join(f"{line}\n" for line in lines.split(", ")) if lines else ""
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        main_play(parse_play(words.split()))
        return capsys.readouterr().out

    return run


def analysis(best: int = 12, value: float = 0.5, score: float = 3.0) -> Analysis:
    """Returns an analysis of 5x5 with one candidate."""
    zeros = torch.zeros(26).numpy()
    candidate = Candidate(best, 7, value, score, 0.5, 0.4, (best, 13), (7, 3))
    position = zeros, zeros == 0, zeros.astype("int64"), torch.zeros(5, 5).numpy(), 0.0, 0.0
    return Analysis(8, value, score, [candidate], *position)


class ScriptedBot:
    """Plays given vertices of 5x5, then passes; None resigns."""

    def __init__(self, *moves: str | None) -> None:
        self.moves = list(moves)

    def choose_move(self, colour: Colour) -> Choice:
        move = self.moves.pop(0) if self.moves else "pass"
        return Choice(None if move is None else coords.from_gtp(move, 5), analysis())


def talked(lines: list[str], white: object = None, path: Path | None = None) -> tuple[LiveGame, list[str], str]:
    """Returns the game on 5x5, its vertices and the screen after what Black, a person, typed; Ctrl-D ends it."""
    shown: list[str] = []
    typed = iter([*lines, "^D"])

    def ask(prompt: str) -> str:
        shown.append(prompt + (line := next(typed)))
        if line == "^D":
            raise EOFError
        return line

    game, names = LiveGame(Rules(5)), {Colour.BLACK: "human", Colour.WHITE: "other"}
    bots, adviser = {Colour.BLACK: None, Colour.WHITE: white}, Engine("nobody", game)
    adviser.think = lambda player: analysis()  # it knows nothing beyond what is pass-alive
    TerminalGame(game, names, path, bots, lambda: adviser, TextStyle(), ask, shown.append).run()
    return game, [coords.to_gtp(action, 5) for _, action in game.moves], "".join(f"{text}\n" for text in shown)


@pytest.mark.parametrize("path", TALKS, ids=lambda path: path.stem)
def test_golden_conversations(path: Path) -> None:
    """The first line says how the game ends, and what White plays where White is a bot; what follows "> " is typed."""
    head, _, text = path.read_text().partition("\n")
    result, _, white = head.partition(", White plays ")
    moves = [None if move == "resign" else move for move in white.split()]
    game, _, shown = talked(
        [line for line in re.findall("> (.*)", text) if line != "^D"], ScriptedBot(*moves) if moves else None
    )
    assert shown == text and str(game.result) == result


@pytest.mark.parametrize(("words", "white"), TABLES["who plays White"])
def test_the_shipped_network_that_fits_the_board_plays_white(words: str, white: str) -> None:
    assert Path(parse_play(words.split()).white).name == white


@pytest.mark.parametrize(("lines", "left"), TABLES["undo"])
def test_undo(lines: str, left: str) -> None:
    _, moves, shown = talked(lines.split(", "), ScriptedBot("D4", "D3"))
    assert moves == left.split()
    assert ("4 moves have been played, so 9 can't be taken back" in shown) == ("9" in lines)


@pytest.mark.parametrize(("lines", "reason"), TABLES["what cannot be done"])
def test_what_cannot_be_done_is_told_and_changes_nothing(lines: str, reason: str) -> None:
    _, moves, shown = talked(lines.split(", "))
    assert f"\n{reason}\n" in shown and len(moves) == lines.count(",")


def test_saving_by_hand_and_after_every_move(tmp_path: Path) -> None:
    path, other, there = (tmp_path / name for name in ("game.sgf", "other.sgf", "there.sgf"))
    there.write_text("x")
    saves = [f"save {file}" for file in (other, there, tmp_path / "missing" / "x.sgf", "~no/x.sgf", "x" * 300, "z\0/z")]
    _, _, shown = talked(["C3", *saves], ScriptedBot("D4"), path)
    record = sgf.read(path)
    assert record == sgf.read(other) and (record.black, record.white, record.result) == ("human", "other", "?")
    assert record.moves == [12, 8] and record.remarks == [(None,) * 4, (None, 0.25, -3.0, 8)]
    assert there.read_text() == "x" and "there.sgf exists already" in shown and shown.count("cannot write") == 4
    talked(["C3", "pass", "y"], ScriptedBot("pass", "pass"), path)
    assert sgf.read(path).result == "B+18"
    _, moves, shown = talked(["C3", "D4"], None, tmp_path / "missing" / "game.sgf")
    assert len(moves) == 2 and shown.count("cannot write") == 2, "it ends no game"


def test_colours_show_the_same_board() -> None:
    game = LiveGame(Rules(9))
    for vertex in ("A1", "J9", "pass", "E5"):
        game.play(game.to_play, coords.from_gtp(vertex, 9))
    plain, colour, circles = (style.board(game) for style in (TextStyle(), TextStyle(True), TextStyle(True, True)))
    assert "\x1b" not in plain and re.sub(r"\x1b\[[0-9;]*m", "", colour) == plain != colour
    assert circles.count("●") == 3


def test_texts() -> None:
    behind = analysis(value=-0.5, score=-2.04).text(Colour.BLACK, 5)
    assert behind == "Black wins 25.0 %, is behind by 2.0 points, expects C3 D3 (8 visits)"
    assert "is even" in analysis(score=0.01).text(Colour.WHITE, 5)
    assert [result_text(text) for text in ("0", "B+3.5")] == ["a draw", "Black wins by 3.5 points"]


def test_a_whole_game_against_mcts(play: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "game.sgf"
    shown = play("B2, hint, score, undo, A1, resign", f"--size 3 --white mcts:16 --save {path} --seed 1")
    assert "Black (X): human, White (O): mcts:16; 3x3, komi 7, area scoring, positional superko" in shown
    assert "White plays" in shown and "mcts:16: Black wins" in shown and "as the board stands" in shown
    assert "White wins, Black has resigned" in shown and "\x1b" not in shown
    assert shown.endswith(f"the game is saved in {path}\n")
    record = sgf.read(path)
    assert (record.result, len(record.moves), record.rules) == ("W+R", 2, Rules(3, 7.0))
    assert record.remarks[1].winrate_black is not None


def test_bots_against_each_other(play: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "game.sgf"
    shown = play("", f"--black random --white mcts:8 --size 3 --komi 0.5 --rules tt --save {path}")
    assert "help tells" not in shown and "Black plays" in shown and "White plays" in shown
    record = sgf.read(path)
    assert record.rules == Rules(3, 0.5, "positional", True) and sgf.replay(record)[1] is None
    assert (record.black, record.white, record.result[1]) == ("random", "mcts:8", "+")


def test_handicap_and_rules(play: Callable[..., str]) -> None:
    shown = play("", "--size 9 --handicap 2 --rules japanese --black human --white human")
    assert "9x9, komi 0.5, territory scoring, simple ko" in shown and "eyes in seki count" in shown
    assert shown.count("X") == 2 + 1 + 1 and "White, move 1> " in shown  # two stones, and the colour's name twice


def test_going_on_from_a_file(play: Callable[..., str], tmp_path: Path) -> None:
    path, new = tmp_path / "game.sgf", tmp_path / "new.sgf"
    path.write_text("(;SZ[5]KM[2.5]RU[Nim];B[aa];W[bb];AE[aa];B[cc];W[cc])")
    shown = play("E5", f"--white human --sgf {path} --move 3 --save {new}")
    assert "5x5, komi 2.5" in shown and "RU is 'Nim', which is unknown" in shown and "White, move 2> " in shown
    assert sgf.read(new).moves == [12, 4] and sgf.read(new).setup[1][1] == 2
    path.write_text("(;SZ[5]KM[2.5]RU[AGA];B[aa];W[aa])")
    with pytest.raises(InputError, match="move 2, white A5, is illegal: occupied.*--move chooses"):
        play("", f"--sgf {path}")
    path.write_text(text := "(;SZ[5]KM[2.5]RU[AGA]C[mine]GN[final];B[aa]C[good])")
    where = "game.sgf: .*after"
    wrong = {"--size 9": "is on 5x5", "--move 7": f"{where} 7 .* 0 to 1;", "--move -1": f"{where} -1 "}
    for words, what in wrong.items():
        with pytest.raises(InputError, match=what):
            play("", f"--sgf {path} {words}")
    play("", f"--sgf {path} --white human --save {path}")
    assert path.read_text() == text  # nobody has moved
    play("E5", f"--sgf {path} --white human --save {path}")
    record = sgf.read(path)
    assert (record.moves, record.comment, record.remarks[0].comment) == ([0, 4], "mine", "good")
    assert "5x5, komi 2.5, territory scoring" in play("", f"--sgf {path} --rules japanese --white human")


@pytest.mark.parametrize(("text", "words"), TABLES["what a file holds besides"])
def test_saving_loses_no_moves_of_the_file(text: str, words: str, play: Callable[..., str], tmp_path: Path) -> None:
    (path := tmp_path / "game.sgf").write_text(text)
    with pytest.raises(InputError, match="game.sgf, whose other moves would be lost; give it a new name"):
        play("E5", f"--white human --sgf {path} --save {path} {words}")
    assert path.read_text() == text


def test_a_network_brings_its_board(play: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    checkpoint.save(path, tiny.fresh_checkpoint(tiny.config("game.size=3", "game.komi=3.5")))
    assert "komi is 3, but net@1 learned only komi 3.5 and may" in play("", f"--white {path} --komi 3")
    shown = play("B2, hint, score", f"--white {path} --simulations 4")
    assert "3x3, komi 3.5" in shown and ("White plays" in shown or "White passes" in shown) and "net@" in shown
    with pytest.raises(InputError, match="plays on 3x3 only; this game is on 5x5"):
        play("", f"--white {path} --size 5")


@pytest.mark.parametrize(("words", "what"), TABLES["bad words"])
def test_bad_words_are_refused(words: str, what: str, play: Callable[..., str], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=what):
        play("", words.format(__file__=__file__))
    assert not list(tmp_path.iterdir())
