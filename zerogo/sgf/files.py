"""SGF (FF[4]) files, read with variations, handicap, setup stones, old passes and odd komi, and written so that any Go
program opens them, with winrates for those that draw a graph.

A broken file is refused in one sentence. Missing or odd properties are replaced by assumptions, which the record's
`notes` list:
* No RU, or an unknown one: the caller's rules, else simple ko, no suicide and area scoring ("chinese"), which forbids
  the fewest moves. The text is kept in `properties` and written back.
* No KM: the caller's komi, else 0. Fox and SGFC write hundredths of a point or, under area rules, of a stone, which is
  two points: KM[375] is 7.5.
* HA without stones: GTP's fixed points if White moves first; where Black does, Black places them as moves.
* Illegal moves are read; `replay` reports the first one.

Bytes are decoded before sgfmill parses them: in Shift-JIS, GBK and Big5 the second byte of a character may equal `]` or
a backslash. A node is sgfmill's property map, name to raw UTF-8 values; a line ends at a leaf."""

import codecs
import contextlib
import datetime
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import islice, zip_longest
from pathlib import Path

from sgfmill import sgf_grammar
from sgfmill.sgf import Sgf_game, Tree_node
from sgfmill.sgf_grammar import Coarse_game_tree

from zerogo import __version__
from zerogo.errors import InputError, quote, refuse_os_errors, shorten_path
from zerogo.rules import MAX_SIZE, MOST_KOMI, Rules, coords, rulesets
from zerogo.sgf.record import COLOURS, UNKNOWN_RESULT, Edit, GameRecord, Remark, rules_text
from zerogo.system import bounds
from zerogo.system.runtime import write_atomically

