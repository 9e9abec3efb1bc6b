"""Positions of a game, what a network and its search make of each, and the views that `--what` names."""

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from PIL import Image

from zerogo import board, coords, picture, sgf
from zerogo.cli import open_front_end
from zerogo.errors import InputError
from zerogo.evaluator import SYMMETRIES, Evaluation, Evaluator
from zerogo.features import Encoder, make_encoder
from zerogo.game import Colour
from zerogo.players import require_size
from zerogo.players.analyst import Analysis, Analyst
from zerogo.players.live import LiveGame
from zerogo.players.playout import MOST_PLAYOUTS, playouts_of
from zerogo.players.session import AnalysisSession
from zerogo.rules import Rules
from zerogo.runtime import make_directory, write_atomically
from zerogo.sgf.record import COLOURS

SUFFIXES = (".png", ".gif")
FRAME_SECONDS = 0.8
CELLS = ((7, 56), (9, 46), (13, 40), (25, 34))  # up to this board side, so many pixels between two lines
CHART_WIDTH, CHART_HEIGHT = 336, 300  # the width is the least
NAMED_MOVES = 8  # of a line that is written
SPARE_NODES = 64
EVALUATED_AT_ONCE = 128  # positions of a game whose values are charted
_RANGE = re.compile(r"(-?\d{1,9})-(-?\d{1,9})")


@dataclasses.dataclass(frozen=True)
class Models:
    """What a command line names; None where it does not. rules: those of the checkpoint."""

    analyst: Analyst | None = None
    encoder: Encoder | None = None
    rules: Rules | None = None


def make_models(arguments: argparse.Namespace) -> Models:
    """Returns the analyst and the encoder of a command line. Raises InputError where there are none such."""
    checkpoint, symmetries, simulations = arguments.checkpoint, arguments.symmetries, arguments.simulations
    is_network = checkpoint is not None and playouts_of(checkpoint) is None
    if is_network and not Path(checkpoint).exists():
        allowed = "allowed are a checkpoint file, the folder of a run and mcts:N"
        raise InputError(f"--checkpoint is {checkpoint!r}; {allowed}")
    if symmetries is not None and symmetries not in SYMMETRIES:
        raise InputError(f"--symmetries is {symmetries!r}; allowed are {', '.join(SYMMETRIES)}")
    if simulations is not None and not 1 <= simulations <= MOST_PLAYOUTS:
        raise InputError(f"--simulations is {simulations}; allowed are 1 to {MOST_PLAYOUTS}")
    arguments.overrides = [] if symmetries is None else [f"evaluation.symmetry={symmetries}"]
    setup = open_front_end(arguments, [checkpoint] if is_network else [])
    features, encoder = setup.config.features, None
    if arguments.features is not None:
        groups = [group for group in arguments.features.split(",") if group]
        encoder = make_encoder(groups if "," in arguments.features else arguments.features, features.komi_input)
    elif is_network:
        encoder = make_encoder(features.encoder, features.komi_input)
    if checkpoint is None:
        return Models(encoder=encoder)
    analyst = setup.analyst(checkpoint, simulations)
    if symmetries is not None and isinstance(analyst.evaluator, Evaluator):
        analyst = dataclasses.replace(analyst, evaluator=analyst.evaluator.with_symmetries(symmetries))
    return Models(analyst, encoder, setup.config.game.rules() if is_network else None)


@dataclasses.dataclass
class ShownGame:
    """A game as it is shown. name: for people. last: moves that can be played. problem: why not more, or None."""

    name: str
    record: sgf.GameRecord
    last: int
    problem: str | None = None


def read_game(path: str | Path) -> ShownGame:
    """Returns the game of an SGF file, up to an illegal move. Raises InputError where the file can't be read."""
    record = sgf.read(path)
    states, problem = sgf.replay(record)
    return ShownGame(Path(path).name, record, len(states) - 1, problem)


def empty_game(models: Models) -> ShownGame:
    """Returns an empty board with the checkpoint's rules. Raises InputError where nothing says how large it is."""
    if models.rules is None:
        raise InputError("there is nothing to show; give an SGF file, or a checkpoint, whose empty board is shown")
    return ShownGame("empty board", sgf.GameRecord(models.rules, []), 0)


