"""`zerogo show`: positions of a game with the evaluation and search of a network, and the views of `--what`."""

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from PIL import Image

from zerogo import board, sgf
from zerogo.cli import open_front_end
from zerogo.errors import InputError, quote, refuse_os_errors
from zerogo.evaluator import Evaluation, Evaluator
from zerogo.features import Encoder, make_encoder
from zerogo.game import Colour
from zerogo.players import require_size
from zerogo.players.analyst import Analysis, Analyst
from zerogo.players.engine import Engine, Options
from zerogo.players.live import LiveGame
from zerogo.players.playout import playouts_of
from zerogo.rules import Rules, coords
from zerogo.sgf.record import COLOURS
from zerogo.show import picture
from zerogo.system.runtime import write_atomically

SUFFIXES = (".png", ".gif")
FRAME_SECONDS = 0.8
CELLS = ((7, 56), (9, 46), (13, 40), (25, 34))  # up to this board side, so many pixels between two lines
CHART_WIDTH, CHART_HEIGHT = 336, 300  # the width is the least
_RANGE = re.compile(r"(-?\d{1,9})(?:-(-?\d{1,9}))?")


@dataclasses.dataclass(frozen=True)
class Models:
    """The models of a command line, None where it names none, and how to draw. rules: those of the checkpoint. cell:
    pixels between two lines, 0 for a size by the board. has_numbers: whether stones carry move numbers."""

    analyst: Analyst | None = None
    encoder: Encoder | None = None
    rules: Rules | None = None
    cell: int = 0
    has_numbers: bool = False


def make_models(arguments: argparse.Namespace) -> Models:
    """Returns the analyst and the encoder of a command line. Raises InputError for those that don't exist."""
    checkpoint, symmetries, simulations = arguments.checkpoint, arguments.symmetries, arguments.simulations
    is_network = checkpoint is not None and playouts_of(checkpoint) is None
    arguments.overrides = [] if symmetries is None else [f"evaluation.symmetry={symmetries}"]
    setup = open_front_end(arguments, [checkpoint] if is_network else [])
    features = setup.config.features
    name = arguments.features or (features.encoder if is_network else "")
    if "," in name:
        name = [group for group in name.split(",") if group]
    encoder = make_encoder(name, features.komi_input) if name else None
    analyst = None if checkpoint is None else setup.analyst(checkpoint, simulations)
    if symmetries is not None and analyst is not None and isinstance(analyst.evaluator, Evaluator):
        analyst = dataclasses.replace(analyst, evaluator=analyst.evaluator.with_symmetries(symmetries))
    rules = setup.config.game.rules() if is_network else None
    return Models(analyst, encoder, rules, arguments.cell, arguments.numbers)


@dataclasses.dataclass(eq=False)
class ShownGame:
    """A game as it is shown. name: for people. last: moves that can be played. problem: why not more, or None."""

    name: str
    record: sgf.GameRecord
    last: int
    problem: str | None = None


def read_game(path: str | Path | None, rules: Rules | None = None) -> ShownGame:
    """Returns the game of an SGF file, up to an illegal move, or without one the empty board of a checkpoint's rules.
    Raises InputError where the file can't be read, and without file and rules."""
    if path is None and rules is None:
        raise InputError("there is nothing to show; give an SGF file, or a network, whose empty board is shown")
    if path is None:
        return ShownGame("empty board", sgf.GameRecord(rules, []), 0)
    record = sgf.read(path)
    states, problem = sgf.replay(record)
    return ShownGame(Path(path).name, record, len(states) - 1, problem)


def parse_moves(text: str | None, game: ShownGame) -> list[int]:
    """Returns the moments that --move names: moves that have been played, 0 to all of them.

    text: numbers and ranges, "40", "10-20", "5,10-12", "all"; negative ones count from the end, -1 is after the last
    move. None is the last that can be shown. Raises InputError for other texts, and for moves that don't exist."""
    text = str(max(0, game.last)) if text is None else f"0-{max(0, game.last)}" if text == "all" else text
    moments: list[int] = []
    for part in text.replace(" ", "").split(","):
        if (match := _RANGE.fullmatch(part)) is None:
            allowed = "allowed are numbers and ranges such as 40, -1, 10-20 or 5,10,15, and all"
            raise InputError(f"--move is {quote(text)}; {allowed}")
        first, last = (_moment(int(end), game) for end in (match[1], match[2] or match[1]))
        moments += range(first, last + 1) if first <= last else range(first, last - 1, -1)
    return list(dict.fromkeys(moments))


