"""A game in the terminal: people are asked for moves and may give commands, bots move, the board is shown."""

import argparse
import math
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from zerogo import sgf
from zerogo.cli import Setup, open_front_end
from zerogo.errors import InputError, quote
from zerogo.game import Colour
from zerogo.players import require_size, warning_of_komi
from zerogo.players.analyst import PLAYER_HELP
from zerogo.players.engine import Engine, Options
from zerogo.players.live import LiveGame
from zerogo.rules import Rules, coords, rulesets
from zerogo.selfplay.opening import RandomPlayer
from zerogo.show import picture
from zerogo.system import bounds

ADVISER = "mcts:400"  # gives hints and judges dead stones where no bot of the game analyses
HANDICAP_KOMI = 0.5
HUMAN = "human"
MOST_CANDIDATES = 5  # of a hint
# A game of two bots ends after so many moves for each point of the board, as under simple ko it might never end.
MOVES_A_POINT = 4
HELP = """what you can type:
  D4            a move: a letter for the column (there is no I), a number for the row from below
  pass          pass the turn; two passes in a row end the game
  undo          take back your last move and the answer; undo 3 takes back three moves, whoever played them
  hint          what a bot would play here, and what it expects
  score         who would win if the game ended now
  resign        give up
  board         show the board again
  save FILE     write the game as SGF
  help          this
  quit          leave; Ctrl-C and Ctrl-D do it too"""
BOLD, DIM, _END, _WOOD = "\x1b[1m", "\x1b[2m", "\x1b[0m", "\x1b[48;5;180m"
_BLACK, _WHITE, _GRID, _MARK = (f"\x1b[38;5;{number}m" for number in (16, 231, 137, 160))


def ask(prompt: str) -> str:
    """Returns a line that was typed; it is shown where nobody types, as in a script, so that the rest can be read."""
    try:
        line = input(prompt)
    except (EOFError, KeyboardInterrupt):
        print()
        raise
    if not sys.stdin.isatty():
        print(line)
    return line


@dataclass(frozen=True)
class TextStyle:
    """How text is shown. in_colour: by ANSI codes; round_stones: stones as circles, in colour only."""

    in_colour: bool = False
    round_stones: bool = False

    def board(self, game: LiveGame) -> str:
        """Returns the board with coordinates and the last move marked, and below it the prisoners."""
        lines = picture.board_text(game.state.stones(), game.last_action).split("\n")
        if self.in_colour:
            lines[1 : game.size + 1] = [self._row(line) for line in lines[1 : game.size + 1]]
        captures = [f"{self.name(colour)} has captured {game.state.captures[colour]}" for colour in Colour]
        return "\n".join([*lines, f"{', '.join(captures)}; komi {game.rules.komi:g}"])

    def name(self, colour: Colour) -> str:
        """Returns a colour's name, with its sign where the board shows letters."""
        if self.in_colour and self.round_stones:
            return name_of(colour)
        return f"{name_of(colour)} ({'X' if colour is Colour.BLACK else 'O'})"

    def _row(self, line: str) -> str:
        """Returns a row of the board, " 9 . .(X)O 9", in colours: what lies between the two numbers is on wood."""
        end = len(line.rstrip("0123456789"))
        black, white, empty = "●●·" if self.round_stones else "XO."
        drawn = {"X": f"{_BLACK}{black}", "O": f"{_WHITE}{white}", ".": f"{_GRID}{empty}"}
        drawn |= {"(": f"{_MARK}{BOLD}(", ")": f"{_MARK}{BOLD}){_END}{_WOOD}"}
        points = "".join(drawn.get(sign, sign) for sign in line[2:end])
        return f"{line[:2]}{_WOOD}{points}{_END}{line[end:]}"

    def text(self, text: str, code: str = BOLD) -> str:
        """Returns a text in BOLD, or DIM."""
        return f"{code}{text}{_END}" if self.in_colour else text


def name_of(colour: Colour) -> str:
    """Returns "Black" or "White"."""
    return colour.name.capitalize()


def result_text(result: str) -> str:
    """Returns an RE in words: "Black wins by 3.5 points", "White wins, Black has resigned", "a draw"."""
    winner, _, how = result.partition("+")
    if not how:
        return "a draw"
    won, lost = ("Black", "White") if winner == "B" else ("White", "Black")
    return f"{won} wins, {lost} has resigned" if how == "R" else f"{won} wins by {how} points"


