"""Checks of a file before it is read, as it may come from a stranger: that it is a regular file, and that reading it
takes no more memory than its own size, or than a sensible limit."""

import errno
import json
import os
import pickletools
import stat
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from zerogo.errors import InputError, quote, refuse_os_errors, shorten_path

MOST_VALUES = 1_000_000  # in nested lists and mappings, each counted as often as it is reached
MOST_LISTS = 100_000  # and mappings and tuples in a pickle, which take torch 1 to 2 µs each; 10,000 tensors have half
MOST_DEPTH = 50
MOST_JSON = 100_000  # values of a JSON text; a list of one byte takes 56 when it is read
MOST_DIRECTORY = 2**20  # bytes of an archive's list of members; one of 10,000 tensors takes as many
MOST_NUMBER = 2**64
MOST_PICKLED = 16 * 2**20  # bytes of a checkpoint without its tensors; a run of a month has one of them
LEAST_UNPACKED, MOST_RATIO = 2**24, 100  # bytes of a compressed archive; samples of games were seen to need up to 28
ZIP_MAGIC = b"PK\x03\x04"
PICKLED = "data.pkl"  # as torch calls it
# All that a pickle may name: what torch writes for tensors and plain values. torch's own list is longer, and its
# bytearray(10**10) is 10 GB of nothing.
NAMES = ("collections OrderedDict", "torch._utils _rebuild_tensor_v2")
STORAGES = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")
ALLOWED_NAMES = {*NAMES, *(f"torch {name}Storage" for name in STORAGES)}
CONTAINERS = {"EMPTY_LIST", "EMPTY_DICT", "EMPTY_TUPLE", "LIST", "DICT", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"}
WORDS = {int: "a whole number", float: "a number", str: "a text", dict: "a mapping", list: "a list"}


def open_regular(path: str | os.PathLike, what: str, follow_links: bool = True) -> BinaryIO:
    """Returns a file that is open for reading. what: a noun for complaints. Raises InputError for anything but a
    regular file, which is not opened: a device has no end and a FIFO waits for a writer; OSError where there is no such
    file or it can't be opened."""
    try:
        mode = os.stat(path, follow_symlinks=follow_links).st_mode
        if stat.S_ISREG(mode):
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
            file = open(os.open(path, flags), "rb")  # noqa: SIM115 (the caller closes it)
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # and not what has just taken its place
                return file
            file.close()
    except ValueError as error:  # a zero byte in the name
        raise InputError(f"cannot read the {what} {quote(str(path))}: {error}") from None
    kind = "a folder" if stat.S_ISDIR(mode) else "a device, a pipe or a link"
    raise InputError(f"cannot read the {what} {shorten_path(path)}: it is {kind}; a regular file is needed")


def read_file(path: str | os.PathLike, most_bytes: int, what: str) -> bytes:
    """Returns the bytes of a regular file; it reads at most most_bytes + 1 bytes, whatever size the file system
    reports. what: see `open_regular`. Raises InputError where it can't be read, or is larger."""
    with refuse_os_errors(f"cannot read the {what} {shorten_path(path)}"), open_regular(path, what) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise InputError(f"{shorten_path(path)} has more than {most_bytes} bytes, the limit for a {what}")
    return data


def parse_json(text: str | bytes, most_values: int = MOST_JSON, **options: Any) -> Any:
    """Returns the value of a JSON text. Raises ValueError where it is none, has more than so many values, or nests them
    too deeply. options: of json.loads."""
    marks = (b"[", b"{", b",") if isinstance(text, bytes) else ("[", "{", ",")
    if sum(map(text.count, marks)) > most_values:
        raise ValueError(f"it holds more than {most_values} values")
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("its lists or objects are nested too deeply") from None


class _DirectoryReader:
    """A file of which a reader of zip archives may take at most `MOST_DIRECTORY` bytes at once.

    zipfile reads an archive's list of members at once and makes an object of each."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self.seek, self.tell, self.close, self._file, self._where = file.seek, file.tell, file.close, file, where

    def read(self, size: int = MOST_DIRECTORY) -> bytes:
        """Returns the next bytes. Raises InputError for too many."""
        if size > MOST_DIRECTORY:
            raise InputError(f"{self._where} is refused: its list of members has more than {MOST_DIRECTORY} bytes")
        return self._file.read(size)


def open_archive(file: BinaryIO, where: str) -> zipfile.ZipFile:
    """Returns the zip archive that an open file is. Raises InputError where it lists too many members; whatever zipfile
    raises where it is damaged."""
    archive = zipfile.ZipFile(_DirectoryReader(file, where))
    archive.fp = file
    return archive


def is_of_disk(error: Exception) -> bool:
    """Returns whether the disk, and not what a file holds, is to blame for an error of reading an archive."""
    return isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)  # a seek before a file's beginning


SHIPPED, WITH_SHIPPED = Path(__file__).parents[1], ("configs", "checkpoints")  # the package, and its folders of files
MOST_NEIGHBOURS = 10


def shipped(path: str | Path) -> Path:
    """Returns the path, or, where nothing is there, the file of that name that comes with the package, such as
    configs/9x9.yaml or checkpoints/7x7.pt."""
    path, inside = Path(path), SHIPPED / path
    is_shipped = len(path.parts) == 2 and path.parts[0] in WITH_SHIPPED and inside.is_file()
    return inside if is_shipped and not path.exists() else path


def no_such_player(word: str, allowed: str) -> str:
    """Returns what is wrong with a word that names no file and is not one of the allowed words either."""
    path = Path(word)
    is_path = path.suffix == ".pt" or len(path.parts) > 1
    return missing(path) if is_path else f"{quote(word)} is not a file or folder; allowed are {allowed}"


def missing(path: Path) -> str:
    """Returns in words that a file does not exist, and which files of its kind there are in its folder."""
    names, folder = set(), path.parent
    for place in (folder, *([SHIPPED / folder] if str(folder) in WITH_SHIPPED else [])):
        with suppress(OSError, ValueError):
            names |= {other.name for other in place.iterdir() if other.suffix == path.suffix}
    if there := [shorten_path(folder / name) for name in sorted(names)[:MOST_NEIGHBOURS]]:
        more = ", …" if len(names) > MOST_NEIGHBOURS else ""
        return f"{shorten_path(path)} does not exist; there are {', '.join(there)}{more}"
    no_folder = "" if folder.is_dir() else ", nor does its folder"
    return f"{shorten_path(path)} does not exist{no_folder}"


def require_checkpoint(path: Path) -> None:
    """Raises InputError unless the file is an undamaged archive such as torch writes. Reading it then takes no more
    memory than the file: nothing in it is compressed, runs code, or creates values that it does not contain."""
    with refuse_os_errors(f"cannot read the checkpoint {path}"), open_regular(path, "checkpoint") as file:
        if file.read(len(ZIP_MAGIC)) != ZIP_MAGIC:
            raise InputError(f"{path} is not a zerogo checkpoint")
        try:
            archive = open_archive(file, str(path))
            refused = _refused(archive, os.fstat(file.fileno()).st_size)
            is_damaged = not refused and archive.testzip() is not None  # torch doesn't look at the tensors' checksums
        except InputError:
            raise
        except Exception as error:  # zipfile raises almost anything: BadZipFile, EOFError, zlib.error, …
            if is_of_disk(error) or isinstance(error, MemoryError):
                raise
            refused, is_damaged = "", True
    if refused:
        raise InputError(f"{path} is refused: {refused}")
    if is_damaged:
        raise InputError(f"checkpoint {path} is cut short or damaged; use an older one")


def _refused(archive: zipfile.ZipFile, size: int) -> str:
    """Returns why an archive in a file of `size` bytes is not to be read, "" where it may be."""
    members = archive.infolist()
    if any(one.compress_type for one in members) or sum(one.file_size for one in members) > size:
        return "it is compressed, so that it may be far larger than its file"
    for one in members:
        if not one.filename.endswith(PICKLED):
            continue
        if one.file_size > MOST_PICKLED:
            return f"it holds {one.file_size} bytes of plain values, more than {MOST_PICKLED}"
        num_lists = 0
        for number, (operation, name, _) in enumerate(pickletools.genops(archive.read(one))):
            num_lists += operation.name in CONTAINERS
            if number > MOST_VALUES or num_lists > MOST_LISTS:
                return f"it holds more than {MOST_VALUES} plain values, or {MOST_LISTS} lists"
            if operation.name in ("GLOBAL", "STACK_GLOBAL", "INST") and name not in ALLOWED_NAMES:
                return "it holds more than tensors and plain values, which could run code"
    return ""


def require_ratio(archive: zipfile.ZipFile, where: str) -> None:
    """Raises InputError for an archive that is large and more than `MOST_RATIO` times as large as its file."""
    unpacked, packed = sum(one.file_size for one in archive.infolist()), os.fstat(archive.fp.fileno()).st_size
    if unpacked > max(LEAST_UNPACKED, MOST_RATIO * packed):
        raise InputError(f"{where} is refused: its {packed} bytes unpack to {unpacked}, more than samples do")


def require_modest(value: Any, where: str, most_bytes: int) -> None:
    """Raises InputError for more than `MOST_VALUES` nested values or `MOST_DEPTH` levels, and for tensors of more bytes
    together than `most_bytes`. What is reached on several ways counts each time, as copies of it would; a tensor
    counts once, with all elements, which a view of stride 0 has many of in a few bytes."""
    waiting, count, tensors = [(value, 0)], 0, {}
    while waiting:
        one, depth = waiting.pop()
        entries = [*one.keys(), *one.values()] if isinstance(one, Mapping) else one
        if isinstance(one, (Mapping, list, tuple, set)):
            count += len(entries)
            if count > MOST_VALUES or depth > MOST_DEPTH:
                nested = f"more than {MOST_VALUES} values, or lists in lists {MOST_DEPTH} deep"
                raise InputError(f"{where} is refused: it holds {nested}")
            waiting += [(part, depth + 1) for part in entries]
        elif hasattr(one, "element_size"):
            tensors[id(one)] = one.numel() * one.element_size()
        elif isinstance(one, int) and abs(one) >= MOST_NUMBER:
            raise InputError(f"{where} is refused: it holds a whole number of {one.bit_length()} bits")
    if sum(tensors.values()) > most_bytes:
        raise InputError(f"{where} is refused: its tensors would take more memory than its file holds")


def misfit(value: Any, kind: Any, name: str) -> str:
    """Returns what is wrong with a nested value of that name, "" where nothing is. kind: a type, a list of the one kind
    that all of its entries have, a tuple of the kinds of a list's first entries, or the kinds of a mapping's entries by
    name, all of which must be there. A float is any finite number."""
    if isinstance(kind, (dict, list, tuple)):
        is_mapping = isinstance(kind, dict)
        if not isinstance(value, dict if is_mapping else list):
            return f"{name} is no {'mapping' if is_mapping else 'list'}"
        if is_mapping:
            if lacks := sorted(kind.keys() - value.keys()):
                return f"{name} lacks {', '.join(lacks)}"
            named = [(f"{name}.{key}", value[key], part) for key, part in kind.items()]
        elif isinstance(kind, list):
            named = [(f"{name}[{place}]", one, kind[0]) for place, one in enumerate(value)]
        elif len(value) < len(kind):
            return f"{name} has {len(value)} entries; it must have {len(kind)}"
        else:
            named = [(f"{name}[{place}]", *pair) for place, pair in enumerate(zip(value, kind, strict=False))]
        return next(filter(None, (misfit(one, part, place) for place, one, part in named)), "")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf")
    is_fine = is_number if kind is float else isinstance(value, kind) and (kind is not int or is_number)
    words = WORDS.get(kind, getattr(kind, "__name__", kind))
    return "" if is_fine else f"{name} is {quote(str(value))}; it must be {words}"