def _moment(number: int, game: ShownGame) -> int:
    """Returns how many moves have been played at a moment. Raises InputError where the game doesn't get there."""
    length = len(game.record.moves)
    moment = number if number >= 0 else length + 1 + number
    if not 0 <= moment <= length:
        allowed = f"so 0 to {length} and -1 to {-length - 1} are allowed"
        raise InputError(f"--move is {number}; {game.name} has {length} moves, {allowed}")
    if moment > game.last:
        raise InputError(f"{game.name} can't be shown after move {moment}: {game.problem}")
    return moment


class Scene:
    """One moment of a game. Evaluation, analysis and planes are computed at their first use, each scene by itself."""

    def __init__(self, shown_game: ShownGame, move: int, models: Models) -> None:
        self.shown_game, self.move, self.models = shown_game, move, models
        self.game = LiveGame.of_record(shown_game.record, move)
        if models.analyst is not None:
            require_size(models.analyst, self.game.size, f"{shown_game.name} is on")
        self.cell = models.cell or next(cell for max_side, cell in CELLS if self.game.size <= max_side)
        self.stones = torch.tensor(self.game.state.stones(), dtype=torch.int8)
        turns = shown_game.record.turns()
        # Who moves next in the game, at its end the other side.
        self.to_play = COLOURS[turns[move]] if move < len(turns) else self.game.to_play

    @property
    def last_action(self) -> int | None:
        """The last move, None before the first."""
        return self.shown_game.record.moves[self.move - 1] if self.move else None

    @property
    def numbers(self) -> dict[int, int]:
        """The move number of each stone that a move has put on the board, by point."""
        stones = [*self.stones.flatten().tolist(), 0]  # no stone for a pass
        placed = {action: number for number, action in enumerate(self.shown_game.record.moves[: self.move], start=1)}
        return {point: number for point, number in placed.items() if stones[point]}

    @property
    def heading(self) -> str:
        """Which moment of which game it is, and the analyst's name."""
        words = [self.shown_game.name]
        if self.last_action is not None:
            colour = "Black" if self.shown_game.record.turns()[self.move - 1] == "b" else "White"
            words.append(f"move {self.move} ({colour} {coords.to_gtp(self.last_action, self.game.size)})")
        elif self.shown_game.record.moves:
            words.append("move 0")
        words.append(f"{self.to_play.name.capitalize()} to move")
        return ", ".join(words if self.models.analyst is None else [*words, self.models.analyst.name])

    @cached_property
    def state(self) -> board.State:
        """The position as a batch of one."""
        return self.game.tensor("cpu" if self.models.analyst is None else self.models.analyst.device, self.to_play)

    @cached_property
    def evaluation(self) -> Evaluation:
        """The network's evaluation without a search, a batch of one on the host."""
        return self.models.analyst.evaluate(self.state).map(lambda part: part.float().cpu())

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis of the search."""
        return Engine.of_analyst(self.models.analyst, self.game, Options()).think(self.to_play)


@cache
def evaluate_winrates(game: ShownGame, analyst: Analyst) -> np.ndarray:
    """Returns Black's chances to win after 0, 1, 2, … moves, by the network alone: float64 [moves + 1]."""
    batches = analyst.evaluate_game(game.record, game.last)
    return np.array([rate for winrates, _ in batches for rate in winrates])


# The views


class Drawing(NamedTuple):
    """A view of a scene as text and as a picture. draw: returns the picture, uint8 [height, width, 3]."""

    text: str
    draw: Callable[[], np.ndarray]


def _draw_board(scene: Scene, caption: str, **marks: Any) -> np.ndarray:
    """Returns a picture of the board with its last move and other marks, see `picture.board_image`."""
    marks |= {"cell": scene.cell, "numbers": scene.numbers if scene.models.has_numbers else None}
    return picture.board_image(scene.stones, scene.last_action, caption=caption, **marks)


def _board(scene: Scene) -> Drawing:
    black, white = (scene.game.state.captures[player] for player in (Colour.BLACK, Colour.WHITE))
    prisoners = f", prisoners: Black has {black}, White {white}" if black or white else ""
    rules = f"komi {scene.game.rules.komi:g}{prisoners}"
    text = f"{picture.board_text(scene.stones, scene.last_action)}\n{rules}"
    return Drawing(text, partial(_draw_board, scene, rules))


