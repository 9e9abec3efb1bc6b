"""The documentation: its commands parse, its links resolve, what it names exists, and it keeps to its lengths and
words."""

import argparse
import ast
import contextlib
import io
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import tiny
import torch.distributed.run

from zerogo import __main__, cli, config, tuning
from zerogo.features import ENCODERS, GROUPS
from zerogo.pipeline.sanity_checks import CHECKS

ROOT = Path(__file__).parent.parent
LOGS = sorted(ROOT.glob("docs/log/*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "checkpoints" / "README.md", *sorted(ROOT.glob("docs/*.md"))]
CONFIGS = sorted(ROOT.glob("configs/*.yaml"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE, LINK = re.compile(r"`([^`\n]+)`"), re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
OTHER_PROGRAMS = set("apt-get echo kill pyright rsync ssh ruff . tensorboard".split())  # not checked further
# Files and folders that runs, matches and people write, and options of other programs.
WRITTEN = set("config.yaml report.html result.json matches.jsonl .taken step-00012000.pt".split())
WRITTEN |= set("match snapshots replay games matches played logs actors checkpoints/NAME checkpoints/mine".split())
OTHER_OPTIONS = set("--version --max-restarts --nnodes --nproc-per-node --capture-all-dead --go_hosts".split())
MOST_LINES = {"README.md": 150, "CONTRIBUTING.md": 60}
MOST_WORDS = 1800  # of the README
# Wording that readers took for a translation.
STILTED = re.compile(
    r"\bgo(es)? on\b|\bof its own\b|what it found|\bis asked\b|\btold\b|\bbeside\b|patiently|(?<!git )\bcommit|"
    r"learn(s|ed) by heart|python -m zerogo"
)


@pytest.fixture(autouse=True)
def in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(tuning, "pick_proven_dtype", lambda *_: torch.float32)  # without a process that measures


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    return [block for name, block in FENCE.findall(page.read_text()) if name == language]


def commands_of(page: Path) -> Iterator[list[str]]:
    """Yields the words of each command in a page's shell blocks, without comments, operators and redirections."""
    for line in "\n".join(blocks(page, "sh")).splitlines():
        lexer = shlex.shlex(re.sub(r" 2>&1| > \S+", "", line), posix=True, punctuation_chars=";&|")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if not set(word) <= set(";&|"):
                words.append(word)
            elif words:
                yield words[1:] if words[0] == "nohup" else words
                words = []


COMMANDS = [(name_of(page), words) for page in PAGES for words in commands_of(page)]


def read(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the program read the words behind `zerogo`, and check the settings among them, without doing anything."""
    results: list[argparse.Namespace] = []
    monkeypatch.setattr(cli, "run", lambda parse, main: results.append(parse()))
    with contextlib.suppress(SystemExit) if "--supported" in words else contextlib.nullcontext():
        __main__.main(words)
    if not results:
        return
    if words[0] == "train":
        __main__.train_config(results[0])
    config.with_overrides(config.Config(), getattr(results[0], "overrides", []))


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[f"{page} {' '.join(words)}" for page, words in COMMANDS])
def test_commands_are_understood(page: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = [word for word in words if not re.fullmatch(r"\w+=tests", word)]  # PYTHONPATH
    program, arguments = words[0], words[1:]
    if program == "torchrun":
        found = torch.distributed.run.parse_args(arguments)
        assert found.module and found.training_script == "zerogo", "-m -- zerogo …, or torchrun reads --run itself"
        program, arguments = "zerogo", found.training_script_args
    if program == "zerogo":
        read(arguments, monkeypatch)
    elif program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(re.findall(r"\[(\w+)\]", " ".join(arguments))) <= set(extras)
    elif program in ("pytest", "python", "python3"):
        assert all(Path(word).exists() for word in arguments if word.endswith(".py"))
    else:
        assert program in OTHER_PROGRAMS


def shrunk(words: list[str], out: str) -> list[str]:
    """Returns a training or a match with the smallest settings, against an opponent that is on every machine. out: the
    match's folder, whose default name holds the second."""
    words = ["random" if word.startswith("gnugo:") else word for word in words]
    if words[0] == "evaluate":
        number = words.index("--games") + 1
        words[number] = "2"
        return [*words, "--simulations", "2", "--out", out, "run.processes=1", "game.move_cap=8"]
    if "--export" in words:
        return words
    # What the command itself is about stays as it is: the board, and the architecture that --from takes over.
    kept = ("game.size", "game.komi", "run.name", "network", "features")[: 5 if "--from" in words else 3]
    settings = [text for text in tiny.SETTINGS if not text.startswith(kept)]
    return [*words, *settings, f"pipeline.iterations={2 if '--resume' in words else 1}"]


def test_trainings_and_matches_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order; but for the match against a network that is not shipped."""
    pages = [words[1:] for words in commands_of(ROOT / "README.md") if words[:2][-1] in ("train", "evaluate")]
    monkeypatch.chdir(tmp_path)
    for number, words in enumerate(pages):
        if not any(word.endswith(".bin.gz") for word in words):
            with pytest.raises(SystemExit) as ended:
                __main__.main(shrunk(words, f"match-{number}"))
            assert not ended.value.code, words
    assert len(pages) == 11 and Path("mine.pt").exists()


def test_python_blocks_run() -> None:
    for block in blocks(ROOT / "README.md", "python"):
        names: dict = {}
        exec(block, names)
        assert names["result"].visits.shape == (64, 50)


def test_the_readme_has_the_commands_of_ci() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[-1] == "pip install -e '.[test]' && pytest -n 2 --dist worksteal"
    commands_of_readme = "".join(blocks(ROOT / "README.md", "sh")).splitlines()
    assert {lines[-1], "pip install -e . && zerogo train"} <= set(commands_of_readme)


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *LOGS], ids=name_of)
def test_links_resolve(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if not link.startswith("http"):
            file, _, anchor = link.partition("#")
            target = page.parent / file if file else page
            assert target.exists() and (not anchor or anchor in anchors(target)), link


@cache
def options() -> set[str]:
    """Returns the options of every command, as its help has them."""
    benches = re.search(r"\{([\w,]+)\}", help_of(["bench"]))[1].split(",")
    words = [[name] for name in __main__.COMMANDS] + [["bench", name] for name in benches]
    return set(re.findall(r"--[a-z][\w-]*", "".join(map(help_of, words))))


def help_of(words: list[str]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit), pytest.MonkeyPatch.context() as m:
        m.setattr(cli, "run", lambda parse, main: parse())
        __main__.main([*words, "--help"])
    return out.getvalue()


def is_there(code: str, page: Path) -> bool:
    """Says whether what a piece of code names exists, if it names a command, option, setting, file, or constant."""
    if code.startswith("zerogo "):
        words = code.split()
        return words[1] in __main__.COMMANDS and set(re.findall(r"--[a-z][\w-]*", code)) <= options()
    if re.fullmatch(r"--[a-z][\w-]*( \S+)?", code):
        return code.split()[0] in options() | OTHER_OPTIONS
    if re.match(r"[a-z]+\.[a-z_0-9]+=", code):
        settings = re.findall(r"[a-z]+\.\w+=\S+", code.replace("section.key=value", "run.seed=1"))
        return config.with_overrides(config.Config(), ["replay.external=true", *settings]) is not None
    if re.fullmatch(r"[a-z]+\.[a-z_0-9]+", code) and code.split(".")[0] in config.BY_NAME and not code.endswith(".py"):
        return code in config.KEYS
    if re.fullmatch(r"[A-Z][A-Z_]{3,}", code):
        assigned = re.compile(rf"^([A-Z_]+, )*{code}\b", re.MULTILINE)
        return any(assigned.search(path.read_text()) for path in ROOT.glob("zerogo/**/*.py"))
    if re.fullmatch(r"[\w./-]+(\.(py|md|yaml|pt|tsv|toml)|/)", code) or code.rstrip("/") in WRITTEN:
        places = ROOT, page.parent, ROOT / "zerogo", ROOT / "checkpoints"
        written = any(code.startswith(f"{name}/") or code == name for name in WRITTEN)
        return written or any((place / code).exists() for place in places)
    return True


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_named_exists(page: Path) -> None:
    missing = [code for code in CODE.findall(FENCE.sub("", page.read_text())) if not is_there(code, page)]
    assert not missing


def test_tables_are_complete() -> None:
    checks = CODE.findall((ROOT / "docs" / "training.md").read_text().partition("## Sanity checks")[2])
    assert set(CHECKS) <= set(checks)
    encoders = CODE.findall((ROOT / "docs" / "encoders.md").read_text())
    assert set(ENCODERS) | set(GROUPS) <= {code.partition(":")[0] for code in encoders}
    assert all(f"`configs/{path.name}`" in (ROOT / "README.md").read_text() for path in CONFIGS)


@pytest.mark.parametrize("page", [*PAGES, *CONFIGS], ids=name_of)
def test_lengths_and_words(page: Path) -> None:
    text = page.read_text()
    assert text.count("\n") <= MOST_LINES.get(name_of(page), 200) or page.name == "CHANGELOG.md"
    assert name_of(page) != "README.md" or len(text.split()) <= MOST_WORDS
    assert not STILTED.search(re.sub(r"\]\(\S+\)", "]", text))
    assert not name_of(page).startswith("docs/") or "For anyone" in text[:300], "it opens with whom it is for"


def test_what_users_read_is_plain_english() -> None:
    """Help, messages, pages and tables: every text of the package that is no docstring."""
    found = []
    for path in ROOT.glob("zerogo/**/*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        documented = [node for node in nodes if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))]
        docstrings = {id(node.body[0].value) for node in documented if ast.get_docstring(node)}
        texts = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        texts = [node for node in texts if id(node) not in docstrings and STILTED.search(node.value)]
        found += [f"{path.name}:{node.lineno}: {node.value}" for node in texts]
    for path in (path for kind in ("tsv", "html", "js") for path in ROOT.glob(f"zerogo/**/*.{kind}")):
        lines = (line.partition(" // ")[0] for line in path.read_text().splitlines() if not line.startswith("//"))
        found += [f"{path.name}: {line}" for line in lines if STILTED.search(line)]
    assert not found
