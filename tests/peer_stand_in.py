"""Stands in for mctx in the tests of `bench search --peer`: the same talk, numbers that can be told apart, and no JAX.

Its first argument is what `--algorithm` says. It notes every line that it is asked in the file that PEER_NOTES names; with PEER_DIES it
ends at the first one.
"""

from __future__ import annotations

import os
import sys

ANSWERS = {("network", "float32"): 400, ("network", "bfloat16"): 1000, ("search", "float32"): 50, ("search", "bfloat16"): 100}


def main() -> None:
    print("mctx 0.0, pgx 0.0, jax 0.0", flush=True)
    with open(os.environ["PEER_NOTES"], "a") as notes:
        print(*sys.argv[1:], file=notes, flush=True)
        for line in sys.stdin:
            if "PEER_DIES" in os.environ:
                return
            print(line.strip(), file=notes, flush=True)
            kind, dtype, _ = line.split()
            print(ANSWERS[kind, dtype], flush=True)


if __name__ == "__main__":
    main()