def _policy(scene: Scene) -> Drawing:
    prior = scene.evaluation.prior[0]
    *shares, share_of_pass = (100 * prior).tolist()
    labels = [f"{share:.1f}" if share >= 0.05 else "" for share in shares]
    text, on_pass = picture.grid_text(labels, scene.game.size, scene.stones), f"pass {share_of_pass:.1f} %"
    caption, heat = f"probability of each move, %; {on_pass}", picture.policy_heat(prior)
    return Drawing(f"{text}\n{on_pass}", partial(_draw_board, scene, caption, heat=heat))


def _visits(scene: Scene) -> Drawing:
    visits = scene.analysis.visits_by_action
    *counts, passes = visits.tolist()
    labels = [picture.shorten_count(count) if count else "" for count in counts]
    caption = f"visits of each move, {visits.sum()} in all; pass {passes}"
    heat = torch.from_numpy(visits) / max(1, visits.sum()), labels, picture.VISITS
    text = picture.grid_text(labels, scene.game.size, scene.stones)
    return Drawing(f"{text}\npass {passes} visits of {visits.sum()}", partial(_draw_board, scene, caption, heat=heat))


def _ownership(scene: Scene) -> Drawing:
    owned, score = scene.to_play.sign * scene.evaluation.ownership[0], _score_text(scene)
    shares = [f"{round(share):+d}" for share in (100 * owned).flatten().tolist()]
    text = f"{picture.grid_text(shares, scene.game.size)}\n+100 is Black's for sure, -100 White's; {score}"
    return Drawing(text, partial(_draw_board, scene, score, ownership_black=owned))


def _value(scene: Scene) -> Drawing:
    rates, score = evaluate_winrates(scene.shown_game, scene.models.analyst), _score_text(scene)
    shares = [f"{100 * rate:5.1f}" for rate in rates]
    rows = [f"{start:4d}: {' '.join(shares[start : start + 10])}" for start in range(0, len(shares), 10)]
    text = "\n".join([score, "Black's win rate in % after each move:", *rows])
    width = max(CHART_WIDTH, (scene.game.size + 1) * scene.cell)
    return Drawing(text, partial(picture.winrate_chart, rates, scene.move, width, CHART_HEIGHT, score))


def _score_text(scene: Scene) -> str:
    score, value = (scene.to_play.sign * float(part[0]) for part in (scene.evaluation.score, scene.evaluation.value))
    return f"on average {'B' if score >= 0 else 'W'}+{abs(score):.1f}, Black wins {100 * (1 + value) / 2:.1f} %"


def _candidates(scene: Scene) -> Drawing:
    candidates, caption = scene.analysis.candidates, scene.analysis.text(scene.to_play, scene.game.size)
    text = picture.candidates_text(candidates, scene.game.size) if candidates else caption
    return Drawing(text, partial(_draw_board, scene, caption, candidates=candidates))


def _line(scene: Scene) -> Drawing:
    best, colours = scene.analysis.best, (scene.to_play.value, scene.to_play.other.value)
    moves = [] if best is None else [(action, colours[ply % 2]) for ply, action in enumerate(best.pv)]
    caption = scene.analysis.text(scene.to_play, scene.game.size)
    return Drawing(caption, partial(_draw_board, scene, caption, line=moves))


def _planes(scene: Scene) -> Drawing:
    """Every plane, below the encoder's name and its inputs that belong to the whole position."""
    encoder = scene.models.encoder
    planes = encoder.planes(scene.state)[0].float().cpu()
    inputs = zip(encoder.global_names, encoder.globals(scene.state)[0].tolist(), strict=True)
    words = [f"{encoder.num_planes} planes", *(f"{name}: {number:.3g}" for name, number in inputs)]
    heading, names = ", ".join([encoder.name, *words]), [f"{k} {name}" for k, name in enumerate(encoder.plane_names)]
    lines = [heading]
    for plane, name in zip(planes, names, strict=True):
        labels = ["" if value == 0 else f"{value:.3g}" for value in plane.flatten().tolist()]
        lines += [f"plane {name}", picture.grid_text(labels, scene.game.size)]
    return Drawing("\n".join(lines), partial(picture.planes_image, planes, names, scene.stones, heading=heading))


class SceneView(NamedTuple):
    """One thing to show. title: over it. needs: the field of `Models` that it can't do without."""

    title: str
    show: Callable[[Scene], Drawing]
    needs: str = "analyst"


