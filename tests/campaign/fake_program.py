"""The engine of tests/fake_engine.py as a program: `fake_program.py MODE [FILE]`."""

import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from fake_engine import Fake, Trouble  # noqa: E402


def be_in_trouble(trouble: Trouble, file: str) -> None:
    """Does as a process what the trouble says."""
    if trouble.kind == "crash":
        print(trouble.words, file=sys.stderr, flush=True)
        os._exit(trouble.status)
    if trouble.kind == "mute":
        sys.stdout.close()
        os.close(1)
    elif file:
        open(file, "a").write(f"{os.getpid()}\n")
    time.sleep(600)


def main(mode: str, file: str = "") -> None:
    try:
        fake = Fake(mode, file)
        time.sleep(0.8 if mode == "slow" else 0)
        print(end=fake.greeting, flush=True)
        for line in sys.stdin:
            if mode == "noisy":
                print("= thinking \n\n? info " * 5000, file=sys.stderr, flush=True)
            print(end=fake.answer(line), flush=True)
            if line.split()[-1] == "quit":
                return
    except Trouble as trouble:
        be_in_trouble(trouble, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
