"""Searches of mctx on games of pgx, for `bench search --peer`. Run as a script by a Python that has both and need not
have zerogo.

Arguments: algorithm, spread (see `search --spread`), size, batch, simulations, blocks, channels, threads, device
("cpu", "cuda" or "cuda:1"). Prints "mctx <version>, … on <device>", then answers every line "KIND DTYPE SECONDS": for
`search` with simulations a second over whole searches, for `network` with evaluations a second of the network alone, at
least so many seconds long. What a line asks for first is compiled before the clock starts.

The search is the one of pgx's AlphaZero example: a node holds pgx's state; a step plays the move, evaluates, masks
illegal moves, and turns the value's sign (discount -1, at the end 0). The roots are games in their middle, each at a
ply of its own, like zerogo's; between searches every game goes on by the move chosen, and ended games are replaced by
such roots, while the clock stands. The network is zerogo's with its normalisation folded in, on NHWC data: as a
convolution XLA runs it 2 to 7 times faster on a CPU than as products of matrices."""

from __future__ import annotations

import sys
import time

OPENING = (0.2, 0.6)  # share of the points that are played before the roots, at the least and at the most
HEAD_CHANNELS, HIDDEN, POOLED = 32, 64, 32
PLANES = 17
SHIFT = 9  # how many games the set of roots turns on at each refill


def weights(blocks: int, channels: int, size: int, dtype):
    """Returns fresh weights of zerogo's network, convolutions in `dtype`: a dict of arrays by layer."""
    import jax
    import jax.numpy as jnp

    keys = iter(jax.random.split(jax.random.PRNGKey(1), 6 * blocks + 12))

    def layer(*shape: int, scale: float | None = None, kind=jnp.float32):
        fan_in = 1
        for length in shape[:-1]:
            fan_in *= length
        scale = (2.0 / fan_in) ** 0.5 if scale is None else scale
        return (jax.random.normal(next(keys), shape) * scale).astype(kind), jnp.zeros(shape[-1], kind)

    pooled = min(POOLED, channels)
    return {
        "stem": layer(3, 3, PLANES, channels, kind=dtype),
        "komi": layer(1, channels)[0],
        "blocks": [
            {
                "first": layer(3, 3, channels, channels, kind=dtype),
                "second": layer(3, 3, channels, channels, kind=dtype),
                "bias": layer(3 * pooled, channels) if index % 2 == 0 else None,
            }
            for index in range(1, blocks + 1)
        ],
        "neck": layer(1, 1, channels, HEAD_CHANNELS, kind=dtype),
        "hidden": layer(3 * HEAD_CHANNELS, HIDDEN),
        "map": layer(HEAD_CHANNELS, 1, scale=1e-3, kind=dtype),
        "scalars": layer(HIDDEN, 2, scale=1e-3),
    }


