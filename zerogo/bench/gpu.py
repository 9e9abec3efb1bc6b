"""`gpu`: what a machine with a GPU does, in ten minutes: each part is a command of its own under its own time limit,
and what was seen stands beside what is expected. `train`: samples learned a second."""

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from zerogo import bench, config, kernels, tuning
from zerogo.bench.net import NetworkSetup
from zerogo.config import GameConfig, NetworkConfig, ReplayConfig, TrainingConfig
from zerogo.errors import InputError
from zerogo.network.trainer import Trainer
from zerogo.pipeline import train
from zerogo.replay import Replay, TrainingBatch, device_for
from zerogo.selfplay import random_games
from zerogo.system.runtime import describe, pick_device
from zerogo.system.telemetry import METRICS_FILE

RANDOM_GAMES = 200
ROOT = Path(__file__).parents[2]
SIDES = 9, 19  # of the boards that the parts are about
CONFIG, ROUNDS = ROOT / "configs" / "9x9.yaml", 3
WHOLE_NET = "--blocks 6 --channels 96"
PHASES = {"selfplay": "selfplay_s", "train": "train_s", "rest": "rest_s"}


@dataclass
class Part:
    """One command of the whole and the figures of its last JSON line that are judged: name to the least that is
    expected, None for what is only shown. `python -m` stands before the command."""

    command: str
    seconds: int
    expected: dict[str, float | None] = field(default_factory=dict)


# What is expected of an H200; the time limits together stay below ten minutes.
PARTS = {
    "kernels": Part("zerogo.bench gpu --part kernels", 130, {"triton": 1}),
    "tests": Part("pytest -q -m gpu -p no:cacheprovider tests", 140),
    "network 9x9": Part(f"zerogo.bench net --size 9 --batch 4096 {WHOLE_NET}", 25, {"share_of_peak": None}),
    "network 19x19": Part(
        "zerogo.bench net --size 19 --batch 1024 --blocks 10 --channels 128", 25, {"share_of_peak": 0.35}
    ),
    "search 1,024": Part(
        f"zerogo.bench search --batch 1024 --sims 64 --rounds 3 {WHOLE_NET}", 45, {"efficiency": None}
    ),
    "search 4,096": Part(f"zerogo.bench search --batch 4096 --sims 64 --rounds 3 {WHOLE_NET}", 45, {"efficiency": 0.9}),
    "self-play": Part(f"zerogo.bench selfplay --batch 4096 --sims 32 --rounds 1 {WHOLE_NET}", 45, {"efficiency": 0.8}),
    "learning": Part(f"zerogo.bench train --batch 1024 {WHOLE_NET}", 25, {"samples_per_s": 180_000}),
    "three rounds of configs/9x9.yaml": Part(
        "zerogo.bench gpu --part rounds",
        115,
        {"busy_share": 0.85, "peak_memory_gb": None} | dict.fromkeys(PHASES.values()),
    ),
}


def run_gpu(args: argparse.Namespace) -> None:
    """Runs all parts, or the one that is named, and prints their lines and a table. Raises SystemExit with status 1
    where something that is expected was not seen."""
    device = pick_device(args.device)
    parts = {"kernels": _kernels, "rounds": _rounds}
    if args.part and args.part not in parts:
        raise InputError(f"--part is {args.part!r}; allowed are {' and '.join(parts)}")
    if args.part:
        bench.report({"bench": "gpu", "part": args.part} | parts[args.part](device))
        return
    if device.type != "cuda":
        raise InputError(f"the device is {device}; this needs a CUDA device (the other benches run on a CPU, too)")
    bench.report({"bench": "gpu"} | describe(device))
    rows = [row for name, part in PARTS.items() for row in _judged(name, part, *_run(part))]
    bench.show_table(("part", "figure", "seen", "expected", "verdict"), rows)
    if any(row[-1] != "holds" for row in rows if row[-1]):
        raise SystemExit(1)


