"""Names of rules: the table against KataGo's documentation, spellings, JSON, and what is refused."""

import pytest
from tables import tables

from zerogo.errors import InputError
from zerogo.rules import Rules, rulesets

TABLES = tables("rulesets")


@pytest.mark.parametrize(("name", "ko", "scoring", "suicide", "tax", "bonus"), TABLES["KataGo"])
def test_the_table_is_katagos(name: str, ko: str, scoring: str, suicide: bool, tax: str, bonus: str) -> None:
    """docs/GTP_Extensions.md of KataGo, "kata-set-rules": what each shorthand is equivalent to."""
    rules = rulesets.named(name, 9)
    assert rules == Rules(9, rulesets.RULESETS[name].komi, ko.lower(), suicide, scoring.lower())
    told = rulesets.deviations(name)
    assert (rulesets.SEKI in told) == (tax == "SEKI")
    assert (rulesets.HANDICAP in told) == (bonus != "0")
    assert (rulesets.CYCLES in told) == (ko == "SIMPLE")
    assert ("button" in told) == (name == "aga-button")


@pytest.mark.parametrize(("name", "spellings"), TABLES["spellings"])
def test_spellings(name: str, spellings: str) -> None:
    for spelling in spellings.split("/"):
        assert rulesets.canonical(spelling) == name
        assert rulesets.named(spelling, 13) == rulesets.named(name, 13)


@pytest.mark.parametrize("name", ["", "go", "chines", "stone-scoring", "{}", "simple"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="there are no rules .*allowed are tromp-taylor, chinese"):
        rulesets.named(name, 9)
    assert rulesets.canonical(name) == rulesets.deviations(name) == ""


@pytest.mark.parametrize(("fields", "what"), TABLES["bad fields"])
def test_bad_json_is_refused(fields: object, what: str) -> None:
    with pytest.raises(InputError, match=what):
        rulesets.from_json(fields, 9)


@pytest.mark.parametrize(("text", "size", "komi", "name"), TABLES["text of rules"])
def test_rules_that_are_written_out(text: str, size: int, komi: float | None, name: str) -> None:
    """As KataGo writes them into SGF, and names."""
    assert rulesets.parse(text, size, komi) == rulesets.named(name, size, komi)


@pytest.mark.parametrize(("text", "what"), TABLES["bad text"])
def test_bad_text_is_refused(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        rulesets.parse(text, 9)


def test_names_and_their_komi() -> None:
    assert rulesets.named("japanese", 19).komi == 6.5 and rulesets.named("chinese", 19).komi == 7.5
    assert rulesets.named("japanese", 19, 0.5).komi == 0.5 and rulesets.named("aga", 9, 0.0).komi == 0.0
    assert rulesets.named("aga-button", 19).komi == 7.0
    with pytest.raises(InputError, match="size is 26"):
        rulesets.named("chinese", 26)
