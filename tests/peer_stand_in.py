"""Stands in for mctx or pgx in the tests of --peer: the same talk, numbers that can be told apart, and no JAX.

It notes its own arguments and every line that it is asked in the file that PEER_NOTES names; with PEER_DIES it ends at
the first one."""

import os
import sys

PGX = {"2": 70, "3": 90}  # moves a second by batch
MCTX = {"network float32": 400, "network bfloat16": 1000, "search float32": 50, "search bfloat16": 100}


def main() -> None:
    library, device = sys.argv[1], sys.argv[-1]
    if "PEER_LACKS" in os.environ:
        print(f"no {device}", flush=True)
        return
    print(f"{library} 0.0 on {device}", flush=True)
    with open(os.environ["PEER_NOTES"], "a") as notes:
        print(*sys.argv[1:], file=notes, flush=True)
        for line in sys.stdin:
            if "PEER_DIES" in os.environ:
                return
            print(line.strip(), file=notes, flush=True)
            print(PGX[sys.argv[3]] if library == "pgx" else MCTX[line.rpartition(" ")[0]], flush=True)


if __name__ == "__main__":
    main()
