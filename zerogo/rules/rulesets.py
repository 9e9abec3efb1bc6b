"""The rules that people and programs call by a name ("chinese", RU[AGA], KataGo's JSON), as `Rules`; and what of them
zerogo leaves out.

    named("japanese", size=9)                 # Rules(9, 6.5, "simple", False, "territory")
    parse('{"ko": "POSITIONAL", ...}', 9)     # the same from any text: a name, KataGo's JSON, or the string that KataGo
                                              # writes into an SGF

The table follows KataGo's (docs/GTP_Extensions.md, "kata-set-rules"), so that programs which know KataGo get what they
expect; its "chinese" has simple ko, since Chinese tournaments play so whatever their written rules say, and its
"chinese-ogs" superko."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zerogo.errors import InputError, quote
from zerogo.rules import SCORING, SUPERKO, Rules
from zerogo.system import bounds

HANDICAP = "White gets no points for handicap stones (add them to komi)"
CYCLES = 'a long cycle such as a triple ko continues and is never "no result"'
SEKI = "eyes in seki count as territory"
SAFE = "stones that can never live in the other side's safe territory count as captured without being taken"
DEAD = "what is dead is settled by playing it out or by the engine's judgement, not by hypothetical play"


@dataclass(frozen=True)
class Ruleset(Rules):
    """One row of the table: the rules on 19x19 with their usual komi, and what is left out of them."""

    left_out: tuple[str, ...] = ()


_NO_PASS_STONES = "a pass costs no stone, which changes nothing where area is counted"
_NO_BUTTON = "the first pass earns no half point (no button)"
_ING_KO = "superko stands for Ing's fighting and disturbing kos"
RULESETS = {
    "tromp-taylor": Ruleset(19, 7.5, "positional", True, "area", (SAFE,)),
    "chinese": Ruleset(19, 7.5, "simple", False, "area", (HANDICAP, CYCLES)),
    "chinese-ogs": Ruleset(19, 7.5, "positional", False, "area", (HANDICAP,)),
    "chinese-kgs": Ruleset(19, 7.5, "positional", False, "area", (HANDICAP,)),
    "japanese": Ruleset(19, 6.5, "simple", False, "territory", (SEKI, CYCLES, DEAD)),
    "korean": Ruleset(19, 6.5, "simple", False, "territory", (SEKI, CYCLES, DEAD)),
    "aga": Ruleset(19, 7.5, "situational", False, "area", (HANDICAP, _NO_PASS_STONES)),
    "bga": Ruleset(19, 7.5, "situational", False, "area", (HANDICAP, _NO_PASS_STONES)),
    "aga-button": Ruleset(19, 7.0, "situational", False, "area", (HANDICAP, _NO_BUTTON)),
    "new-zealand": Ruleset(19, 7.5, "situational", True, "area"),
    "ing": Ruleset(19, 7.5, "positional", True, "area", (HANDICAP, _ING_KO)),
}
ALIASES = {
    **dict.fromkeys(("cn", "zh", "china", "中国", "中国规则", "中國", "中國規則"), "chinese"),
    **dict.fromkeys(("jp", "ja", "japan", "日本", "日本规则", "日本規則", "日本ルール"), "japanese"),
    **dict.fromkeys(("kr", "ko", "korea", "韩国", "韩国规则", "韓國", "한국", "한국규칙"), "korean"),
    **dict.fromkeys(("american", "usa", "french", "ffg"), "aga"),
    **dict.fromkeys(("goe", "ing-goe", "ing-sst", "sst"), "ing"),
    "tt": "tromp-taylor", "tromptaylor": "tromp-taylor", "british": "bga", "agabutton": "aga-button",
    "nz": "new-zealand", "newzealand": "new-zealand", "ogs": "chinese-ogs", "chineseogs": "chinese-ogs",
    "kgs": "chinese-kgs", "chinesekgs": "chinese-kgs",
}  # fmt: skip
_KATAGO_WORDS = {  # of the string that KataGo writes into RU, such as koPOSITIONALscoreAREAtaxNONEsui1whbN
    "ko": "ko", "score": "scoring", "scoring": "scoring", "tax": "tax", "sui": "suicide", "button": "hasButton",
    "whb": "whiteHandicapBonus", "fpok": "friendlyPassOk",
}  # fmt: skip
_KATAGO_WORD = re.compile(r"(ko|scoring|score|tax|sui|button|whb|fpok)(N-1|[A-Z]+|[01])")
NOT_PLAYED = re.compile(r"taxSEKI|whbN(-1)?")  # of that string: a game's other rules are worth having without these
_SWITCHES = ("suicide", "hasButton", "friendlyPassOk")
_INSTEAD = {  # of what is refused
    "tax": "no points are taken off: eyes in seki count, and two eyes cost nothing",
    "whiteHandicapBonus": "add the points for handicap stones to komi",
    "hasButton": "the first pass earns no half point",
}


def canonical(name: str) -> str:
    """Returns the table's name for a name in any spelling ("New Zealand", "nz", "Chinese rules"), "" for others."""
    plain = re.sub(r"[\s/_-]+", "-", name.strip().lower()).removesuffix("-rules").removesuffix("-rule")
    plain = plain.strip("-")  # "TT--" is of CGOS
    plain = ALIASES.get(plain, plain)
    return plain if plain in RULESETS else ""


