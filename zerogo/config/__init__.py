"""The settings of a run: frozen dataclasses, YAML files, `section.key=value` overrides. A mistake is answered with one
sentence.

`load(path, overrides)` reads a file, which may leave out what equals the default; `Config.dump(path)` writes all of it
as YAML with each key's meaning beside it; `describe()` lists every key. Functions receive only the section that they
need."""

import contextlib
import difflib
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from zerogo.config.sections import (
    ALL_SAMPLES,
    FIXED,
    FOLLOWS_FROM,
    SECTIONS,
    EvaluationConfig,
    FeaturesConfig,
    GameConfig,
    NetworkConfig,
    PipelineConfig,
    ReplayConfig,
    RunConfig,
    SearchConfig,
    Section,
    SelfplayConfig,
    TrainingConfig,
    allowed,
    settings_of,
)
from zerogo.errors import MOST_QUOTED, InputError, quote
from zerogo.system import bounds
from zerogo.system.runtime import write_atomically

BY_NAME: dict[str, type[Section]] = {section.NAME: section for section in SECTIONS}
MOST_BYTES = 2**18  # of a file; one with every key and its meaning has 20,000
MOST_NODES = 5000  # keys, values and lists of a file; one with every key has 500
TOO_MANY = f"more than {MOST_NODES} keys and values; no config needs so many"
KEYS: dict[str, Any] = {f"{section.NAME}.{entry.name}": entry for section in SECTIONS for entry in settings_of(section)}


@dataclass(frozen=True)
class Config:
    """All settings of a run. `Config()` is valid: the defaults of every section."""

    run: RunConfig = field(default_factory=RunConfig)
    game: GameConfig = field(default_factory=GameConfig)
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    selfplay: SelfplayConfig = field(default_factory=SelfplayConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    pipeline: PipelineConfig = field(default_factory=PipelineConfig)

    def __post_init__(self) -> None:
        if self.game.random_komi_share > 0 and not self.features.komi_input:
            what = f"game.random_komi_share is {self.game.random_komi_share:g} while features.komi_input is false"
            raise InputError(f"{what}; a network that plays at several komi must see it")
        if not (self.pipeline.plays or self.replay.external):
            raise InputError("pipeline.plays and replay.external are both false, so nobody would play")

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Returns sections of plain values (numbers, texts, lists, mappings): what YAML, JSON and a checkpoint hold."""
        sections = [getattr(self, name) for name in BY_NAME]
        return {
            section.NAME: {entry.name: _plain(getattr(section, entry.name)) for entry in settings_of(section)}
            for section in sections
        }

    def flat(self) -> dict[str, Any]:
        """Returns the plain values by "section.key"."""
        sections = self.to_dict()
        return {f"{name}.{key}": value for name, entries in sections.items() for key, value in entries.items()}

    def dump(self, path: str | Path) -> None:
        """Writes every setting as YAML, atomically, with its meaning beside it; `load` reads the same settings back."""
        blocks = []
        for section in SECTIONS:
            rows = [f"# {section.__doc__}", f"{section.NAME}:"]
            for entry in settings_of(section):
                value = getattr(getattr(self, section.NAME), entry.name)
                rows.append(f"  {entry.name}: {_written(value)}  # {_explained(entry)}")
            blocks.append("\n".join(rows) + "\n")
        write_atomically(path, "\n".join(blocks).encode())


def is_whole(path: Path) -> bool:
    """Returns whether a file that `Config.dump` wrote, and a person may have changed, still has the last setting."""
    section, name = [*KEYS][-1].split(".")
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return f"\n  {name}:".encode() in file.read(MOST_BYTES).partition(f"\n{section}:".encode())[2]
    return False


def _plain(value: Any) -> Any:
    """Returns the value with tuples as lists and mappings copied."""
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, Mapping) else value


def from_dict(
    values: Mapping[str, Any], where: str = "config", places: Mapping[str, str] | None = None, was_used: bool = False
) -> Config:
    """Returns the config of plain sections; keys that are absent keep their defaults, and an absent komi is what
    game.sizes says.

    where: the file or checkpoint that a complaint names; places: a more exact name for "search.c_puct" or "search",
    such as a line. was_used: whether a run has used these values; then one of a setting that is a constant now only
    brings a warning, unless the setting is the network's. Raises InputError for an unknown section or key (with the
    nearest valid name) and for a value that is not allowed."""
    places = places or {}
    if not isinstance(values, Mapping):
        raise InputError(f"{where}: expected sections such as game and search, found {quote(values)}")
    sections = {}
    for name, entries in values.items():
        place = places.get(name, where)
        if name not in BY_NAME:
            name = str(name)[:MOST_QUOTED]
            raise InputError(f"{place}: unknown section {name}; {_nearest(name, list(BY_NAME))}")
        if not isinstance(entries, Mapping):
            such = f"it must hold settings such as {settings_of(BY_NAME[name])[0].name}: …"
            raise InputError(f"{place}: section {name} is {quote(entries)}; {such}")
        for key, value in entries.items():
            if (full := f"{name}.{key}") in KEYS or (full in FIXED and value == FIXED[full]):
                continue
            if not (was_used and full in FIXED and name != NetworkConfig.NAME):
                raise InputError(f"{places.get(full, where)}: {_unknown(full)}")
            warnings.warn(f"{where} was made with {full} {quote(value)}, but {_unknown(full)}", stacklevel=2)
        entries = {key: value for key, value in _keep_as_much(entries).items() if f"{name}.{key}" not in FIXED}
        sections[name] = _placed(partial(BY_NAME[name], **entries), where, places)
        if name == GameConfig.NAME and "komi" not in entries:
            sections[name] = replace(sections[name], komi=sections[name].komi_of(sections[name].size))
    return _placed(partial(Config, **sections), where, places)


def _keep_as_much(entries: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a section's entries, changed so that no file goes that a removed setting kept."""
    if entries.get("keep_every") in range(1, FIXED["pipeline.keep_every"]):
        return {**entries, "keep_checkpoints": 0}
    if entries.get("keep_shards") is True:
        return {**entries, "archive_samples": entries.get("archive_samples") or ALL_SAMPLES}
    return entries