VIEWS = {
    "board": SceneView("board", _board, ""),
    "policy": SceneView("policy", _policy),
    "visits": SceneView("visits", _visits),
    "ownership": SceneView("ownership", _ownership),
    "value": SceneView("value: Black's win rate, %", _value),
    "candidates": SceneView("win rate, %, over visits", _candidates),
    "line": SceneView("best line", _line),
    "planes": SceneView("planes", _planes, "encoder"),
}
NEEDED = {
    "analyst": "--checkpoint with a file, the folder of a run, or mcts:N",
    "encoder": "--features with the name of an encoder, or the --checkpoint of a network",
}


def show(arguments: argparse.Namespace) -> None:
    """Prints text and writes pictures, see `zerogo.__main__.parse_show`. Raises InputError for bad options."""
    if arguments.out is not None and arguments.out.suffix.lower() not in SUFFIXES:
        raise InputError(f"--out is {arguments.out}; allowed are names that end in {' or '.join(SUFFIXES)}")
    models = make_models(arguments)
    game = read_game(arguments.file, models.rules)
    moves = parse_moves(arguments.move, game)
    usual = "board" if models.analyst is None else "policy,ownership"
    what = [name.strip() for name in (arguments.what or usual).split(",")]
    for name in what:
        if name not in VIEWS:
            raise InputError(f"--what is {quote(name)}; allowed are {', '.join(VIEWS)}, several with commas")
        needs = VIEWS[name].needs
        if needs and getattr(models, needs) is None:
            raise InputError(f"--what {name} needs {NEEDED[needs]}")
    for note in [*game.record.notes, *([game.problem] if game.problem else [])]:
        print(f"{game.name}: {note}", file=sys.stderr)
    scenes = [Scene(game, move, models) for move in moves]
    if arguments.text:
        print("\n\n".join(as_text(scene, what) for scene in scenes))
    if arguments.out is not None or not arguments.text:
        _write_pictures(scenes, what, arguments.out)


def as_text(scene: Scene, what: Sequence[str]) -> str:
    """Returns the views of a scene as text, one below the other."""
    lines = [scene.heading]
    for view in (VIEWS[name] for name in what):
        lines += [f"{view.title}:", view.show(scene).text]
    return "\n".join(lines)


def as_image(scene: Scene, what: Sequence[str]) -> np.ndarray:
    """Returns the views of a scene side by side, planes below the others: uint8 [height, width, 3]."""
    views = [VIEWS[name] for name in what if name != "planes"]
    rows = []
    if views:
        columns = len(views) if len(views) <= 3 else 2 if len(views) == 4 else 3
        images, titles = [view.show(scene).draw() for view in views], [view.title for view in views]
        rows.append(picture.mosaic(images, columns, titles, scene.heading))
    if "planes" in what:
        planes = VIEWS["planes"].show(scene).draw()
        rows.append(planes if views else picture.mosaic([planes], 1, (), scene.heading))
    return rows[0] if len(rows) == 1 else picture.mosaic(rows, 1)


def _write_pictures(scenes: list[Scene], what: Sequence[str], out: Path | None) -> None:
    """Writes one PNG for each scene, or one GIF of all, and prints the paths."""
    if out is not None and out.suffix.lower() == ".gif":
        images, frames = [Image.fromarray(as_image(scene, what)) for scene in scenes], []
        largest = tuple(map(max, zip(*(image.size for image in images), strict=True)))
        for image in images:  # all as large as the largest, white to the right and below
            frame = Image.new("RGB", largest, "white")
            frame.paste(image)
            frames.append(frame.quantize(256, dither=Image.Dither.NONE))
        options = {"save_all": True, "append_images": frames[1:], "duration": 1000 * FRAME_SECONDS, "loop": 0}
        _save(out, lambda file: frames[0].save(file, "GIF", **options))
        return
    for scene, path in zip(scenes, _names(scenes, out), strict=True):
        _save(path, picture.png(as_image(scene, what)))


def _save(path: Path, content: bytes | Callable[[BinaryIO], Any]) -> None:
    """Writes a file atomically and prints its path. Raises InputError where that fails."""
    with refuse_os_errors(f"cannot write {path}"):
        write_atomically(path, content, keep_special=True)
    print(path)


def _names(scenes: list[Scene], out: Path | None) -> list[Path]:
    """Returns a file's name for each scene: `out` itself for one, with the number of the move for several."""
    if out is not None and len(scenes) == 1:
        return [out]
    stem = f"{Path(scenes[0].shown_game.name).stem.replace(' ', '-')}-move" if out is None else f"{out.stem}-"
    width = len(str(max(scene.move for scene in scenes)))
    folder = Path() if out is None else out.parent
    return [folder / f"{stem}{scene.move:0{width}d}.png" for scene in scenes]
