"""Each program as a process of its own: it starts, answers a line and ends with status 0."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = {  # words, a line for its standard input, words of the answer
    "gtp": ("--checkpoint mcts:2 game.size=5 --device cpu", "1 name", "=1 zerogo\n\n"),
    "analysis": ("--checkpoint mcts:2", json.dumps({"id": "a", "action": "query_version"}), '"id":"a"'),
    "show": ("tests/data/sgf/kgs.sgf --move 1 --text", "", "Black to move"),
    "play": ("--size 3 --white human", "quit", "Black, move 1"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_starts_answers_and_ends(name: str) -> None:
    words, line, answer = PROGRAMS[name]
    command = (sys.executable, "-m", "zerogo", name, *words.split())
    done = subprocess.run(command, input=line + "\n", capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert answer in done.stdout
