"""All that is chosen by measuring on this machine: whether kernels are right, precision, processes, threads, batches.

What a machine says of itself says what should be; only trying says what is. Kernels and precisions are tried in
a process of their own (`questions`): what a CPU or GPU claims to have may end or hang the process that uses it."""

import importlib
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from zerogo import kernels
from zerogo.config import Config
from zerogo.errors import InputError, quote
from zerogo.system import distributed, runtime
from zerogo.tuning.batches import GAIN, BatchChoice, find_batch, speed
from zerogo.tuning.questions import Question, ask, cpu_facts, gpu_facts
from zerogo.tuning.threads import set_up_cpu

__all__ = ["BatchChoice", "find_batch", "set_up_cpu", "speed"]  # and what stands here
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CPU_SIZE = 9  # of the boards that the CPU's kernels are tried on: they are compiled for all sizes at once
EVALUATIONS_A_SAMPLE = 4  # at the least, in self-play
PROCESS_BYTES, PROCESS_GAIN = 700_000_000, 0.6  # torch and compiled kernels; two threads of one core are no gain
MEASURED_BATCH = 1024  # positions, for which `pick_epilogues` tries both ways


def tune(config: Config, device: torch.device, earlier: str = "") -> torch.dtype:
    """Does what `prove_kernels` and `pick_dtype` do for a config, in one process, and returns the dtype, on all ranks
    that of rank 0. earlier: what this run has picked on such a device before. Raises InputError where a rank lacks
    it."""
    size = config.game.largest_size
    questions = [question for of_kind in _kernel_questions(device, size).values() for question in of_kind]
    if config.run.precision != "float32":
        questions.append(_precision_question(config, device))
    ask(questions, device)
    prove_kernels(device, size)
    dtype = distributed.broadcast_from_rank0(pick_dtype, config.run.precision, device, config, earlier)
    return distributed.run_and_sync_errors(pick_dtype, str(dtype).removeprefix("torch."), device, config)


@cache
def _warn_once(sentence: str) -> None:
    warnings.warn(sentence, stacklevel=1)


# Kernels


def prove_kernels(device: torch.device, size: int) -> dict[str, str]:
    """Refuses those modules of the kernels that are wrong on this machine, with a warning, and returns what is wrong
    with each, "" for nothing, by compiler and name. size: the boards' side, for which a GPU's kernels are compiled."""
    faults = {}
    for kind, questions in _kernel_questions(device, size).items():
        for question, answer in zip(questions, ask(questions, device), strict=True):
            name, compiler = question["task"][1], kernels.COMPILERS[kind]
            faults[f"{compiler} {name}"] = what = answer.get("fault", answer.get("untried", ""))
            if "fault" in answer and kernels.refuse(kind, name, what):
                _warn_once(f"the kernel {name} by {compiler} {what} on this machine: not used")
    return faults


def _kernel_questions(device: torch.device, size: int) -> dict[str, list[Question]]:
    """Returns the questions about each kind of kernels that work on a device: a GPU's host has work for them, too."""
    by_kind = {}
    for kind in dict.fromkeys(("cpu", device.type)):
        if kernels.are_in_use(kind):
            libraries = {"cpu": ("numba", "llvmlite"), "cuda": ("triton",)}[kind]
            facts = {library: importlib.import_module(library).__version__ for library in libraries}
            facts |= gpu_facts(device) if kind == "cuda" else cpu_facts()
            facts["source"] = kernels.source_digest(kind)
            side = size if kind == "cuda" else CPU_SIZE
            by_kind[kind] = [{"task": ["kernel", name, kind, side]} | facts for name in kernels.NAMES[kind]]
    return by_kind


# Precision


def pick_dtype(name: str, device: torch.device | str, config: Config, earlier: str = "") -> torch.dtype:
    """Returns the dtype of a network of the config's shape: "float32", "bfloat16", or for "auto" bfloat16 where it
    works on the device and is faster by `GAIN`. Raises InputError for bfloat16 where it does not work. earlier: what
    "auto" has picked before, which stays where it works.

    On CUDA torch computes convolutions of float32 in TF32, with 10 bits of fraction, unless
    torch.backends.cudnn.allow_tf32 is set to False."""
    if name not in ("auto", *PRECISIONS):
        raise InputError(f"precision is {quote(name)}; allowed are auto, {', '.join(PRECISIONS)}")
    if name == "float32":
        return torch.float32
    if name == "auto" and earlier == "float32":
        return torch.float32
    device = torch.device(device)
    answer, here = ask([_precision_question(config, device)], device)[0], {"cpu": "CPU", "cuda": "GPU"}[device.type]
    if name == "bfloat16" and "fault" in answer:
        raise InputError(f"precision is bfloat16, which {answer['fault']} on this {here}; use auto or float32")
    if name == "bfloat16" or earlier and "fault" not in answer:
        return torch.bfloat16
    if what := answer.get("fault", answer.get("untried")):
        _warn_once(f"bfloat16 {what} on this {here}: float32")
        return torch.float32
    gain = _seconds_a_sample(*answer["float32"]) / _seconds_a_sample(*answer["bfloat16"])
    return PRECISIONS["bfloat16" if gain >= 1 + GAIN else "float32"]


