"""What one setting is: its default, meaning, allowed values and source, and how a value from YAML or a command line is
read into it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from typing import Any

from zerogo.errors import InputError
from zerogo.rules import MAX_SIZE

MOST_KOMI = 1000

# YAML 1.1 reads 1e-3 as text because it wants a dot and a signed exponent; everybody writes 1e-3.
EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")


def option(
    default: Any,
    meaning: str,
    low: float | None = None,
    high: float | None = None,
    *,
    above: float | None = None,
    choices: Sequence[str] = (),
    source: str = "",
) -> Any:
    """Returns a dataclass field that knows its meaning (with unit), its range and the source of its default.

    low and high are inclusive, above is exclusive; they hold for every number of a list or mapping. choices: the
    allowed words."""
    metadata = {"meaning": meaning, "low": low, "above": above, "high": high, "choices": choices, "source": source}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def default_of(entry: Field) -> Any:
    """Returns the default value of a field made by `option`."""
    return entry.default if entry.default is not MISSING else entry.default_factory()


def allowed(entry: Field) -> str:
    """Returns in words what a field accepts, for example "a whole number from 1 to 25"."""
    choices = ", ".join(entry.metadata["choices"])
    words = f"one of {choices}" if choices and entry.type == "str" else KINDS[str(entry.type)][1]
    return words.format(limits=_limits(entry))


def _limits(entry: Field) -> str:
    """Returns a numeric range in words, with a leading space or comma; empty when there is none."""
    low, above, high = (entry.metadata[key] for key in ("low", "above", "high"))
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if above is not None:
        return f" above {above}" + ("" if high is None else f" and at most {high}")
    if low is not None:
        return f", {low} or more"
    return "" if high is None else f", at most {high}"


# Readers return the exact value of what YAML or a command line gave; they raise ValueError where it is not allowed.


def _require(is_allowed: bool) -> None:
    if not is_allowed:
        raise ValueError


def _read_number(value: Any, entry: Field) -> float:
    """Returns a finite number in the field's range, truth values not being numbers."""
    if isinstance(value, str) and EXPONENT.fullmatch(value.strip()):
        value = float(value)
    _require(isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value))
    low, above, high = (entry.metadata[key] for key in ("low", "above", "high"))
    _require((low is None or value >= low) and (above is None or value > above) and (high is None or value <= high))
    return value


def _read_float(value: Any, entry: Field) -> float:
    return float(_read_number(value, entry))


def _read_int(value: Any, entry: Field) -> int:
    number = _read_number(value, entry)
    _require(number == int(number))
    return int(number)


def _read_bool(value: Any, entry: Field) -> bool:
    _require(isinstance(value, bool))
    return value


def _read_text(value: Any, entry: Field) -> str:
    choices = entry.metadata["choices"]
    if isinstance(value, bool) and "on" in choices:
        value = "on" if value else "off"  # which YAML 1.1 reads as true and false
    _require(isinstance(value, str) and (not choices or value in choices))
    return value


def _read_texts(value: Any, entry: Field) -> tuple[str, ...]:
    _require(isinstance(value, (list, tuple)))
    return tuple(_read_text(part, entry) for part in value)


def _read_text_or_texts(value: Any, entry: Field) -> str | tuple[str, ...]:
    return _read_text(value, entry) if isinstance(value, str) else _read_texts(value, entry)


def _read_weights(value: Any, entry: Field) -> dict[str, float]:
    _require(isinstance(value, Mapping) and all(isinstance(name, str) for name in value))
    return {name: _read_float(weight, entry) for name, weight in value.items()}


def _read_rows(value: Any, entry: Field, length: int) -> list[tuple[float, ...]]:
    """Returns rows of so many numbers each."""
    _require(isinstance(value, (list, tuple)))
    _require(all(isinstance(row, (list, tuple)) and len(row) == length for row in value))
    return [tuple(_read_float(number, entry) for number in row) for row in value]


def _read_schedule(value: Any, entry: Field) -> tuple[tuple[float, float], ...]:
    pairs = _read_rows(value, entry, 2)
    starts = [progress for progress, _ in pairs]
    _require(starts[:1] == [0.0] and starts == sorted(set(starts)) and starts[-1] <= 1.0)
    _require(min(factor for _, factor in pairs) >= 0.0)
    return tuple(pairs)


def _read_sizes(value: Any, entry: Field) -> tuple[tuple[int, float, float], ...]:
    rows = _read_rows(value, entry, 3)
    for size, share, komi in rows:
        _require(size == int(size) and 1 <= size <= MAX_SIZE and share > 0 and abs(komi) <= MOST_KOMI)
    _require(len({size for size, _, _ in rows}) == len(rows))
    return tuple((int(size), share, komi) for size, share, komi in rows)


SCHEDULE_WORDS = (
    "a list of [progress, factor] pairs such as [[0.0, 1.0], [0.8, 0.1]], progress rising from 0 to at most 1, factors "
    "0 or more"
)
SIZES_WORDS = (
    "[] or a list of [size, share, komi] such as [[7, 1, 9], [9, 2, 7]], "
    f"different sizes from 1 to {MAX_SIZE}, shares above 0, komi from -{MOST_KOMI} to {MOST_KOMI}"
)
TEXTS_WORDS = "a text such as zero17, or a list of texts such as [stones, liberties:8]"
WEIGHTS_WORDS = "a mapping of names to numbers{limits} such as {{policy: 1.0, value: 1.0}}"
# A field's type to what reads it, and to what it accepts in words.
KINDS: dict[str, tuple[Callable[[Any, Field], Any], str]] = {
    "bool": (_read_bool, "true or false"),
    "int": (_read_int, "a whole number{limits}"),
    "float": (_read_float, "a number{limits}"),
    "str": (_read_text, "a text"),
    "tuple[str, ...]": (_read_texts, "a list of texts such as [random, mcts:200]"),
    "str | tuple[str, ...]": (_read_text_or_texts, TEXTS_WORDS),
    "dict[str, float]": (_read_weights, WEIGHTS_WORDS),
    "tuple[tuple[float, float], ...]": (_read_schedule, SCHEDULE_WORDS),
    "tuple[tuple[int, float, float], ...]": (_read_sizes, SIZES_WORDS),
}


class Section:
    """Base of the settings' dataclasses: every value is read strictly when one is made, so a section that exists is
    valid.

    Raises `InputError` that names the key, the value and what is allowed. `_check` of a subclass looks at several
    values together."""

    NAME = ""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            try:
                exact = KINDS[str(entry.type)][0](value, entry)
            except (ValueError, OverflowError):
                raise InputError(f"{self.NAME}.{entry.name} is {value!r}; it must be {allowed(entry)}") from None
            object.__setattr__(self, entry.name, exact)
        self._check()

    def _check(self) -> None:
        """Raises InputError when values that are valid alone can't hold together."""
