"""What one setting is: its default, meaning, allowed values and source, and how a value from YAML or a command line is
read into it.
"""

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
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
    source: str = "",
) -> Any:
    """Returns a dataclass field that knows its meaning (with unit), its range and the source of its default.

    low and high are inclusive, above is exclusive; they hold for every number of a list or mapping. choices: the
    allowed words."""
    metadata = {
        "meaning": meaning,
        "low": low,
        "above": above,
        "high": high,
        "choices": tuple(choices),
        "source": source,
    }
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def default_of(entry: Field) -> Any:
    """Returns the default value of a field made by `option`."""
    return entry.default if entry.default is not MISSING else entry.default_factory()


def allowed(entry: Field) -> str:
    """Returns in words what a field accepts, for example "a whole number from 1 to 25"."""
    limits = _limits(entry)
    pairs = "a list of [progress, factor] pairs such as [[0.0, 1.0], [0.8, 0.1]], progress rising from 0 to at most 1, factors 0 or more"
    sizes = f"different sizes from 1 to {MAX_SIZE}, shares above 0, komi from -{MOST_KOMI} to {MOST_KOMI}"
    sizes = f"[] or a list of [size, share, komi] such as [[7, 1, 9], [9, 2, 7]], {sizes}"
    plain = {
        "bool": "true or false",
        "str": f"one of {', '.join(entry.metadata['choices'])}" if entry.metadata["choices"] else "a text",
        "int": f"a whole number{limits}",
        "float": f"a number{limits}",
        "tuple[str, ...]": "a list of texts such as [random, mcts:200]",
        "str | tuple[str, ...]": "a text such as zero17, or a list of texts such as [stones, liberties:8]",
        "dict[str, float]": f"a mapping of names to numbers{limits} such as {{policy: 1.0, value: 1.0}}",
        "tuple[tuple[float, float], ...]": pairs,
        "tuple[tuple[int, float, float], ...]": sizes,
    }
    return plain[str(entry.type)]


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


def _within(number: float, entry: Field) -> bool:
    """Says whether a number lies in the field's range."""
    low, above, high = (entry.metadata[key] for key in ("low", "above", "high"))
    return (low is None or number >= low) and (above is None or number > above) and (high is None or number <= high)


def _number(value: Any) -> float:
    """Returns a finite number; raises ValueError for anything else, truth values included."""
    if isinstance(value, str) and EXPONENT.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError
    return value


def _read_float(value: Any, entry: Field) -> float:
    number = float(_number(value))
    if not _within(number, entry):
        raise ValueError
    return number


def _read_int(value: Any, entry: Field) -> int:
    number = _number(value)
    if number != int(number) or not _within(number, entry):
        raise ValueError
    return int(number)


def _read_bool(value: Any, entry: Field) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _read_text(value: Any, entry: Field) -> str:
    if isinstance(value, bool) and "on" in entry.metadata["choices"]:
        value = "on" if value else "off"  # which YAML 1.1 reads as true and false
    if not isinstance(value, str) or (entry.metadata["choices"] and value not in entry.metadata["choices"]):
        raise ValueError
    return value


def _read_texts(value: Any, entry: Field) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError
    return tuple(_read_text(part, entry) for part in value)


def _read_text_or_texts(value: Any, entry: Field) -> str | tuple[str, ...]:
    return _read_text(value, entry) if isinstance(value, str) else _read_texts(value, entry)


def _read_weights(value: Any, entry: Field) -> dict[str, float]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError
    return {name: _read_float(weight, entry) for name, weight in value.items()}


def _read_schedule(value: Any, entry: Field) -> tuple[tuple[float, float], ...]:
    if (
        not isinstance(value, (list, tuple))
        or not value
        or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in value)
    ):
        raise ValueError
    pairs = tuple((float(_number(progress)), float(_number(factor))) for progress, factor in value)
    starts = [progress for progress, _ in pairs]
    if (
        starts[0] != 0.0
        or starts != sorted(set(starts))
        or starts[-1] > 1.0
        or min(factor for _, factor in pairs) < 0.0
    ):
        raise ValueError
    return pairs


def _read_sizes(value: Any, entry: Field) -> tuple[tuple[int, float, float], ...]:
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(part, (list, tuple)) and len(part) == 3 for part in value
    ):
        raise ValueError
    read = tuple((_number(size), float(_number(share)), float(_number(komi))) for size, share, komi in value)
    for size, share, komi in read:
        if size != int(size) or not 1 <= size <= MAX_SIZE or share <= 0 or abs(komi) > MOST_KOMI:
            raise ValueError
    if len({size for size, _, _ in read}) < len(read):
        raise ValueError
    return tuple((int(size), share, komi) for size, share, komi in read)


READERS: dict[str, Callable[[Any, Field], Any]] = {
    "int": _read_int,
    "float": _read_float,
    "bool": _read_bool,
    "str": _read_text,
    "tuple[str, ...]": _read_texts,
    "str | tuple[str, ...]": _read_text_or_texts,
    "dict[str, float]": _read_weights,
    "tuple[tuple[float, float], ...]": _read_schedule,
    "tuple[tuple[int, float, float], ...]": _read_sizes,
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
                exact = READERS[str(entry.type)](value, entry)
            except (ValueError, OverflowError):
                raise InputError(f"{self.NAME}.{entry.name} is {value!r}; it must be {allowed(entry)}") from None
            object.__setattr__(self, entry.name, exact)
        self._check()

    def _check(self) -> None:
        """Raises InputError when values that are valid alone can't hold together."""