def chosen_moves(text: str | None, game: ShownGame) -> list[int]:
    """Returns the moments that --move names: moves that have been played, 0 to all of them.

    text: numbers and ranges, "40", "10-20", "5,10-12", "all"; negative ones count from the end, -1 is after the last
    move. None is the last that can be shown. Raises InputError for another text, and for a move that the game doesn't
    have."""
    if text is None:
        return [_moment(max(0, game.last), game)]
    if text == "all":
        _moment(0, game)
        return list(range(game.last + 1))
    found: list[int] = []
    for part in text.replace(" ", "").split(","):
        match = _RANGE.fullmatch(part)
        if match:
            first, last = _moment(int(match[1]), game), _moment(int(match[2]), game)
            found += range(first, last + 1) if first <= last else range(first, last - 1, -1)
        elif re.fullmatch(r"-?\d{1,9}", part):
            found.append(_moment(int(part), game))
        else:
            allowed = "allowed are numbers and ranges such as 40, -1, 10-20 or 5,10,15, and all"
            raise InputError(f"--move is {text!r}; {allowed}")
    return list(dict.fromkeys(found))


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

    def __init__(self, shown: ShownGame, move: int, models: Models) -> None:
        self.shown, self.move, self.models = shown, move, models
        self.game = LiveGame.of_record(sgf.since_edit(shown.record, move))
        if models.analyst is not None:
            require_size(models.analyst, self.game.size, f"{shown.name} is on")
        self.stones = torch.tensor(self.game.state.stones(), dtype=torch.int8)
        turns = shown.record.turns()
        # Who moves next in the game, at its end the other side.
        self.to_play = COLOURS[turns[move]] if move < len(turns) else self.game.to_play
        self.sign_black = 1 if self.to_play is Colour.BLACK else -1  # turns the side to move's view into Black's

    @property
    def last_action(self) -> int | None:
        """The last move, None before the first."""
        return self.shown.record.moves[self.move - 1] if self.move else None

    @property
    def numbers(self) -> dict[int, int]:
        """The move number of each stone that a move has put on the board, by point."""
        stones = [*self.stones.flatten().tolist(), 0]  # no stone for a pass
        placed = {action: number for number, action in enumerate(self.shown.record.moves[: self.move], start=1)}
        return {point: number for point, number in placed.items() if stones[point]}

    @property
    def heading(self) -> str:
        """Which moment of which game it is, and the analyst's name."""
        words = [self.shown.name]
        if self.last_action is not None:
            colour = "Black" if self.shown.record.turns()[self.move - 1] == "b" else "White"
            words.append(f"move {self.move} ({colour} {coords.to_gtp(self.last_action, self.game.size)})")
        elif self.shown.record.moves:
            words.append("move 0")
        words.append(f"{self.to_play.name.capitalize()} to move")
        return ", ".join(words if self.models.analyst is None else [*words, self.models.analyst.name])

    @cached_property
    def state(self) -> board.State:
        """The position as a batch of one."""
        return self.game.tensor("cpu" if self.models.analyst is None else self.models.analyst.device, self.to_play)

    @cached_property
    def evaluation(self) -> Evaluation:
        """What the network says without a search, a batch of one on the host."""
        return self.models.analyst.evaluate(self.state).map(lambda part: part.float().cpu())

    @cached_property
    def analysis(self) -> Analysis:
        """What the search says."""
        analyst = self.models.analyst
        session = AnalysisSession(analyst, capacity=2 * analyst.simulations + SPARE_NODES)
        session.set_position(self.game, self.to_play)
        session.run(analyst.simulations)
        return session.analysis()

    @cached_property
    def planes(self) -> torch.Tensor:
        """What the encoder makes of the position: float32 [C, N, N]."""
        return self.models.encoder.planes(self.state)[0].float().cpu()


def winrates_black(game: ShownGame, analyst: Analyst) -> np.ndarray:
    """Returns Black's chances to win after 0, 1, 2, … moves, by the network alone: float64 [moves + 1]."""
    found: list[float] = []
    for start in range(0, game.last + 1, EVALUATED_AT_ONCE):
        moments = range(start, min(game.last + 1, start + EVALUATED_AT_ONCE))
        states = sgf.positions([game.record] * len(moments), moments, analyst.device, check=False)
        value = analyst.evaluator(states).value.float()
        found += ((torch.where(states.to_play == board.BLACK, value, -value) + 1) / 2).tolist()
    return np.array(found)


