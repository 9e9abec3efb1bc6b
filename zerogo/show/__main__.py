"""`python -m zerogo.show`: reads the arguments and writes pictures of a game's positions, or prints them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from zerogo.errors import InputError

if TYPE_CHECKING:
    from zerogo.show.scenes import Scene, Story, Watcher
    from zerogo.show.views import Style

EXAMPLES = """
what is shown, one or several with commas:
  board        stones, last move (--numbers: move numbers)
  policy       the network's probability of each move
  ownership    whose point each will be in the end
  value        Black's win rate through the whole game, as a chart
  visits       how often the search tried each move
  candidates   win rate and visits of the search's moves
  line         the moves that the search expects
  planes       every plane of features that the network sees

examples:
  python -m zerogo.show game.sgf
  python -m zerogo.show game.sgf --move 40 --what policy,ownership --checkpoint checkpoints/9x9
  python -m zerogo.show game.sgf --move all --what candidates,value --checkpoint checkpoints/9x9 --out game.gif
  python -m zerogo.show --what policy --checkpoint checkpoints/quickstart-5x5.pt --text
  python -m zerogo.show game.sgf --move 12 --what planes --features zero17
"""
SUFFIXES = (".png", ".gif")
FRAME_SECONDS = 0.8


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Returns the command line's settings."""
    kind = argparse.RawDescriptionHelpFormatter
    about = "Pictures of the positions of a game, and of what a network thinks of them."
    parser = argparse.ArgumentParser(
        prog="python -m zerogo.show", description=about, epilog=EXAMPLES, formatter_class=kind
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE.sgf", help="the game (default: the empty board of the checkpoint)"
    )
    parser.add_argument(
        "--move",
        metavar="M",
        help="40, -1 (the end), 10-20, 5,10,15 or all; several make several pictures (default: -1)",
    )
    parser.add_argument("--what", help="see below (default: board, with a checkpoint policy,ownership)")
    parser.add_argument("--checkpoint", metavar="X", help="what thinks: a file, the folder of a run, or mcts:N")
    parser.add_argument(
        "--simulations", type=int, metavar="N", help="of each search (default: the checkpoint's evaluation.simulations)"
    )
    parser.add_argument(
        "--symmetries",
        metavar="S",
        help="all, random or none (default: all for what is shown, the run's in the search)",
    )
    parser.add_argument(
        "--features",
        metavar="NAME",
        help="encoder of the planes, or plane groups with commas (default: the checkpoint's)",
    )
    parser.add_argument("--numbers", action="store_true", help="write move numbers on the stones")
    parser.add_argument(
        "--cell", type=int, default=0, metavar="PIXELS", help="pixels between two lines, 12 to 200 (default: by board)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE.png", help=".png, or .gif for several moves in turn (default: NAME-moveM.png)"
    )
    parser.add_argument("--text", action="store_true", help="print as text, and write a picture only with --out")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda")
    return parser.parse_args(arguments)


def main(arguments: argparse.Namespace) -> None:
    """Does what the command line says."""
    from zerogo.show.scenes import Scene, chosen_moves, empty_story, make_watcher, read_story
    from zerogo.show.views import require, write

    if arguments.cell and not 12 <= arguments.cell <= 200:
        raise InputError(f"--cell is {arguments.cell}; allowed are 12 to 200 pixels")
    if arguments.out is not None and arguments.out.suffix.lower() not in SUFFIXES:
        raise InputError(f"--out is {arguments.out}; allowed are names that end in {' or '.join(SUFFIXES)}")
    story = read_story(arguments.file) if arguments.file is not None else None
    moves = chosen_moves(arguments.move, story) if story is not None else [0]
    watcher = make_watcher(
        arguments.checkpoint, arguments.simulations, arguments.symmetries, arguments.features, arguments.device
    )
    usual = "board" if watcher.analyst is None else "policy,ownership"
    what = [name.strip() for name in (arguments.what or usual).split(",")]
    require(what, watcher)
    if story is None:
        story = empty_story(watcher)
        moves = chosen_moves(arguments.move, story)
    for note in [*story.record.notes, *([story.problem] if story.problem else [])]:
        print(f"{story.name}: {note}", file=sys.stderr)
    scenes = [Scene(story, move, watcher) for move in moves]
    style = _style(arguments, what, story, watcher)
    if arguments.text:
        print("\n\n".join(write(scene, what, style) for scene in scenes))
    if arguments.out is not None or not arguments.text:
        _write_pictures(scenes, what, style, arguments.out)


def _style(arguments: argparse.Namespace, what: list[str], story: Story, watcher: Watcher) -> Style:
    from zerogo.show.scenes import winrates_black
    from zerogo.show.views import Style

    return Style(arguments.cell, arguments.numbers, winrates_black(story, watcher) if "value" in what else None)


def _write_pictures(scenes: list[Scene], what: list[str], style: Style, out: Path | None) -> None:
    """Writes one PNG for each scene, or one GIF of all, and says where."""
    from PIL import Image

    from zerogo import picture
    from zerogo.runtime import make_directory
    from zerogo.show.views import draw

    if out is not None:
        make_directory(out.parent)
    if out is not None and out.suffix.lower() == ".gif":
        images = _same_size([draw(scene, what, style) for scene in scenes])
        first, *others = [Image.fromarray(image).quantize(256, dither=Image.Dither.NONE) for image in images]
        _save(
            out,
            lambda file: first.save(
                file, "GIF", save_all=True, append_images=others, duration=1000 * FRAME_SECONDS, loop=0
            ),
        )
        print(out)
        return
    for scene, path in zip(scenes, _names(scenes, out), strict=True):
        content = picture.png(draw(scene, what, style))
        _save(path, lambda file, content=content: file.write(content))
        print(path)


def _save(path: Path, writer) -> None:
    """Writes a file whole. Raises InputError where it can't be."""
    from zerogo.runtime import write_atomically

    try:
        write_atomically(path, writer)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def _names(scenes: list[Scene], out: Path | None) -> list[Path]:
    """Returns a file's name for each scene: `out` itself for one, with the number of the move for several."""
    if out is not None and len(scenes) == 1:
        return [out]
    stem = out.with_suffix("") if out is not None else Path(f"{Path(scenes[0].story.name).stem.replace(' ', '-')}-move")
    width = len(str(max(scene.move for scene in scenes)))
    numbers = [f"{scene.move:0{width}d}" for scene in scenes]
    return [stem.with_name(f"{stem.name}{'-' if out is not None else ''}{number}.png") for number in numbers]


def _same_size(images: list) -> list:
    """Returns pictures with white to the right and below, so that all are as large as the largest."""
    import numpy as np

    height, width = (max(image.shape[axis] for image in images) for axis in (0, 1))
    return [
        np.pad(image, ((0, height - image.shape[0]), (0, width - image.shape[1]), (0, 0)), constant_values=255)
        for image in images
    ]


if __name__ == "__main__":
    parsed = parse()  # before the imports, which take seconds: --help answers at once
    from zerogo.runtime import script_main

    script_main(lambda: main(parsed))
