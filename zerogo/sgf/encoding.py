"""From a file's bytes to its text, whatever wrote it: byte order marks, the CA property, UTF-8, and a guess where none
of them helps.

The text has to come before the parsing: in Shift-JIS, GBK and Big5 the second byte of a character may be that of `]` or
of a backslash."""

from __future__ import annotations

import codecs
import re
from itertools import islice

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What a name in CA is read as: supersets, since programs that say GB2312 write GBK, and those that say ISO-8859-1 write
# Windows-1252.
SUPERSETS = {
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "iso8859-1": "cp1252", "ascii": "utf-8",
}  # fmt: skip
GUESSES = ("gb18030", "cp932", "cp949", "euc_jp", "big5", "cp1252")
_STATEFUL = ("iso2022", "hz", "utf-7", "utf-16", "utf-32")  # texts in these may look like ASCII or hold zero bytes
_NO_ENCODINGS = ("idna", "punycode", "unicode-escape", "unicode_escape", "raw-unicode-escape", "raw_unicode_escape")
_CHARSET = re.compile(rb"CA\s*\[\s*([\w.:+-]{1,40})\s*\]")
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_LOOKED_AT = 4000  # characters of a guess that are judged
_ENOUGH = 8


def decode(data: bytes) -> tuple[str, str]:
    """Returns the text of a file and the name of the encoding that it was taken for. Never fails: Windows-1252 reads
    anything.
    """
    for mark, name in MARKS:
        if data.startswith(mark) and (text := _decoded(data, name)) is not None:
            return text, name
    for name, start in (("utf-16-le", b"\0"), ("utf-16-be", b"")):
        if (
            data.startswith((b"(\0", b"\0("))
            and data.startswith(b"\0(") == (start == b"")
            and (text := _decoded(data, name)) is not None
        ):
            return text, name
    declared = _declared(data)
    if declared is not None and declared.startswith(_STATEFUL) and (text := _decoded(data, declared)) is not None:
        return text, declared
    return _without_mark(data, declared)


def _without_mark(data: bytes, declared: str | None) -> tuple[str, str]:
    """Returns text and encoding of plain bytes: UTF-8 if they are that, else what CA says, else the likeliest guess."""
    as_utf8 = _decoded(data, "utf-8")
    as_declared = None if declared is None else _decoded(data, declared)
    if as_utf8 is not None:
        # Chinese, Japanese and Korean take three bytes in UTF-8. Where there are only two-byte characters, a few
        # characters of GBK may look like UTF-8 by chance, so what the file says of itself counts more.
        if declared not in GUESSES[:-1] or as_declared is None or any("\u0800" <= letter for letter in as_utf8):
            return as_utf8, "utf-8"
    if declared is not None and as_declared is not None:
        return as_declared, declared
    mended = data.decode("utf-8", "replace")
    bad = mended.count("\ufffd")
    good = sum(1 for _ in islice(_FOREIGN.finditer(mended), bad + _LOOKED_AT)) - bad
    if bad <= (good if declared == "utf-8" else good // 4):  # UTF-8 that was cut, or damaged here and there
        return mended, "utf-8"
    return _guessed(data)


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
    except (UnicodeError, ValueError):
        return None


def _guessed(data: bytes) -> tuple[str, str]:
    """Returns text and encoding for bytes that are not UTF-8: the guess whose characters are the most usual; of equal
    ones the first.
    """
    best, best_score = "latin-1", -1.0
    for name in GUESSES:
        text = _decoded(data, name)
        score = -1.0 if text is None else _usualness(text, name)
        if score > best_score:
            best, best_score = name, score
    return data.decode(best), best


def _usualness(text: str, name: str) -> float:
    """Returns how usual the characters beyond ASCII are in texts of that encoding, on average, 0 to 1."""
    letters = [match[0] for match in islice(_FOREIGN.finditer(text), _LOOKED_AT)]
    if name == "cp949" and len(letters) >= _ENOUGH and all("\uac00" <= letter <= "\ud7a3" for letter in letters):
        return 0.95  # each could be a common Chinese character; but the one set is half as large as the other, so not all of them
    return sum(_weight(letter, name) for letter in letters) / max(1, len(letters))


def _weight(letter: str, name: str) -> float:
    """Returns how usual one character is; the first level of the Chinese and Japanese sets holds the common ones."""
    if "\u3040" <= letter <= "\u30ff":
        return 1.0 if name in ("cp932", "euc_jp") else 0.3
    if "\u4e00" <= letter <= "\u9fff":
        lead = letter.encode(name)[0]
        common = {"gb18030": (0xB0, 0xD7), "cp932": (0x88, 0x97), "euc_jp": (0xB0, 0xCF), "big5": (0xA4, 0xC6)}.get(
            name
        )
        return 0.9 if common and common[0] <= lead <= common[1] else 0.3
    if "\uac00" <= letter <= "\ud7a3":
        return 0.9 if 0xB0 <= letter.encode(name)[0] <= 0xC8 and len(letter.encode(name)) == 2 else 0.1
    if "\u3000" <= letter <= "\u303f" or "\uff01" <= letter <= "\uff5e":
        return 0.7
    return 0.6 if name == "cp1252" and letter.isalpha() else 0.2 if name == "cp1252" else 0.1
