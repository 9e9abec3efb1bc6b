"""Answers KataGo's JSON analysis protocol on stdin and stdout: `zerogo analysis --checkpoint checkpoints/9x9`."""

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from zerogo import cli

ABOUT = "Answers KataGo's JSON analysis protocol on stdin and stdout."
EXAMPLES = """
examples:
  zerogo analysis --checkpoint checkpoints/9x9.pt < queries.jsonl > answers.jsonl

one JSON query per line, as in KataGo's docs/Analysis_Engine.md:
  {"id":"a","rules":"tromp-taylor","komi":24.5,"boardXSize":5,"boardYSize":5,"moves":[["B","C3"]],"maxVisits":100}

in KaTrain (General & Engine Settings, Override Engine Command):
  zerogo analysis --checkpoint checkpoints/mine

KataGo's own command line works, too: analysis -model FILE -config FILE -override-config "key=value,...". zerogo uses
maxVisits, maxTime, reportAnalysisWinratesAs, wideRootNoise, rootPolicyTemperature and analysisPVLen of its settings.
"""
PRECISION = {"default": "float32", "help": "float32 (default), or bfloat16, whose replies may differ between runs"}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Returns the command line's settings; `unknown` holds the words that zerogo does not know."""
    # No -h and no abbreviations: they would swallow KataGo's flags of one dash.
    parser = cli.make_parser("analysis", ABOUT, EXAMPLES, allow_abbrev=False, add_help=False)
    add = parser.add_argument
    add("--help", action="help", help="show this help message and exit")
    names = ("--checkpoint", "-checkpoint", "-model", "--model")
    add(*names, required=True, metavar="X", help="checkpoint file, run folder, or mcts:N")
    several = {"action": "append", "default": []}
    add("-config", "--config", dest="katago_config", metavar="FILE", help="a KataGo config file", **several)
    add("-override-config", "--override-config", metavar="K=V", help="settings that replace the config's", **several)
    add("--visits", type=int, metavar="N", help="visits of a query without maxVisits (default: KataGo's 500)")
    names = ("--positions", "-analysis-threads", "--analysis-threads")
    positions, count = "maximum positions searched at a time (default: 1024)", cli.number(int, 1)
    add(*names, type=count, default=1024, metavar="N", help=positions)
    add("--memory", type=cli.number(float, 0.001), default=2.0, metavar="GB", help="memory for the trees (default: 2)")
    add("--leaves", type=count, default=8, metavar="N", help="maximum leaves of one tree per step (default: 8)")
    names = ("--quit-without-waiting", "-quit-without-waiting")
    add(*names, action="store_true", help="exit at the end of input, without waiting for replies")
    cli.add_options(parser, device={"default": "auto"}, precision=PRECISION, threads={"default": 0})
    parser.set_defaults(overrides=["run.kernels=auto"])  # whatever the checkpoint's run had; so do device and threads
    words = sys.argv[1:] if arguments is None else arguments
    parsed, unknown = parser.parse_known_args(words[1:] if words[:1] == ["analysis"] else words)
    parsed.overrides = [*parsed.overrides, *filter(cli.is_override, unknown)]
    parsed.unknown = [word for word in unknown if not cli.is_override(word)]
    return parsed


def main(arguments: argparse.Namespace) -> None:
    """Answers queries until the input ends. Raises InputError for bad settings and a bad checkpoint."""
    import dataclasses

    import torch

    from zerogo.analysis.engine import AnalysisEngine
    from zerogo.config import EvaluationConfig
    from zerogo.system.runtime import lines_of_stdin

    if arguments.unknown:
        print(f"warning: arguments without an effect: {' '.join(arguments.unknown)}", file=sys.stderr)
    setup = cli.open_front_end(arguments, [arguments.checkpoint], ("run", "game"))
    # Visits come from KataGo's settings.
    setup.config = dataclasses.replace(setup.config, evaluation=EvaluationConfig())
    analyst = setup.analyst(arguments.checkpoint, leaves=arguments.leaves)
    settings = read_settings(arguments, analyst.simulations if arguments.checkpoint.startswith("mcts:") else None)
    room = f"up to {arguments.positions} positions at a time, threads: {torch.get_num_threads()}"
    print(f"{analyst.name} on {setup.device}: {room}", file=sys.stderr)
    print("Started, ready to begin handling requests", file=sys.stderr, flush=True)
    memory = int(arguments.memory * 2**30)
    engine = AnalysisEngine(analyst, settings=settings, positions=arguments.positions, memory=memory)
    serve(engine, lines_of_stdin(), wait_at_end=not arguments.quit_without_waiting)


def read_settings(arguments: argparse.Namespace, visits: int | None) -> Any:
    """Returns the `AnalysisSettings` of config files, overrides and options. visits: the default, None for KataGo's."""
    from zerogo.analysis.query import AnalysisSettings, read_config, read_overrides

    settings = AnalysisSettings() if visits is None else AnalysisSettings(max_visits=visits)
    if arguments.katago_config:  # KataGo's default; without a file that of its example file counts
        settings, _ = settings.changed({"reportAnalysisWinratesAs": "SIDETOMOVE"})
    for path in arguments.katago_config:
        settings, _ = settings.changed(read_config(path))  # most settings of such a file mean nothing here
    for text in arguments.override_config:
        settings, without_meaning = settings.changed(read_overrides(text))
        if without_meaning:
            print(f"warning: settings without an effect: {', '.join(without_meaning)}", file=sys.stderr)
    return settings if arguments.visits is None else settings.changed({"maxVisits": arguments.visits})[0]


def serve(engine: Any, source: Iterable[bytes], wait_at_end: bool = True) -> None:
    """Answers lines with an `AnalysisEngine` until they end. wait_at_end: whether to finish the queued positions then.
    A line is read after one step of the search at the latest."""
    lines, is_open = cli.LineQueue(source), True
    while is_open or (wait_at_end and engine.is_busy):
        while is_open and (not engine.is_busy or lines.is_waiting()):
            if is_open := (line := lines.take()) is not None:
                engine.take(line)
        if is_open or wait_at_end:
            engine.step()


if __name__ == "__main__":
    cli.run(parse, main)
