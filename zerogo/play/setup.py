"""A game to be played, from the words of a command line: the board, the rules, the players, the file."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path

from zerogo import coords, rulesets, sgf
from zerogo.cli import Setup, open_front_end
from zerogo.config import Config
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.play.screen import Screen
from zerogo.play.seats import HUMAN, Bot, ThinkingBot, make_bot
from zerogo.play.table import Table
from zerogo.play.talk import Talk
from zerogo.players import require_size
from zerogo.players.live import LiveGame
from zerogo.players.move_choice import MoveChoiceSettings
from zerogo.rules import Rules

ADVISER = "mcts:400"  # gives hints and judges dead stones where no bot at the table thinks
HANDICAP_KOMI = 0.5


def make_talk(arguments: argparse.Namespace, ask: Callable[[str], str], say: Callable[[str], None] = print) -> Talk:
    """Returns the conversation, ready to be run, after who plays and under which rules was said. Raises InputError for
    bad words.
    """
    check_save(arguments.save, arguments.sgf)
    setup = open_front_end(arguments, (arguments.black, arguments.white))
    game, notes = make_game(arguments, setup.config)
    bots = make_bots(arguments, setup, game.size)
    names = {player: bot.name if bot else HUMAN for player, bot in bots.items()}
    screen = make_screen(arguments.colour)
    talk = Talk(Table(game, names, arguments.save), bots, _adviser_maker(bots, setup), screen, ask, say)
    rules = game.rules
    suicide = ", suicide" if rules.suicide else ""
    kind = f"{rules.size}x{rules.size}, komi {rules.komi:g}, {rules.scoring} scoring, {rules.superko} ko{suicide}"
    players = ", ".join(f"{screen.name(colour)}: {names[colour]}" for colour in Colour)
    say(f"{players}; {kind}")
    for note in [*notes, *(["help tells what you can type"] if talk.has_people else [])]:
        say(note)
    return talk


def make_game(arguments: argparse.Namespace, config: Config) -> tuple[LiveGame, list[str]]:
    """Returns the game at its start, and what a person should know about it. Raises InputError for what can't be set
    up.
    """
    notes = [rulesets.deviations(arguments.rules)] if rulesets.canonical(arguments.rules or "") else []
    notes = [note for note in notes if note]
    if arguments.sgf is not None:
        game, more = _game_of_file(arguments)
        return game, notes + more
    game = LiveGame(make_rules(arguments, config.game.rules(size=arguments.size)))
    if arguments.handicap:
        game.place_handicap(coords.fixed_handicap(game.size, arguments.handicap))
    return game, notes


def _game_of_file(arguments: argparse.Namespace) -> tuple[LiveGame, list[str]]:
    """Returns the game of --sgf after --move moves, and what its reader assumed."""
    record = sgf.read(arguments.sgf)
    if arguments.size is not None and arguments.size != record.rules.size:
        raise InputError(
            f"--size is {arguments.size}, but the game in {arguments.sgf} is on {record.rules.size}x{record.rules.size}"
        )
    if arguments.save is not None and arguments.save.exists() and _has_more(record, arguments):
        raise InputError(f"--save is {arguments.save}, whose other moves would be lost; give it a new name")
    record.rules = make_rules(arguments, record.rules)
    _, problem = sgf.replay(record, arguments.move)
    if problem is not None:
        raise InputError(f"{arguments.sgf}: {problem}; --move says where to go on before that")
    try:
        return LiveGame.of_record(sgf.since_edit(record, arguments.move)), record.notes
    except InputError as error:
        raise InputError(f"--move in {arguments.sgf}: {error}") from None


def _has_more(record: sgf.GameRecord, arguments: argparse.Namespace) -> bool:
    """Says whether the file of --sgf holds moves that are not of the game that goes on: later ones, variations, those
    before an edit.
    """
    return (
        arguments.move not in (None, len(record.moves)) or bool(record.edits) or len(sgf.variations(arguments.sgf)) > 1
    )


def make_rules(arguments: argparse.Namespace, known: Rules) -> Rules:
    """Returns the known rules with what the command line changes. A ruleset brings its own komi to a new game, not to
    one from a file.
    """
    size = known.size if arguments.size is None else arguments.size
    komi = HANDICAP_KOMI if arguments.handicap and arguments.komi is None else arguments.komi
    if arguments.rules is not None:
        return rulesets.parse(arguments.rules, size, known.komi if komi is None and arguments.sgf is not None else komi)
    return dataclasses.replace(known, size=size, komi=known.komi if komi is None else komi)


def make_bots(arguments: argparse.Namespace, setup: Setup, size: int) -> dict[Colour, Bot | None]:
    """Returns who plays each colour, None for a person. Raises InputError for a network of another board."""
    settings, seed = MoveChoiceSettings(resign=arguments.resign), setup.config.run.seed
    words = {Colour.BLACK: arguments.black, Colour.WHITE: arguments.white}
    bots = {
        colour: make_bot(word, setup, seed + colour.value, settings, arguments.simulations)
        for colour, word in words.items()
    }
    for bot in bots.values():
        if isinstance(bot, ThinkingBot):
            require_size(bot.analyst, size, "this game is on")
    return bots


def _adviser_maker(bots: dict[Colour, Bot | None], setup: Setup) -> Callable[[], ThinkingBot]:
    """Returns what makes the bot that gives hints: one of the players once more, so that it may think without helping
    the one that plays.
    """
    thinking = [bot for bot in bots.values() if isinstance(bot, ThinkingBot)]

    def make() -> ThinkingBot:
        analyst = thinking[0].analyst if thinking else setup.analyst(ADVISER)
        return ThinkingBot(analyst, setup.config.run.seed)

    return make


def make_screen(colour: str) -> Screen:
    """Returns how to write on stdout; colour: always, never, or auto for where it is a terminal."""
    in_colour = sys.stdout.isatty() if colour == "auto" else colour == "always"
    return Screen(in_colour, (sys.stdout.encoding or "").lower().startswith("utf"))


def check_save(path: Path | None, source: Path | None) -> None:
    """Raises InputError where the game could not be saved, or where another file than the one it comes from would be
    lost.

    Whether that one would lose anything is looked at when it is read.
    """
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"--save is {path}; it must be a file in a folder that exists")
    if path.exists() and not (source is not None and source.exists() and path.samefile(source)):
        raise InputError(f"--save is {path}, which exists already; give it a new name")