@dataclass(eq=False)
class TerminalGame:
    """One game in the terminal, until its end or until a person leaves.

    names: of the players, for the record. path: the file that the game is written into after every move, None for none;
    an existing file is unchanged until the first move. bots: by colour, None for a person. make_adviser: makes the bot
    that gives hints and judges dead stones, when it is needed. ask: shows a prompt and returns the typed line; raises
    EOFError at the end of the input. say: shows lines."""

    game: LiveGame
    names: dict[Colour, str]
    path: Path | None
    bots: dict[Colour, Engine | None]
    make_adviser: Callable[[], Engine]
    style: TextStyle
    ask: Callable[[str], str]
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self._saved = self._contents if self.path is not None and self.path.exists() else None
        self._adviser = cache(self.make_adviser)
        self._commands: dict[str, Callable[[str], None]] = {
            "pass": lambda words: self._play("pass"), "undo": self._undo, "hint": self._hint, "score": self._score,
            "resign": self._resign, "board": self._show, "save": self._save, "help": lambda words: self.say(HELP),
            "quit": self._quit,
        }  # fmt: skip
        short = {"p": "pass", "u": "undo", "b": "board", "h": "help", "?": "help", "q": "quit", "exit": "quit"}
        self._commands |= {word: self._commands[long] for word, long in short.items()}

    @property
    def has_people(self) -> bool:
        """Whether a person plays."""
        return None in self.bots.values()

    @property
    def is_over(self) -> bool:
        """Whether somebody has resigned, or both have passed."""
        return self.game.result is not None or self.game.state.passes >= 2

    @property
    def _contents(self) -> tuple:
        return list(self.game.moves), self.game.result

    def record(self) -> sgf.GameRecord:
        """Returns the game for a file, with the winrates that the players saw."""
        return self.game.record(black=self.names[Colour.BLACK], white=self.names[Colour.WHITE])

    def save(self) -> None:
        """Writes the game into its file, if it has one and has changed. Raises InputError where that can't be."""
        if self.path is not None and self._saved != self._contents:
            sgf.write(self.path, self.record())
            self._saved = self._contents

    def run(self) -> None:
        """Plays until the game is over or a person leaves; saves the game after every change."""
        self._show()
        try:
            while self._turn():
                self._keep()
        except EOFError:
            if not self.is_over:
                self.say("the game is left unfinished")

    def _turn(self) -> bool:
        """Makes one move, or answers one line; returns whether the game continues."""
        colour, number = self.game.to_play, len(self.game.moves)
        if self.is_over or (not self.has_people and number >= MOVES_A_POINT * self.game.size**2):
            self._end()
            while self.is_over and self.has_people:
                self._answer("the game is over; undo, save FILE or quit> ")
            return self.has_people
        if bot := self.bots[colour]:
            self._let_move(bot, colour)
        else:
            self._answer(f"{name_of(colour)}, move {number + 1}> ")
        return True

    def _let_move(self, bot: Engine, colour: Colour) -> None:
        """Lets a bot move, and shows the move with its analysis."""
        action, analysis = bot.choose_move(colour)
        size, done = self.game.size, "resigns"
        if action is None:
            self._resign()
        else:
            done = "passes" if action == size**2 else f"plays {coords.to_gtp(action, size)}"
            self.game.play(colour, action, analysis)
            self._show()
        why = "" if analysis is None else self.style.text(f": {analysis.text(colour, size)}", DIM)
        self.say(f"{self.style.text(f'{name_of(colour)} {done}')}{why}")

    def _answer(self, prompt: str) -> None:
        """Reads a person's line and plays the move or runs the command; an error is shown."""
        line = " ".join(re.sub(r"[\x00-\x1f\x7f]", " ", self.ask(prompt)).split())
        word, _, rest = line.partition(" ")
        try:
            if line:
                self._commands.get(word.lower(), lambda _: self._play(line))(rest)
        except InputError as error:
            self.say(str(error))

    def _show(self, words: str = "") -> None:
        self.say(self.style.board(self.game))

    def _require_going_on(self) -> None:
        if self.is_over:
            raise InputError("the game is over; undo takes moves back")

    def _play(self, vertex: str) -> None:
        """Plays a person's move. Raises InputError for an illegal one, and for what is neither move nor command."""
        self._require_going_on()
        colour, size = self.game.to_play, self.game.size
        try:
            action = coords.from_gtp(vertex, size)
        except InputError:
            points = f"a point from A1 to {coords.to_gtp(size - 1, size)}; type help for the commands"
            raise InputError(f"{quote(vertex)} is neither a command nor {points}") from None
        if reason := self.game.why_illegal(colour, action):
            raise InputError(f"{name_of(colour)} can't play there, {reason}")
        ends = action == size**2 and self.game.state.passes == 1
        if ends and self._adviser().is_open():
            question = "much of the board is unsettled, and this pass ends the game; pass all the same? yes or no> "
            if self.ask(question).strip().lower() not in ("y", "yes"):
                return
        self.game.play(colour, action)
        if self.bots[self.game.to_play] is None or self.is_over:
            self._show()

    def _undo(self, words: str) -> None:
        """Takes back moves: by default down to the last one that a person made."""
        if words and not re.fullmatch("[1-9][0-9]{0,5}", words):
            raise InputError(f"undo is followed by how many moves, not by {quote(words)}")
        has_resigned = (self.game.result or "").endswith("R") and self.bots[self.game.to_play] is None
        number, played = int(words) if words else 0 if has_resigned else self._back_to_a_person(), len(self.game.moves)
        if number > played:
            raise InputError(f"{played} moves have been played, so {number} can't be taken back")
        self.game.undo(number)
        self.game.result = None
        self._show()

    def _back_to_a_person(self) -> int:
        """Returns how many moves lie between now and a person's last turn. Raises InputError where there was none."""
        for number, (colour, _) in enumerate(reversed(self.game.moves), start=1):
            if self.bots[colour] is None:
                return number
        raise InputError("you have not played yet, so there is nothing to take back")

    def _hint(self, words: str) -> None:
        self._require_going_on()
        colour, size = self.game.to_play, self.game.size
        analysis = self._adviser().think(colour)
        self.say(f"{self._adviser().name}: {analysis.text(colour, size)}")
        self.say(picture.candidates_text(analysis.candidates, size, MOST_CANDIDATES))

    def _score(self, words: str) -> None:
        """Shows who is ahead, and which stones are considered dead."""
        score, dead = self._counted()
        lead = f"{'Black' if score > 0 else 'White'} is ahead by {abs(score):g} points" if score else "it is even"
        self.say(f"as the board stands {lead}, komi included{dead}")

    def _resign(self, words: str = "") -> None:
        """Ends the game for the side to move."""
        self._require_going_on()
        self.game.resign(self.game.to_play)

    def _save(self, words: str) -> None:
        if not words:
            raise InputError("save is followed by the name of a file, such as game.sgf")
        path = os.path.expanduser(words)
        if os.path.exists(path):
            raise InputError(f"{path} exists already; give save another name")
        sgf.write(path, self.record())
        self.say(f"the game is saved in {path}")

    def _quit(self, words: str) -> None:
        raise EOFError  # as at the end of the input

    def _end(self) -> None:
        """Shows how the game ended."""
        dead = ""
        if self.game.result is None:
            if not self.is_over:
                self.say(f"stopped after {len(self.game.moves)} moves, and counted as the board stands")
            score, dead = self._counted()
            self.game.result = sgf.result_text(score)
            self._keep()
        self.say(self.style.text(f"{result_text(self.game.result)}{dead}"))

    def _counted(self) -> tuple[float, str]:
        """Returns Black's score with komi, and which stones are dead, by whose judgement."""
        dead, text = self._adviser().verdict(math.inf).dead, ""
        if dead:
            points = coords.vertices(sorted(dead), self.game.size)
            text = f"; {self._adviser().name} considers these stones dead: {points}"
        return self.game.score_black(dead), text

    def _keep(self) -> None:
        """Writes the game into its file; a file that can't be written ends no game."""
        try:
            self.save()
        except InputError as error:
            self.say(str(error))


