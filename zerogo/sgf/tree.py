"""From a file's bytes to its text, whatever wrote it, and from the text to the lines of play; the parsing is sgfmill's.

The text has to come before the parsing: in Shift-JIS, GBK and Big5 the second byte of a character may be that of `]` or
of a backslash. A node is sgfmill's property map, name to raw values in UTF-8; a line goes from the root to a leaf."""

import codecs
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from sgfmill import sgf_grammar
from sgfmill.sgf_grammar import Coarse_game_tree

from zerogo.errors import InputError

Node = dict[str, list[bytes]]
MOST_BYTES = 64 * 2**20  # of a file; the largest collections of commented games are a tenth of it
MOST_NODES = 2_000_000  # of all lines of a tree together, each counted from the root
# How a file of each encoding begins; the last two lack a byte order mark.
STARTS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"(\0", "utf-16-le"),
    (b"\0(", "utf-16-be"),
)
# What a name in CA is read as: supersets, since programs that say GB2312 write GBK, and those that say ISO-8859-1 write
# Windows-1252.
SUPERSETS = {
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "iso8859-1": "cp1252",
    "ascii": "utf-8",
}  # fmt: skip
ASIAN = ("gb18030", "cp932", "cp949", "euc_jp", "big5")
# The first bytes of each set's common Chinese characters.
_COMMON = {"gb18030": (0xB0, 0xD7), "cp932": (0x88, 0x97), "euc_jp": (0xB0, 0xCF), "big5": (0xA4, 0xC6)}
_STATEFUL = ("iso2022", "hz", "utf-7", "utf-16", "utf-32")  # texts in these may look like ASCII or hold zero bytes
_NO_ENCODINGS = ("idna", "punycode", "unicode-escape", "unicode_escape", "raw-unicode-escape", "raw_unicode_escape")
_CHARSET = re.compile(rb"CA\s*\[\s*([\w.:+-]{1,40})\s*\]")
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_JUDGED = 4000  # characters by which a guess is judged
_SPACES = bytes.maketrans(b"\t\f\v", b"   ")
_LINE_BREAK = re.compile(rb"\n\r|\r\n|\r")


def load(path: str | os.PathLike) -> bytes:
    """Returns a file's bytes. Raises InputError where it can't be read or is far larger than game records are."""
    try:
        if os.path.getsize(path) <= MOST_BYTES:
            return Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise InputError(f"cannot read the game record {path}: {getattr(error, 'strerror', None) or error}") from None
    raise InputError(f"{path} is larger than {MOST_BYTES // 2**20} MiB; no game record is")