def named(name: str, size: int, komi: float | None = None) -> Rules:
    """Returns the rules of a name such as "chinese" or "nz"; komi None is the usual. Raises InputError for others."""
    if not (row := canonical(name)):
        raise InputError(f"there are no rules {quote(name)}; allowed are {', '.join(RULESETS)}")
    ruleset = RULESETS[row]
    return Rules(size, ruleset.komi if komi is None else komi, ruleset.superko, ruleset.suicide, ruleset.scoring)


def parse(text: str, size: int, komi: float | None = None) -> Rules:
    """Returns the rules of a text: a name, KataGo's JSON object, or the string that KataGo writes into RU.

    A komi inside JSON counts only where `komi` is None. Raises InputError for any other text."""
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            fields = bounds.parse_json(stripped)
        except ValueError:
            allowed = "give a name such as chinese, or an object"
            raise InputError(f"rules: {quote(stripped)} is not valid JSON; {allowed}") from None
        return from_json(fields, size, komi)
    if re.fullmatch(f"(?:{_KATAGO_WORD.pattern})+", stripped):
        words = {_KATAGO_WORDS[key]: value for key, value in _KATAGO_WORD.findall(stripped)}
        return from_json(words | {key: words[key] == "1" for key in _SWITCHES if key in words}, size, komi)
    return named(stripped, size, komi)


def from_json(fields: Mapping[str, Any], size: int, komi: float | None = None) -> Rules:
    """Returns the rules of KataGo's object, {"ko": "POSITIONAL", "scoring": "AREA", ...}; what is absent is
    Tromp-Taylor's.

    friendlyPassOk is accepted without effect, since it changes no rule of the game. Raises InputError for what would
    change a game and is not played here (a tax, a bonus for handicap stones, the button, Spight's ko), for an unknown
    key and for a wrong value."""
    allowed: dict[str, tuple[Any, ...]] = {"ko": tuple(map(str.upper, SUPERKO))}
    allowed |= {"scoring": tuple(map(str.upper, SCORING)), "tax": ("NONE",), "suicide": (True, False)}
    allowed |= {"hasButton": (False,), "whiteHandicapBonus": ("0",), "friendlyPassOk": (True, False)}
    if not isinstance(fields, Mapping):
        raise InputError(f"rules: {quote(fields)} is no object; allowed are objects with {', '.join(allowed)} and komi")
    values = {("scoring" if key == "score" else key): value for key, value in fields.items()}
    komi = komi if komi is not None else values.pop("komi", None)
    values.pop("komi", None)
    for key, value in values.items():
        if key not in allowed:
            raise InputError(f"rules: there is no field {quote(key)}; allowed are {', '.join(allowed)} and komi")
        value = value.upper() if isinstance(value, str) else value
        if not any(value == choice and type(value) is type(choice) for choice in allowed[key]):
            choices = ", ".join(choice if isinstance(choice, str) else json.dumps(choice) for choice in allowed[key])
            instead = f"; {_INSTEAD[key]}" if key in _INSTEAD else ""
            raise InputError(f"rules: {key} is {quote(fields.get(key, value))}; allowed are {choices}{instead}")
    superko, scoring = str(values.get("ko", "positional")).lower(), str(values.get("scoring", "area")).lower()
    usual = 6.5 if scoring == "territory" else 7.5
    return Rules(size, usual if komi is None else komi, superko, values.get("suicide", True), scoring)


def described(rules: Rules) -> str:
    """Returns the rules in words, without size and komi: "area scoring, positional superko, no suicide"."""
    superko = "simple ko" if rules.superko == "simple" else f"{rules.superko} superko"
    return f"{rules.scoring} scoring, {superko}, {'suicide allowed' if rules.suicide else 'no suicide'}"


def to_json(rules: Rules) -> dict[str, Any]:
    """Returns the rules as KataGo's `kata-get-rules` tells them, without the komi: what is really played, so never a
    tax or a bonus."""
    shown = {"ko": rules.superko.upper(), "scoring": rules.scoring.upper(), "tax": "NONE", "suicide": rules.suicide}
    return shown | {"hasButton": False, "whiteHandicapBonus": "0", "friendlyPassOk": False}


def deviations(name: str) -> str:
    """Returns a sentence on how zerogo deviates from a ruleset; "" where it does not, and for an unknown name."""
    ruleset = canonical(name)
    left_out = RULESETS[ruleset].left_out if ruleset else ()
    return f"zerogo's {ruleset} rules differ from the real ones: {'; '.join(left_out)}." if left_out else ""