def forward(params, observation):
    """Returns logits float32 [B, A] and values float32 [B] of pgx's planes, bool [B, N, N, 17]."""
    import jax.numpy as jnp
    from jax import lax
    from jax.nn import relu

    def conv(x, layer):
        return (
            lax.conv_general_dilated(x, layer[0], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + layer[1]
        )

    def pool(x):
        area = x.shape[1] * x.shape[2]
        mean = x.astype(jnp.float32).mean((1, 2))
        return jnp.concatenate([mean, mean * (area**0.5 - 14) / 10, x.max((1, 2)).astype(jnp.float32)], axis=1)

    def linear(x, layer):
        return x @ layer[0] + layer[1]

    dtype = params["stem"][0].dtype
    x = relu(conv(observation.astype(dtype), params["stem"]) + (0.5 * params["komi"]).astype(dtype))
    for block in params["blocks"]:
        y = conv(x, block["first"])
        if block["bias"] is not None:
            pooled = block["bias"][0].shape[0] // 3
            y = y + linear(pool(relu(y[..., :pooled])), block["bias"])[:, None, None].astype(dtype)
        x = relu(x + conv(relu(y), block["second"]))
    x = relu(conv(x, params["neck"]))
    points = linear(x, params["map"]).astype(jnp.float32).reshape(len(x), -1)
    scalars = linear(relu(linear(pool(x), params["hidden"])), params["scalars"])
    return jnp.concatenate([points, scalars[:, :1]], axis=1), jnp.tanh(scalars[:, 1])


class Peer:
    """The games and their searches at one size of everything; the parts are compiled once for each dtype."""

    def __init__(
        self, algorithm: str, spread: float, size: int, batch: int, simulations: int, blocks: int, channels: int
    ) -> None:
        import jax
        import pgx

        self.env = pgx.make(f"go_{size}x{size}")
        self.algorithm, self.spread, self.size, self.batch, self.simulations = (
            algorithm,
            spread,
            size,
            batch,
            simulations,
        )
        self.shape = (blocks, channels, size)
        self.key = jax.random.PRNGKey(0)
        self.fresh = self._middle_games()
        self.advance = jax.jit(self._advance)
        self.refills, self.prepared = 0, {}

    def rate(self, kind: str, dtype: str, seconds: float) -> float:
        """Returns simulations ("search") or evaluations ("network") a second."""
        if (kind, dtype) not in self.prepared:
            self.prepared[kind, dtype] = self._prepare(kind, dtype)
        work, each = self.prepared[kind, dtype]
        done, spent = 0, 0.0
        while spent < seconds or not done:
            spent += work()
            done += each
        return done / spent

    def _prepare(self, kind: str, dtype: str):
        """Returns a function that does the work once and says how long it took, seconds; and how much that was."""
        import jax
        import jax.numpy as jnp

        evaluate = jax.jit(forward)
        params = self._spread(weights(*self.shape, jnp.dtype(dtype)), evaluate)
        state = self.fresh

        def network() -> float:
            start = time.perf_counter()
            jax.block_until_ready(evaluate(params, self.fresh.observation))
            return time.perf_counter() - start

        def search() -> float:
            nonlocal state
            self.key, key = jax.random.split(self.key)
            root = jax.block_until_ready(evaluate(params, state.observation))
            start = time.perf_counter()
            actions = jax.block_until_ready(policy(params, key, root, state))
            spent = time.perf_counter() - start
            self.refills += 1
            state = jax.block_until_ready(self.advance(state, actions, self.refills))
            return spent

        if kind == "network":
            network()
            return network, self.batch
        # Compiled without a run: a whole search is long, and what is warm after one is nothing beside it.
        policy = jax.jit(self._policy).lower(params, self.key, evaluate(params, state.observation), state).compile()
        return search, self.batch * self.simulations

    def _spread(self, params, evaluate):
        """Returns the weights with the policy's last layer scaled as zerogo's is."""
        if self.spread:
            logits, _ = evaluate(params, self.fresh.observation)
            matrix, bias = params["map"]
            params["map"] = ((matrix * (self.spread / logits[:, :-1].std(1).mean())).astype(matrix.dtype), bias)
        return params

    def _policy(self, params, key, root, state):
        """Returns the moves that mctx's search chooses: int [B]."""
        import mctx

        search = mctx.muzero_policy if self.algorithm == "puct" else mctx.gumbel_muzero_policy
        root = mctx.RootFnOutput(prior_logits=root[0], value=root[1], embedding=state)
        invalid = ~state.legal_action_mask
        found = search(params, key, root, self._step, num_simulations=self.simulations, invalid_actions=invalid)
        return found.action

    def _step(self, params, key, action, state):
        """mctx's recurrent function, as in pgx's example."""
        import jax
        import jax.numpy as jnp
        import mctx

        mover = state.current_player
        state = jax.vmap(self.env.step)(state, action)
        logits, value = forward(params, state.observation)
        logits = jnp.where(state.legal_action_mask, logits - logits.max(1, keepdims=True), jnp.finfo(logits.dtype).min)
        output = mctx.RecurrentFnOutput(
            reward=state.rewards[jnp.arange(len(mover)), mover],
            discount=jnp.where(state.terminated, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(state.terminated, 0.0, value),
        )
        return output, state

    def _advance(self, state, actions, turn):
        """Plays the moves, and puts games in their middle in the places of those that ended."""
        import jax
        import jax.numpy as jnp

        state = jax.vmap(self.env.step)(state, actions)
        others = jax.tree_util.tree_map(lambda leaf: jnp.roll(leaf, turn * SHIFT, axis=0), self.fresh)
        return _where(state.terminated | state.truncated, others, state)

    def _middle_games(self):
        """Returns games in their middle: random moves that pass only where nothing else is legal."""
        import jax
        import jax.numpy as jnp

        first, last = (int(share * self.size**2) for share in OPENING)
        plies = first + jnp.arange(self.batch) % max(1, last - first)

        def move(carry, ply):
            state, key = carry
            key, own = jax.random.split(key)
            logits = jnp.where(state.legal_action_mask, 0.0, -1e9).at[:, -1].set(-1e6)
            after = jax.vmap(self.env.step)(state, jax.random.categorical(own, logits))
            goes_on = (plies > ply) & ~after.terminated & ~after.truncated
            return (_where(goes_on, after, state), key), None

        start = jax.vmap(self.env.init)(jax.random.split(self.key, self.batch))
        return jax.jit(lambda start: jax.lax.scan(move, (start, self.key), jnp.arange(last))[0][0])(start)


def _where(mask, chosen, otherwise):
    """Returns games picked one by one: mask bool [B]."""
    import jax
    import jax.numpy as jnp

    def pick(new, old):
        return jnp.where(mask.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)

    return jax.tree_util.tree_map(pick, chosen, otherwise)


def main() -> None:
    algorithm, spread, *numbers, device = sys.argv[1:]
    *shape, threads = (int(word) for word in numbers)
    import importlib.metadata

    from pgx_peer import set_up  # beside this script

    set_up(device, threads)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("mctx", "pgx", "jax"))
    peer = Peer(algorithm, float(spread), *shape)
    print(f"{versions} on {device}", flush=True)
    for line in sys.stdin:
        kind, dtype, seconds = line.split()
        print(peer.rate(kind, dtype, float(seconds)), flush=True)


if __name__ == "__main__":
    main()
