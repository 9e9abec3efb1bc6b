"""Settings: what is written is read back, the files of configs/ say what differs from the defaults, and what is wrong
is named with its place."""

import json
import re
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
import yaml
from limits import within
from tables import tables

from zerogo import config
from zerogo.config import Config, GameConfig, load
from zerogo.config.sections import FIXED, FOLLOWS_FROM, SECTIONS, Section, allowed, settings_of
from zerogo.errors import InputError
from zerogo.features import make_encoder
from zerogo.rules import Rules

TABLES = tables("config")
CONFIGS = sorted((Path(__file__).parent.parent / "configs").glob("*.yaml"))


def value(key: str, *overrides: str) -> Any:
    """Returns the setting of a "section.key" after overrides."""
    section, _, name = key.partition(".")
    return getattr(getattr(load(None, overrides), section), name)


def complaint(*overrides: str, path: Path | None = None) -> str:
    """Returns the sentence that a config file, or the usual settings, and these overrides earn."""
    with pytest.raises(InputError) as caught:
        load(path, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def file_complaint(tmp_path: Path, text: str | bytes) -> str:
    """Returns the sentence that a config file earns, without the folder's name."""
    path = tmp_path / "bad.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return re.sub(r"\S*/bad\.yaml", "bad.yaml", complaint(path=path))  # a long path is quoted in part


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configs_say_what_differs_from_the_defaults(path: Path) -> None:
    """The board and its komi are said in any case; --keys lists the rest."""
    settings, default = load(path), Config().to_dict()
    assert settings.run.name == path.stem
    for section, entries in yaml.safe_load(path.read_text()).items():
        same = {key for key in entries if settings.to_dict()[section][key] == default[section][key]}
        assert same <= ({"size", "komi"} if section == "game" else set()), (section, same)
    assert all(Rules(settings.game.size, komi).komi == komi for komi in settings.game.komi_choices())


def test_dump_is_complete_and_reads_back(tmp_path: Path) -> None:
    words = ["training.learning_rate=1e-5", "network.heads.score=0.02", "run.name=näme", "game.komi=-0.5"]
    changed, path = load(None, words), tmp_path / "config.yaml"
    changed.dump(path)
    assert load(path) == changed and config.from_dict(changed.to_dict()) == changed
    written = {name: list(entries) for name, entries in yaml.safe_load(path.read_text()).items()}
    assert written == {name: list(entries) for name, entries in changed.to_dict().items()}
    assert list(tmp_path.iterdir()) == [path]


def test_there_are_six_configs_and_defaults_are_valid_frozen_and_described() -> None:
    assert {path.stem for path in CONFIGS} == {"quickstart", "7x7", "9x9-cpu", "9x9", "19x19", "mixed"}
    settings, text = Config(), config.describe()
    for section in SECTIONS:
        assert isinstance(section.__doc__, str) and issubclass(section, Section)
        for entry in settings_of(section):
            assert entry.metadata["meaning"] and f"  {section.NAME}.{entry.name} = " in text
    with pytest.raises(FrozenInstanceError):
        settings.game.size = 5  # type: ignore[misc]


def test_a_setting_that_became_a_constant_is_known_by_its_value() -> None:
    """Configs and networks of earlier versions hold all settings."""
    assert not set(FIXED) & set(config.KEYS)
    for key, fixed in FIXED.items():
        section, _, name = key.partition(".")
        assert config.from_dict({section: {name: fixed}}) == Config()
        now = f"follows from {FOLLOWS_FROM[key]}" if key in FOLLOWS_FROM else f"is always {json.dumps(fixed)}"
        sentence = re.escape(f"{key} is no longer a setting; it {now}")
        with pytest.raises(InputError, match=sentence):
            config.from_dict({section: {name: "else"}})
        with pytest.raises(InputError, match=sentence):
            load(None, [f"{key}=1"])
        if section == "network":
            continue
        with pytest.warns(UserWarning, match=f"made with {key} 'else', but {sentence}"):
            assert config.from_dict({section: {name: "else"}}, was_used=True) == Config()


@pytest.mark.parametrize(("text", "key", "value"), TABLES["removed settings"])
def test_what_a_removed_setting_kept_stays(text: str, key: str, value: int, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.warns(UserWarning, match="is no longer a setting"):
        assert load(tmp_path / "config.yaml", was_used=True).flat()[key] == value


def examples() -> list[tuple[str, str]]:
    """Returns the examples of values that `--keys` shows, each with its key."""
    words = {key: allowed(entry) for key, entry in config.KEYS.items()}
    parts = {key: re.findall(r"such as (\{.*?\}|\[\[.*?\]\]|\[.*?\]|\w+)", text) for key, text in words.items()}
    return [(key, example) for key, texts in parts.items() for example in texts]


@pytest.mark.parametrize(("key", "example"), examples())
def test_examples_are_accepted(key: str, example: str) -> None:
    """By the setting's own validation, and an encoder's or player's by what makes it."""
    read = value(key, f"{key}={example}")
    assert read != value(key) or key in ("network.heads", "evaluation.opponents")
    if key == "features.encoder":
        make_encoder(read, True)


def test_settings_of_several_values_have_examples() -> None:
    plain = ("bool", "int", "float", "str", "int | str")
    assert {key for key, entry in config.KEYS.items() if entry.type not in plain} == {key for key, _ in examples()}


@pytest.mark.parametrize(("text", "overrides", "expected"), TABLES["what is read"])
def test_files_and_overrides_are_read(text: str, overrides: list[str], expected: dict, tmp_path: Path) -> None:
    """In any order, as together they must be valid. YAML 1.1 alone reads 1e-3 as text, and on as true."""
    path, again = tmp_path / "a.yaml", tmp_path / "b.yaml"
    path.write_text(text)
    settings = load(path if text else None, overrides)
    read = settings.to_dict()
    places = {key: key.split(".") for key in expected}
    assert {key: read[section][name] for key, (section, name) in places.items()} == expected
    assert all(type(read[section][name]) is type(expected[key]) for key, (section, name) in places.items())
    settings.dump(again)
    assert load(again) == settings


@pytest.mark.parametrize(("override", "words"), TABLES["bad overrides"])
def test_bad_overrides(override: str, words: list[str]) -> None:
    sentence = complaint(override)
    assert all(word in sentence for word in (*words, override.partition("=")[0])), sentence


@pytest.mark.parametrize(("overrides", "words"), TABLES["bad together"])
def test_bad_values_together(overrides: list[str], words: str) -> None:
    assert words in complaint(*overrides)


MANY, NO_TEXT = "a:\n" + "- 1\n" * 9000, b"\xff\xfe\x00"
BAD_FILES = [*TABLES["bad files"], (NO_TEXT, "cannot read the config bad.yaml: it is not UTF-8 text")]
BAD_FILES.append((MANY, "bad.yaml, line 4999: this is not valid YAML (more than 5000 keys and values"))


@pytest.mark.parametrize(("text", "expected"), BAD_FILES)
def test_bad_files(tmp_path: Path, text: str | bytes, expected: str) -> None:
    assert file_complaint(tmp_path, text).startswith(expected)
    with pytest.raises(InputError, match="missing.yaml does not exist; there are .*bad.yaml"):
        load(tmp_path / "missing.yaml")


def test_large_files_and_deep_brackets_take_little(tmp_path: Path) -> None:
    with within(60):
        assert file_complaint(tmp_path, "run: " + "[" * 20_000) == "bad.yaml: the brackets are nested too deeply"
        shortened = file_complaint(tmp_path, "game:\n  size: [" + "1, " * 900 + "]")
        assert len(shortened) < 200 and shortened.endswith("1, ...]; it must be a whole number from 1 to 25")
        assert complaint("game.size=" + "[" * 20_000).endswith("game.size must be a whole number from 1 to 25")


def test_simulations_by_progress() -> None:
    words = "selfplay.simulations_schedule=[[0, 8], [0.5, 16], [0.9, 64]]", "selfplay.cheap_simulations=4"
    selfplay = load(None, words).selfplay
    assert [selfplay.full_at(progress) for progress in (0, 0.49, 0.5, 0.89, 1)] == [8, 8, 16, 16, 64]
    assert selfplay.all_simulations == (8, 16, 64) and Config().selfplay.all_simulations == (64,)
    assert load(None, [*words, "selfplay.full_share=0.5"]).selfplay.all_simulations == (4, 8, 16, 64)
    assert [Config().selfplay.full_at(progress) for progress in (0, 1)] == [64, 64]


SIZES = "game.sizes=[[13, 1, 7.5], [7, 2, 9]]"


def test_a_run_on_several_boards() -> None:
    mixed = load(None, [SIZES, "game.size=13", "game.komi_spread=2"])
    game, one = mixed.game, Config().game
    assert (game.all_sizes, game.largest_size, one.all_sizes, one.largest_size) == ((7, 13), 13, (9,), 9)
    assert (game.rules(), game.rules(7)) == (Rules(13, 7.5), Rules(7, 9.0))
    assert game.komi_choices(9.0) == (7.0, 7.5, 8.0, 8.5, 9.0, 9.5, 10.0, 10.5, 11.0)
    assert game.komi_choices() == (5.5, 6.0, 6.5, 7.0, 7.5, 8.0, 8.5, 9.0, 9.5)
    assert (game.plies(7), game.plies()) == (98, 338)
    assert config.from_dict(mixed.to_dict()) == mixed


@pytest.mark.parametrize(("overrides", "rules"), TABLES["another size takes its own komi"])
def test_another_size_takes_its_own_komi(overrides: list[str], rules: list) -> None:
    assert config.with_overrides(load(None, [SIZES, "game.size=7"]), overrides).game.rules() == Rules(*rules)


def test_komi_of_one_board() -> None:
    game = GameConfig(size=5, komi=24.5, random_komi_share=0.5, komi_low=20, komi_high=21, move_cap=7)
    assert (game.komi_choices(), game.plies()) == ((20.0, 20.5, 21.0), 7)
    assert GameConfig(komi=7, komi_spread=1000).komi_choices()[-1] == 1000
