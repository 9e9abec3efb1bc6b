"""`zerogo COMMAND …`: one program for training, play, analysis and measurements; and the command lines of `train`,
`selfplay`, `evaluate`, `play` and `show`, with the calls that they make.

Importing this module imports no torch, so that --help and mistakes in a command line are answered at once."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerogo import __version__, cli
from zerogo.errors import InputError

if TYPE_CHECKING:  # it imports torch
    from zerogo.config import Config

COMMANDS = {
    "train": "train a network: self-play and training in turn, and matches",
    "selfplay": "write games and samples of a network, or play for a run, on any machine",
    "evaluate": "matches between networks, tree search and other engines; ratings of a run",
    "play": "play in the terminal: people, networks, tree search without a network",
    "gtp": "an engine for Sabaki, GoGui, Lizzie, KGS and other programs that speak GTP",
    "analysis": "answers KataGo's JSON analysis protocol, as KaTrain and scripts use it",
    "show": "pictures of a game's positions and of what a network thinks of them",
    "bench": "measurements of speed and learning",
}
TRAIN = "Starts or resumes a training run: self-play and training in turn, and matches."
TRAIN_EXAMPLES = """
examples:
  zerogo train                                           the quick start: 5x5, 2 to 8 minutes on a CPU
  zerogo train --config configs/9x9.yaml                 a run with other settings
  zerogo train --config configs/7x7.yaml --run mine training.learning_rate=1e-3 pipeline.minutes=60
  zerogo train --config mine.yaml --from checkpoints/7x7.pt              starts with that network's weights
  zerogo train --config mine.yaml --from kata1-b6c96.bin.gz              starts with a network of KataGo's
  zerogo train --resume --run mine                       resumes checkpoints/mine
  zerogo train --export mine.pt --run mine               writes its newest network, to play, to share, or for --from
  zerogo train --export mine.bin.gz --run mine           for KataGo's engine, if the run has network.architecture=katago
  zerogo train --keys                                    lists every setting with its meaning and range
  torchrun --nproc-per-node 8 --max-restarts 99 -m -- zerogo train --config configs/19x19.yaml   on 8 GPUs
  tensorboard --logdir checkpoints                       shows the charts and pictures of all runs

A run is a folder, checkpoints/NAME, with its settings (config.yaml), checkpoints, samples, games and logs.
Stop it with Ctrl-C or in any other way; --resume continues it.
A configs/NAME.yaml or checkpoints/NAME.pt that does not exist here is the one shipped with zerogo.
"""
SELFPLAY = "Plays games of a trained network against itself; writes the games (SGF) and the training samples."
SELFPLAY_EXAMPLES = """
examples:
  zerogo selfplay --checkpoint checkpoints/quickstart --games 100
  zerogo selfplay --checkpoint checkpoints/9x9/checkpoints/step-00012000.pt --games 1000 --out games
  zerogo selfplay --watch checkpoints/9x9     plays for a run with replay.external=true, on any machine that sees its folder
  torchrun --nproc-per-node 8 -m -- zerogo selfplay --checkpoint checkpoints/9x9.pt --games 100000  shared by 8 GPUs