def _run(part: Part) -> tuple[dict[str, Any], str]:
    """Runs a command, passes its lines on, and returns its last JSON line and what went wrong, "" for nothing."""
    command = [sys.executable, "-m", *shlex.split(part.command)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, **pipes) as process:
        try:
            out, errors = process.communicate(timeout=part.seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # what it started would keep the pipes open, and the GPU busy
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return {}, f"not over after {part.seconds} s"
    sys.stdout.write(out)
    sys.stdout.flush()
    sys.stderr.write(errors)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    last = (errors.strip() or out.strip() or "nothing was printed").splitlines()[-1]
    return json.loads(lines[-1]) if lines else {}, last[:80] if process.returncode else ""


def _judged(name: str, part: Part, line: dict[str, Any], fault: str) -> Iterator[tuple[str, ...]]:
    """Yields the table's rows of a part: an empty verdict where nothing is expected."""
    if fault or not part.expected:
        yield name, part.command.split()[0], fault or "no fault", "no fault", "FALLS SHORT" if fault else "holds"
        return
    for figure, least in part.expected.items():
        seen = line.get(figure)
        shown = "not measured" if seen is None else f"{seen:,.3g}" if seen < 1000 else f"{seen:,.0f}"
        verdict = "" if least is None else "holds" if seen is not None and seen >= least else "FALLS SHORT"
        yield name, figure, shown, "" if least is None else f"at least {least:,}", verdict


def _kernels(device: torch.device) -> dict[str, Any]:
    """Returns what does the work of the kernels, and shows of each what is wrong with it; triton: 1 where it is Triton
    alone."""
    found = [tuning.prove_kernels(device, size) for size in SIDES]
    rows = [(name, *(of[name] or "right" for of in found)) for name in found[0]]
    bench.show_table(("kernel", *(f"{size}x{size}" for size in SIDES)), rows)
    used = kernels.in_use(device)
    return {"kernels": used, "triton": int(used == "kernels by triton")}


def _rounds(device: torch.device) -> dict[str, Any]:
    """Returns what three rounds of configs/9x9.yaml without matches took, after a first one that warms all up: the
    seconds of each phase, the share of the time in which the GPU had work, and the most memory that torch held, in
    10^9 bytes.

    The share is what the GPU's driver samples: a profiler's trace of three rounds would hold millions of events."""
    with tempfile.TemporaryDirectory() as folder, _watched(device) as samples:
        settings = [f"run.directory={folder}", f"run.device={device}", f"pipeline.iterations={1 + ROUNDS}"]
        settings += ["pipeline.minutes=0", "pipeline.final_matches=false", "evaluation.every_minutes=0"]
        settings = config.load(CONFIG, settings)
        with contextlib.redirect_stdout(sys.stderr):  # stdout has the lines alone
            train(settings)
        kept = (Path(folder) / settings.run.name / "logs" / METRICS_FILE).read_text().splitlines()
    rounds = [line for line in map(json.loads, kept) if "time/iterations" in line]
    found = phases(rounds, settings.training.batch)
    inside = [share for moment, share in samples if rounds[0]["time"] <= moment <= rounds[-1]["time"]]
    if inside:
        found["busy_share"] = round(sum(inside) / len(inside) / 100, 3)
    if device.type == "cuda":
        found["peak_memory_gb"] = round(torch.cuda.max_memory_allocated(device) / 1e9, 2)
    return found


def phases(rounds: list[dict[str, float]], batch: int) -> dict[str, float]:
    """Returns the seconds of self-play, of learning and of all else between the first charted round and the last.

    rounds: the lines of metrics.jsonl in which a round is charted. batch: samples of a step."""
    after = rounds[1:]
    played = sum(
        (new["time/games"] - old["time/games"]) / new["selfplay/games_per_s"]
        for old, new in zip(rounds, after, strict=False)
    )
    learned = sum(
        (new["step"] - old["step"]) * batch / new["train/samples_per_s"]
        for old, new in zip(rounds, after, strict=False)
        if "train/samples_per_s" in new
    )
    total = 60 * (rounds[-1]["time/minutes"] - rounds[0]["time/minutes"])
    seconds = {"selfplay": played, "train": learned, "rest": total - played - learned}
    return {PHASES[name]: round(value, 2) for name, value in seconds.items()}


@contextlib.contextmanager
def _watched(device: torch.device) -> Iterator[list[tuple[float, float]]]:
    """Yields a list that holds, when the block has ended, the driver's samples: the time in seconds since 1970, and the
    percentage of the time before in which a kernel ran. It stays empty where nvidia-smi can't tell."""
    samples: list[tuple[float, float]] = []
    # The driver numbers all GPUs, torch only those that CUDA_VISIBLE_DEVICES leaves.
    name = f"GPU-{torch.cuda.get_device_properties(device).uuid}" if device.type == "cuda" else "0"
    command = ["nvidia-smi", f"--id={name}", "--query-gpu=timestamp,utilization.gpu", "-lms", "200"]
    try:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        watch = subprocess.Popen([*command, "--format=csv,noheader,nounits"], **pipes)
    except OSError:
        yield samples
        return
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(watch.stdout))  # a full pipe would stop it
    reader.start()
    try:
        yield samples
    finally:
        watch.terminate()
        reader.join()
        samples += sampled(lines)


def sampled(lines: list[str]) -> list[tuple[float, float]]:
    """Returns the time and the percentage of each line such as "2026/11/22 15:59:08.123, 97"; others are left out."""
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            moment, share = line.split(", ")
            found.append((datetime.strptime(moment, "%Y/%m/%d %H:%M:%S.%f").timestamp(), float(share)))
    return found


def run_train(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch: samples learned a second, of batches that are drawn from a replay of
    random games, turned and encoded as in a run; and how many are drawn a second."""
    for size, batch in bench.cases(args):
        setup = NetworkSetup(args, size, batch)
        rates = {name: max(found) for name, found in bench.in_turn(args, _learning(setup, size, batch)).items()}
        figures = {"samples_per_s": round(rates["learned"]), "taken_per_s": round(rates["taken"])}
        bench.report(setup.line("train") | {"parameters": setup.network.num_parameters()} | figures)


def _learning(setup: NetworkSetup, size: int, batch: int) -> dict[str, Callable[[float], float]]:
    """Returns what takes batches and learns from them, and what only takes them, for so many seconds, and says how many
    samples a second that were; both are warm."""
    heads, settings = NetworkConfig().heads, TrainingConfig(batch=batch)
    trainer = Trainer(setup.network, setup.encoder, settings, heads, setup.device, setup.dtype)
    replay = Replay(ReplayConfig(), size, device=device_for(ReplayConfig(), size, setup.device))
    replay.add(random_games(GameConfig(size=size), RANDOM_GAMES, 1, 0, setup.device).all_samples())

    def _take() -> TrainingBatch:
        replay.credit = batch
        return replay.take(batch)

    def _timed(work: Callable[[], Any]) -> Callable[[float], float]:
        work()
        return lambda seconds: bench.per_second(work, setup.device, seconds, at_least=3) * batch

    return {"learned": _timed(lambda: trainer.step(_take(), measures=False)), "taken": _timed(_take)}
