"""GTP engines as players of matches: the words that name them, and how a match with them is written and resumed."""

import os
import stat
import sys
from pathlib import Path

import pytest
import torch
from matches import FAKE, config, same

from zerogo import arena
from zerogo.config import Config
from zerogo.errors import InputError
from zerogo.players.analyst import make_player
from zerogo.players.external import ExternalPlayer, find
from zerogo.rules import Rules


def test_words_that_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = Config().evaluation
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("zerogo.players.external.MORE_FOLDERS", ("/nowhere",))
    for spec, sentence in {
        "gnugo:1": "there is no program 'gnugo' on PATH nor in /nowhere; Debian and Ubuntu have it: apt install gnugo",
        "pachi:1000": "there is no program 'pachi' on PATH",
        "katago:10": "there is no program 'katago' on PATH",
        "gtp:engine --fast": "there is no program 'engine' on PATH",
        "gtp:/nowhere/engine": "there is no program at /nowhere/engine",
        "gtp:": "lacks its command",
        "gtp:engine 'open": "its command can't be read: no closing quotation",
        "gnugo:16": "a level from 0 to 15",
        "gnugo:strong": "a level from 0 to 15",
        "gnugo": "a level from 0 to 15",
        "pachi:100": "playouts from 500",
        "katago:0": "visits from 1",
        "gnu:1": "allowed are random, mcts:N",
    }.items():
        with pytest.raises(InputError) as error:
            make_player(spec, settings, torch.device("cpu"), torch.float32)
        assert sentence in str(error.value) and "\n" not in str(error.value)


def program(folder: Path, name: str) -> Path:
    """Makes an executable that is the fake engine."""
    path = folder / name
    path.write_text(f"#!/bin/sh\nexec {sys.executable} -E {FAKE} good\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_start_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gnugo", "pachi", "katago"):
        program(tmp_path, name)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    rules = Rules(9, 7.0, "situational", suicide=True)
    line = find("gnugo:3").command(rules, 5)
    rule_flags = "--chinese-rules --situational-superko --allow-all-suicide --capture-all-dead --never-resign"
    assert line[1:] == f"--mode gtp --quiet {rule_flags} --level 3 --seed 5".split()
    assert line[0] == str(tmp_path / "gnugo")
    line = find("gnugo:0").command(Rules(9, 7.0, "simple", scoring="territory"), 5)
    assert {"--japanese-rules", "--simple-ko", "--forbid-suicide"} <= set(line)
    assert "--positional-superko" in find("gnugo:0").command(Rules(9), 5)
    line = find("pachi:1000").command(Rules(9), 5)
    options = "threads=1 max_tree_size=100 resign_threshold=0"
    assert line[1:] == f"-d0 -t =1000 -s 5 -r chinese {options} pass_all_alive".split()
    (tmp_path / "patterns_mm.gamma").touch()
    line = find("pachi:1000").command(Rules(9, scoring="territory"), 5)
    assert line[:3] == ["env", f"DATA_DIR={tmp_path}", str(tmp_path / "pachi")], "its files lie beside it"
    assert line[3:] == f"-d0 -t =1000 -s 5 -r japanese {options}".split()
    with pytest.raises(InputError, match="pachi:1000 knows no suicide"):
        ExternalPlayer(find("pachi:1000")).check(rules)
    model = tmp_path / "net.bin.gz"
    with pytest.raises(InputError, match="there is no file"):
        find(f"katago:9:{model}")
    model.write_bytes(b"")
    line = find(f"katago:9:{model}").command(Rules(9), 5)
    assert line[1:4] == ["gtp", "-model", str(model)] and "maxVisits=9," in line[5]
    assert find(f"katago:9:{model}").name == "katago:9"
    names = {"sh -c true": "true", f"{sys.executable} -u /a/mine.py --x": "mine", "env X=1 sh": "X=1", "sh": "sh"}
    assert {line: find(f"gtp:{line}").name for line in names} == names


def test_a_match_may_grow_and_nothing_else(tmp_path: Path) -> None:
    arena.evaluate(["random", "random"], 4, config(), tmp_path / "a")
    (grown,) = arena.evaluate(["random", "random"], 8, config(), tmp_path / "a", resume=True)
    assert same(grown, arena.evaluate(["random", "random"], 8, config(), tmp_path / "b")[0])
    for names, games, overrides, what in (
        (["random", "random"], 4, [], "has games 8, not 4"),
        (["random", "mcts:2"], 8, [], "has players random, random, not random, mcts:2"),
        (["random", "random"], 8, ["game.komi=1.5"], "has komi 0.5, not 1.5"),
        (["random", "random"], 8, ["run.seed=5"], "has seed 1, not 5"),
    ):
        with pytest.raises(InputError, match=what):
            arena.evaluate(names, games, config(*overrides), tmp_path / "a", resume=True)
    with pytest.raises(InputError, match="already holds a match; go on with it by --resume"):
        arena.evaluate(["random", "random"], 8, config(), tmp_path / "a")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "file").write_text("x")
    with pytest.raises(InputError, match="holds no match to resume"):
        arena.evaluate(["random", "random"], 8, config(), tmp_path / "c", resume=True)
