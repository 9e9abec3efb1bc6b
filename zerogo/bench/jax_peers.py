"""Random games of pgx, for `bench board --peer`, and searches of mctx on such games, for `bench search --peer`. Run as
a script by a Python that has them and need not have zerogo.

Arguments: "pgx", size, batch, threads, device ("cpu", "cuda" or "cuda:1"); or "mctx", algorithm, spread (see `search
--spread`), size, batch, simulations, blocks, channels, threads, device. Prints its name with versions "on <device>", or
"no <device>" where its jax can't use that; then answers every line with a rate over at least so many seconds. pgx: to
"SECONDS" with moves a second, drawn uniformly from pgx's legal mask, games that ended being replaced by fresh ones.
mctx: to "KIND DTYPE SECONDS", for `search` with simulations a second over whole searches, for `network` with
evaluations a second of the network alone. What a line asks for first is compiled before the clock starts.

The search is the one of pgx's AlphaZero example: a node holds pgx's state; a step plays the move, evaluates, masks
illegal moves, and turns the value's sign (discount -1, at the end 0). The roots are games in their middle, each at a
ply of its own, like zerogo's; between searches every game goes on by the move chosen, and ended games are replaced by
such roots, while the clock stands. The network is zerogo's with its normalisation folded in, on NHWC data: as a
convolution XLA runs it 2 to 7 times faster on a CPU than as products of matrices."""

import functools
import importlib.metadata
import math
import os
import sys
import time

PLIES = {9: 50, 19: 10}  # moves of the whole batch of pgx between two looks at the clock
OPENING = (0.2, 0.6)  # share of the points that are played before the roots, at the least and at the most
HEAD_CHANNELS, HIDDEN, POOLED = 32, 64, 32
READOUT_STD = 1e-3  # of the last layers' weights
SHIFT = 9  # how many games the set of roots turns on at each refill


def set_up(device: str, threads: int) -> None:
    """Sets jax's device; where jax can't use it, prints "no <device>" and ends the process."""
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


class PgxGames:
    """B games of pgx on one board, played at random."""

    def __init__(self, size: int, batch: int) -> None:
        env = pgx.make(f"go_{size}x{size}")
        self.size, self.batch, self.step = size, batch, jax.vmap(env.step)
        self.fresh = jax.jit(lambda key: jax.vmap(env.init)(jax.random.split(key, batch)))
        self.play = jax.jit(lambda carry: jax.lax.scan(self._move, carry, None, length=PLIES[size])[0])
        self.key = jax.random.PRNGKey(0)
        self.carry = self.fresh(self.key), self.key

    def rate(self, seconds: str) -> float:
        """Returns moves a second."""
        start, plies = time.perf_counter(), 0
        while not plies or time.perf_counter() - start < float(seconds):
            self.carry = jax.block_until_ready(self.play(self.carry))
            plies += PLIES[self.size]
        return plies * self.batch / (time.perf_counter() - start)

    def _move(self, carry, _):
        state, key = carry
        key, for_moves, for_games = jax.random.split(key, 3)
        actions = jax.random.categorical(for_moves, jnp.where(state.legal_action_mask, 0.0, -1e9))
        return (self.go_on(state, actions, self.fresh(for_games)), key), None

    def go_on(self, state, actions, others):
        """Plays the moves, and puts other games in the places of those that ended."""
        state = self.step(state, actions)
        return replaced(state.terminated | state.truncated, others, state)


def replaced(mask, chosen, otherwise):
    """Returns games picked one by one: mask bool [B]."""

    def _pick(new, old):
        return jnp.where(mask.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)

    return jax.tree_util.tree_map(_pick, chosen, otherwise)


def forward(params, observation, blocks: int, channels: int, dtype: str):
    """Returns logits float32 [B, A] and values float32 [B] of pgx's planes, bool [B, N, N, 17]; `dtype` is that of
    convolutions. params: weights and bias by layer; layers that are missing get fresh ones, in a first call that isn't
    compiled."""
    relu = jax.nn.relu

    def _layer(name: str, kind, shape: tuple, std: float):
        if name not in params:
            matrix = jax.random.normal(jax.random.PRNGKey(len(params)), shape)
            matrix = matrix * (std or (2.0 / math.prod(shape[:-1])) ** 0.5)
            params[name] = matrix.astype(kind), jnp.zeros(shape[-1], kind)
        return params[name]

    def _conv(name: str, x, outputs: int, side: int = 3):
        weight, bias = _layer(name, dtype, (side, side, x.shape[-1], outputs), 0.0)
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=numbers) + bias

    def _linear(name: str, x, outputs: int, std: float = 0.0):
        matrix, bias = _layer(name, x.dtype, (x.shape[-1], outputs), std)
        return x @ matrix + bias

    def _pool(x):
        area = x.shape[1] * x.shape[2]
        mean = x.astype(jnp.float32).mean((1, 2))
        return jnp.concatenate([mean, mean * (area**0.5 - 14) / 10, x.max((1, 2)).astype(jnp.float32)], axis=1)

    komi = _linear("komi", jnp.full((1, 1), 0.5), channels)
    x = relu(_conv("stem", observation.astype(dtype), channels) + komi.astype(dtype))
    for index in range(blocks):
        y = _conv(f"{index} first", x, channels)
        if index % 2:
            y = y + _linear(f"{index} bias", _pool(relu(y[..., :POOLED])), channels)[:, None, None].astype(dtype)
        x = relu(x + _conv(f"{index} second", relu(y), channels))
    x = relu(_conv("neck", x, HEAD_CHANNELS, side=1))
    points = _linear("map", x, 1, READOUT_STD).astype(jnp.float32).reshape(len(x), -1)
    scalars = _linear("scalars", relu(_linear("hidden", _pool(x), HIDDEN)), 2, READOUT_STD)
    return jnp.concatenate([points, scalars[:, :1]], axis=1), jnp.tanh(scalars[:, 1])


