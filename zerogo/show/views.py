"""What `--what` names: each as a picture and as text, drawn from a scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from zerogo import coords, picture
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.show.scenes import Scene, Watcher, plane_names

CELLS = ((7, 56), (9, 46), (13, 40), (25, 34))  # up to this board side, so many pixels between two lines
CHART_HEIGHT = 300
CHART_WIDTH = 336  # at least
NAMED_MOVES = 8  # of a line that is written


@dataclass(frozen=True)
class Style:
    """How pictures are drawn. cell: pixels between two lines, 0 for what suits the board. numbers: whether stones carry
    move numbers.

    winrates_black: Black's chance to win after each move, [moves + 1], for the chart; None where it is not asked for.
    """

    cell: int = 0
    numbers: bool = False
    winrates_black: np.ndarray | None = None

    def cell_of(self, size: int) -> int:
        return self.cell or next(cell for most, cell in CELLS if size <= most)


@dataclass(frozen=True)
class View:
    """One thing to show. needs: "" for nothing, "analyst" for who thinks, "encoder" for planes. title: over the
    picture, words: as text."""

    needs: str
    title: Callable[[Scene], str]
    image: Callable[[Scene, Style], np.ndarray]
    words: Callable[[Scene, Style], str]


def require(what: Sequence[str], watcher: Watcher) -> None:
    """Raises InputError for a view that there is not, and for one that needs what nobody gave."""
    for name in what:
        if name not in VIEWS:
            raise InputError(f"--what is {name!r}; allowed are {', '.join(VIEWS)}, several with commas")
        if VIEWS[name].needs == "analyst" and watcher.analyst is None:
            raise InputError(
                f"--what {name} needs --checkpoint, which says what thinks: a file, the folder of a run, or mcts:N"
            )
        if VIEWS[name].needs == "encoder" and watcher.encoder is None:
            raise InputError(
                "--what planes needs --features with the name of an encoder, or the --checkpoint of a network"
            )


def draw(scene: Scene, what: Sequence[str], style: Style) -> np.ndarray:
    """Returns the views of a scene side by side, planes below the others: uint8 [height, width, 3]."""
    panels = [name for name in what if name != "planes"]
    heading = heading_of(scene)
    parts = []
    if panels:
        columns = len(panels) if len(panels) <= 3 else 2 if len(panels) == 4 else 3
        images, titles = (
            [VIEWS[name].image(scene, style) for name in panels],
            [VIEWS[name].title(scene) for name in panels],
        )
        parts.append(picture.mosaic(images, columns, 8, titles, heading))
    if "planes" in what:
        planes = VIEWS["planes"].image(scene, style)
        parts.append(planes if panels else picture.mosaic([planes], 1, 8, (), heading))
    return parts[0] if len(parts) == 1 else picture.mosaic(parts, 1, 8)


def write(scene: Scene, what: Sequence[str], style: Style) -> str:
    """Returns the views of a scene as text, one below the other."""
    parts = [heading_of(scene)]
    for name in what:
        parts += [f"{VIEWS[name].title(scene)}:", VIEWS[name].words(scene, style)]
    return "\n".join(parts)


def heading_of(scene: Scene) -> str:
    """Returns which moment of which game a scene is, and who thinks."""
    words = [scene.story.name]
    if scene.story.record.moves:
        words.append(f"move {scene.move}" + (f" ({scene.last_move_words})" if scene.move else ""))
    words.append(f"{_name(scene.to_play)} to move")
    if scene.watcher.analyst is not None:
        words.append(scene.watcher.analyst.name)
    return ", ".join(words)


def _name(player: Colour) -> str:
    return "Black" if player is Colour.BLACK else "White"


def _board(scene: Scene, style: Style, caption: str = "", **marks) -> np.ndarray:
    """Returns the board with its last move, and whatever else is asked for."""
    last = scene.story.record.moves[scene.move - 1] if scene.move else None
    numbers = scene.numbers if style.numbers else None
    return picture.board_image(
        scene.stones, last, caption=caption, cell=style.cell_of(scene.game.size), numbers=numbers, **marks
    )


# The board


def _board_image(scene: Scene, style: Style) -> np.ndarray:
    return _board(scene, style, _rules_words(scene))


def _board_words(scene: Scene, style: Style) -> str:
    last = scene.story.record.moves[scene.move - 1] if scene.move else None
    return f"{picture.board_text(scene.stones, last)}\n{_rules_words(scene)}"


def _rules_words(scene: Scene) -> str:
    black, white = (scene.game.state.captures[player] for player in (Colour.BLACK, Colour.WHITE))
    taken = f", prisoners: Black has {black}, White {white}" if black or white else ""
    return f"komi {scene.rules.komi:g}{taken}"


# What the network says


def _policy_image(scene: Scene, style: Style) -> np.ndarray:
    return _board(scene, style, "probability of each move, %", policy=scene.evaluation.prior[0])


def _policy_words(scene: Scene, style: Style) -> str:
    prior = (100 * scene.evaluation.prior[0]).tolist()
    labels = [f"{share:.1f}" if share >= 0.05 else "" for share in prior[:-1]]
    return f"{picture.grid_text(labels, scene.game.size, scene.stones)}\npass {prior[-1]:.1f} %"


def _ownership_image(scene: Scene, style: Style) -> np.ndarray:
    return _board(scene, style, _score_words(scene), ownership_black=scene.sign_black * scene.evaluation.ownership[0])


def _ownership_words(scene: Scene, style: Style) -> str:
    owned = (100 * scene.sign_black * scene.evaluation.ownership[0]).flatten().tolist()
    labels = [f"{round(share):+d}" for share in owned]
    return (
        f"{picture.grid_text(labels, scene.game.size)}\n+100 is Black's for sure, -100 White's; {_score_words(scene)}"
    )


def _score_words(scene: Scene) -> str:
    score = scene.sign_black * float(scene.evaluation.score[0])
    return f"on average {'B' if score >= 0 else 'W'}+{abs(score):.1f}, {_chance_words(scene)}"


def _chance_words(scene: Scene) -> str:
    return f"Black wins {100 * (1 + scene.sign_black * float(scene.evaluation.value[0])) / 2:.1f} %"


def _value_image(scene: Scene, style: Style) -> np.ndarray:
    assert style.winrates_black is not None
    width = max(CHART_WIDTH, (scene.game.size + 1) * style.cell_of(scene.game.size))
    return picture.winrate_chart(style.winrates_black, scene.move, width, CHART_HEIGHT, _score_words(scene))


def _value_words(scene: Scene, style: Style) -> str:
    assert style.winrates_black is not None
    shares = [f"{100 * rate:5.1f}" for rate in style.winrates_black]
    rows = [f"{start:4d}: {' '.join(shares[start : start + 10])}" for start in range(0, len(shares), 10)]
    return "\n".join([_score_words(scene), "Black's win rate in % after each move:", *rows])


# What the search says


def _visits_image(scene: Scene, style: Style) -> np.ndarray:
    visits = torch.from_numpy(scene.analysis.visits_by_action)
    return _board(scene, style, f"visits of each move, {int(visits.sum())} in all", visits=visits)


def _visits_words(scene: Scene, style: Style) -> str:
    visits = scene.analysis.visits_by_action.tolist()
    labels = [picture.short_count(count) if count else "" for count in visits[:-1]]
    return f"{picture.grid_text(labels, scene.game.size, scene.stones)}\npass {visits[-1]} visits of {sum(visits)}"


def _candidates_image(scene: Scene, style: Style) -> np.ndarray:
    return _board(scene, style, _best_words(scene), candidates=scene.analysis.candidates)


def _candidates_words(scene: Scene, style: Style) -> str:
    if not scene.analysis.candidates:
        return _best_words(scene)
    return picture.candidates_text(scene.analysis.candidates, scene.game.size)


def _best_words(scene: Scene) -> str:
    """Returns the best move with its line, for the side to move."""
    best = scene.analysis.best
    if best is None:
        return "no move to think about: the game is over"
    size = scene.game.size
    line = " ".join(coords.to_gtp(action, size) for action in best.pv[:NAMED_MOVES])
    win = f"{_name(scene.to_play)} wins {100 * best.winrate:.1f} %, {best.score:+.1f} points"
    return f"{coords.to_gtp(best.action, size)}: {win}, {best.visits} visits\nbest line: {line}"


def _line_image(scene: Scene, style: Style) -> np.ndarray:
    best, colour = scene.analysis.best, scene.to_play.value
    moves = (
        [] if best is None else [(action, colour if ply % 2 == 0 else 3 - colour) for ply, action in enumerate(best.pv)]
    )
    return _board(scene, style, _best_words(scene), line=moves)


def _line_words(scene: Scene, style: Style) -> str:
    return _best_words(scene)


# What the network sees


def _planes_image(scene: Scene, style: Style) -> np.ndarray:
    return picture.planes_image(
        scene.planes, plane_names(scene.watcher.encoder), scene.stones, heading=_inputs_words(scene)
    )


def _planes_words(scene: Scene, style: Style) -> str:
    parts = [_inputs_words(scene)]
    for plane, name in zip(scene.planes, plane_names(scene.watcher.encoder), strict=True):
        labels = ["" if value == 0 else f"{value:.3g}" for value in plane.flatten().tolist()]
        parts += [f"plane {name}", picture.grid_text(labels, scene.game.size)]
    return "\n".join(parts)


def _inputs_words(scene: Scene) -> str:
    """Returns the encoder's name and its inputs that belong to the whole position."""
    encoder = scene.watcher.encoder
    numbers = encoder.globals(scene.state)[0].tolist()
    inputs = [f"{name}: {number:.3g}" for name, number in zip(encoder.global_names(), numbers, strict=True)]
    return ", ".join([encoder.name, f"{encoder.num_planes} planes", *inputs])


VIEWS: dict[str, View] = {
    "board": View("", lambda _: "board", _board_image, _board_words),
    "policy": View("analyst", lambda _: "policy", _policy_image, _policy_words),
    "visits": View(
        "analyst", lambda scene: f"visits of {scene.watcher.simulations} simulations", _visits_image, _visits_words
    ),
    "ownership": View("analyst", lambda _: "ownership", _ownership_image, _ownership_words),
    "value": View("analyst", lambda _: "value: Black's win rate, %", _value_image, _value_words),
    "candidates": View(
        "analyst",
        lambda scene: f"{_name(scene.to_play)}'s win rate, %, over visits",
        _candidates_image,
        _candidates_words,
    ),
    "line": View("analyst", lambda _: "best line", _line_image, _line_words),
    "planes": View("encoder", lambda _: "planes", _planes_image, _planes_words),
}
