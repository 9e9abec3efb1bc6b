"""From a file to its game trees, and from a tree to the lines of play in it; the parsing is sgfmill's.

A line is a list of nodes from the root to a leaf; a node is sgfmill's property map, name to raw values in UTF-8.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sgfmill import sgf_grammar
from sgfmill.sgf_grammar import Coarse_game_tree

from zerogo.errors import InputError
from zerogo.sgf.encoding import decode

Node = dict[str, list[bytes]]
Line = list[Node]
_SPACES = bytes.maketrans(b"\t\f\v", b"   ")
_LINE_BREAK = re.compile(rb"\n\r|\r\n|\r")
MOST_BYTES = 64 * 2**20  # of a file; the largest collections of commented games are a tenth of it
MOST_NODES = 2_000_000  # of all lines of a tree together, each counted from the root


def load(path: str | os.PathLike) -> bytes:
    """Returns a file's bytes. Raises InputError where it can't be read, and where it is far larger than game records
    are.
    """
    try:
        if os.path.getsize(path) > MOST_BYTES:
            raise InputError(f"{path} is larger than {MOST_BYTES // 2**20} MiB; no game record is")
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read the game record {path}: {getattr(error, 'strerror', None) or error}") from None


def parse(source: str | bytes, where: str, all_games: bool) -> list[Coarse_game_tree]:
    """Returns the game trees of a text, or the first alone.

    where: what a complaint calls the text. Raises InputError where it holds no game tree, or a broken one.
    """
    text = source if isinstance(source, str) else decode(source)[0]
    data = text.encode("utf-8", "replace")
    if not data.strip(b"\0 \t\r\n"):
        raise InputError(f"{where}: it is empty; a game record such as (;SZ[9];B[ee]) is needed")
    try:
        return sgf_grammar.parse_sgf_collection(data) if all_games else [sgf_grammar.parse_sgf_game(data)]
    except ValueError as error:
        raise InputError(f"{where}: {_complaint(data, str(error))}") from None


def _complaint(data: bytes, reason: str) -> str:
    """Returns what is wrong with a text that sgfmill can't parse."""
    if "no SGF data" in reason:
        return "this is no SGF; a game record begins with (;"
    if "unexpected end" not in reason:
        return f"the game tree is broken ({reason})"
    game = int(reason.split()[3].rstrip(":")) if reason.startswith("error parsing game") else 0
    end = 0
    for _ in range(game + 1):
        end = sgf_grammar.tokenise(data, end)[1]
    line = data[:end].count(b"\n") + 1
    if not data[end:].strip():
        return f"the game tree is cut off at the end, line {line}; a closing bracket is missing"
    return f"the game tree breaks off in line {line} at {data[end:].strip()[:20].decode('utf-8', 'replace')!r}"


def one_line(tree: Coarse_game_tree, choices: Sequence[int], where: str) -> Line:
    """Returns one line of a tree: at each branching in turn the child of that number from 0, behind the end of
    `choices` the first.
    """
    nodes, depth = list(tree.sequence), 0
    while tree.children:
        choice = choices[depth] if depth < len(choices) else 0
        if not 0 <= choice < len(tree.children):
            raise InputError(
                f"{where}: variation {choice} at branching {depth + 1}; allowed are 0 to {len(tree.children) - 1}"
            )
        tree, depth = tree.children[choice], depth + 1
        nodes += tree.sequence
    if depth < len(choices):
        raise InputError(f"{where}: {len(choices)} variations to choose, but the line has {depth} branchings")
    return nodes


def all_lines(tree: Coarse_game_tree, where: str) -> Iterator[Line]:
    """Yields every line of a tree, the main line first. Raises InputError before the first where they are too long
    together.
    """
    total, waiting = 0, [(tree, 0)]
    while waiting:
        here, before = waiting.pop()
        length = before + len(here.sequence)
        waiting += [(child, length) for child in here.children]
        total += 0 if here.children else length
    if total > MOST_NODES:
        raise InputError(
            f"{where}: all variations together have {total} nodes, more than {MOST_NODES}; read one of them"
        )
    nodes: Line = []
    stack = [(tree, 0)]
    while stack:
        here, depth = stack.pop()
        del nodes[depth:]
        nodes += here.sequence
        if not here.children:
            yield list(nodes)
        stack += [(child, len(nodes)) for child in reversed(here.children)]


def full_text(node: Node, name: str) -> str:
    """Returns a property's text with its lines, empty where the node lacks it."""
    return _unescaped(node[name][0], b"\n") if name in node else ""


def simple_text(node: Node, name: str) -> str:
    """Returns a property's text as one line without spaces around it, empty where the node lacks it."""
    return simple_value(node[name][0]) if name in node else ""


def simple_value(raw: bytes) -> str:
    """Returns a raw value as one line of text without spaces around it."""
    return _unescaped(raw, b" ").strip()


def _unescaped(raw: bytes, newline: bytes) -> str:
    """Returns a raw value's text as FF[4] defines it, with its line breaks as `newline`: what sgfmill's `text_value`
    does, but at once.

    A comment of 10 MB that is all escapes takes 0.1 s instead of 2 (one object for each piece).
    """
    raw = raw.replace(b"\0", b"").translate(_SPACES)
    if b"\r" in raw:
        raw = _LINE_BREAK.sub(b"\n", raw)
    if b"\\" in raw:  # an escaped backslash waits as the zero byte that no text holds
        raw = (
            raw.replace(b"\\\\", b"\0")
            .replace(b"\\\n", b"")
            .replace(b"\\", b"")
            .replace(b"\n", newline)
            .replace(b"\0", b"\\")
        )
    elif newline != b"\n":
        raw = raw.replace(b"\n", newline)
    return raw.decode("utf-8", "replace")