def _placed(make: Callable[[], Any], where: str, places: Mapping[str, str]) -> Any:
    """Returns what `make` makes; its complaint, which starts with a key, is prefixed with the place of that key."""
    try:
        return make()
    except InputError as error:
        key = str(error).split(" ", 1)[0]
        raise InputError(f"{places.get(key, where)}: {error}") from None


def _unknown(key: str) -> str:
    """Returns what is wrong with an unknown "section.key" and which valid name is nearest."""
    if key in FIXED:
        follows = key in FOLLOWS_FROM
        now = f"it follows from {FOLLOWS_FROM[key]}" if follows else f"it is always {_written(FIXED[key])}"
        return f"{key} is no longer a setting; {now}"
    key = key[:MOST_QUOTED]
    section, _, name = key.partition(".")
    of_section = [other for other in KEYS if other.startswith(f"{section}.")]
    if same_name := [other for other in KEYS if other.partition(".")[2] == name]:
        return f"unknown key {key}; did you mean {same_name[0]}?"
    if not of_section and not difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5):
        return f"unknown section {section}; valid names are {', '.join(BY_NAME)}"
    return f"unknown key {key}; {_nearest(key, of_section or list(KEYS))}"


def _nearest(name: str, valid: list[str]) -> str:
    """Returns "did you mean X?" for the most similar valid name, or the list of valid names when none is similar."""
    names = {other.rpartition(".")[2]: other for other in reversed(valid)}  # a section in common makes no names similar
    close = difflib.get_close_matches(name.rpartition(".")[2], names, n=1)
    return f"did you mean {names[close[0]]}?" if close else f"valid names are {', '.join(valid)}"


def load(
    path: str | Path | None, overrides: Sequence[str] = (), base: Config | None = None, was_used: bool = False
) -> Config:
    """Returns the config of a YAML file (with None: the defaults) after "section.key=value" overrides; of equal ones
    the last wins. base: in place of the defaults. was_used: see `from_dict`. Raises InputError with the file and line
    of what is wrong."""
    values, places = ({}, {}) if path is None else _read_yaml(Path(path))
    if base is not None and isinstance(values, Mapping):
        defaults = base.to_dict()
        values = defaults | {
            name: defaults.get(name, {}) | entries if isinstance(entries, Mapping) else entries
            for name, entries in values.items()
        }
    return with_overrides(from_dict(values, str(path), places, was_used), overrides, str(path or "config"), places)


def with_overrides(
    config: Config, overrides: Sequence[str], where: str = "config", places: Mapping[str, str] | None = None
) -> Config:
    """Returns the config after "section.key=value" overrides, checked together; where and places are those of
    `from_dict`.

    Another game.size takes the komi that game.sizes gives to it, unless game.komi is there too."""
    values, places = config.to_dict(), dict(places or {})
    for text in overrides:
        _override(values, places, text)
    named = {text.partition("=")[0].strip() for text in overrides}
    if values["game"]["sizes"] and "game.komi" not in named and not {"game.size", "game.sizes"}.isdisjoint(named):
        del values["game"]["komi"]
    return from_dict(values, where, places)


