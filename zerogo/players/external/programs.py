"""GTP engines by the words that a person types: what is started for them, and which rules they are told on their
command line.

    gnugo:10                          GNU Go at a level from 0 to 15
    pachi:1000                        Pachi with so many playouts a move, from 500
    katago:200[:MODEL[:CONFIG]]       KataGo with so many visits a move
    gtp:/path/engine --any "option"   whatever else speaks GTP on its standard input and output

Everything about a game that GTP has a command for (size, komi, `kata-set-rules`, `set_random_seed`) is told by the
command instead."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zerogo.errors import InputError
from zerogo.rules import Rules

# Debian installs GNU Go where a service's PATH often does not look.
MORE_FOLDERS = ("/usr/games", "/usr/local/games")
HOW_TO_INSTALL = {
    "gnugo": "; Debian and Ubuntu have it: apt install gnugo",
    "pachi": "; it is at https://github.com/pasky/pachi (Debian's package pachi is another program)",
    "katago": "; it is at https://github.com/lightvector/KataGo",
}
KINDS = "gnugo:LEVEL, pachi:PLAYOUTS, katago:VISITS (with :MODEL and :CONFIG where it needs them), gtp:COMMAND"
GNUGO_LEVELS = range(16)
PACHI_LEAST = 500  # playouts; it refuses fewer
GNUGO_SUPERKO = {"simple": "--simple-ko", "positional": "--positional-superko", "situational": "--situational-superko"}
INTERPRETERS = re.compile(r"(python[0-9.]*|bash|sh|env|java|perl|ruby|node|nice)")

Command = Callable[[Rules, int], list[str]]  # the start line for given rules and a seed of 31 bits


@dataclass(frozen=True)
class Program:
    """An engine that can be started. name: what the player is called. command: its start line.

    forbids: what it can't play, as a sentence's end for given rules, or an empty text.
    """

    name: str
    command: Command
    forbids: Callable[[Rules], str] = lambda rules: ""


def is_external(spec: str) -> bool:
    """Says whether a player's word means a program outside."""
    return spec.partition(":")[0] in ("gnugo", "pachi", "katago", "gtp")


def find(spec: str) -> Program:
    """Returns the engine that a word means. Raises InputError for a word that is none and for a program that is not
    there.
    """
    kind, _, rest = spec.partition(":")
    makers = {"gnugo": _gnugo, "pachi": _pachi, "katago": _katago, "gtp": _any}
    if kind not in makers:
        raise InputError(f"there is no engine {spec!r}; allowed are {KINDS}")
    return makers[kind](spec, rest)


def locate(name: str) -> str:
    """Returns the path of a program: a path as it is given, else from PATH or the folders for games. Raises
    InputError.
    """
    path = shutil.which(name) or (None if os.sep in name else shutil.which(name, path=os.pathsep.join(MORE_FOLDERS)))
    if path is None:
        if os.sep in name:
            raise InputError(f"there is no program at {name}, or it may not be run")
        raise InputError(
            f"there is no program {name!r} on PATH nor in {', '.join(MORE_FOLDERS)}{HOW_TO_INSTALL.get(name, '')}"
        )
    return path


def _number(spec: str, text: str, least: int, most: int, what: str) -> int:
    """Returns the whole number in a player's word, or raises InputError."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise InputError(f"player {spec!r}: allowed is {spec.partition(':')[0]}:N with {what} from {least} to {most}")
    return int(text)


def _gnugo(spec: str, rest: str) -> Program:
    level = _number(spec, rest, GNUGO_LEVELS.start, GNUGO_LEVELS[-1], "a level")
    path = locate("gnugo")

    def command(rules: Rules, seed: int) -> list[str]:
        """The referee counts what stands on the board, so it is told to capture dead stones, and plays on to the
        end.
        """
        scoring = "--chinese-rules" if rules.scoring == "area" else "--japanese-rules"
        suicide = "--allow-all-suicide" if rules.suicide else "--forbid-suicide"
        flags = (scoring, GNUGO_SUPERKO[rules.superko], suicide, "--capture-all-dead", "--never-resign")
        return [path, "--mode", "gtp", "--quiet", *flags, "--level", str(level), "--seed", str(seed)]

    return Program(spec, command)


def _pachi(spec: str, rest: str) -> Program:
    playouts = _number(spec, rest, PACHI_LEAST, 10**9 - 1, "playouts")
    path = locate("pachi")

    def command(rules: Rules, seed: int) -> list[str]:
        name = "chinese" if rules.scoring == "area" else "japanese"
        options = ("threads=1", "max_tree_size=100", "resign_threshold=0")
        return [path, "-d0", "-t", f"={playouts}", "-s", str(seed), "-r", name, *options]

    return Program(spec, command, lambda rules: "knows no suicide; set game.suicide=false" if rules.suicide else "")


def _katago(spec: str, rest: str) -> Program:
    """KataGo finds its network and settings beside itself where they are not named."""
    visits, _, files = rest.partition(":")
    model, _, config = files.partition(":")
    number = _number(spec, visits, 1, 10**9 - 1, "visits")
    path = locate("katago")
    for file in (model, config):
        if file and not Path(file).is_file():
            raise InputError(f"player {spec!r}: there is no file {file}")
    chosen = [word for option, file in (("-model", model), ("-config", config)) if file for word in (option, file)]

    def command(rules: Rules, seed: int) -> list[str]:
        settings = (
            f"maxVisits={number},maxPlayouts=1000000000,maxTime=1e9,ponderingEnabled=false,allowResignation=false"
        )
        return [path, "gtp", *chosen, "-override-config", f"{settings},searchRandSeed={seed}"]

    return Program(f"katago:{number}", command)


def _any(spec: str, rest: str) -> Program:
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise InputError(f"player {spec!r}: its command can't be read: {str(error).lower()}") from None
    if not words:
        raise InputError("player 'gtp:' lacks its command, such as gtp:'gnugo --mode gtp --level 5'")
    words[0] = locate(words[0])
    return Program(_short_name(words), lambda rules, seed: words)


def _short_name(words: list[str]) -> str:
    """Returns what a command is called: its program, or the script that an interpreter is to run."""
    names = [Path(word).name for word in words if not word.startswith("-")]
    chosen = next((name for name in names if not INTERPRETERS.fullmatch(name)), names[0] if names else "engine")
    return chosen.removesuffix(".py")
