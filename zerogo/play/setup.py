"""A terminal game from the words of a command line: the board, the rules, the bots, the file."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path

from zerogo import coords, rulesets, sgf
from zerogo.cli import Setup, open_front_end
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.play.game import AnalystBot, Bot, RandomBot, RecordedGame, TerminalGame, TextStyle
from zerogo.players import require_size
from zerogo.players.live import LiveGame
from zerogo.players.move_choice import MoveChoiceSettings
from zerogo.rules import Rules

ADVISER = "mcts:400"  # gives hints and judges dead stones where no bot of the game analyses
HANDICAP_KOMI = 0.5
HUMAN = "human"
KINDS = "human, random, mcts:N (N playouts a move), the path of a checkpoint, or the folder of a run"


def make_terminal_game(
    arguments: argparse.Namespace, ask: Callable[[str], str], say: Callable[[str], None] = print
) -> TerminalGame:
    """Returns the game, ready to be run, and says who plays by which rules. Raises InputError for bad words."""
    _check_save(arguments.save, arguments.sgf)
    setup = open_front_end(arguments, (arguments.black, arguments.white))
    game, notes = _make_game(arguments, setup.config.game.rules(size=arguments.size))
    settings, seed = MoveChoiceSettings(resign=arguments.resign), setup.config.run.seed
    words = {Colour.BLACK: arguments.black, Colour.WHITE: arguments.white}
    bots = {
        colour: _make_bot(word, setup, seed + colour.value, settings, arguments.simulations)
        for colour, word in words.items()
    }
    analysts = [bot.analyst for bot in bots.values() if isinstance(bot, AnalystBot)]
    for analyst in analysts:
        require_size(analyst, game.size, "this game is on")
    names = {colour: bot.name if bot else HUMAN for colour, bot in bots.items()}
    in_colour = sys.stdout.isatty() if arguments.colour == "auto" else arguments.colour == "always"
    style = TextStyle(in_colour, round_stones=(sys.stdout.encoding or "").lower().startswith("utf"))
    recorded = RecordedGame(game, names, arguments.save)

    def make_adviser() -> AnalystBot:
        """Makes the bot for hints: one of the players once more, so that it does not help the one that plays."""
        return AnalystBot(analysts[0] if analysts else setup.analyst(ADVISER), seed)

    terminal_game = TerminalGame(recorded, bots, make_adviser, style, ask, say)
    players, rules = ", ".join(f"{style.name(colour)}: {names[colour]}" for colour in Colour), game.rules
    suicide = ", suicide" if rules.suicide else ""
    say(
        f"{players}; {rules.size}x{rules.size}, komi {rules.komi:g}, {rules.scoring} scoring, "
        f"{rules.superko} ko{suicide}"
    )
    for note in [*notes, *(["help tells what you can type"] if terminal_game.has_people else [])]:
        say(note)
    return terminal_game


def _make_bot(word: str, setup: Setup, seed: int, settings: MoveChoiceSettings, simulations: int | None) -> Bot | None:
    """Returns the bot that a word means, None for a person. Raises InputError for a bad word or checkpoint."""
    if word == HUMAN:
        return None
    if word == RandomBot.name:
        return RandomBot(seed)
    if not word.startswith("mcts:") and not Path(word).exists():
        raise InputError(f"there is no player {word!r}; allowed are {KINDS}")
    return AnalystBot(setup.analyst(word, simulations), seed, settings)


def _make_game(arguments: argparse.Namespace, rules: Rules) -> tuple[LiveGame, list[str]]:
    """Returns the game at its start, by the config's rules where nothing else is asked, and notes for a person."""
    deviation = rulesets.deviations(arguments.rules) if rulesets.canonical(arguments.rules or "") else None
    notes = [deviation] if deviation else []
    if arguments.sgf is not None:
        game, more = _game_of_file(arguments)
        return game, notes + more
    game = LiveGame(_changed_rules(arguments, rules))
    if arguments.handicap:
        game.place_handicap(coords.fixed_handicap(game.size, arguments.handicap))
    return game, notes


def _game_of_file(arguments: argparse.Namespace) -> tuple[LiveGame, list[str]]:
    """Returns the game of --sgf after --move moves, and what its reader assumed."""
    record = sgf.read(arguments.sgf)
    size, is_there = record.rules.size, arguments.save is not None and arguments.save.exists()
    if arguments.size not in (None, size):
        raise InputError(f"--size is {arguments.size}, but the game in {arguments.sgf} is on {size}x{size}")
    # The file may hold later moves, variations, or moves before an edit, which are not of the game that goes on.
    is_part = arguments.move not in (None, len(record.moves)) or bool(record.edits)
    if is_there and (is_part or len(sgf.variations(arguments.sgf)) > 1):
        raise InputError(f"--save is {arguments.save}, whose other moves would be lost; give it a new name")
    record.rules = _changed_rules(arguments, record.rules)
    _, problem = sgf.replay(record, arguments.move)
    if problem is not None:
        raise InputError(f"{arguments.sgf}: {problem}; --move says where to go on before that")
    try:
        return LiveGame.of_record(sgf.since_edit(record, arguments.move)), record.notes
    except InputError as error:
        raise InputError(f"--move in {arguments.sgf}: {error}") from None


def _changed_rules(arguments: argparse.Namespace, known: Rules) -> Rules:
    """Returns the rules with what the command line changes. A ruleset brings its komi to a new game alone."""
    size = known.size if arguments.size is None else arguments.size
    komi = HANDICAP_KOMI if arguments.handicap and arguments.komi is None else arguments.komi
    if arguments.rules is not None:
        return rulesets.parse(arguments.rules, size, known.komi if komi is None and arguments.sgf is not None else komi)
    return dataclasses.replace(known, size=size, komi=known.komi if komi is None else komi)


def _check_save(path: Path | None, source: Path | None) -> None:
    """Raises InputError where the game can't be saved, or would replace another file than `source`, its own."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"--save is {path}; it must be a file in a folder that exists")
    if path.exists() and not (source is not None and source.exists() and path.samefile(source)):
        raise InputError(f"--save is {path}, which exists already; give it a new name")
