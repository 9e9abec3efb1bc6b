"""Random games of pgx, for `bench board --peer`. Run as a script by a Python that has pgx and need not have zerogo.

Arguments: size, batch, threads, device ("cpu", "cuda" or "cuda:1"). Prints "pgx <version> on <device>" when all is
compiled, then for every line "seconds" on its input the moves a second that it made in that time. Moves are drawn
uniformly from pgx's legal mask and games that ended are replaced by fresh ones, as in zerogo's measurement."""

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
        state = jax.tree_util.tree_map(
            lambda new, old: jnp.where(is_over.reshape((-1,) + (1,) * (new.ndim - 1)), new, old), fresh, state
        )
        return (state, key), None

    play = jax.jit(lambda carry: jax.lax.scan(move, carry, None, length=PLIES[size])[0])
    key = jax.random.PRNGKey(0)
    carry = (jax.jit(jax.vmap(env.init))(jax.random.split(key, batch)), key)
    return play, jax.block_until_ready(
        play(carry)
    )  # no further warming up: pgx does the same work in a game's first ply as in its last


def set_up(device: str, threads: int) -> None:
    """Makes jax work on the device; where it has no such one, says so and ends the process."""
    platform, _, index = device.partition(":")
    os.environ["JAX_PLATFORMS"] = platform
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # zerogo needs memory of the same device
    if platform == "cpu" and hasattr(os, "sched_setaffinity"):  # XLA takes as many threads as it may use cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax

    try:
        jax.config.update("jax_default_device", jax.devices(platform)[int(index or 0)])
    except Exception:  # which one, differs among versions of jax: an assertion, too
        print(f"no {device}", flush=True)
        sys.exit(1)


def main() -> None:
    size, batch, threads = (int(word) for word in sys.argv[1:4])
    device = sys.argv[4]
    set_up(device, threads)
    import jax
    import pgx

    play, carry = compiled(size, batch)
    print(f"pgx {pgx.__version__} on {device}", flush=True)
    for line in sys.stdin:
        start, plies = time.perf_counter(), 0
        while time.perf_counter() - start < float(line):
            carry = jax.block_until_ready(play(carry))
            plies += PLIES[size]
        print(plies * batch / (time.perf_counter() - start), flush=True)


if __name__ == "__main__":
    main()