RULES = "ZGRU"  # our own property: all of the rules as JSON, where RU's word alone would be read as others
# What `properties` may not contradict.
STRUCTURE = ("FF", "GM", "CA", "SZ", "KM", "B", "W", "AB", "AW", "AE", "PL", RULES)
DEFAULT_SIZE = 19
DEFAULT_RULES = "chinese"
# Root properties that fields of a record hold, or that say nothing about the game.
_READ_ELSEWHERE = {*STRUCTURE, *"AP RU HA PB PW RE DT EV RO C SBKV SBKS".split()}
_HUNDREDTHS_FROM = 200  # no komi is so high, and KM[200] is 2 points at the least
_NUMBER = re.compile(r"[+-]?\d{1,12}(?:[.,]\d{0,400})?|[+-]?[.,]\d{1,400}")
_COLOUR_OF = {"AB": 1, "AW": 2, "AE": 0}
Node = dict[str, list[bytes]]
MOST_BYTES = 64 * 2**20  # of a file; the largest collections of commented games are a tenth of it
MOST_TOKENS = 300_000  # nodes, brackets and values of one game, of 420 bytes each; a dictionary of joseki has 250,000
MOST_NODES = 2_000_000  # of all lines of a tree together, each counted from the root
# How a file of each encoding begins; the last two lack a byte order mark.
STARTS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"), (b"(\0", "utf-16-le"), (b"\0(", "utf-16-be"),
)  # fmt: skip
# What a name in CA is read as: supersets, since programs that say GB2312 write GBK, and those that say ISO-8859-1 write
# Windows-1252.
SUPERSETS = {
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "iso8859-1": "cp1252",
    "ascii": "utf-8",
}  # fmt: skip
# The first bytes of each set's common characters: level 1 of GB 2312, JIS X 0208 (with kana) and Big5, and the Hangul
# of KS X 1001.
_COMMON = {
    "gb18030": [(0xB0, 0xD7)], "cp932": [(0x82, 0x83), (0x88, 0x97)], "cp949": [(0xB0, 0xC8)],
    "euc_jp": [(0xA4, 0xA5), (0xB0, 0xCF)], "big5": [(0xA4, 0xC6)],
}  # fmt: skip
_STATEFUL = ("iso2022", "hz", "utf-7", "utf-16", "utf-32")  # texts in these may look like ASCII or hold zero bytes
_NO_ENCODINGS = ("idna", "punycode", "unicode-escape", "unicode_escape", "raw-unicode-escape", "raw_unicode_escape")
_CHARSET = re.compile(rb"CA\s*\[\s*([\w.:+-]{1,40})\s*\]")
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_MAX_JUDGED = 4000  # characters by which a guess is judged
# How old files name properties in full; in GaMe, SiZe and AddBlack the capitals are the name, which sgfmill reads.
_LONG_NAMES = {
    "game": "GM", "size": "SZ", "boardsize": "SZ", "komi": "KM", "rules": "RU", "handicap": "HA", "result": "RE",
    "date": "DT", "black": "B", "white": "W", "addblack": "AB", "addwhite": "AW", "addempty": "AE", "player": "PL",
    "playerblack": "PB", "playerwhite": "PW", "comment": "C", "name": "N",
}  # fmt: skip
_VALUE_OR_NAME = re.compile(rb"\[(?:[^\]\\]+|\\.)*\]?|[A-Za-z]{4,}", re.DOTALL)
_LONG_NAME = re.compile(rb"(?i)[\s;(\]](size|boardsize|black|white)\s*\[")
_TOKEN = re.compile(rb"\[[^\\\]]*(?:\\.[^\\\]]*)*\]|[;()]", re.DOTALL)


def read(path: str | os.PathLike, default: Rules | None = None) -> GameRecord:
    """Returns the main line of a file's first game. default: the rules and komi of a file without them. Raises
    InputError for a file that can't be read or is broken."""
    return read_text(load(path), str(path), default)


def variations(path: str | os.PathLike) -> list[GameRecord]:
    """Returns every line of a file's first game from the root to a leaf, the main line first."""
    return list(variations_text(load(path), str(path)))


def has_more_games(path: str | os.PathLike) -> bool:
    """Returns whether a file that can be read holds more than its first game."""
    data = _plain_text(load(path))
    return re.search(rb"\(\s*;", data[sgf_grammar.tokenise(data)[1] :]) is not None


def variations_text(source: str | bytes, where: str = "SGF") -> Iterator[GameRecord]:
    """Yields every line of the first game in a text, or in the bytes of one, as `variations` has them."""
    return (_RecordReader(line, where).record() for line in all_lines(parse(source, where), where))


def read_text(source: str | bytes, where: str = "SGF", default: Rules | None = None) -> GameRecord:
    """Returns the main line of the first game in a text, or in the bytes of one. where: its name in error messages."""
    return _RecordReader(list(sgf_grammar.main_sequence_iter(parse(source, where))), where).record(default)


class _RecordReader:
    """Reads one line of nodes. named_rules: the text of RU. edits: the first one may come before the first move, as the
    start of the game. notes: what had to be assumed. comments: those of nodes after a move, by its number."""

    def __init__(self, line: list[Node], where: str) -> None:
        self.root, self.where, self.named_rules = line[0], where, simple_text(line[0], "RU")
        self.moves: list[int] = []
        self.colours: list[str] = []
        self.remarks: list[Remark] = []
        self.edits: list[Edit] = []
        self.notes: list[str] = []
        self.comments: dict[int, list[str]] = {}
        if (game := simple_text(self.root, "GM")) not in ("", "1"):
            raise InputError(f"{where}: GM is {quote(game)}; only Go, GM[1], is read")
        self.size = self._board_size()
        for node in line:
            self._add(node)

    def record(self, default: Rules | None = None) -> GameRecord:
        """Returns the record. default: the rules and komi of a file without them."""
        root = self.root
        komi = self._komi(default.komi if default else 0.0)
        rules, has_rules = self._rules(komi, default)
        names = {"black": "PB", "white": "PW", "result": "RE", "event": "EV", "round": "RO", "date": "DT"}
        fields = {name: text for name, key in names.items() if (text := simple_text(root, key))}
        fields |= zip(("first", "handicap", "setup"), self._start(), strict=True)
        for index, texts in self.comments.items():  # those between moves are kept with the last one
            first = self.remarks[index].comment
            texts = [first, *texts] if first else texts
            self.remarks[index] = self.remarks[index]._replace(comment="\n\n".join(texts))
        while self.remarks[-1:] == [Remark()]:
            del self.remarks[-1]
        # Such as GN, TM, OT or BR, and no lists of marks.
        single = [name for name, values in root.items() if name and name not in _READ_ELSEWHERE and len(values) == 1]
        properties = {name: text for name in single if (text := full_text(root, name))}
        if self.named_rules not in ("", rules_text(rules)):
            properties["RU"] = self.named_rules
        fields |= {"comment": full_text(root, "C"), "properties": properties, "has_rules": has_rules}
        fields |= {name: getattr(self, name) for name in ("colours", "edits", "notes", "remarks")}
        return GameRecord(rules, self.moves, **({"date": None} | fields))

    def _add(self, node: Node) -> None:
        """Takes in the next node of the line."""
        names = [name for name in node if name in ("B", "W")]
        if not node.keys().isdisjoint(_COLOUR_OF) or ("PL" in node and not names):
            self._add_stones(node)
        for name in names:
            self._add_move(name, node)
        if names:
            self.remarks += [*[Remark()] * (len(names) - 1), _remark(node, node is self.root)]
        elif self.remarks and (text := full_text(node, "C")):
            self.comments.setdefault(len(self.remarks) - 1, []).append(text)

    def _board_size(self) -> int:
        """Returns N. Raises InputError for a board that zerogo does not have."""
        if not (text := simple_text(self.root, "SZ")):
            return DEFAULT_SIZE
        sides = re.fullmatch(r"0*([0-9]{1,2})\s*(?::\s*0*([0-9]{1,2}))?", text)
        if sides is None or sides[2] not in (None, sides[1]) or not 1 <= int(sides[1]) <= MAX_SIZE:
            allowed = f"allowed are square boards of side 1 to {MAX_SIZE}"
            raise InputError(f"{self.where}: the board size SZ is {quote(text)}; {allowed}")
        return int(sides[1])

    def _add_move(self, name: str, node: Node) -> None:
        """Takes in a move. Raises InputError where it is not one point of the board."""
        place = f"{self.where}, move {len(self.moves) + 1}: {'Black' if name == 'B' else 'White'} plays on"
        if len(node[name]) > 1:
            raise InputError(f"{place} {len(node[name])} points at once; allowed is one")
        try:
            action = coords.from_sgf(simple_value(node[name][0]), self.size)
        except InputError as error:
            raise InputError(f"{place} no point of the board; {_short(error)}") from None
        self.moves.append(action)
        self.colours.append(name.lower())

    def _add_stones(self, node: Node) -> None:
        """Takes in AB, AW, AE and PL. Raises InputError for points off the board."""
        stones: dict[int, int] = {}
        for name, colour in _COLOUR_OF.items():
            for value in node.get(name, ()):
                stones |= dict.fromkeys(self._points(name, simple_value(value)), colour)
        first = self._player(node) if "PL" in node else ""
        # Not AE[] and the like within a game, nor the player whose turn it is anyway.
        if stones or not self.moves or (node.keys().isdisjoint(_COLOUR_OF) and first == self.colours[-1]):
            if not self.edits or self.edits[-1].before < len(self.moves):
                self.edits.append(Edit(len(self.moves), {}))
            self.edits[-1].stones |= stones
            self.edits[-1].first = first or self.edits[-1].first

    def _points(self, name: str, text: str) -> list[int]:
        """Returns the points of one value: none, one, or a rectangle such as aa:cc. Raises InputError off the board."""
        corners = [corner.strip() for corner in text.split(":", 1)]
        if corners == [""]:
            return []
        try:
            if "" in corners or (coords.SGF_OLD_PASS in corners and self.size <= 19):
                raise InputError(f"{quote(text)} is a pass; allowed are points of {self.size}x{self.size}")
            places = [divmod(coords.from_sgf(corner, self.size), self.size) for corner in corners]
        except InputError as error:
            raise InputError(f"{self.where}, {name} after {len(self.moves)} moves: {_short(error)}") from None
        rows, columns = (sorted(line) for line in zip(*places, strict=True))  # some give corners in any order
        width = range(columns[0], columns[-1] + 1)
        return [row * self.size + column for row in range(rows[0], rows[-1] + 1) for column in width]

    def _player(self, node: Node) -> str:
        """Returns the player of PL, "b" or "w"; FF[1] has numbers. Returns "" and adds a note for another value."""
        text = simple_text(node, "PL")
        player = {"b": "b", "1": "b", "w": "w", "2": "w"}.get(text[:1].lower(), "")
        if not player:
            self.notes.append(f"PL is {quote(text)}, which is neither side; the side that moves next is assumed")
        return player

    def _komi(self, default: float) -> float:
        """Returns the komi in points; adds assumptions to the notes. Raises InputError for a komi that no game has."""
        if not (text := simple_text(self.root, "KM")):
            self.notes.append(f"there is no KM; the komi is assumed to be {default:g}")
            return default
        komi, program = _number(text), simple_text(self.root, "AP").lower()
        from_fox = "foxwq" in program or "sgfc:2.0" in program
        if komi is not None and komi % 25 == 0 and abs(komi) >= (25 if from_fox else _HUNDREDTHS_FROM):
            # KataGo reads 275, 325, 350 and 375 of these programs as stones, and 550, 650, 700 and 750 as points; Fox's
            # KM[50] is half a point under Japanese rules.
            is_area = rulesets.canonical(self.named_rules) not in ("japanese", "korean")
            unit, divisor = ("stone", 50) if is_area and 250 <= abs(komi) <= 400 else ("point", 100)
            komi /= divisor
            self.notes.append(f"KM is {text}, hundredths of a {unit}; the komi is assumed to be {komi:g} points")
        if komi is None or abs(komi) > MOST_KOMI:
            allowed = f"it must be a number of points from -{MOST_KOMI} to {MOST_KOMI}"
            raise InputError(f"{self.where}: the komi KM is {quote(text)}; {allowed}")
        return komi

    def _rules(self, komi: float, default: Rules | None) -> tuple[Rules, bool]:
        """Returns the rules of our own property or RU, and whether the file has any; adds assumptions to the notes."""
        size, notes, named, as_json = self.size, self.notes, self.named_rules, simple_text(self.root, RULES)
        played = rulesets.NOT_PLAYED.sub("", named)
        for text in filter(None, (as_json, named, played)):
            with contextlib.suppress(InputError):
                rules = rulesets.parse(text, size, komi)
                if text not in (as_json, named):
                    notes.append(f"RU is {quote(named)}; its tax or White's bonus for handicap stones is not counted")
                return rules, True
        reason = f"RU is {quote(named)}, which is unknown" if named else "there is no RU"
        rules = replace(default, size=size, komi=komi) if default else rulesets.named(DEFAULT_RULES, size, komi)
        notes.append(f"{reason}; {rulesets.described(rules)} are assumed")
        return rules, False

    def _start(self) -> tuple[str, list[int], list[list[int]] | None]:
        """Returns who moves first, the handicap points, and the setup where there is another; adds to the notes."""
        size, notes = self.size, self.notes
        start = self.edits.pop(0) if self.edits and self.edits[0].before == 0 else Edit(0, {})
        stones = {point: colour for point, colour in start.stones.items() if colour}
        text = simple_text(self.root, "HA")
        number = int(text) if re.fullmatch(r"\d{1,3}", text) else 0
        if text and not re.fullmatch(r"\d{1,3}", text):
            notes.append(f"HA is {quote(text)}, which is no number; the stones on the board count as the handicap")
        first = start.first or (self.colours[0] if self.colours else "w" if number >= 2 else "b")
        is_handicap = number >= 2 and first == "w"
        if is_handicap and not stones:
            points, assumption = [], f", and {size}x{size} has no fixed points for it; no stones are assumed"
            with contextlib.suppress(InputError):
                points, assumption = coords.fixed_handicap(size, number), "; the fixed points are assumed"
            notes.append(f"HA is {number} without stones{assumption}")
            return first, points, None
        if is_handicap and 2 <= len(stones) < size * size and set(stones.values()) == {1}:
            if len(stones) != number:
                assumption = f"{len(stones)} stones stand on the board; these count as the handicap"
                notes.append(f"HA is {number}, but {assumption}")
            return first, list(stones), None
        rows = [[stones.get(row * size + column, 0) for column in range(size)] for row in range(size)]
        return first, [], rows if stones else None


def _remark(node: Node, is_root: bool) -> Remark:
    """Returns a move's comment, Sabaki's winrate and score, and visits: those of our own comment, which is dropped."""
    comment = "" if is_root else full_text(node, "C")
    percent, score = _number(simple_text(node, "SBKV")), _number(simple_text(node, "SBKS"))
    if percent is None or not 0 <= percent <= 100:
        return Remark(comment or None, None, score)
    winrate = round(percent / 100, 6)
    match = re.search(r" v=(\d{1,15})\Z", comment)
    visits = int(match[1]) if match else None
    if comment == search_text(winrate, score, visits):
        return Remark(None, winrate, score, visits)
    return Remark(comment or None, winrate, score)


def _number(text: str) -> float | None:
    """Returns a number written with a point or a comma, None for anything else."""
    return float(text.replace(",", ".")) if _NUMBER.fullmatch(text) else None


def _short(error: InputError) -> str:
    """Returns a complaint of `coords` without its own beginning."""
    return str(error).removeprefix("SGF point: ")


# From a file's bytes to its text, whatever wrote it, and from the text to the lines of play


def load(path: str | os.PathLike) -> bytes:
    """Returns a file's bytes. Raises InputError where it can't be read or is far larger than game records are."""
    return bounds.read_file(path, MOST_BYTES, "game record")


def decode(data: bytes) -> str:
    """Returns the text of a file: by its first bytes, UTF-8 if it is that, by CA, else by guessing. Never fails."""
    for start, name in STARTS:
        if data.startswith(start) and (text := _try_decode(data, name)) is not None:
            return text
    declared = _declared_encoding(data)
    as_declared = None if declared is None else _try_decode(data, declared)
    if as_declared is not None and declared.startswith(_STATEFUL):
        return as_declared
    as_utf8 = _try_decode(data, "utf-8")
    # Chinese, Japanese and Korean take three bytes in UTF-8. Where there are only two-byte characters, a few characters
    # of GBK may look like UTF-8 by chance, so what the file says of itself counts more.
    if as_utf8 is not None and (
        declared not in _COMMON or as_declared is None or any("\u0800" <= letter for letter in as_utf8)
    ):
        return as_utf8
    if as_declared is not None:
        return as_declared
    mended = data.decode("utf-8", "replace")
    bad = mended.count("\ufffd")
    good = sum(1 for _ in islice(_FOREIGN.finditer(mended), bad + _MAX_JUDGED)) - bad
    if bad <= (good if declared == "utf-8" else good // 4):  # UTF-8 that was cut, or damaged here and there
        return mended
    shares = {name: _share_of_common(_try_decode(data, name), name) for name in _COMMON}
    likeliest = max(shares, key=shares.get)
    return data.decode(likeliest) if shares[likeliest] > 0.5 else _try_decode(data, "cp1252") or data.decode("latin-1")


def _declared_encoding(data: bytes) -> str | None:
    """Returns the encoding that CA names, None where it names none that exists."""
    if (match := _CHARSET.search(data[:20_000])) is None:
        return None
    try:
        name = codecs.lookup(match[1].decode()).name
        b"a".decode(name)  # rules out codecs that are no encodings of text, such as rot13
    except (LookupError, UnicodeError):
        return None
    return None if name in _NO_ENCODINGS else SUPERSETS.get(name, name)


def _try_decode(data: bytes, name: str) -> str | None:
    """Returns the text, None where the bytes are not of that encoding."""
    try:
        return data.decode(name)
    except ValueError:  # UnicodeError is one
        return None


def _share_of_common(text: str | None, name: str) -> float:
    """Returns the share of the characters beyond ASCII that are in an encoding's set of common ones; -1 for no text."""
    if text is None:
        return -1.0
    codes = [match[0].encode(name) for match in islice(_FOREIGN.finditer(text), _MAX_JUDGED)]
    if len(codes) < 4 and all(code[-1] < 0x80 for code in codes):  # accented letters of Latin-1, each before ASCII
        return 0.0
    least = 0x40 if name in ("cp932", "big5") else 0xA1  # of a second byte; those below are rare characters
    common = [range(first, last + 1) for first, last in _COMMON[name]]
    is_common = [len(code) == 2 and code[1] >= least and any(code[0] in lead for lead in common) for code in codes]
    # Common Hangul have the bytes of common Chinese characters, of which there are twice as many: hardly all of several
    # characters would be Hangul by chance.
    tie_break = name == "cp949" and len(codes) >= 8 and all(is_common)
    return sum(is_common) / max(1, len(codes)) + tie_break


def parse(source: str | bytes, where: str) -> Coarse_game_tree:
    """Returns the first game tree of a text; where: its name in complaints. Raises InputError if it is broken."""
    if len(source) > MOST_BYTES // 4 and not source.isascii():  # each byte may take four when it is decoded
        raise InputError(f"{where}: it has {len(source)} bytes, not all of them ASCII; allowed are {MOST_BYTES // 4}")
    data = _plain_text(source)
    if not data.strip():
        raise InputError(f"{where}: it is empty; a game record such as (;SZ[9];B[ee]) is needed")
    if sum(map(data.count, (b"[", b";", b"(", b")"))) > MOST_TOKENS and _num_tokens(data) > MOST_TOKENS:
        raise InputError(
            f"{where}: its first game has more than {MOST_TOKENS} nodes and values; no game record needs so many"
        )
    try:
        return sgf_grammar.parse_sgf_game(data)
    except ValueError as error:
        raise InputError(f"{where}: {_complaint(data, str(error))}") from None


def _plain_text(source: str | bytes) -> bytes:
    """Returns a text in UTF-8 with the short names of properties."""
    is_plain = isinstance(source, bytes) and _is_plain(source)  # and not copied
    data = source if is_plain else (source if isinstance(source, str) else decode(source)).encode("utf-8", "replace")
    if _LONG_NAME.search(data):
        data = _VALUE_OR_NAME.sub(lambda one: _LONG_NAMES.get(one[0].decode().lower(), "").encode() or one[0], data)
    return data.replace(b"\0", b"")  # no text holds one


def _is_plain(data: bytes) -> bool:
    """Returns whether these bytes are ASCII text in the encoding of the file."""
    may_switch = (_declared_encoding(data) or "").startswith(_STATEFUL)
    return data.isascii() and not may_switch and not data.startswith(tuple(start for start, _ in STARTS))


def _num_tokens(data: bytes) -> int:
    """Returns how many nodes, brackets of trees and values the first game has, at most one beyond the limit.

    sgfmill makes a list of all of them, at about 200 bytes each."""
    depth, count, start = 0, 0, re.search(rb"\(\s*;", data)
    for match in islice(_TOKEN.finditer(data, start.start() if start else 0), MOST_TOKENS + 1):
        depth, count = depth + {40: 1, 41: -1}.get(data[match.start()], 0), count + 1
        if depth == 0:
            break
    return count


def _complaint(data: bytes, reason: str) -> str:
    """Returns the error of a text that sgfmill can't parse, in words."""
    if "no SGF data" in reason:
        return "this is no SGF; a game record begins with (;"
    if "unexpected end" not in reason:
        return f"the game tree is broken ({reason})"
    end = sgf_grammar.tokenise(data)[1]
    line, rest = data[:end].count(b"\n") + 1, data[end:].strip()
    if not rest:
        return f"the game tree is cut off at the end, line {line}; a closing bracket is missing"
    return f"the game tree breaks off in line {line} at {rest[:20].decode('utf-8', 'replace')!r}"


def all_lines(tree: Coarse_game_tree, where: str) -> Iterator[list[Node]]:
    """Yields every line of a tree, the main line first. Raises InputError once they are too long together."""
    nodes: list[Node] = []
    total, waiting = 0, [(tree, 0)]
    while waiting:
        branch, depth = waiting.pop()
        nodes[depth:] = branch.sequence
        if not branch.children:
            total += len(nodes)
            if total > MOST_NODES:
                many = f"all variations together have more than {MOST_NODES} nodes"
                raise InputError(f"{where}: {many}; read one of them")
            yield list(nodes)
        waiting += [(child, len(nodes)) for child in reversed(branch.children)]


def full_text(node: Node, name: str) -> str:
    """Returns a property's text with its lines, empty where the node lacks it."""
    return sgf_grammar.text_value(node[name][0]).decode("utf-8", "replace") if name in node else ""


def simple_text(node: Node, name: str) -> str:
    """Returns a property's text as one line without spaces around it, empty where the node lacks it."""
    return simple_value(node[name][0]) if name in node else ""


def simple_value(raw: bytes) -> str:
    """Returns a raw value as one line of text without spaces around it."""
    return sgf_grammar.simpletext_value(raw).decode("utf-8", "replace").strip()


# Writing


def to_text(record: GameRecord, others: Sequence[GameRecord] = ()) -> str:
    """Returns the game as SGF. others: further lines from the same start, whose moves become variations.
    Raises InputError for a move, stone, colour or property that can't be written."""
    _check(record)
    size = record.rules.size
    game = Sgf_game(size, encoding="UTF-8")
    node = game.get_root()
    _set_root(node, record)
    edits = {edit.before: edit for edit in record.edits}
    moves = zip_longest(record.turns(), record.moves, record.remarks, fillvalue=Remark())
    for number, (colour, action, remark) in enumerate(moves, start=1):
        node = node.new_child()
        node.set_raw(colour.upper(), coords.to_sgf(action, size).encode())  # sgfmill's own pass would be the old tt
        _set_remark(node, remark)
        if number in edits:
            node = node.new_child()
            _set_stones(node, edits[number].stones, size)
            if edits[number].first:
                _set_text(node, "PL", edits[number].first.upper())
    for other in others:
        _add_variation(game.get_root(), other)
    return game.serialise().decode("UTF-8")


def _add_variation(node: Tree_node, record: GameRecord) -> None:
    """Adds a line's moves below a root, as far as they are not there."""
    for colour, action in zip(record.turns(), record.moves, strict=True):
        name, place = colour.upper(), coords.to_sgf(action, record.rules.size).encode()
        same_moves = (child for child in node if child.has_property(name) and child.get_raw(name) == place)
        node = next(same_moves, None) or node.new_child()
        node.set_raw(name, place)


def write(path: str | Path, record: GameRecord) -> None:
    """Writes the game to a file atomically. Raises InputError if that fails, or if the path holds no game record."""
    text = to_text(record)
    what = f"cannot write the game record {shorten_path(path)}"
    with refuse_os_errors(what):
        if os.path.exists(path) and not _is_game_record(path):
            raise InputError(f"{what}: it exists and is not a game record")
        write_atomically(path, text.encode("UTF-8"))


def _is_game_record(path: str | Path) -> bool:
    """Returns whether a file may be replaced by a game record: it is one, with nothing before it, or is empty."""
    with contextlib.suppress(InputError):
        text = decode(load(path)).strip("\ufeff\0 \t\r\n")
        return not text or (re.match(r"\(\s*;", text) is not None and bool(parse(text, str(path))))
    return False


def search_text(winrate_black: float, score_black: float | None, visits: int | None) -> str:
    """Returns KataGo's comment on a move as White sees it: win, loss, no result (0 to 1), lead in points, visits."""
    score = 0.0 if score_black is None else -score_black + 0.0
    text = f"{1 - winrate_black:.2f} {winrate_black:.2f} 0.00 {score:.1f}"
    return text if visits is None else f"{text} v={visits}"


def _check(record: GameRecord) -> None:
    """Raises InputError for a record that SGF can't hold."""
    last = len(record.moves)
    if record.first not in COLOURS:
        raise InputError(f"SGF: the first colour is {quote(record.first)}; allowed are b and w")
    colours = record.turns()
    if len(colours) != last or not set(colours) <= set(COLOURS):
        raise InputError(f"SGF: {len(colours)} colours for {last} moves; one each is needed, b or w")
    if len(record.remarks) > last:
        raise InputError(f"SGF: {len(record.remarks)} remarks for {last} moves; at most one each is allowed")
    winrates = [winrate for _, winrate, _, _ in record.remarks]
    if wrong := [winrate for winrate in winrates if winrate is not None and not 0 <= winrate <= 1]:
        raise InputError(f"SGF: a winrate of Black is {wrong[0]}; allowed are 0 to 1, and None where there is none")
    places = [edit.before for edit in record.edits]
    if places != sorted(set(places)) or not all(0 < place <= last for place in places):
        needed = f"each must come after a different move, in order, from 1 to {last}"
        raise InputError(f"SGF: edits before moves {places}; {needed}")
    for name in record.properties:
        if name in STRUCTURE or not re.fullmatch("[A-Z]{1,64}", name):
            allowed = f"allowed are capitals, and none of {', '.join(STRUCTURE)}"
            raise InputError(f"SGF: {quote(name)} among the root properties; {allowed}")
    size, setup = record.rules.size, record.setup or []
    if setup and record.handicap:
        raise InputError("SGF: both handicap stones and a setup; the setup holds all stones")
    if setup and (len(setup) != size or any(len(row) != size or not set(row) <= {0, 1, 2} for row in setup)):
        raise InputError(f"SGF: the setup is not {size} rows of {size} colours, 0 (empty), 1 (black) or 2 (white)")


def _set_root(root: Tree_node, record: GameRecord) -> None:
    """Sets the properties of the whole game; FF, GM, CA and SZ are there already."""
    size = record.rules.size
    texts = {
        "AP": f"zerogo:{__version__}",
        "RU": rules_text(record.rules),
        "PB": record.black,
        "PW": record.white,
        "RE": record.result or UNKNOWN_RESULT,
        "DT": datetime.datetime.now(datetime.UTC).date().isoformat() if record.date == "" else record.date,
        "EV": record.event,
        "RO": record.round,
        "C": record.comment,
        "KM": format(Decimal(repr(record.rules.komi)), "f"),  # no exponent, which SGF doesn't know
    }
    if len(record.handicap) > 1:  # HA[1] is not allowed: one stone is a game that White begins
        texts["HA"] = str(len(record.handicap))
    colours = (colour for row in record.setup or () for colour in row)
    stones = dict.fromkeys(record.handicap, 1) | {point: colour for point, colour in enumerate(colours) if colour}
    _set_stones(root, stones, size)
    if stones or record.first != "b" or record.turns()[:1] == ["w"]:
        texts["PL"] = record.first.upper()
    texts |= record.properties
    texts[RULES] = json.dumps(rulesets.to_json(record.rules), separators=(",", ":"))
    with contextlib.suppress(InputError):
        if rulesets.parse(texts["RU"], size, record.rules.komi) == record.rules:
            del texts[RULES]  # RU alone says it
    for name, text in texts.items():
        if text:
            _set_text(root, name, text)


def _set_stones(node: Tree_node, stones: dict[int, int], size: int) -> None:
    """Sets AB, AW and AE from point to colour."""
    for colour, name in ((1, "AB"), (2, "AW"), (0, "AE")):
        points = [coords.to_sgf(point, size).encode() for point, set_to in stones.items() if set_to == colour]
        if b"" in points:
            raise InputError("SGF: a pass among the stones that are set up; they must be points of the board")
        if points:
            node.set_raw_list(name, points)


def _set_remark(node: Tree_node, remark: Remark) -> None:
    """Sets a move's comment, and the properties of Sabaki's graphs (SBKV: percent, SBKS: points, both Black's)."""
    comment, winrate, score, visits = remark
    if winrate is not None:
        _set_text(node, "SBKV", f"{100 * winrate:.2f}")
        comment = comment or search_text(round(winrate, 4), score, visits)
    if score is not None:
        _set_text(node, "SBKS", f"{score:.2f}")
    if comment:
        _set_text(node, "C", comment)


def _set_text(node: Tree_node, name: str, text: str) -> None:
    """Sets a property to a text, escaped for SGF."""
    node.set_raw(name, sgf_grammar.escape_text(text.encode("UTF-8", "replace")))