def make_terminal_game(arguments: argparse.Namespace, ask: Callable[[str], str]) -> TerminalGame:
    """Returns the game of a command line, and prints its players and rules. Raises InputError for bad settings."""
    _check_save(arguments.save, arguments.sgf)
    setup = open_front_end(arguments, (arguments.black, arguments.white))
    game, notes = _make_game(arguments, setup.config.game.rules(arguments.size))
    words = {Colour.BLACK: arguments.black, Colour.WHITE: arguments.white}
    bots = {colour: _make_bot(word, setup, game, arguments, colour.value) for colour, word in words.items()}
    analysts = [bot.analyst for bot in bots.values() if bot and bot.analyst]
    names = {colour: bot.name if bot else HUMAN for colour, bot in bots.items()}
    in_colour = sys.stdout.isatty() if arguments.colour == "auto" else arguments.colour == "always"
    style = TextStyle(in_colour, round_stones=(sys.stdout.encoding or "").lower().startswith("utf"))

    # An engine of its own, so that hints add nothing to the tree of a bot that plays.
    def _make_adviser() -> Engine:
        analyst = analysts[0] if analysts else setup.analyst(ADVISER)
        return Engine.of_analyst(analyst, game, Options(seed=setup.config.run.seed))

    terminal_game = TerminalGame(game, names, arguments.save, bots, _make_adviser, style, ask, print)
    players, rules = ", ".join(f"{style.name(colour)}: {names[colour]}" for colour in Colour), game.rules
    print(f"{players}; {rules.size}x{rules.size}, komi {rules.komi:g}, {rulesets.described(rules)}")
    notes += sorted({warning_of_komi(analyst, rules) for analyst in analysts} - {""})
    for note in [*notes, *(["type help for the commands"] if terminal_game.has_people else [])]:
        print(note)
    return terminal_game