The settings are those of the checkpoint's run, unless --config or section.key=value replace them (`zerogo train --keys` lists them).
"""  # noqa: E501
EVALUATE = "Plays a round-robin match and reports win rates by colour with 95 % intervals, and Elo."
EVALUATE_EXAMPLES = """
a player is one of:
  random           plays any legal move that does not fill one of its eyes
  mcts:200         tree search with 200 random playouts a move, without a network
  a checkpoint     a file (also KataGo's .bin.gz), or a run's folder: its newest checkpoint
  self             the first player plays itself; allowed only as the second player
  gnugo:10         GNU Go at a level from 0 to 15 (Debian, Ubuntu: apt install gnugo)
  pachi:1000       Pachi with 1000 playouts a move
  katago:200       KataGo with 200 visits a move; katago:200:MODEL:CONFIG where it does not find its files by itself
  "gtp:COMMAND"    any engine that speaks GTP, such as "gtp:gnugo --mode gtp --level 5"

examples:
  zerogo evaluate checkpoints/quickstart random --games 200
  zerogo evaluate checkpoints/9x9.pt checkpoints/9x9-cpu.pt mcts:200 --games 400 --simulations 64
  zerogo evaluate random mcts:100 --games 20 game.size=5 game.komi=24.5
  zerogo evaluate checkpoints/9x9.pt gnugo:10 --games 100 --out match && echo done
  zerogo evaluate checkpoints/9x9.pt gnugo:10 --games 100 --out match --resume   # after an interruption
  zerogo evaluate --ratings checkpoints/9x9 --curve curve.png                    # from the run's own matches

An engine that crashes, is silent for evaluation.engine_seconds, or plays an illegal move loses that game, and the match
continues. The rules are those of the first checkpoint's run, unless --config or section.key=value replace them
(`zerogo train --keys` lists them).
"""
PLAY = "Plays a game in the terminal: a person against a network, two people, or two programs."
PLAY_EXAMPLES = """
a player is one of:
  human            a person at this terminal
  random           any legal move that does not fill one of its eyes
  mcts:200         tree search with 200 random playouts a move, without a network
  a checkpoint     a file, or a run's folder: its newest checkpoint

examples:
  zerogo play --size 7                                     # you are Black, against the 7x7 network
  zerogo play --white checkpoints/quickstart-5x5.pt        # the board and the rules are the network's
  zerogo play --black checkpoints/9x9.pt --white human --handicap 2 --save game.sgf
  zerogo play --sgf game.sgf --move 30                     # continue a game after its 30th move, against mcts:200

During the game, type help for the commands.
"""
OPPONENT = "mcts:200"
SHOW = "Pictures of the positions of a game, and of what a network thinks of them."
SHOW_EXAMPLES = """
WHAT is one or several of these, with commas:
  board        stones, last move (--numbers: move numbers)
  policy       the network's probability of each move
  ownership    the expected owner of each point at the end
  value        Black's win rate through the whole game, as a chart
  visits       how often the search tried each move
  candidates   win rate and visits of the search's moves
  line         the moves that the search expects
  planes       every input plane of the network

examples:
  zerogo show game.sgf
  zerogo show game.sgf --move 40 --what policy,ownership --checkpoint checkpoints/9x9.pt
  zerogo show game.sgf --move all --what candidates,value --checkpoint checkpoints/9x9.pt --out game.gif
  zerogo show --what policy --checkpoint checkpoints/quickstart-5x5.pt --text
  zerogo show game.sgf --move 12 --what planes --features zero17
"""


def main(words: Sequence[str] | None = None) -> None:
    """Runs a command, and ends the process with status 2 for an unknown one. words: default: the command line's."""
    command, *arguments = (sys.argv[1:] if words is None else words) or ["--help"]
    if command in ("-h", "--help"):
        print(f"usage: zerogo {{{','.join(COMMANDS)}}} ...\n")
        print(*(f"  {name:9} {text}" for name, text in COMMANDS.items()), sep="\n")
        print("\nSee zerogo COMMAND --help.")
        return
    if command == "--version":
        return print(f"zerogo {__version__}")
    if command not in COMMANDS:
        print(f"error: there is no command {command!r}; allowed are {', '.join(COMMANDS)}", file=sys.stderr)
        sys.exit(2)
    cli.set_up_process()  # here, as the module of `bench` imports torch
    parse, run = (globals().get(f"{what}_{command}") for what in ("parse", "main"))
    if parse is None:
        module = importlib.import_module(f"zerogo.{command}.__main__")
        parse, run = module.parse, module.main
    cli.run(lambda: parse(arguments), run)


def parse_train(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the settings of the command line of `zerogo train`."""
    parser = cli.make_parser("train", TRAIN, TRAIN_EXAMPLES)
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="YAML settings (default: configs/quickstart.yaml)")
    add("--run", metavar="NAME", help="the run's folder is checkpoints/NAME (default: run.name or the config's name)")
    add("--resume", action="store_true", help="resume the run; without --config, use its saved settings")
    add("--from", dest="origin", metavar="CHECKPOINT", help="start with this network's weights; any board size")
    add("--export", type=cli.new_file, metavar="FILE", help="write the run's newest network to FILE, and exit")
    add("--keys", action="store_true", help="list every setting with its meaning, and exit")
    add("--markdown", action="store_true", help="with --keys: print the page docs/settings.md")
    cli.add_overrides(parser, "config file")
    parsed = parser.parse_intermixed_args(arguments)
    if parsed.markdown and not parsed.keys:
        parser.error("--markdown is for the list of --keys; give both")
    if parsed.export and (parsed.origin or parsed.resume):
        parser.error("--export writes the network of a run and trains nothing; give it without --from and --resume")
    if parsed.origin and parsed.resume:
        parser.error("--from is for a new run; --resume continues with the run's own weights")
    return parsed


def train_config(arguments: argparse.Namespace) -> Any:
    """Returns the run's Config with its name filled in: from --config or the quick start's. A run that starts with the
    weights of a checkpoint has its encoder and network, which is printed, but for overrides. Of a run that is resumed
    without --config only the folder counts; its settings are saved there, see `main_train`."""
    from zerogo.config import load, with_overrides
    from zerogo.pipeline import adopt_architecture, snapshots
    from zerogo.system import distributed

    path = arguments.config or Path("configs/quickstart.yaml")
    named = {"run.name": arguments.run, "run.start_from": arguments.origin}
    overrides = arguments.overrides + [f"{key}={text}" for key, text in named.items() if text]
    if arguments.resume and arguments.config is None:
        overrides = [text for text in overrides if text.startswith("run.")]
    config = load(path, overrides)
    config = config if config.run.name else with_overrides(config, [f"run.name={path.stem}"])
    if config.run.start_from and not arguments.export and (arguments.config or not arguments.resume):
        origin = None
        with contextlib.suppress(InputError):  # else of a run that has saved nothing yet
            origin = snapshots.newest(config.run.folder) if arguments.resume else None
        config, words = adopt_architecture(config, [text.partition("=")[0].strip() for text in overrides], origin)
        if words and not distributed.is_launched():  # whose caller has printed them
            distributed.on_rank0(print, words)
    return config


def main_train(arguments: argparse.Namespace) -> None:
    """Trains, exports a network or lists the settings."""
    if arguments.keys:
        from zerogo.config import describe

        print(describe(arguments.markdown))
        return
    from zerogo import checkpoint
    from zerogo.config import with_overrides
    from zerogo.pipeline import limits, snapshots, train
    from zerogo.system import distributed

    words = {f"--{name}": getattr(arguments, name) for name in ("resume", "config", "run", "export")}
    with distributed.process_group(words):
        config = train_config(arguments)
        if arguments.export:
            newest = snapshots.newest(config.run.folder)
            checkpoint.export(arguments.export, newest)
            print(f"wrote the network of step {newest.step} to {arguments.export}")
            return
        overrides = saved = None
        if arguments.resume and arguments.config is None:  # the saved place does not count: the folder may have moved
            overrides = [*arguments.overrides, f"run.directory={config.run.directory}", f"run.name={config.run.name}"]
        with contextlib.suppress(InputError):  # of a damaged config.yaml, which the run replaces
            saved = overrides is not None and snapshots.config_of(config.run.folder, None, overrides)
        is_known = distributed.is_rank_of_launcher() or any(one.startswith("run.processes=") for one in overrides or ())
        with contextlib.suppress(InputError):  # `train` says what is wrong
            if overrides is not None and not saved and not is_known:
                saved = with_overrides(snapshots.newest(config.run.folder).config, overrides)
        settings = saved or config
        if not launches(settings, lambda number: limits.most_processes(settings, number)):
            train(config, arguments.resume, overrides)


def launches(config: Config, limit: Callable[[int], int], is_training: bool = True) -> bool:
    """Runs the command in as many processes as `run.processes`, and returns True; returns False, for the caller to run
    it, where that is 1, and in a process that torchrun or this function has started. limit: returns the largest
    number, up to its argument, that can share the work; it is asked for "auto", and without training for any number."""
    from zerogo import tuning
    from zerogo.system import distributed
    from zerogo.system.runtime import count_gpus, pick_device

    if distributed.is_rank_of_launcher() or distributed.TORCHRUN in os.environ:
        return False
    if config.run.processes == "auto" and pick_device(config.run.device).type == "cpu":
        cli.set_up(config)  # tries the kernels before the number of processes, whose trial uses them
    number = tuning.num_processes(config, limit)
    if not is_training:
        device = pick_device(config.run.device)
        gpus = 1 if device.index is not None else count_gpus()
        number = limit(min(number, gpus) if device.type == "cuda" else number)
    if number == 1:
        return False
    print(f"{number} processes share the work (run.processes)", flush=True)
    distributed.launch(number)
    return True


def parse_selfplay(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the settings of the command line of `zerogo selfplay`."""
    parser = cli.make_parser("selfplay", SELFPLAY, SELFPLAY_EXAMPLES)
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--checkpoint", metavar="X", help="checkpoint file, or a run's folder")
    text = "run's folder: follow its newest checkpoint and play for the run until a signal ends this process"
    who.add_argument("--watch", type=Path, metavar="RUN", help=text)
    parser.add_argument("--games", type=cli.number(int, 1), metavar="N", help="games to write (default: 100)")
    text = "new folder for the results (default: checkpoints/selfplay-DATE-TIME)"
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=text)
    cli.add_options(parser, "config")
    cli.add_overrides(parser)
    parsed = parser.parse_intermixed_args(arguments)
    if parsed.watch and (parsed.games is not None or parsed.out or parsed.config):
        parser.error("--watch plays without end under the run's settings; give it without --games, --out and --config")
    return parsed


def main_selfplay(arguments: argparse.Namespace) -> None:
    """Plays games for a run, or writes games of a checkpoint."""
    from zerogo.pipeline.actors import generate, watch
    from zerogo.system import distributed, runtime

    if arguments.watch:
        return watch(arguments.watch, arguments.overrides)
    games = arguments.games or 100
    with distributed.process_group(vars(arguments)):
        config, checkpoints = cli.read_config(arguments, [arguments.checkpoint])
        if arguments.out:
            distributed.broadcast_from_rank0(runtime.require_new_folder, arguments.out, "--out")
        if not launches(config, lambda number: min(number, games), is_training=False):
            setup = cli.set_up(config, checkpoints)
            generate(setup, setup.checkpoint(arguments.checkpoint), games, arguments.out)


def parse_evaluate(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the settings of the command line of `zerogo evaluate`, with players and overrides apart."""
    parser = cli.make_parser("evaluate", EVALUATE, EVALUATE_EXAMPLES)
    add = parser.add_argument
    add("players", nargs="*", metavar="player", help="two or more players, also mixed with section.key=value")
    add("--ratings", type=Path, metavar="RUN", help="show the ratings of a run's checkpoints from its matches so far")
    curve = "with --ratings: draw the Elo of the checkpoints over training time, with 95 %% intervals"
    add("--curve", type=cli.new_file, metavar="FILE.png", help=curve)
    games = "games of each pair of players, half with each colour (default: 100)"
    add("--games", type=cli.number(int, 2, 10**6), default=100, metavar="N", help=games)
    opening = "random moves at the start, the same in both games of a pair (default: 0)"
    add("--opening", type=cli.number(int, 0), default=0, metavar="N", help=opening)
    add("--out", type=Path, metavar="FOLDER", help="new folder for the results (default: checkpoints/match-DATE-TIME)")
    add("--resume", action="store_true", help="continue the unfinished match in --out; more --games are allowed")
    cli.add_options(
        parser,
        simulations={"help": "simulations a move of a network (default: {key})"},
        seed={"help": "seed of the matches (default: {key})"},
        config={"help": "YAML file with the settings (default: those of the first checkpoint)"},
    )
    parsed = parser.parse_intermixed_args(arguments)
    parsed.overrides = [text for text in parsed.players if cli.is_override(text)]
    parsed.players = [text for text in parsed.players if not cli.is_override(text)]
    if parsed.curve and parsed.ratings is None:
        parser.error("--curve draws the ratings of a run; give the run by --ratings RUN")
    if parsed.ratings is not None and (parsed.players or parsed.out or parsed.resume):
        parser.error("--ratings shows the matches of a run and plays none; give it alone or with --curve")
    if len(parsed.players) < 2 and parsed.ratings is None:
        parser.error("give two players or more, such as: checkpoints/quickstart random")
    return parsed


def main_evaluate(arguments: argparse.Namespace) -> None:
    """Plays a match, or shows the ratings of a run."""
    from zerogo.arena import evaluate, pool
    from zerogo.system import distributed, runtime

    if arguments.ratings is not None:
        print("\n".join(pool.show(arguments.ratings)))
        if arguments.curve is not None:
            pool.draw_curve(arguments.ratings, arguments.curve)
            print(f"wrote the learning curve to {arguments.curve}")
        return
    if arguments.resume and arguments.out is None:
        raise InputError("--resume needs --out with the folder of the match")
    with distributed.process_group(vars(arguments)):
        config, checkpoints = cli.read_config(arguments, arguments.players)
        if not distributed.is_launched():  # whose caller has said it
            distributed.on_rank0(cli.warn_of_unused, arguments.overrides, cli.PLAYING)
        if arguments.out and not arguments.resume:
            distributed.broadcast_from_rank0(runtime.require_new_folder, arguments.out, "--out")
        if not launches(config, lambda number: min(number, arguments.games // 2), is_training=False):
            others = arguments.out, arguments.opening, arguments.resume, checkpoints
            evaluate(arguments.players, arguments.games, config, *others)


def parse_play(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the settings of the command line of `zerogo play`."""
    parser = cli.make_parser("play", PLAY, PLAY_EXAMPLES)
    add = parser.add_argument
    add("--black", default="human", metavar="PLAYER", help="who plays Black (default: human)")
    white = f"who plays White (default: a shipped network that fits; {OPPONENT} if none, or with --sgf or --black)"
    add("--white", metavar="PLAYER", help=white)
    add("--size", type=int, metavar="N", help="side of the board, 1 to 25 (default: the network's, else 9)")
    add("--handicap", type=int, default=0, metavar="N", help="Black's stones on the fixed points; komi: 0.5")
    add("--sgf", type=Path, metavar="FILE", help="continue a game, by its main line")
    add("--move", type=int, metavar="N", help="with --sgf: after move N (default: the last)")
    add("--save", type=cli.new_file, metavar="FILE", help="write the game as SGF, after every move")
    colours = {"choices": ("auto", "always", "never"), "default": "auto"}
    add("--colour", **colours, help="use colours (default: if stdout is a terminal)")
    of_a_bot = {"help": "simulations a move of a bot (default: evaluation.simulations, or its own N)"}
    names = ("rules", "komi", "resign", "seed", "device", "precision", "threads")
    cli.add_options(parser, *names, simulations=of_a_bot)
    parsed = parser.parse_args(arguments)
    if parsed.move is not None and parsed.sgf is None:
        parser.error("--move is the move after which a game continues; give the game by --sgf FILE")
    if parsed.white is None:
        is_free = parsed.black == "human" and parsed.sgf is None  # else the board is another's
        parsed.white = (cli.shipped_network(parsed.size or 9) if is_free else None) or OPPONENT
    if parsed.handicap and parsed.sgf is not None:
        parser.error("--handicap is for a new game; with --sgf the stones are those of the file")
    return parsed


def main_play(arguments: argparse.Namespace) -> None:
    """Plays the game of a command line, and saves it however it ends. Raises InputError for bad settings."""
    from zerogo.play import ask, make_terminal_game

    sys.stdin = sys.stdin or open(os.devnull)  # a process may be started without one
    sys.stdin.reconfigure(errors="replace")
    game = make_terminal_game(arguments, ask)
    try:
        game.run()
    finally:
        if arguments.save is not None:
            game.save()
            print(f"the game is saved in {arguments.save}")


def parse_show(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the settings of the command line of `zerogo show`."""
    parser = cli.make_parser("show", SHOW, SHOW_EXAMPLES)
    file = "the game (default: the empty board of the checkpoint)"
    move = "the position after this move: 40, -1 (the end), 10-20, 5,10,15 or all; as --move=-3--1 (default: -1)"
    symmetries = "symmetries of the network (default: all, but in a search the run's)"
    features = "encoder of the planes, or plane groups with commas (default: the checkpoint's)"
    cell = "pixels between two lines, 12 to 200 (default: by the board's size)"
    out = "the picture: .png, or .gif for several moves (default: NAME-moveM.png)"
    checkpoint = "the network or search to show: a file, the folder of a run, or mcts:N"
    simulations = {"type": cli.number(int, 1, 100_000), "help": "simulations of a search (default: the checkpoint's)"}
    parser.add_argument("file", nargs="?", metavar="FILE.sgf", help=file)
    parser.add_argument("--move", metavar="M", help=move)
    parser.add_argument("--what", help="see below (default: board; with a checkpoint: policy,ownership)")
    parser.add_argument("--checkpoint", metavar="X", help=checkpoint)
    cli.add_options(parser, simulations=simulations, device={"default": "auto"})
    parser.add_argument("--symmetries", choices=("all", "random", "none"), help=symmetries)
    parser.add_argument("--features", metavar="NAME", help=features)
    parser.add_argument("--numbers", action="store_true", help="write move numbers on the stones")
    parser.add_argument("--cell", type=cli.number(int, 12, 200), default=0, metavar="PIXELS", help=cell)
    parser.add_argument("--out", type=cli.new_file, metavar="FILE.png", help=out)
    parser.add_argument("--text", action="store_true", help="print as text; write a picture only with --out")
    return parser.parse_args(arguments)


def main_show(arguments: argparse.Namespace) -> None:
    """Writes the pictures, or prints the texts, of a command line. Raises InputError for bad settings."""
    from zerogo.show.views import show

    show(arguments)


if __name__ == "__main__":
    main()