def decode(data: bytes) -> str:
    """Returns the text of a file: by its first bytes, UTF-8 if it is that, by CA, else by guessing. Never fails."""
    for start, name in STARTS:
        if data.startswith(start) and (text := _decoded(data, name)) is not None:
            return text
    declared = _declared(data)
    as_declared = None if declared is None else _decoded(data, declared)
    if as_declared is not None and declared.startswith(_STATEFUL):
        return as_declared
    as_utf8 = _decoded(data, "utf-8")
    # Chinese, Japanese and Korean take three bytes in UTF-8. Where there are only two-byte characters, a few characters
    # of GBK may look like UTF-8 by chance, so what the file says of itself counts more.
    if as_utf8 is not None and (
        declared not in ASIAN or as_declared is None or any("\u0800" <= letter for letter in as_utf8)
    ):
        return as_utf8
    if as_declared is not None:
        return as_declared
    mended = data.decode("utf-8", "replace")
    bad = mended.count("\ufffd")
    good = sum(1 for _ in islice(_FOREIGN.finditer(mended), bad + _JUDGED)) - bad
    if bad <= (good if declared == "utf-8" else good // 4):  # UTF-8 that was cut, or damaged here and there
        return mended
    likeliest = max((*ASIAN, "cp1252"), key=lambda name: _usualness(_decoded(data, name), name))
    return _decoded(data, likeliest) or data.decode("latin-1")


def _declared(data: bytes) -> str | None:
    """Returns the encoding that CA names, None where it names none that exists."""
    match = _CHARSET.search(data[:20_000])
    if match is None:
        return None
    try:
        name = codecs.lookup(match[1].decode()).name
        b"a".decode(name)  # rules out codecs that are no encodings of text, such as rot13
    except (LookupError, UnicodeError):
        return None
    return None if name in _NO_ENCODINGS else SUPERSETS.get(name, name)


def _decoded(data: bytes, name: str) -> str | None:
    """Returns the text, None where the bytes are not of that encoding."""
    try:
        return data.decode(name)
    except ValueError:  # UnicodeError is one
        return None


def _usualness(text: str | None, name: str) -> float:
    """Returns how usual the characters beyond ASCII are in texts of that encoding, on average, 0 to 1; -1 for None."""
    if text is None:
        return -1.0
    letters = [match[0] for match in islice(_FOREIGN.finditer(text), _JUDGED)]
    if name == "cp949" and len(letters) >= 8 and all("\uac00" <= letter <= "\ud7a3" for letter in letters):
        return 0.95  # each may be a common Chinese character in GBK, but that set is twice as large: hardly all of them
    return sum(_weight(letter, name) for letter in letters) / max(1, len(letters))


def _weight(letter: str, name: str) -> float:
    """Returns how usual one character is in texts of an encoding."""
    if "\u3040" <= letter <= "\u30ff":
        return 1.0 if name in ("cp932", "euc_jp") else 0.3
    if "\u4e00" <= letter <= "\u9fff":
        first, last = _COMMON.get(name, (0x100, 0))
        return 0.9 if first <= letter.encode(name)[0] <= last else 0.3
    if "\uac00" <= letter <= "\ud7a3":
        code = letter.encode(name)
        return 0.9 if 0xB0 <= code[0] <= 0xC8 and len(code) == 2 else 0.1
    if "\u3000" <= letter <= "\u303f" or "\uff01" <= letter <= "\uff5e":
        return 0.7
    return 0.1 if name != "cp1252" else 0.6 if letter.isalpha() else 0.2


def parse(source: str | bytes, where: str) -> Coarse_game_tree:
    """Returns the first game tree of a text; where: its name in complaints. Raises InputError if it is broken."""
    text = source if isinstance(source, str) else decode(source)
    data = text.encode("utf-8", "replace")
    if not data.strip(b"\0 \t\r\n"):
        raise InputError(f"{where}: it is empty; a game record such as (;SZ[9];B[ee]) is needed")
    try:
        return sgf_grammar.parse_sgf_game(data)
    except ValueError as error:
        raise InputError(f"{where}: {_complaint(data, str(error))}") from None


def _complaint(data: bytes, reason: str) -> str:
    """Returns what is wrong with a text that sgfmill can't parse."""
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
    """Yields every line of a tree, the main line first. Raises InputError where they are too long together."""
    total, waiting = 0, [(tree, 0)]
    while waiting:
        here, before = waiting.pop()
        length = before + len(here.sequence)
        waiting += [(child, length) for child in here.children]
        total += 0 if here.children else length
    if total > MOST_NODES:
        many = f"all variations together have {total} nodes, more than {MOST_NODES}"
        raise InputError(f"{where}: {many}; read one of them")
    nodes: list[Node] = []
    waiting = [(tree, 0)]
    while waiting:
        here, depth = waiting.pop()
        nodes[depth:] = here.sequence
        if not here.children:
            yield list(nodes)
        waiting += [(child, len(nodes)) for child in reversed(here.children)]


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
    """Returns a raw value's text as FF[4] defines it, with its line breaks as `newline`.

    It does what sgfmill's `text_value` does without an object for each piece: a comment of 10 MB that is all escapes
    takes 0.1 s instead of 2."""
    raw = raw.replace(b"\0", b"").translate(_SPACES)
    if b"\r" in raw:
        raw = _LINE_BREAK.sub(b"\n", raw)
    if b"\\" in raw:  # an escaped backslash waits as the zero byte that no text holds
        raw = raw.replace(b"\\\\", b"\0").replace(b"\\\n", b"").replace(b"\\", b"")
    return raw.replace(b"\n", newline).replace(b"\0", b"\\").decode("utf-8", "replace")