@dataclasses.dataclass(frozen=True)
class Style:
    """How pictures are drawn. cell: pixels between two lines, 0 for what suits the board. numbers: whether stones carry
    move numbers. winrates_black: for the chart, [moves + 1]."""

    cell: int = 0
    numbers: bool = False
    winrates_black: np.ndarray | None = None

    def cell_of(self, size: int) -> int:
        """Returns the pixels between two lines of a board."""
        return self.cell or next(cell for most, cell in CELLS if size <= most)


def _board(scene: Scene, style: Style, caption: str, **marks: Any) -> np.ndarray:
    """Returns the board with its last move, and whatever else is asked for."""
    drawn = {"cell": style.cell_of(scene.game.size), "numbers": scene.numbers if style.numbers else None} | marks
    return picture.board_image(scene.stones, scene.last_action, caption=caption, **drawn)


def _rules_text(scene: Scene) -> str:
    black, white = (scene.game.state.captures[player] for player in (Colour.BLACK, Colour.WHITE))
    prisoners = f", prisoners: Black has {black}, White {white}" if black or white else ""
    return f"komi {scene.game.rules.komi:g}{prisoners}"


def _board_text(scene: Scene, _: Style) -> str:
    return f"{picture.board_text(scene.stones, scene.last_action)}\n{_rules_text(scene)}"


def _policy_text(scene: Scene, _: Style) -> str:
    prior = (100 * scene.evaluation.prior[0]).tolist()
    labels = [f"{share:.1f}" if share >= 0.05 else "" for share in prior[:-1]]
    return f"{picture.grid_text(labels, scene.game.size, scene.stones)}\npass {prior[-1]:.1f} %"


def _ownership_image(scene: Scene, style: Style) -> np.ndarray:
    return _board(scene, style, _score_text(scene), ownership_black=scene.sign_black * scene.evaluation.ownership[0])


def _ownership_text(scene: Scene, _: Style) -> str:
    owned = (100 * scene.sign_black * scene.evaluation.ownership[0]).flatten().tolist()
    grid = picture.grid_text([f"{round(share):+d}" for share in owned], scene.game.size)
    return f"{grid}\n+100 is Black's for sure, -100 White's; {_score_text(scene)}"


def _score_text(scene: Scene) -> str:
    score, value = (scene.sign_black * float(part[0]) for part in (scene.evaluation.score, scene.evaluation.value))
    return f"on average {'B' if score >= 0 else 'W'}+{abs(score):.1f}, Black wins {100 * (1 + value) / 2:.1f} %"


def _value_image(scene: Scene, style: Style) -> np.ndarray:
    width = max(CHART_WIDTH, (scene.game.size + 1) * style.cell_of(scene.game.size))
    return picture.winrate_chart(style.winrates_black, scene.move, width, CHART_HEIGHT, _score_text(scene))


def _value_text(scene: Scene, style: Style) -> str:
    shares = [f"{100 * rate:5.1f}" for rate in style.winrates_black]
    rows = [f"{start:4d}: {' '.join(shares[start : start + 10])}" for start in range(0, len(shares), 10)]
    return "\n".join([_score_text(scene), "Black's win rate in % after each move:", *rows])


def _visits_image(scene: Scene, style: Style) -> np.ndarray:
    visits = torch.from_numpy(scene.analysis.visits_by_action)
    return _board(scene, style, f"visits of each move, {int(visits.sum())} in all", visits=visits)


def _visits_text(scene: Scene, _: Style) -> str:
    visits = scene.analysis.visits_by_action.tolist()
    labels = [picture.short_count(count) if count else "" for count in visits[:-1]]
    return f"{picture.grid_text(labels, scene.game.size, scene.stones)}\npass {visits[-1]} visits of {sum(visits)}"


def _candidates_text(scene: Scene, _: Style) -> str:
    candidates = scene.analysis.candidates
    return picture.candidates_text(candidates, scene.game.size) if candidates else _best_text(scene)


