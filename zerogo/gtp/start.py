"""An engine from the words of a command line: what thinks, under which rules, on which device."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from zerogo import checkpoint, kernels, rulesets
from zerogo.config import Config, load, with_overrides
from zerogo.gtp.clock import Clock
from zerogo.gtp.engine import Engine, Options
from zerogo.players import require_size
from zerogo.players.analyst import Analyst, make_analyst, with_fitting_leaves
from zerogo.players.live import LiveGame
from zerogo.players.session import AnalysisSession, room_for
from zerogo.runtime import pick_device, pick_dtype, set_up_cpu

RANDOM = "random"
TREE_BYTES = 2**29  # of the tree at most: growing on would take longer than an analysis may take to stop
WARMING_STEPS = 2


def read_config(arguments: argparse.Namespace) -> Config:
    """Returns the settings: of --config, else of the checkpoint, else the defaults, and what the command line
    changes.
    """
    path = None if arguments.checkpoint == RANDOM or arguments.checkpoint.startswith("mcts:") else arguments.checkpoint
    if arguments.config is not None:
        config = load(arguments.config)
    else:
        config = checkpoint.load(checkpoint.find(path)).config if path is not None and Path(path).exists() else Config()
    words = {
        "evaluation.simulations": arguments.simulations,
        "run.seed": arguments.seed,
        "run.device": arguments.device,
        "run.precision": arguments.precision,
        "run.threads": arguments.threads,
        "game.komi": arguments.komi,
    }
    return with_overrides(
        config, [*arguments.overrides, *(f"{key}={value}" for key, value in words.items() if value is not None)]
    )


def make_engine(arguments: argparse.Namespace, say: Callable[[str], None]) -> Engine:
    """Returns the engine that the command line asks for, warmed up. say: writes a line for a person. Raises InputError
    for bad words.
    """
    config = read_config(arguments)
    rules = config.game.rules()
    if arguments.rules is not None:
        rules = rulesets.parse(arguments.rules, rules.size, rules.komi)
    set_up_cpu(config.run.threads)
    kernels.choose(config.run.kernels)
    analyst = _mind(arguments, config)
    if analyst is not None:
        require_size(analyst, rules.size, "game.size is")
        if arguments.leaves == 0:
            analyst, why = with_fitting_leaves(analyst, rules)
            say(why)
    options = Options(
        simulations=config.evaluation.simulations if analyst is None else analyst.simulations,
        most_simulations=arguments.simulations,
        resign=arguments.resign,
        resign_threshold=arguments.resign_threshold,
        cleanup=arguments.cleanup,
        seed=config.run.seed,
    )
    session = (
        None
        if analyst is None
        else AnalysisSession(analyst, room_for(options.simulations), config.run.seed, TREE_BYTES)
    )
    engine = Engine(
        analyst.name if analyst else RANDOM,
        LiveGame(rules),
        analyst,
        session,
        Clock(lag=arguments.lag),
        options,
        say=say,
    )
    engine.rules_name = rulesets.canonical(arguments.rules or "") or ""
    engine.warn(engine.deviation())
    _warm_up(engine)
    return engine


def _mind(arguments: argparse.Namespace, config: Config) -> Analyst | None:
    """Returns what thinks, None for the random player."""
    if arguments.checkpoint == RANDOM:
        return None
    device = pick_device(config.run.device)
    dtype = pick_dtype(config.run.precision, device)
    return make_analyst(
        arguments.checkpoint,
        config.evaluation,
        device,
        dtype,
        simulations=arguments.simulations,
        leaves=arguments.leaves,
    )


def _warm_up(engine: Engine) -> None:
    """Thinks a little before the clock runs: a process's first steps take several times as long as the others."""
    if engine.session is None:
        return
    engine.session.face(engine.game)
    for _ in range(WARMING_STEPS):
        engine.session.step()
        engine.session.analysis(looks_after=False)
    before = engine.now()
    engine.session.step()
    between = engine.now()
    engine.session.analysis(looks_after=False)
    engine.step.note(between - before)
    engine.overhead.note(engine.now() - between)
    engine.session.clear()