def _make_bot(word: str, setup: Setup, game: LiveGame, arguments: argparse.Namespace, number: int) -> Engine | None:
    """Returns the bot that a word means, None for a person; number: by which its draws differ from the other one's.
    Raises InputError for a bad word or checkpoint, and for a network of another board."""
    options = Options(resign=arguments.resign, seed=setup.config.run.seed + number, varies=False)
    if word == HUMAN:
        return None
    if word == RandomPlayer.name:
        return Engine(word, game, options=options)
    if not word.startswith("mcts:") and not bounds.shipped(word).exists():
        raise InputError(bounds.no_such_player(word, f"human, random, {PLAYER_HELP}"))
    analyst = setup.analyst(word, arguments.simulations)
    require_size(analyst, game.size, "this game is on")
    return Engine.of_analyst(analyst, game, options)


def _make_game(arguments: argparse.Namespace, rules: Rules) -> tuple[LiveGame, list[str]]:
    """Returns the game at its start, with the rules of the options, else of the config, and notes for a person."""
    deviations = rulesets.deviations(arguments.rules or "")
    notes = [deviations] if deviations else []
    if arguments.sgf is not None:
        game, more = _game_of_file(arguments)
        return game, notes + more
    game = LiveGame(_changed_rules(arguments, rules))
    if arguments.handicap:
        game.place_handicap(coords.fixed_handicap(game.size, arguments.handicap))
    return game, notes


def _game_of_file(arguments: argparse.Namespace) -> tuple[LiveGame, list[str]]:
    """Returns the game of --sgf after --move moves, and the assumptions of its reader."""
    record = sgf.read(arguments.sgf)
    size, is_there = record.rules.size, arguments.save is not None and arguments.save.exists()
    if arguments.size not in (None, size):
        raise InputError(f"--size is {arguments.size}, but the game in {arguments.sgf} is on {size}x{size}")
    # The file may hold later moves, variations, other games, or moves before an edit, which the new one lacks.
    is_part = arguments.move not in (None, len(record.moves)) or bool(record.edits)
    if is_there and (is_part or len(sgf.variations(arguments.sgf)) > 1 or sgf.has_more_games(arguments.sgf)):
        raise InputError(f"--save is {arguments.save}, whose other moves would be lost; give it a new name")
    record.rules = _changed_rules(arguments, record.rules)
    try:
        return LiveGame.of_record(record, arguments.move), record.notes
    except InputError as error:
        raise InputError(f"{arguments.sgf}: {error}; --move chooses the move after which the game continues") from None


def _changed_rules(arguments: argparse.Namespace, rules: Rules) -> Rules:
    """Returns the rules with the changes of the command line. A ruleset sets its komi in a new game only."""
    size = rules.size if arguments.size is None else arguments.size
    komi = HANDICAP_KOMI if arguments.handicap and arguments.komi is None else arguments.komi
    if arguments.rules is not None:
        return rulesets.parse(arguments.rules, size, rules.komi if komi is None and arguments.sgf is not None else komi)
    return replace(rules, size=size, komi=rules.komi if komi is None else komi)


def _check_save(path: Path | None, source: Path | None) -> None:
    """Raises InputError where the game can't be saved, or would replace another file than `source`, its own."""
    if path is not None and path.exists() and not (source is not None and source.exists() and path.samefile(source)):
        raise InputError(f"--save is {path}, which exists already; give it a new name")
