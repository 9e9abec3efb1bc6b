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
    for ask in (rulesets.deviations, lambda name: rulesets.named(name, 9)):
        with pytest.raises(InputError, match="there are no rules .*allowed are tromp-taylor, chinese"):
            ask(name)
    assert rulesets.canonical(name) is None


@pytest.mark.parametrize(("fields", "what"), TABLES["bad fields"])
def test_bad_json_is_refused(fields: object, what: str) -> None:
    with pytest.raises(InputError, match=what):
        rulesets.from_json(fields, 9)


def test_the_string_that_katago_writes_into_sgf() -> None:
    for text in ('{"ko":', "{}}", '["AREA"]', "{1: 2}", "{nan}"):
        with pytest.raises(InputError):
            rulesets.parse(text, 9)
    assert rulesets.parse("koPOSITIONALscoreAREAtaxNONEsui1", 9) == rulesets.named("tromp-taylor", 9)
    assert rulesets.parse("koSIMPLEscoreTERRITORYtaxNONEsui0", 19) == rulesets.named("japanese", 19)
    assert rulesets.parse("koSITUATIONALscoreAREAtaxNONEsui0whb0", 19, 7.5) == rulesets.named("aga", 19)
    assert rulesets.parse("koSIMPLEscoreAREAtaxNONEsui0button0whb0fpok1", 9) == rulesets.named("chinese", 9)
    for what in ("tax is 'ALL'", "tax is 'SEKI'", "whiteHandicapBonus is 'N'", "whiteHandicapBonus is 'N-1'"):
        part = what.replace("whiteHandicapBonus", "whb").replace(" is ", "").replace("'", "")
        with pytest.raises(InputError, match=what):
            rulesets.parse(f"koSIMPLEscoreAREA{part}sui0", 9)


def test_names_and_their_komi() -> None:
    assert rulesets.named("japanese", 19).komi == 6.5 and rulesets.named("chinese", 19).komi == 7.5
    assert rulesets.named("japanese", 19, 0.5).komi == 0.5 and rulesets.named("aga", 9, 0.0).komi == 0.0
    assert rulesets.named("aga-button", 19).komi == 7.0
    assert rulesets.parse(" New Zealand ", 9, 6.0) == rulesets.named("nz", 9, 6.0)
    with pytest.raises(InputError, match="size is 26"):
        rulesets.named("chinese", 26)