def _precision_question(config: Config, device: torch.device) -> Question:
    whole = config.to_dict()
    sections = {name: whole[name] for name in ("network", "features")} | {"game": {"size": config.game.largest_size}}
    facts = gpu_facts(device) if device.type == "cuda" else cpu_facts()
    return {"task": ["precision", sections, device.type]} | facts


def _seconds_a_sample(evaluations: float, samples: float) -> float:
    """Returns what a sample costs, to be played and to be learned from, by how many of each a second there are."""
    return EVALUATIONS_A_SAMPLE / evaluations + 1.0 / samples


def precision_in_words(dtype: torch.dtype, device: torch.device, config: Config) -> str:
    """Returns the dtype that was picked for a person, and how much faster it was found to be than the other one."""
    words = precision = str(dtype).removeprefix("torch.")
    answer = ask([_precision_question(config, device)], device)[0] if config.run.precision == "auto" else {}
    if answer.keys() >= PRECISIONS.keys():
        seconds = {name: _seconds_a_sample(*answer[name]) for name in PRECISIONS}
        other = sum(seconds.values()) - seconds[precision]
        words += f" ({other / seconds[precision]:.1f} times as fast as the other precision)"
    return words


# Processes


def num_processes(config: Config, limit: Callable[[], int]) -> int:
    """Returns how many processes `run.processes` asks for on this machine. "auto" is at most what `limit` returns: on
    CUDA one for each visible GPU, unless the device names one of them; on a CPU as many as are a gain, of one thread
    each, of those for which there are cores and memory. One more must bring at least `PROCESS_GAIN` of what one does
    alone."""
    if config.run.processes != "auto":
        return int(config.run.processes)
    device, max_processes = runtime.pick_device(config.run.device), limit()
    if device.type == "cuda":
        return min(max_processes, torch.cuda.device_count() if device.index is None else 1)
    cores = min(runtime.usable_cores(), 1 + (runtime.free_bytes(device) or 0) // PROCESS_BYTES)
    if min(max_processes, cores) < 2:
        return 1
    precision = str(pick_dtype(config.run.precision, device, config)).removeprefix("torch.")
    question = _precision_question(config, device)
    question["task"] = ["processes", question["task"][1], cores, precision]
    best, *others = [(int(number), rate) for number, rate in ask([question])[0].get("rates", {"1": 0.0}).items()]
    alone = best[1]
    for number, rate in others:
        if rate - best[1] < PROCESS_GAIN * alone * (number - best[0]):
            break
        best = number, rate
    return min(max_processes, best[0])


# What follows from the settings, or from a forward of the network


def pick_epilogues(choice: str, network: Any) -> str:
    """Has a kernel do what follows the network's convolutions where `run.epilogues` wants it, "on", or for "auto" where
    a forward is faster with it, both replayed as a search replays them; returns what was chosen, "on" or "off".

    network: a `network.InferenceNetwork`. Raises InputError for "on" where there is no such kernel."""
    device, fast = network.device, kernels.module_for("epilogues", network.device)
    if choice == "on" and fast is None:
        raise InputError("run.epilogues is on, but that needs CUDA with Triton; set it to auto")
    if choice == "off" or fast is None:
        return "off"
    if choice == "auto":
        side, dtype = network.network.size, network.dtype
        planes = torch.zeros(MEASURED_BATCH, network.num_planes, side, side, dtype=dtype, device=device)
        inputs, rates = torch.zeros(MEASURED_BATCH, network.num_globals, device=device), {}
        for way, kernel in (("off", None), ("on", fast)):
            network.use_epilogues(kernel)
            rates[way] = speed(lambda: network(planes, inputs), MEASURED_BATCH, device, is_replayed=True)
        choice = max(rates, key=rates.get)
    network.use_epilogues(fast if choice == "on" else None)
    return choice
