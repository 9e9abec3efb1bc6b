"""Answers KataGo's JSON analysis protocol on stdin and stdout: `python -m zerogo.analysis --checkpoint
checkpoints/quickstart-5x5.pt`.
"""

from __future__ import annotations

import argparse
import json
import math
import queue
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zerogo.analysis.engine import Engine
    from zerogo.analysis.settings import Settings

EXAMPLES = """
one JSON query a line, as in KataGo's docs/Analysis_Engine.md:
  {"id":"a","rules":"tromp-taylor","komi":24.5,"boardXSize":5,"boardYSize":5,"moves":[["B","C3"]],"maxVisits":100}

in KaTrain (Settings, Engine, custom command):
  python -m zerogo.analysis --checkpoint checkpoints/mine

KataGo's own command line works too: analysis -model FILE -config FILE -override-config "key=value,…"; of the settings there these mean
something here: maxVisits, maxTime, reportAnalysisWinratesAs, wideRootNoise, rootPolicyTemperature, analysisPVLen.
"""


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns the command line's settings, and what of it is unknown."""
    # Without prog, Python would name the file by its path. No -h and no abbreviations: they would swallow KataGo's
    # flags of one dash.
    parser = argparse.ArgumentParser(
        prog="python -m zerogo.analysis",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("--help", action="help", help="this text")
    parser.add_argument(
        "--checkpoint",
        "-checkpoint",
        "-model",
        "--model",
        required=True,
        metavar="X",
        help="checkpoint file, run folder, or mcts:N",
    )
    parser.add_argument("-config", "--config", action="append", default=[], metavar="FILE", help="a KataGo config file")
    parser.add_argument(
        "-override-config", "--override-config", action="append", default=[], metavar="K=V,…", help="settings over it"
    )
    parser.add_argument(
        "--visits", type=int, metavar="N", help="visits where a query names none (default: KataGo's 500)"
    )
    parser.add_argument(
        "--positions",
        "-analysis-threads",
        "--analysis-threads",
        type=int,
        default=1024,
        metavar="N",
        help="most positions searched at a time (default: 1024)",
    )
    parser.add_argument("--memory", type=float, default=2.0, metavar="GB", help="memory for the trees (default: 2)")
    parser.add_argument(
        "--leaves", type=int, default=8, metavar="N", help="most leaves of one tree in one step (default: 8)"
    )
    parser.add_argument(
        "--quit-without-waiting", "-quit-without-waiting", action="store_true", help="at the end of input, end at once"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 (default: auto)")
    parser.add_argument(
        "--precision",
        default="float32",
        help="float32, or bfloat16, where a reply may differ by rounding from one time to the next",
    )
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="CPU threads of torch (default: torch's choice)"
    )
    return parser.parse_known_args(arguments[1:] if arguments[:1] == ["analysis"] else arguments)


def main(arguments: argparse.Namespace, unknown: list[str]) -> None:
    """Does what the command line says."""
    import torch

    from zerogo import runtime
    from zerogo.analysis.engine import Engine, Limits
    from zerogo.config import EvaluationConfig
    from zerogo.errors import InputError
    from zerogo.players.analyst import make_analyst

    if unknown:
        print(f"warning: arguments without a meaning here: {' '.join(unknown)}", file=sys.stderr)
    if arguments.positions < 1 or not 0 < arguments.memory < math.inf or arguments.leaves < 1:
        raise InputError("--positions and --leaves must be 1 or more, and --memory above 0 and finite")
    runtime.set_up_cpu(arguments.threads)
    device = runtime.pick_device(arguments.device)
    dtype = runtime.pick_dtype(arguments.precision, device)
    analyst = make_analyst(arguments.checkpoint, EvaluationConfig(), device, dtype, leaves=arguments.leaves)
    settings = read_settings(arguments, analyst.simulations if arguments.checkpoint.startswith("mcts:") else None)
    limits = Limits(positions=arguments.positions, memory=int(arguments.memory * 2**30))
    engine = Engine(analyst, write, settings, limits)
    print(
        f"{analyst.name} on {device}: up to {limits.positions} positions at a time, {torch.get_num_threads()} threads",
        file=sys.stderr,
    )
    print("Started, ready to begin handling requests", file=sys.stderr, flush=True)
    serve(engine, runtime.lines_of_stdin(), wait_at_end=not arguments.quit_without_waiting)


def read_settings(arguments: argparse.Namespace, visits: int | None) -> Settings:
    """Returns the settings of config files, then of overrides, then of options. visits: where none of them says it,
    None for KataGo's.
    """
    from zerogo.analysis.settings import Settings, read_config, read_overrides

    settings = Settings() if visits is None else Settings(max_visits=visits)
    for path in arguments.config:
        settings, _ = settings.changed(read_config(path))  # such a file is full of what has no meaning here
    for text in arguments.override_config:
        settings, without_meaning = settings.changed(read_overrides(text))
        if without_meaning:
            print(f"warning: settings without a meaning here: {', '.join(without_meaning)}", file=sys.stderr)
    return settings if arguments.visits is None else settings.changed({"maxVisits": arguments.visits})[0]


def write(reply: dict[str, Any]) -> None:
    """Writes a reply as one line, at once."""
    sys.stdout.write(json.dumps(reply, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def serve(engine: Engine, source: Iterable[bytes], wait_at_end: bool = True) -> None:
    """Answers lines until they end, and then what is still queued, unless `wait_at_end` is off.

    A thread reads, so that a line is seen at the latest after one step of the search.
    """
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(source, lines), daemon=True).start()
    is_open = True
    while is_open or engine.is_busy:
        while is_open and (not engine.is_busy or not lines.empty()):
            line = lines.get()
            if line is None:
                is_open = False
            else:
                engine.take(line)
        if not is_open and not wait_at_end:
            return
        engine.step()


def _read(source: Iterable[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    """Hands on every line, then None."""
    try:
        for line in source:
            lines.put(line)
    except OSError:
        pass  # a terminal that has gone is the end of the input
    finally:
        lines.put(None)


if __name__ == "__main__":
    parsed = parse(sys.argv[1:])  # before the imports, which take seconds: --help answers at once
    from zerogo.runtime import script_main

    script_main(lambda: main(*parsed))
