"""Random games of pgx, for `bench board --peer`. Run as a script by a Python that has pgx and need not have zerogo.

Arguments: size, batch, threads. Prints "pgx <version>" when all is compiled, then for every line "seconds" on its input the moves a
second that it made in that time. Moves are drawn uniformly from pgx's legal mask and games that ended are replaced by fresh ones, as in
zerogo's measurement.
"""

from __future__ import annotations

import os
import sys
import time

PLIES = {9: 50, 19: 10}  # moves of the whole batch between two looks at the clock


def compiled(size: int, batch: int):
    """Returns the function that plays PLIES moves in all games (carry -> carry), and where it starts."""
    import jax
    import jax.numpy as jnp
    import pgx

    env = pgx.make(f"go_{size}x{size}")

    def move(carry, _):
        state, key = carry
        key, for_moves, for_games = jax.random.split(key, 3)
        actions = jax.random.categorical(for_moves, jnp.where(state.legal_action_mask, 0.0, -1e9))
        state = jax.vmap(env.step)(state, actions)
        is_over = state.terminated | state.truncated
        fresh = jax.vmap(env.init)(jax.random.split(for_games, batch))
        state = jax.tree_util.tree_map(lambda new, old: jnp.where(is_over.reshape((-1,) + (1,) * (new.ndim - 1)), new, old), fresh, state)
        return (state, key), None

    play = jax.jit(lambda carry: jax.lax.scan(move, carry, None, length=PLIES[size])[0])
    key = jax.random.PRNGKey(0)
    carry = (jax.jit(jax.vmap(env.init))(jax.random.split(key, batch)), key)
    return play, jax.block_until_ready(play(carry))  # no further warming up: pgx does the same work in a game's first ply as in its last


def main() -> None:
    size, batch, threads = (int(word) for word in sys.argv[1:4])
    os.environ["JAX_PLATFORMS"] = "cpu"
    if hasattr(os, "sched_setaffinity"):  # XLA takes as many threads as it may use cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax
    import pgx

    play, carry = compiled(size, batch)
    print(f"pgx {pgx.__version__}", flush=True)
    for line in sys.stdin:
        start, plies = time.perf_counter(), 0
        while time.perf_counter() - start < float(line):
            carry = jax.block_until_ready(play(carry))
            plies += PLIES[size]
        print(plies * batch / (time.perf_counter() - start), flush=True)


if __name__ == "__main__":
    main()