def _best_text(scene: Scene) -> str:
    """Returns the best move with its line, for the side to move."""
    best, size = scene.analysis.best, scene.game.size
    if best is None:
        return "no move to think about: the game is over"
    line = coords.vertices(best.pv[:NAMED_MOVES], size)
    win = f"{scene.to_play.name.capitalize()} wins {100 * best.winrate:.1f} %, {best.score:+.1f} points"
    return f"{coords.to_gtp(best.action, size)}: {win}, {best.visits} visits\nbest line: {line}"


def _line_image(scene: Scene, style: Style) -> np.ndarray:
    best, colours = scene.analysis.best, (scene.to_play.value, scene.to_play.other.value)
    moves = [] if best is None else [(action, colours[ply % 2]) for ply, action in enumerate(best.pv)]
    return _board(scene, style, _best_text(scene), line=moves)


def _planes_image(scene: Scene, _: Style) -> np.ndarray:
    return picture.planes_image(scene.planes, _plane_names(scene), scene.stones, heading=_inputs_text(scene))


def _planes_text(scene: Scene, _: Style) -> str:
    parts = [_inputs_text(scene)]
    for plane, name in zip(scene.planes, _plane_names(scene), strict=True):
        labels = ["" if value == 0 else f"{value:.3g}" for value in plane.flatten().tolist()]
        parts += [f"plane {name}", picture.grid_text(labels, scene.game.size)]
    return "\n".join(parts)


def _plane_names(scene: Scene) -> list[str]:
    return [f"{number} {name}" for number, name in enumerate(scene.models.encoder.plane_names())]


def _inputs_text(scene: Scene) -> str:
    """Returns the encoder's name and its inputs that belong to the whole position."""
    encoder = scene.models.encoder
    numbers = encoder.globals(scene.state)[0].tolist()
    inputs = [f"{name}: {number:.3g}" for name, number in zip(encoder.global_names(), numbers, strict=True)]
    return ", ".join([encoder.name, f"{encoder.num_planes} planes", *inputs])


class SceneView(NamedTuple):
    """One thing to show. needs: the field of `Models` that it can't do without. title: over it, with {side} for who is
    to move and {simulations} for those of the search."""

    needs: str
    title: str
    image: Callable[[Scene, Style], np.ndarray]
    text: Callable[[Scene, Style], str]

    def title_of(self, scene: Scene) -> str:
        """Returns the title over a scene."""
        simulations = scene.models.analyst.simulations if scene.models.analyst is not None else 0
        return self.title.format(side=scene.to_play.name.capitalize(), simulations=simulations)


VIEWS = {
    "board": SceneView("", "board", lambda scene, style: _board(scene, style, _rules_text(scene)), _board_text),
    "policy": SceneView(
        "analyst",
        "policy",
        lambda scene, style: _board(scene, style, "probability of each move, %", policy=scene.evaluation.prior[0]),
        _policy_text,
    ),
    "visits": SceneView("analyst", "visits of {simulations} simulations", _visits_image, _visits_text),
    "ownership": SceneView("analyst", "ownership", _ownership_image, _ownership_text),
    "value": SceneView("analyst", "value: Black's win rate, %", _value_image, _value_text),
    "candidates": SceneView(
        "analyst",
        "{side}'s win rate, %, over visits",
        lambda scene, style: _board(scene, style, _best_text(scene), candidates=scene.analysis.candidates),
        _candidates_text,
    ),
    "line": SceneView("analyst", "best line", _line_image, lambda scene, _: _best_text(scene)),
    "planes": SceneView("encoder", "planes", _planes_image, _planes_text),
}
NEEDED = {
    "analyst": "--checkpoint, which says what thinks: a file, the folder of a run, or mcts:N",
    "encoder": "--features with the name of an encoder, or the --checkpoint of a network",
}