class MctxGames(PgxGames):
    """Games of pgx and their searches by mctx at one size of everything; the parts are compiled once for each dtype."""

    def __init__(self, algorithm: str, spread: float, size: int, batch: int, simulations: int, *network: int) -> None:
        super().__init__(size, batch)
        self.simulations, self.network, self.spread = simulations, network, spread
        self.search = mctx.muzero_policy if algorithm == "puct" else mctx.gumbel_muzero_policy
        self.roots = self._middle_games()
        self.advance = jax.jit(self._advance)
        self.refills = 0

    def rate(self, kind: str, dtype: str, seconds: str) -> float:
        """Returns simulations ("search") or evaluations ("network") a second."""
        work, each = self._prepare(kind, dtype)
        done, spent = 0, 0.0
        while spent < float(seconds) or not done:
            spent += work()
            done += each
        return done / spent

    @functools.cache  # noqa: B019 (there is one object in the process)
    def _prepare(self, kind: str, dtype: str):
        """Returns a function that does the work once and returns its seconds, and the amount of that work."""
        blocks, channels = self.network
        self.forward = functools.partial(forward, blocks=blocks, channels=channels, dtype=dtype)
        params, state = {}, self.roots
        self.forward(params, state.observation[:1])
        evaluate = jax.jit(self.forward)
        if self.spread:  # the policy's last layer is scaled as zerogo's is
            logits, (matrix, bias) = evaluate(params, state.observation)[0], params["map"]
            params["map"] = ((matrix * (self.spread / logits[:, :-1].std(1).mean())).astype(matrix.dtype), bias)

        def _network() -> float:
            start = time.perf_counter()
            jax.block_until_ready(evaluate(params, self.roots.observation))
            return time.perf_counter() - start

        def _search() -> float:
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
            _network()
            return _network, self.batch
        # Compiled without a run: a whole search is long, and warming up hardly matters next to it.
        policy = jax.jit(self._policy).lower(params, self.key, evaluate(params, state.observation), state).compile()
        return _search, self.batch * self.simulations

    def _policy(self, params, key, root, state):
        """Returns the moves that mctx's search chooses: int [B]."""
        root = mctx.RootFnOutput(prior_logits=root[0], value=root[1], embedding=state)
        options = {"num_simulations": self.simulations, "invalid_actions": ~state.legal_action_mask}
        return self.search(params, key, root, self._step, **options).action

    def _step(self, params, key, action, state):
        """mctx's recurrent function, as in pgx's example."""
        mover = state.current_player
        state = self.step(state, action)
        logits, value = self.forward(params, state.observation)
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
        others = jax.tree_util.tree_map(lambda leaf: jnp.roll(leaf, turn * SHIFT, axis=0), self.roots)
        return self.go_on(state, actions, others)

    def _middle_games(self):
        """Returns games in their middle: random moves that pass only where nothing else is legal."""
        first, last = (int(share * self.size**2) for share in OPENING)
        plies = first + jnp.arange(self.batch) % max(1, last - first)

        def _move(carry, ply):
            state, key = carry
            key, for_moves = jax.random.split(key)
            logits = jnp.where(state.legal_action_mask, 0.0, -1e9).at[:, -1].set(-1e6)
            after = self.step(state, jax.random.categorical(for_moves, logits))
            goes_on = (plies > ply) & ~after.terminated & ~after.truncated
            return (replaced(goes_on, after, state), key), None

        return jax.jit(lambda carry: jax.lax.scan(_move, carry, jnp.arange(last))[0][0])(self.carry)


def main() -> None:
    """Reads the arguments, prints the peer's name, and answers line by line."""
    global jax, jnp, mctx, pgx
    library, *words, threads, device = sys.argv[1:]
    set_up(device, int(threads))
    import jax
    import jax.numpy as jnp
    import pgx

    if library == "pgx":
        peer, libraries = PgxGames(*map(int, words)), ["pgx"]
        peer.rate("0")  # compiles; no further warming up: pgx does the same work in a game's first ply as in its last
    else:
        import mctx

        algorithm, spread, *sizes = words
        peer, libraries = MctxGames(algorithm, float(spread), *map(int, sizes)), ["mctx", "pgx", "jax"]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in libraries)
    print(f"{versions} on {device}", flush=True)
    for line in sys.stdin:
        print(peer.rate(*line.split()), flush=True)


if __name__ == "__main__":
    del sys.path[0]  # the modules beside this script have names of the standard library
    main()
