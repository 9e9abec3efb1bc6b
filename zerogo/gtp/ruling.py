"""The commands that set the rules. Where zerogo falls short of a ruleset it says so: in the reply, on stderr and below
`showboard`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zerogo import rulesets
from zerogo.errors import InputError
from zerogo.gtp import parse
from zerogo.gtp.engine import Handler

if TYPE_CHECKING:
    from zerogo.gtp.engine import Engine
    from zerogo.rules import Rules

KGS_RULES = ("japanese", "chinese", "aga", "new_zealand")


def kata_get_rules(engine: Engine, arguments: list[str]) -> str:
    return json.dumps(rulesets.to_json(engine.game.rules), separators=(",", ":"))


def kata_set_rules(engine: Engine, arguments: list[str]) -> str:
    """Takes a ruleset's name or KataGo's object; komi stays."""
    text = " ".join(arguments)
    if not text:
        raise InputError("syntax error; write: kata-set-rules NAME, or an object such as that of kata-get-rules")
    return _take(engine, rulesets.parse(text, engine.size, engine.game.rules.komi), rulesets.canonical(text) or "")


def kata_set_rule(engine: Engine, arguments: list[str]) -> str:
    """Changes one field of `kata-get-rules`."""
    parse.only(arguments, "kata-set-rule FIELD VALUE", 2)
    key, text = arguments
    if key == "komi":
        raise InputError("komi is no rule here; write: komi POINTS")
    value = {"true": True, "false": False}.get(text.lower(), text.upper())
    fields = rulesets.to_json(engine.game.rules) | {key: value}
    return _take(engine, rulesets.from_json(fields, engine.size, engine.game.rules.komi), "")


def kgs_rules(engine: Engine, arguments: list[str]) -> str:
    """Takes one of KGS's four rulesets; komi stays."""
    parse.only(arguments, f"kgs-rules {' | '.join(KGS_RULES)}", 1)
    word = arguments[0].lower()
    if word not in KGS_RULES:
        raise InputError(f"there are no KGS rules {arguments[0]!r}; allowed are {', '.join(KGS_RULES)}")
    name = "chinese-kgs" if word == "chinese" else rulesets.canonical(word) or ""
    return _take(engine, rulesets.named(name, engine.size, engine.game.rules.komi), name)


def _take(engine: Engine, rules: Rules, name: str) -> str:
    """Changes the rules but for size and komi; returns where they fall short of their name."""
    engine.game.change_rules(superko=rules.superko, suicide=rules.suicide, scoring=rules.scoring)
    engine.rules_name = name
    deviation = engine.deviation()
    engine.warn(deviation)
    return deviation


COMMANDS: dict[str, Handler] = {
    "kata-get-rules": kata_get_rules,
    "kata-set-rules": kata_set_rules,
    "kata-set-rule": kata_set_rule,
    "kgs-rules": kgs_rules,
}
