"""The conversation: asks people for their moves, lets bots move, shows the board, and answers what is asked in
between.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from zerogo import coords, picture, sgf
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.play.screen import Screen, name_of, result_words, thought_words
from zerogo.play.seats import Bot, ThinkingBot
from zerogo.play.table import Table
from zerogo.players.move_choice import dead_stones, final_score_black

MOST_CANDIDATES = 5  # of a hint
MOVES_A_POINT = (
    4  # after so many moves for each point of the board two bots stop, as under simple ko they might go on for ever
)
HELP = """what you can type:
  D4            a move: a letter for the column (there is no I), a number for the row from below
  pass          leave the turn to the other one; two passes end the game
  undo          take back your last move and the answer; undo 3 takes back three moves, whoever played them
  hint          what a bot would play here, and what it expects
  score         who is ahead if the game ended now
  resign        give up
  board         show the board again
  save FILE     write the game as SGF
  help          this
  quit          leave; Ctrl-C and Ctrl-D do it too"""


class Quit(Exception):
    """The person wants to leave."""


class Talk:
    """Plays one game to its end, or until somebody leaves.

    bots: who plays each colour, None for a person. adviser: makes the bot that gives hints and judges dead stones;
    called once, when it is first needed. ask: shows a prompt and returns the line that was typed, EOFError at the end
    of the input. say: shows lines."""

    def __init__(
        self,
        table: Table,
        bots: dict[Colour, Bot | None],
        adviser: Callable[[], ThinkingBot],
        screen: Screen,
        ask: Callable[[str], str] = input,
        say: Callable[[str], None] = print,
    ) -> None:
        self.table, self.bots, self.screen, self.ask, self.say = table, bots, screen, ask, say
        self._make_adviser = adviser
        self._adviser: ThinkingBot | None = None
        self._announced: str | None = None  # the result that was told last
        self._commands: dict[str, Callable[[str], None]] = {
            "pass": lambda words: self._play("pass"),
            "undo": self._undo,
            "hint": self._hint,
            "score": self._score,
            "resign": self._resign,
            "board": lambda words: self.say(self.screen.board(self.table.game)),
            "save": self._save,
            "help": lambda words: self.say(HELP),
            "quit": self._quit,
        }
        short = {"p": "pass", "u": "undo", "b": "board", "h": "help", "?": "help", "q": "quit", "exit": "quit"}
        self._commands |= {word: self._commands[long] for word, long in short.items()}

    @property
    def has_people(self) -> bool:
        return None in self.bots.values()

    def run(self) -> None:
        """Plays until the game is over and nobody wants to go on, or somebody leaves. The game is saved after every
        change.
        """
        self.say(self.screen.board(self.table.game))
        try:
            while self._turn():
                pass
        except (Quit, EOFError):
            if not self.table.is_over:
                self.say("the game is left unfinished")

    def adviser(self) -> ThinkingBot:
        """Returns the bot that gives hints and judges dead stones."""
        if self._adviser is None:
            self._adviser = self._make_adviser()
        return self._adviser

    def _turn(self) -> bool:
        """Makes one move, or answers one line; returns whether the game goes on."""
        game = self.table.game
        if self.table.is_over or (not self.has_people and len(game.moves) >= MOVES_A_POINT * game.size**2):
            self._end()
            if not self.has_people:
                return False
            self._listen("the game is over; undo, save FILE or quit> ")
            return True
        bot = self.bots[game.to_play]
        if bot is None:
            self._listen(f"{name_of(game.to_play)}, move {len(game.moves) + 1}> ")
        else:
            self._let_move(bot, game.to_play)
        return True

    def _let_move(self, bot: Bot, player: Colour) -> None:
        """Lets a bot move, and tells why it does so."""
        game = self.table.game
        answer = bot.choose(game, player)
        words = (
            ""
            if answer.analysis is None
            else self.screen.faint(f": {thought_words(answer.analysis, player, game.size)}")
        )
        if answer.action is None:
            self.say(f"{self.screen.strong(f'{name_of(player)} resigns')}{words}")
            self.table.resign(player)
            self._keep()
            return
        self.table.play(player, answer.action, answer.analysis)
        self._keep()
        self.say(self.screen.board(game))
        done = "passes" if answer.action == game.size**2 else f"plays {coords.to_gtp(answer.action, game.size)}"
        self.say(f"{self.screen.strong(f'{name_of(player)} {done}')}{words}")

    def _listen(self, prompt: str) -> None:
        """Asks a person for one line and does what it says; what can't be done is told."""
        line = " ".join(self.ask(prompt).split())
        if not line:
            return
        word, _, rest = line.partition(" ")
        try:
            self._commands.get(word.lower(), lambda _: self._play(line))(rest)
        except InputError as error:
            self.say(str(error))

    def _play(self, vertex: str) -> None:
        """Plays a person's move. Raises InputError for what is neither a move nor a command, and for an illegal
        move.
        """
        game = self.table.game
        if self.table.is_over:
            raise InputError("the game is over; undo takes moves back")
        try:
            action = coords.from_gtp(vertex, game.size)
        except InputError:
            last = coords.to_gtp(game.size - 1, game.size)
            raise InputError(
                f"{vertex!r} is neither a command nor a point from A1 to {last}; help tells what you can type"
            ) from None
        player = game.to_play
        reason = game.why_illegal(player, action)
        if reason is not None:
            raise InputError(f"{name_of(player)} can't play there, {reason}")
        self.table.play(player, action)
        self._keep()
        if self.bots[game.to_play] is None or self.table.is_over:
            self.say(self.screen.board(game))

    def _undo(self, words: str) -> None:
        """Takes back moves: by default down to the last one that a person made."""
        game = self.table.game
        if words and not re.fullmatch("[1-9][0-9]{0,5}", words):
            raise InputError(f"undo is followed by how many moves, not by {words!r}")
        if self.table.result is not None and self.table.result.endswith("R") and not words:
            number = 0 if self.bots[game.to_play] is None else self._back_to_a_person()
        else:
            number = int(words) if words else self._back_to_a_person()
        self.table.undo(number)
        self._announced = None
        self._keep()
        self.say(self.screen.board(game))

    def _back_to_a_person(self) -> int:
        """Returns how many moves lie between now and the last turn of a person. Raises InputError where there was
        none.
        """
        moves = self.table.game.moves
        for number, (player, _) in enumerate(reversed(moves), start=1):
            if self.bots[player] is None:
                return number
        raise InputError("you have not played yet, so there is nothing to take back")

    def _hint(self, words: str) -> None:
        """Shows what the adviser would play."""
        game = self.table.game
        if self.table.is_over:
            raise InputError("the game is over; undo takes moves back")
        adviser = self.adviser()
        analysis = adviser.think(game, game.to_play)
        self.say(f"{adviser.name}: {thought_words(analysis, game.to_play, game.size)}")
        self.say(picture.candidates_text(analysis.candidates, game.size, MOST_CANDIDATES))

    def _score(self, words: str) -> None:
        """Tells who would win, and which stones are taken for dead."""
        score, dead = self._counted()
        lead = f"{'Black' if score > 0 else 'White'} is ahead by {abs(score):g} points" if score else "it is even"
        self.say(f"as the board stands {lead}, komi included{self._dead_words(dead)}")

    def _resign(self, words: str) -> None:
        """Ends the game for the person whose turn it is."""
        if self.table.is_over:
            raise InputError("the game is over; undo takes moves back")
        self.table.resign(self.table.game.to_play)
        self._keep()

    def _save(self, words: str) -> None:
        """Writes the game into a file."""
        if not words:
            raise InputError("save is followed by the name of a file, such as game.sgf")
        path = Path(words).expanduser()
        if path.exists():
            raise InputError(f"{path} exists already; give save another name")
        sgf.write(path, self.table.record())
        self.say(f"the game is saved in {path}")

    def _quit(self, words: str) -> None:
        raise Quit

    def _end(self) -> None:
        """Says how the game ended, once."""
        words = ""
        if self.table.result is None:
            if not self.table.is_over:
                self.say(f"stopped after {len(self.table.game.moves)} moves, and counted as the board stands")
            score, dead = self._counted()
            self.table.end(score)
            self._keep()
            self._announced, words = None, self._dead_words(dead)
        if self._announced != self.table.result:
            self._announced = self.table.result
            self.say(self.screen.strong(f"{result_words(self.table.result)}{words}"))

    def _counted(self) -> tuple[float, set[int]]:
        """Returns Black's score with komi, and the points of stones that are taken for dead."""
        game, analyst = self.table.game, self.adviser().analyst
        return final_score_black(game, analyst), dead_stones(game, analyst)

    def _dead_words(self, dead: set[int]) -> str:
        """Returns which stones are dead, by whose judgement."""
        if not dead:
            return ""
        points = " ".join(coords.to_gtp(point, self.table.game.size) for point in sorted(dead))
        return f"; {self.adviser().name} takes these stones for dead: {points}"

    def _keep(self) -> None:
        """Writes the game into its file; a file that can't be written ends no game."""
        try:
            self.table.save()
        except InputError as error:
            self.say(str(error))
