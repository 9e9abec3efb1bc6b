"""What may be set for all queries or for one, under KataGo's names: of its config files, -override-config and
`overrideSettings`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerogo.errors import InputError

PERSPECTIVES = ("BLACK", "WHITE", "SIDETOMOVE")
MOST_VISITS = 2**50  # KataGo's; a tree ends where memory does, see `Limits`


@dataclass(frozen=True)
class Settings:
    """How a position is searched and told of.

    max_visits: of the root, its own evaluation counted. max_time: seconds. perspective: whose winrates, scores and
    ownership are reported. wide_root_noise: w >= 0 flattens the root's prior to the power 1 / (4 w + 1), as KataGo
    does; KataGo's random bonus on top of that is left out, so that a reply does not change from one time to the next.
    root_policy_temperature: the same, power 1 / T. pv_length: moves of a line behind its first."""

    max_visits: int = 500
    max_time: float = math.inf
    perspective: str = "BLACK"
    wide_root_noise: float = 0.0
    root_policy_temperature: float = 1.0
    pv_length: int = 15

    @property
    def root_exponent(self) -> float:
        """The power to which the root's prior is raised before the search."""
        return 1.0 / (self.root_policy_temperature * (4.0 * self.wide_root_noise + 1.0))

    def changed(self, values: Mapping[str, Any]) -> tuple[Settings, list[str]]:
        """Returns these settings with others under KataGo's names, and the names that mean nothing here.

        Values may be texts, as in config files. Raises InputError for a value that is not allowed.
        """
        known = {name: value for name, value in values.items() if name in NAMES}
        changes = {NAMES[name].field: NAMES[name].read(name, value) for name, value in known.items()}
        return dataclasses.replace(self, **changes), [name for name in values if name not in NAMES]


def whole(name: str, value: Any, low: int, high: int) -> int:
    """Returns a whole number of a query. Raises InputError for anything else; 3.0 and true are none."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(f"{name} is {shown(value)}; it must be a whole number from {low} to {high}")
    return value


def number(name: str, value: Any, low: float, high: float) -> float:
    """Returns a number of a query. Raises InputError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise InputError(f"{name} is {shown(value)}; it must be a number from {low:g} to {high:g}")
    return float(value)


def shown(value: Any) -> str:
    """Returns a value of a query as JSON, shortened: it may be a whole game."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"


@dataclass(frozen=True)
class _Name:
    """A name of KataGo's: the field of `Settings` that it sets, and how its value is read."""

    field: str
    read: Callable[[str, Any], Any]


def _numeric(check: Callable[[str, Any, Any, Any], Any], low: float, high: float) -> Callable[[str, Any], Any]:
    """Returns a reader of numbers, which config files give as texts."""

    def read(name: str, value: Any) -> Any:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                pass  # the check says what is wrong with it
        return check(name, value, low, high)

    return read


def _perspective(name: str, value: Any) -> str:
    word = value.upper() if isinstance(value, str) else value
    if word not in PERSPECTIVES:
        raise InputError(f"{name} is {shown(value)}; allowed are {', '.join(PERSPECTIVES)}")
    return word


NAMES = {
    "maxVisits": _Name("max_visits", _numeric(whole, 1, MOST_VISITS)),
    "maxTime": _Name("max_time", _numeric(number, 0.0, 1e20)),
    "reportAnalysisWinratesAs": _Name("perspective", _perspective),
    "wideRootNoise": _Name("wide_root_noise", _numeric(number, 0.0, 5.0)),
    "rootPolicyTemperature": _Name("root_policy_temperature", _numeric(number, 0.01, 100.0)),
    "analysisPVLen": _Name("pv_length", _numeric(whole, 1, 1000)),
}


def read_config(path: str | Path) -> dict[str, str]:
    """Returns the `key = value` lines of a KataGo config file. Raises InputError for a file that can't be read."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot read the config {path}: {error.strerror}") from None
    lines = (re.sub(r"#.*", "", line).strip() for line in text.splitlines())
    return {key.strip(): value.strip() for key, equals, value in (line.partition("=") for line in lines) if equals}


def read_overrides(text: str) -> dict[str, str]:
    """Returns the settings of `-override-config`, "key=value,key=value". Raises InputError for a part without an equals
    sign.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if "=" not in part:
            raise InputError(f"-override-config has {part!r}; it must be key=value, several with commas between them")
    return {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in parts)}