def show(arguments: argparse.Namespace) -> None:
    """Does what a command line says, see `show.__main__.parse`. Raises InputError for bad words in it."""
    if arguments.cell and not 12 <= arguments.cell <= 200:
        raise InputError(f"--cell is {arguments.cell}; allowed are 12 to 200 pixels")
    if arguments.out is not None and arguments.out.suffix.lower() not in SUFFIXES:
        raise InputError(f"--out is {arguments.out}; allowed are names that end in {' or '.join(SUFFIXES)}")
    game = read_game(arguments.file) if arguments.file is not None else None
    moves = chosen_moves(arguments.move, game) if game is not None else []
    models = make_models(arguments)
    usual = "board" if models.analyst is None else "policy,ownership"
    what = [name.strip() for name in (arguments.what or usual).split(",")]
    for name in what:
        if name not in VIEWS:
            raise InputError(f"--what is {name!r}; allowed are {', '.join(VIEWS)}, several with commas")
        needs = VIEWS[name].needs
        if needs and getattr(models, needs) is None:
            raise InputError(f"--what {name} needs {NEEDED[needs]}")
    if game is None:
        game = empty_game(models)
        moves = chosen_moves(arguments.move, game)
    for note in [*game.record.notes, *([game.problem] if game.problem else [])]:
        print(f"{game.name}: {note}", file=sys.stderr)
    scenes = [Scene(game, move, models) for move in moves]
    winrates = winrates_black(game, models.analyst) if "value" in what else None
    style = Style(arguments.cell, arguments.numbers, winrates)
    if arguments.text:
        print("\n\n".join(as_text(scene, what, style) for scene in scenes))
    if arguments.out is not None or not arguments.text:
        _write_pictures(scenes, what, style, arguments.out)


def as_text(scene: Scene, what: Sequence[str], style: Style) -> str:
    """Returns the views of a scene as text, one below the other."""
    parts = [scene.heading]
    for view in (VIEWS[name] for name in what):
        parts += [f"{view.title_of(scene)}:", view.text(scene, style)]
    return "\n".join(parts)


def as_image(scene: Scene, what: Sequence[str], style: Style) -> np.ndarray:
    """Returns the views of a scene side by side, planes below the others: uint8 [height, width, 3]."""
    views = [VIEWS[name] for name in what if name != "planes"]
    parts = []
    if views:
        columns = len(views) if len(views) <= 3 else 2 if len(views) == 4 else 3
        images, titles = [view.image(scene, style) for view in views], [view.title_of(scene) for view in views]
        parts.append(picture.mosaic(images, columns, 8, titles, scene.heading))
    if "planes" in what:
        planes = VIEWS["planes"].image(scene, style)
        parts.append(planes if views else picture.mosaic([planes], 1, 8, (), scene.heading))
    return parts[0] if len(parts) == 1 else picture.mosaic(parts, 1, 8)


def _write_pictures(scenes: list[Scene], what: Sequence[str], style: Style, out: Path | None) -> None:
    """Writes one PNG for each scene, or one GIF of all, and says where."""
    if out is not None:
        make_directory(out.parent)
    if out is not None and out.suffix.lower() == ".gif":
        images = _same_size([as_image(scene, what, style) for scene in scenes])
        first, *others = [Image.fromarray(image).quantize(256, dither=Image.Dither.NONE) for image in images]
        frames = {"save_all": True, "append_images": others, "duration": 1000 * FRAME_SECONDS, "loop": 0}
        _save(out, lambda file: first.save(file, "GIF", **frames))
        return
    for scene, path in zip(scenes, _names(scenes, out), strict=True):
        content = picture.png(as_image(scene, what, style))
        _save(path, lambda file, content=content: file.write(content))


def _save(path: Path, writer: Callable[[BinaryIO], Any]) -> None:
    """Writes a file whole, and says where. Raises InputError where it can't be."""
    try:
        write_atomically(path, writer)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    print(path)


def _names(scenes: list[Scene], out: Path | None) -> list[Path]:
    """Returns a file's name for each scene: `out` itself for one, with the number of the move for several."""
    if out is not None and len(scenes) == 1:
        return [out]
    stem = f"{Path(scenes[0].shown.name).stem.replace(' ', '-')}-move" if out is None else f"{out.stem}-"
    width = len(str(max(scene.move for scene in scenes)))
    folder = Path() if out is None else out.parent
    return [folder / f"{stem}{scene.move:0{width}d}.png" for scene in scenes]


def _same_size(images: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns pictures with white to the right and below, so that all are as large as the largest."""
    height, width = (max(image.shape[axis] for image in images) for axis in (0, 1))
    margins = [((0, height - image.shape[0]), (0, width - image.shape[1]), (0, 0)) for image in images]
    return [np.pad(image, margin, constant_values=255) for image, margin in zip(images, margins, strict=True)]
