"""`zerogo show`: the right moment, drawn from the side that is asked for, as picture and as text; and words
for what is wrong."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from PIL import Image
from tables import tables

from zerogo import checkpoint, sgf
from zerogo.__main__ import main_show, parse_show
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.rules import Rules, coords
from zerogo.show.views import VIEWS, Models, Scene, evaluate_winrates, make_models, parse_moves, read_game

TABLES = tables("show")
NETWORK = "--checkpoint @tiny.pt --device cpu"
MOVES = ["B2", "A2", "C2", "B1", "pass", "C1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a game, an illegal one, one on another board, and a checkpoint of a fresh network for 3x3."""
    folder = tmp_path_factory.mktemp("show")
    moves = [coords.from_gtp(name, 3) for name in MOVES]
    sgf.write(folder / "game.sgf", sgf.GameRecord(Rules(3, 4.5), moves))
    (folder / "illegal.sgf").write_text("(;SZ[3]KM[1]RU[Chinese];B[aa];W[bb];B[bb])")
    (folder / "large.sgf").write_text("(;SZ[5]KM[1]RU[Chinese];B[aa])")
    (folder / "twice.sgf").write_text("(;SZ[3]KM[1]RU[Chinese]AB[aa]PL[B];B[bb];B[ab];AW[cc];W[ca])")
    checkpoint.save(folder / "tiny.pt", tiny.fresh_checkpoint(tiny.config("evaluation.simulations=8"), step=5))
    return folder


@pytest.fixture
def run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable:
    """Runs a command line in an empty folder; returns the pictures that it wrote, and all that it printed."""
    monkeypatch.chdir(tmp_path)

    def run(words: str) -> tuple[list[Path], str]:
        main_show(parse_show(words.replace("@", f"{folder}/").split()))
        printed = capsys.readouterr().out
        return [Path(line) for line in printed.splitlines() if line.endswith((".png", ".gif"))], printed

    return run


def models(folder: Path, *words: str) -> Models:
    """Returns what looks at positions with the folder's checkpoint."""
    return make_models(parse_show(["--checkpoint", str(folder / "tiny.pt"), "--device", "cpu", *words]))


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def test_moves_are_chosen_by_number_from_the_end_and_in_ranges(folder: Path):
    game = read_game(folder / "game.sgf")
    assert parse_moves(None, game) == [6] and parse_moves("0", game) == [0] and parse_moves("-1", game) == [6]
    assert parse_moves("-7", game) == [0] and parse_moves("all", game) == list(range(7))
    assert parse_moves("1-3, 5,2", game) == [1, 2, 3, 5]
    assert parse_moves("4-2", game) == [4, 3, 2] and parse_moves("-3--1", game) == [4, 5, 6]
    for text in ("7", "-8", "2-9", "x", "", "1.5", "99999999999", "1-" + "9" * 5000):
        with pytest.raises(InputError, match="--move is"):
            parse_moves(text, game)
    illegal = read_game(folder / "illegal.sgf")
    assert parse_moves(None, illegal) == [2] and parse_moves("all", illegal) == [0, 1, 2]
    with pytest.raises(InputError, match="illegal.sgf can't be shown after move 3: move 3, black B2, is illegal"):
        parse_moves("-1", illegal)


def test_scenes_know_who_is_to_move_and_what_was_set_up_on_the_way(folder: Path):
    nobody = Models()
    game, twice = read_game(folder / "game.sgf"), read_game(folder / "twice.sgf")
    assert [Scene(game, move, nobody).to_play for move in (0, 1, 6)] == [Colour.BLACK, Colour.WHITE, Colour.BLACK]
    turns = [Colour.BLACK, Colour.BLACK, Colour.WHITE, Colour.BLACK]
    assert [Scene(twice, move, nobody).to_play for move in (0, 1, 2, 3)] == turns
    assert Scene(twice, 1, nobody).stones.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert Scene(twice, 3, nobody).stones.tolist() == [[1, 0, 2], [1, 1, 0], [0, 0, 2]]
    assert Scene(game, 5, nobody).heading == "game.sgf, move 5 (Black pass), White to move"
    assert Scene(game, 6, nobody).numbers == {4: 1, 3: 2, 5: 3, 7: 4, 8: 6}


