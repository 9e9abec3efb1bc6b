"""Names of rules: the table against KataGo's documentation, spellings, JSON, and what is refused."""

import json

import pytest

from zerogo.errors import InputError
from zerogo.rules import SCORING, SUPERKO, Rules, rulesets

# docs/GTP_Extensions.md of KataGo, "kata-set-rules": what each shorthand is equivalent to.
KATAGO = {
    "tromp-taylor": ("POSITIONAL", "AREA", True, "NONE", "0"),
    "chinese": ("SIMPLE", "AREA", False, "NONE", "N"),
    "chinese-ogs": ("POSITIONAL", "AREA", False, "NONE", "N"),
    "chinese-kgs": ("POSITIONAL", "AREA", False, "NONE", "N"),
    "japanese": ("SIMPLE", "TERRITORY", False, "SEKI", "0"),
    "korean": ("SIMPLE", "TERRITORY", False, "SEKI", "0"),
    "aga": ("SITUATIONAL", "AREA", False, "NONE", "N-1"),
    "bga": ("SITUATIONAL", "AREA", False, "NONE", "N-1"),
    "aga-button": ("SITUATIONAL", "AREA", False, "NONE", "N-1"),
    "new-zealand": ("SITUATIONAL", "AREA", True, "NONE", "0"),
}


@pytest.mark.parametrize("name", KATAGO)
def test_the_table_is_katagos(name: str) -> None:
    ko, scoring, suicide, tax, bonus = KATAGO[name]
    rules = rulesets.named(name, 9)
    assert rules == Rules(9, rulesets.RULESETS[name].komi, ko.lower(), suicide, scoring.lower())
    told = rulesets.deviations(name)
    assert (rulesets.SEKI in told) == (tax == "SEKI")
    assert (rulesets.HANDICAP in told) == (bonus != "0")
    assert (rulesets.CYCLES in told) == (ko == "SIMPLE")
    assert ("button" in told) == (name == "aga-button")


@pytest.mark.parametrize(
    ("name", "spellings"),
    [
        ("chinese", "Chinese/ CHINESE /chinese rules/Chinese Rule/cn/中国规则"), ("japanese", "Japanese/jp/日本ルール"),
        ("korean", "한국/Korean"), ("aga", "AGA"), ("new-zealand", "NZ/New Zealand/new_zealand/NewZealand"),
        ("tromp-taylor", "Tromp-Taylor/TrompTaylor/tromp taylor/tt"), ("ing", "GOE/Ing"),
        ("chinese-ogs", "Chinese-OGS"), ("chinese-kgs", "chinese_kgs"), ("aga-button", "AGA button"),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize("superko", SUPERKO)
@pytest.mark.parametrize("scoring", SCORING)
@pytest.mark.parametrize("suicide", [True, False])
def test_json_comes_back(superko: str, scoring: str, suicide: bool) -> None:
    rules = Rules(7, 3.5, superko, suicide, scoring)
    fields = rulesets.to_json(rules)
    assert list(fields) == ["ko", "scoring", "tax", "suicide", "hasButton", "whiteHandicapBonus", "friendlyPassOk"]
    assert rulesets.from_json(fields, 7, 3.5) == rules
    assert rulesets.parse(json.dumps(fields), 7, 3.5) == rules


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"tax": "ALL"}, "tax is 'ALL'; allowed are NONE"),
        ({"tax": "SEKI"}, "tax is 'SEKI'; allowed are NONE; no points .* eyes in seki count"),
        ({"whiteHandicapBonus": "N-1"}, "whiteHandicapBonus is 'N-1'; allowed are 0; add the points .* to komi"),
        ({"hasButton": True}, "hasButton is True; allowed are false"),
        ({"ko": "SPIGHT"}, "ko is 'SPIGHT'; allowed are SIMPLE"),
        ({"ko": 1}, "ko is 1"),
        ({"suicide": "yes"}, "suicide is 'yes'; allowed are true, false"),
        ({"suicide": 1}, "suicide is 1"),
        ({"colour": "red"}, "no field 'colour'"),
        ({"komi": "six"}, "komi is 'six'"),
        ([1, 2], "is no object"),
        ("AREA", "is no object"),
    ],
)
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