class _Loader(yaml.SafeLoader):
    """Reads YAML whose values are all written out: a few nested aliases (*name) would stand for gigabytes. Raises
    RecursionError for nested brackets, which the scanner would need seconds for."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._num_nodes, depth = 0, 0
        for bracket in re.findall(r"[][{}]", text):
            depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
            if depth > bounds.MOST_DEPTH:
                raise RecursionError

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        """Returns the next node. Raises ComposerError for an alias, and for too many nodes."""
        self._num_nodes += 1
        is_alias = self.check_event(yaml.AliasEvent)
        if is_alias or self._num_nodes > MOST_NODES:
            refused = "an alias, such as *name, is not read; write its value out" if is_alias else TOO_MANY
            raise yaml.composer.ComposerError(None, None, refused, self.peek_event().start_mark)
        return super().compose_node(parent, index)


def _read_yaml(path: Path) -> tuple[Any, dict[str, str]]:
    """Returns the file's values, and the place ("file, line 12") of every section and key."""
    if not (path := bounds.shipped(path)).exists():
        raise InputError(bounds.missing(path))
    try:
        loader = _Loader(bounds.read_file(path, MOST_BYTES, "config").decode())
        node = loader.get_single_node()
        return (None, {}) if node is None else (loader.construct_document(node), _places(node, "", str(path)))
    except InputError:
        raise
    except RecursionError:
        raise InputError(f"{path}: the brackets are nested too deeply") from None
    except UnicodeDecodeError:
        raise InputError(f"cannot read the config {path}: it is not UTF-8 text") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: YAML reads 2024-99-99 as a date that does not exist
        mark = getattr(error, "problem_mark", None)
        place = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise InputError(f"{place}: this is not valid YAML ({getattr(error, 'problem', None) or error})") from None


def _places(node: yaml.Node | None, prefix: str, where: str) -> dict[str, str]:
    """Returns the place of every key to two levels. Raises InputError for a key given twice, of which YAML would take
    the last."""
    places: dict[str, str] = {}
    if not isinstance(node, yaml.MappingNode):
        return places
    for key_node, value_node in node.value:
        key = f"{prefix}{key_node.value}"
        place = f"{where}, line {key_node.start_mark.line + 1}"
        if key in places:
            raise InputError(f"{place}: {key} is given a second time")
        places[key] = place
        if not prefix:
            places.update(_places(value_node, f"{key}.", where))
    return places


def _override(values: dict[str, dict[str, Any]], places: dict[str, str], text: str) -> None:
    """Puts one "section.key=value" into `values` and its place into `places`; "network.heads.ownership=0" reaches into
    a mapping."""
    key, sign, raw = text.partition("=")
    section, _, name = (key := key.strip()).partition(".")
    if not sign or not name:
        raise InputError(f"override {quote(text)}: it must look like section.key=value, for example search.c_scale=0.5")
    name, _, part = name.partition(".")
    if (entry := KEYS.get(f"{section}.{name}")) is None or (part and not str(entry.type).startswith("dict")):
        raise InputError(f"override {quote(text)}: {_unknown(key)}")
    try:
        value = raw.strip() if entry.type == "str" else yaml.load(raw, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise InputError(f"override {quote(text)}: {section}.{name} must be {allowed(entry)}") from None
    if part and not isinstance(values[section][name], Mapping):
        raise InputError(f"override {quote(text)}: {section}.{name} must be {allowed(entry)}")
    values[section][name] = values[section][name] | {part: value} if part else value
    places[f"{section}.{name}"] = f"override {quote(text)}"


PAGE = """# Settings

For anyone who changes a setting of a run. `zerogo train --keys --markdown` makes this page.
Give settings in a YAML file (`--config FILE`) or on the command line (`zerogo train training.learning_rate=1e-3`).
Square brackets name the source of a setting: KataGo's self-play, the Gumbel paper, or our own runs."""


def describe(as_page: bool = False) -> str:
    """Returns every key with its default, meaning, allowed values and source: one block for each section, as text for a
    terminal or as a page in Markdown."""
    blocks = [PAGE] if as_page else []
    for section in SECTIONS:
        rows = [f"{section.NAME}: {section.__doc__}"]
        if as_page:
            header = "| setting | default | meaning | allowed |\n| --- | --- | --- | --- |"
            rows = [f"## {section.NAME}\n\n{section.__doc__}\n\n{header}"]
        for entry in settings_of(section):
            key, default = f"{section.NAME}.{entry.name}", _written(getattr(section(), entry.name))
            row = f"| `{key}` | `{default}` | {entry.metadata['meaning']} | {allowed(entry)} |"
            rows.append(row if as_page else f"  {key} = {default}\n      {_explained(entry)}")
        blocks.append("\n".join(rows))
    return "\n\n".join(blocks)


def _written(value: Any) -> str:
    """Returns a value as YAML: JSON is YAML, save for numbers such as 1e-05, which YAML 1.1 reads as text and `load` as
    a number."""
    return json.dumps(_plain(value), ensure_ascii=False)


def _explained(entry: Any) -> str:
    """Returns a field's meaning, and what it accepts."""
    return entry.metadata["meaning"] + ("" if allowed(entry) == "a string" else f"; {allowed(entry)}")