def test_everything_is_seen_from_the_side_to_move_and_shown_for_black(folder: Path):
    network, turned = models(folder, "--symmetries", "all"), models(folder, "--symmetries", "none")
    game = read_game(folder / "game.sgf")
    priors = [Scene(game, 0, one).evaluation.prior[0, :-1].view(3, 3) for one in (network, turned)]
    assert [torch.allclose(prior, prior.flip(0), atol=1e-6) for prior in priors] == [True, False]
    rates = evaluate_winrates(game, network.analyst)
    assert rates.shape == (7,) and (0 < rates).all() and (rates < 1).all()
    for move in range(7):
        scene = Scene(game, move, network)
        value = float(scene.evaluation.value[0])
        assert rates[move] == pytest.approx((1 + (value if scene.to_play is Colour.BLACK else -value)) / 2, abs=1e-5)
        score = float(scene.evaluation.ownership.sum()) + (-4.5 if scene.to_play is Colour.BLACK else 4.5)
        assert float(scene.evaluation.score[0]) == pytest.approx(score, abs=1e-4)


def test_several_moves_make_numbered_pictures_or_one_animation(run: Callable):
    (path,), _ = run("@game.sgf --move 2 --cell 40")
    image, wood = pixels(path), (230, 190, 126)
    rows, columns = np.nonzero((image == wood).all(-1))
    board = image[rows.min() :, columns.min() :]
    assert str(path) == "game-move2.png" and board[80, 80].max() < 70 and board[80, 40].min() > 225, "B2 and A2"
    assert (board[84:88, 124:128] == wood).all(), "nothing on C2 yet"
    paths, _ = run("@game.sgf --move 1-3 --out some.png")
    assert [str(path) for path in paths if path.exists()] == ["some-1.png", "some-2.png", "some-3.png"]
    (animation,), _ = run("@game.sgf --move all --out some.gif --numbers")
    assert Image.open(animation).n_frames == 7


def test_every_view_draws_and_writes(run: Callable):
    paths, printed = run(f"@game.sgf --move 3 --what {','.join(VIEWS)} {NETWORK} --text --out all.png")
    assert paths == [Path("all.png")] and pixels(paths[0]).shape[1] > 3 * 336
    assert "game.sgf, move 3 (Black C2), White to move, tiny@5" in printed
    assert " visits of " in printed and "win rate, %, over visits" in printed and "zero17, 17 planes" in printed
    assert printed.count(" 3 ") >= 4 + 17, "a board for each of four views and for each plane"


def test_text_alone_writes_no_file_and_planes_need_no_checkpoint(run: Callable, tmp_path: Path):
    _, printed = run("@game.sgf --move 2 --what board,planes --features zero17 --text")
    assert "2(O)X . 2" in printed and printed.count("plane ") == 17 and not list(tmp_path.iterdir())
    first = printed.split("plane ")[1].splitlines()
    assert first[3].split() == ["2", ".", "1", ".", "2"], "Black is to move, and has B2"


def test_a_game_that_is_over_is_thought_about_as_after_one_pass(run: Callable, tmp_path: Path):
    (tmp_path / "over.sgf").write_text("(;SZ[3]KM[4.5]RU[Chinese];B[];W[])")
    paths, printed = run(f"over.sgf --what policy,candidates,visits,line,value {NETWORK} --text --out over.png")
    assert "pass 100" not in printed and "Black wins" in printed and "expects" in printed and paths[0].exists()


@pytest.mark.parametrize(("words", "sentence"), TABLES["bad input"])
def test_bad_input_gets_one_sentence(run: Callable, tmp_path: Path, words: str, sentence: str):
    with pytest.raises(InputError) as caught:
        run(words)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
