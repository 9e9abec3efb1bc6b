"""Questions about this machine, which another process answers by trials (`tuning.trials`), as a trial may kill or hang
its process. The answers are stored next to the compiled kernels, so that the trials take place once."""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from zerogo import kernels
from zerogo.system.runtime import usable_cores, write_atomically

COMMAND = (sys.executable, "-P", "-m", "zerogo.tuning.trials")
MAX_PROCESSES = 4  # compile at the same time; each takes some 0.5 GB
START_SECONDS = TASK_SECONDS = 900.0  # for the process to start, and for a task; a busy machine takes a minute
FAULTS = {
    signal.SIGILL: "ends with an illegal instruction",
    signal.SIGSEGV: "ends with a segmentation fault",
    signal.SIGBUS: "ends with a bus error",
    signal.SIGFPE: "ends with a floating-point exception",
    signal.SIGABRT: "is aborted",
}
CUDA_ERROR = re.compile(r"CUDA error|\[CUDA\]")  # torch's and Triton's
# The lines of /proc/cpuinfo that tell CPUs apart.
OF_CPU = "vendor_id,cpu family,model,model name,stepping,microcode,flags,Features,CPU implementer,CPU part,CPU variant"

Question = dict[str, Any]  # "task": what `tuning.trials` is asked to do; and all else that the answer depends on
# Figures; or "fault", what happened, without a subject; or "untried", why nothing is known. "is_kept": known before.
Answer = dict[str, Any]
_answers: dict[str, Answer] = {}  # by question, those that this process knows


@cache
def cpu_facts() -> dict[str, str]:
    """Returns what an answer about the CPU depends on: the CPU, the system that lets programs use it, and torch."""
    facts = [platform.machine(), platform.processor(), platform.release()]
    with contextlib.suppress(OSError):
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
        facts += [line for line in first if line.partition(":")[0].strip() in OF_CPU.split(",")]
    trials = Path(__file__).with_name("trials.py").read_bytes()
    sources = {"cpu": "\n".join(facts).encode(), "trials": trials}
    digests = {name: hashlib.sha256(data).hexdigest()[:16] for name, data in sources.items()}
    return digests | {"torch": torch.__version__}


def gpu_facts(device: torch.device) -> dict[str, Any]:
    """Returns what an answer about a GPU depends on: the GPU, its driver, and torch."""
    driver = ""
    with contextlib.suppress(OSError):
        driver = Path("/proc/driver/nvidia/version").read_text().partition("\n")[0]
    facts = {"gpu": torch.cuda.get_device_name(device), "driver": driver, "cuda": torch.version.cuda}
    return facts | {name: cpu_facts()[name] for name in ("trials", "torch")}


def ask(questions: Sequence[Question], device: torch.device | None = None) -> list[Answer]:
    """Returns the answers to questions: those of this process, else those kept on the disk, else what a new process
    finds. One process of a machine tries at a time, and the others have its answers."""
    keys = [json.dumps(question, sort_keys=True) for question in questions]
    _recall(keys, is_kept=True)
    if any(key not in _answers for key in keys):
        with _turn():
            _recall(keys)
            missing = {key: one["task"] for key, one in zip(keys, questions, strict=True) if key not in _answers}
            for key, answer in zip(missing, _try([*missing.values()], str(device or "cpu")), strict=True):
                _answers[key] = answer
                if "untried" not in answer and (path := _path(key)) is not None:
                    with contextlib.suppress(OSError):
                        write_atomically(path, json.dumps({"question": key, "answer": answer}).encode())
    return [_answers[key] for key in keys]


def _path(key: str) -> Path | None:
    folder = kernels.cache_folder()
    return folder and folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _recall(keys: Sequence[str], **marks: bool) -> None:
    """Reads answers from the disk, and adds marks to them; a damaged file holds none."""
    for key in keys:
        if key not in _answers and (path := _path(key)) is not None:
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                kept = json.loads(path.read_text())
                if kept["question"] == key:
                    _answers[key] = dict(kept["answer"], **marks)


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """Waits until no other process tries anything."""
    folder = kernels.cache_folder()
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            if folder is not None:
                file = held.enter_context(open(folder / ".lock", "w"))
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _try(tasks: Sequence[list], device: str) -> list[Answer]:
    """Returns the answers to all tasks. Compiling the kernels takes longest, so several processes share them. Tasks
    that measure speed run after them, alone."""
    answers: dict[str, Answer] = {}

    def _answer(tasks: list[list]) -> None:
        while tasks:  # if a task ends its process, another process continues with the next task
            for answer in _answers_of_process(tasks, device):
                answers[str(tasks.pop(0))] = answer

    kernel_tasks = [task for task in tasks if task[0] == "kernel"]
    count = min(MAX_PROCESSES, usable_cores(), len(kernel_tasks))
    shares = [kernel_tasks[k::count] for k in range(count)] if count > 1 else []
    threads = [threading.Thread(target=_answer, args=(share,), daemon=True) for share in shares]  # Ctrl-C ends them
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _answer([task for task in tasks if str(task) not in answers])
    return [answers[str(task)] for task in tasks]


def _answers_of_process(tasks: Sequence[list], device: str) -> list[Answer]:
    """Returns the answers of one process: to all tasks, or up to the one that ended it, whose answer is that fault. A
    task that takes too long has no answer, nor have those after it: the machine may be busy."""
    # The process must find this package, and Ctrl-C must not reach it.
    paths = os.pathsep.join(filter(None, [str(kernels.PACKAGE.parent), os.environ.get("PYTHONPATH")]))
    options = {"env": os.environ | {"PYTHONPATH": paths}, "start_new_session": True}
    try:
        process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
    except OSError as error:
        return [{"untried": f"could not be tried ({error.strerror})"}] * len(tasks)
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()  # the last one is empty
    reader = threading.Thread(target=lambda: [lines.put(line) for line in chain(process.stdout, [b""])], daemon=True)
    reader.start()
    answers, end, untried = [], None, ""
    try:
        with contextlib.suppress(OSError):  # it has ended already
            process.stdin.write(json.dumps({"device": device, "tasks": tasks}).encode() + b"\n")
            process.stdin.flush()
        for seconds in (START_SECONDS, *[TASK_SECONDS] * len(tasks)):
            if not (line := lines.get(timeout=seconds)):
                end = FAULTS.get(-process.wait())
                break
            answers.append(json.loads(line))
            if answers[1:] and CUDA_ERROR.search(answers[-1].get("fault", "")):
                return answers[1:]  # after such an error all that this process tries may fail
    except queue.Empty:
        untried = f"could not be tried (it took longer than {TASK_SECONDS:g} s)"
    finally:
        process.kill()
        reader.join()
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        process.wait()
    is_ready, answers = bool(answers), answers[1:]
    if len(answers) < len(tasks) and is_ready and end:
        return [*answers, {"fault": end}]
    why = untried or f"could not be tried (its process ended with status {process.returncode})"
    return answers + [{"untried": why}] * (len(tasks) - len(answers))
