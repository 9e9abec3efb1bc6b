"""Stands in for mctx or pgx in the tests of --peer: the same talk, numbers that can be told apart, and no JAX.

It notes every line that it is asked, and its own arguments, in the file that PEER_NOTES names; with PEER_DIES it
ends at the first one.
"""

from __future__ import annotations

import os
import sys

PGX = {"2": 70, "3": 90}  # moves a second by batch
ANSWERS = {
    ("network", "float32"): 400,
    ("network", "bfloat16"): 1000,
    ("search", "float32"): 50,
    ("search", "bfloat16"): 100,
}


def main() -> None:
    device, is_pgx = sys.argv[-1], len(sys.argv) == 5
    if "PEER_LACKS" in os.environ:
        print(f"no {device}", flush=True)
        return
    print(f"pgx 0.0 on {device}" if is_pgx else f"mctx 0.0, pgx 0.0, jax 0.0 on {device}", flush=True)
    with open(os.environ["PEER_NOTES"], "a") as notes:
        print(*sys.argv[1:], file=notes, flush=True)
        for line in sys.stdin:
            if "PEER_DIES" in os.environ:
                return
            print(line.strip(), file=notes, flush=True)
            kind, dtype, *_ = *line.split(), ""
            print(PGX[sys.argv[2]] if is_pgx else ANSWERS[kind, dtype], flush=True)


if __name__ == "__main__":
    main()
