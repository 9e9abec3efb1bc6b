"""What is chosen by measuring: precisions and kernels by what a process of its own says, which may die; batches on
simulated devices; threads on pretended machines."""

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from unittest.mock import Mock, call

import pytest
import tiny
import torch
from tables import tables

from zerogo import bench, kernels, tuning
from zerogo.errors import InputError
from zerogo.tuning import BatchChoice, find_batch, questions, speed

CPU, TABLES = torch.device("cpu"), tables("tuning")
BATCHES = TABLES["batches"]


def device(overhead: float, each: float) -> Callable[[int], float]:
    """Returns the speed of a simulated device: seconds of a call whatever its size, and seconds of each position."""
    return lambda size: size / (overhead + each * size)


@pytest.mark.parametrize(("seconds", "limit", "size", "sizes"), BATCHES.values(), ids=BATCHES)
def test_the_smallest_batch_near_the_best_is_taken(seconds: tuple, limit: int, size: int, sizes: list[int]) -> None:
    rate = Mock(side_effect=device(*seconds))
    found = find_batch(rate, limit, 16)
    assert (found.size, rate.mock_calls, list(found.rates)) == (size, [*map(call, sizes)], sizes)


def test_one_busy_moment_of_the_machine_does_not_end_it() -> None:
    quiet = device(100e-7, 1e-7)
    assert find_batch(lambda size: quiet(size) * (0.3 if size == 64 else 1.0), 1 << 20, 16).size == 2048


CUBLAS = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
CUDNN, CUDA = RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), torch.OutOfMemoryError("CUDA out of memory")


@pytest.mark.parametrize("error", [CUDA, CUDNN, CUBLAS, RuntimeError("can't allocate memory")], ids=str)
def test_full_memory_is_the_limit(error: RuntimeError) -> None:
    whole = device(1e-4, 1e-7)

    def rate(size: int) -> float:
        if size > 256:
            raise error
        return whole(size)

    found = find_batch(rate, 1 << 16, 16)
    assert found.size == 256 and found.limit == 511
    with pytest.raises(type(error), match="memory|ALLOC_FAILED"):
        find_batch(rate, 1 << 16, 512)


@pytest.mark.parametrize(("batch", "rates", "most", "words"), TABLES["why this batch"])
def test_it_says_why(batch: int, rates: list[tuple[int, float]], most: int, words: str) -> None:
    assert BatchChoice(batch, dict(rates), most).why() == words


def test_speed_is_that_of_the_best_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of 10 milliseconds, after a first one of a second and with a slow one in the second round."""
    calls, now = [], [0.0]

    def work() -> None:
        calls.append(len(calls))
        now[0] += 1.0 if len(calls) == 1 else 0.05 if len(calls) == 5 else 0.01

    monkeypatch.setattr(tuning.time, "perf_counter", lambda: now[0])
    assert speed(work, 8, CPU) == pytest.approx(800.0)
    assert len(calls) <= 1 + tuning.ROUNDS * (round(tuning.ROUND_SECONDS / 0.01) + 1)


def test_the_faster_of_a_graph_and_its_operations_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now, seconds = [0.0], {"work": 0.01, "graph": 0.005}

    def way(name: str) -> Callable[[], None]:
        return lambda: now.__setitem__(0, now[0] + seconds[name])

    monkeypatch.setattr(tuning.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(tuning.runtime, "try_capture", lambda work, device: way("graph"))
    for seconds["graph"], best in ((0.005, 1600.0), (0.02, 800.0)):
        assert speed(way("work"), 8, CPU, is_replayed=True) == pytest.approx(best)


# Threads


@pytest.fixture
def pretended_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Torch's number of threads on a machine with eight cores, in place of the real one."""
    number = {"now": 8}
    monkeypatch.setattr(torch, "get_num_threads", lambda: number["now"])
    monkeypatch.setattr(torch, "set_num_threads", lambda new: number.update(now=new))
    monkeypatch.setattr(tuning.runtime, "usable_cores", lambda: 6)
    monkeypatch.setattr(tuning, "THREADS", tuning.THREADS)
    tuning.default_threads.cache_clear()
    yield number
    tuning.default_threads.cache_clear()


def test_threads(pretended_threads: dict[str, int]) -> None:
    """A second start does not begin with lowered threads; a number that was asked for stays."""
    for _ in range(2):
        assert tuning.set_up_cpu(0) == tuning.THREADS.largest == 6
        rates_of(tuning.THREADS, {1: 95, 2: 90, 3: 80, 6: 60}, 120)
        assert pretended_threads["now"] == 1
    assert tuning.set_up_cpu(2) == 2
    rates_of(tuning.THREADS, {1: 100, 2: 100}, 10)
    assert pretended_threads["now"] == 2


def rates_of(choice: tuning.ThreadChoice, machine: Mapping[int, float], seconds: float) -> float:
    """Works so long on a machine that does machine[k] pieces a second with k threads; returns pieces a second."""
    done = passed = 0.0
    while passed < seconds:
        rate = machine[choice.now]
        choice.note(rate * 0.01, 0.01)
        done, passed = done + rate * 0.01, passed + 0.01
    return done / passed


@pytest.mark.parametrize(("numbers", "quiet", "busy"), TABLES["pieces a second by numbers of threads"])
def test_threads_by_what_the_machine_gives(numbers: list, quiet: list, busy: list, monkeypatch) -> None:
    quiet, busy = (dict(zip(numbers, rates, strict=True)) for rates in (quiet, busy))
    most, used = numbers[-1], []
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    choice = tuning.ThreadChoice(most)
    assert rates_of(choice, quiet, 120) > 0.97 * max(quiet.values()) and choice.now == most
    assert rates_of(choice, busy, 120) > 0.9 * max(busy.values()), "a machine that gets slower is noticed at once"
    assert busy[choice.now] == max(busy.values())
    assert rates_of(choice, quiet, 300) > 0.75 * max(quiet.values()) and choice.now == most
    assert used and set(used) <= quiet.keys()


def test_what_is_compared_has_one_number_of_threads(pretended_threads: dict[str, int]) -> None:
    with kernels.plain():
        bench.open_device(argparse.Namespace(threads=0, device="cpu", size="9"))
    assert pretended_threads["now"] == 6 and tuning.THREADS.largest == 1


# Precisions and kernels, by a process that may die

# In the place of `tuning.trials`: says what a table has for a module of kernels, or for precisions, or dies by it.
STAND_IN = """
import json, os, signal, sys
table, request = json.loads(sys.argv[1]), json.loads(sys.stdin.readline())
print('"ready"', flush=True)
broken = None  # what an error of CUDA makes of all that follows
for task in request["tasks"]:
    answer = broken or table.get(task[1] if task[0] == "kernel" else task[0], {})
    broken = {"fault": "is broken"} if "CUDA error" in str(answer) else None
    if answer == "hangs":
        sys.stdin.read()
    elif isinstance(answer, str):
        os.kill(os.getpid(), getattr(signal, answer))
    elif isinstance(answer, int):
        os._exit(answer)
    print(json.dumps(answer), flush=True)
"""
RATES = {"float32": [1000.0, 100.0], "bfloat16": [2000.0, 150.0]}
SLOWER = {"float32": RATES["bfloat16"], "bfloat16": RATES["float32"]}
AUTO = tiny.config("run.precision=auto")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Makes another process answer questions, of which this one knows nothing; without a table there is none."""
    monkeypatch.setattr(kernels, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(kernels, "refused", {kind: {} for kind in kernels.COMPILERS})
    monkeypatch.setattr(kernels, "untried", {})

    def answer(table: dict | None = None, *, forgets: bool = True, keeps: bool = True) -> None:
        for path in () if keeps else tmp_path.glob("*.json"):
            path.unlink()
        if forgets:
            tuning.runtime.warn_once.cache_clear()
            monkeypatch.setattr(questions, "_answers", {})
        command = "/no/such/program" if table is None else sys.executable
        monkeypatch.setattr(questions, "COMMAND", (command, "-S", "-c", STAND_IN, json.dumps(table)))

    answer()
    return answer


@pytest.mark.parametrize(("death", "sentence"), TABLES["deaths"])
def test_bfloat16_is_not_used_where_it_dies(death: str, sentence: str, stand_in: Callable) -> None:
    """One sentence says so at the first start; the next starts no process. Who asks for it by name is refused."""
    stand_in({"precision": death})
    for sentences in ([f"bfloat16 {sentence} on this CPU, so float32 is used"], []):
        with warnings.catch_warnings(record=True) as said:
            assert {tuning.pick_dtype("auto", CPU, AUTO) for _ in range(2)} == {torch.float32}
        assert [str(one.message) for one in said] == sentences
        with pytest.raises(InputError, match=f"precision is bfloat16, which {sentence} on this CPU; use auto or"):
            tuning.pick_dtype("bfloat16", CPU, AUTO)
        stand_in()


def test_bfloat16_must_be_faster_by_a_twentieth_or_have_been_picked_before(stand_in: Callable) -> None:
    """A measurement that may come out either way changes no run that goes on."""
    for gain, faster in ((1.04, torch.float32), (1.06, torch.bfloat16)):
        stand_in({"precision": {"float32": [1000.0, 100.0], "bfloat16": [gain * 1000.0, gain * 100.0]}}, keeps=False)
        assert tuning.pick_dtype("auto", CPU, AUTO) == faster
        for name, dtype in tuning.PRECISIONS.items():
            assert tuning.pick_dtype("auto", CPU, AUTO, earlier=name) == tuning.pick_dtype(name, CPU, AUTO) == dtype
    stand_in({"precision": 3}, keeps=False)
    assert tuning.pick_dtype("auto", CPU, AUTO, earlier="bfloat16") == torch.bfloat16, "although it is not tried now"
    stand_in({"precision": "SIGILL"})
    with pytest.warns(UserWarning, match="bfloat16 ends with an illegal instruction on this CPU, so float32 is used"):
        assert tuning.pick_dtype("auto", CPU, AUTO, earlier="bfloat16") == torch.float32


def test_all_ranks_have_the_precision_of_rank_0(stand_in: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    table = dict.fromkeys(kernels.NAMES["cpu"], {}) | {"precision": RATES}
    for dtype in (torch.float32, torch.bfloat16):
        stand_in(table)
        monkeypatch.setattr(tuning.distributed, "broadcast_from_rank0", lambda *_, dtype=dtype: dtype)
        assert tuning.pick_proven_dtype(AUTO, CPU, kernels.OPTIONAL) == dtype
    stand_in(table | {"precision": "SIGILL"}, keeps=False)
    with pytest.raises(InputError, match="precision is bfloat16, which ends with an illegal instruction on this CPU"):
        tuning.pick_proven_dtype(AUTO, CPU, kernels.OPTIONAL)


@pytest.mark.parametrize("death", [None, "SIGKILL", 3, "hangs"])
def test_what_could_not_be_tried_is_tried_at_the_next_start(death: str | int | None, stand_in, monkeypatch) -> None:
    """Where no process can be started, somebody else ended it, or it takes too long, which the machine's load may have
    caused; bfloat16 by name is taken at its word."""
    stand_in(death and {"precision": death})
    sentence = r"bfloat16 could not be tried \(.*\) on this CPU, so float32 is used"
    monkeypatch.setattr(tuning, "untried_precisions", set())
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match=sentence):
        patch.setattr(questions, "TASK_SECONDS", 0.0 if death == "hangs" else questions.TASK_SECONDS)
        assert tuning.pick_dtype("auto", CPU, AUTO) == torch.float32
    assert not [*kernels.cache_folder().glob("*.json")] and tuning.untried_precisions == {"cpu"}
    assert tuning.pick_dtype("bfloat16", CPU, AUTO) == torch.bfloat16
    stand_in({"precision": RATES})
    assert tuning.pick_dtype("auto", CPU, AUTO) == torch.bfloat16


def test_a_damaged_answer_is_asked_for_again(stand_in: Callable) -> None:
    stand_in({"precision": RATES})
    assert tuning.pick_dtype("auto", CPU, AUTO) == torch.bfloat16
    (kept,) = kernels.cache_folder().glob("*.json")
    for text in ("", "{", "[1, 2]", '{"question": 3}', '{"question": "another", "answer": {"fault": "is old"}}', "\0"):
        kept.write_text(text)
        stand_in({"precision": SLOWER})
        assert tuning.pick_dtype("auto", CPU, AUTO) == torch.float32


def test_kernels_that_are_wrong_are_refused_by_name(stand_in: Callable) -> None:
    """A process goes on after the one that ended or whose device failed; what is refused is said once, and torch does
    it."""
    error = "fails (AcceleratorError: CUDA error: an illegal memory access was encountered)"
    stand_in({"tree": "SIGSEGV", "scoring": {"fault": error}, "board": {}})
    with pytest.warns(UserWarning) as said:
        found, names = tuning.prove_kernels(CPU, 9), kernels.NAMES["cpu"]
    faults = {"tree": "ends with a segmentation fault", "scoring": error}
    assert found == {f"numba {name}": faults.get(name, "") for name in names} and tuning.prove_kernels(CPU, 9) == found
    sentences = [f"the kernel {name} by numba {faults[name]} on this machine; it is not used" for name in faults]
    assert [str(one.message) for one in said] == sentences
    assert {name for name in names if kernels.module_for(name, CPU) is None} == set(faults)
    assert kernels.in_use(CPU) == "kernels by numba, except tree, scoring (torch)"
    assert tuning._precision_question(AUTO, CPU)["task"][1]["run"]["kernels"] == "plain"
    with kernels.plain():
        assert tuning.prove_kernels(CPU, 9) == {}, "not tried"


def test_what_is_not_needed_is_tried_at_its_first_use(stand_in: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in({"precision": RATES})
    tuning.pick_proven_dtype(AUTO, CPU, {"tactics"})
    stand_in({"ladders": "SIGSEGV", "playouts": "SIGSEGV"}, forgets=False)
    monkeypatch.setattr(kernels, "refuse", lambda *_: True)
    for use, name, *device in ((kernels.module_for, "playouts", CPU), (kernels.cpu_loops, "ladders")):
        with pytest.warns(UserWarning, match=f"the kernel {name} by numba ends with a segmentation fault"):
            use(name, *device)
    assert kernels.module_for("tactics", CPU) and {*kernels.untried} == {"winograd", "norms"}


def test_ranks_ask_one_process(stand_in: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has waited for another one's turn has its answers."""
    stand_in({"precision": RATES})
    turn = questions._turn

    def after_another() -> object:
        monkeypatch.setattr(questions, "_turn", turn)
        known, questions._answers = questions._answers, {}
        tuning.pick_dtype("auto", CPU, AUTO)
        questions._answers = known
        stand_in(forgets=False)
        return turn()

    monkeypatch.setattr(questions, "_turn", after_another)
    assert tuning.pick_dtype("auto", CPU, AUTO) == torch.bfloat16


def test_the_process_itself(stand_in: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a folder of its own, in an environment of a rank: precisions and a kernel, and a task that fails."""
    monkeypatch.setattr(questions, "COMMAND", (sys.executable, "-P", "-m", "zerogo.tuning.trials"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    wrong = {"task": ["precision", {"game": {"size": 99}}, "cpu"]}
    kernel = tuning._kernel_questions(CPU, 9, {"scoring"})[0]
    rates, fault, right = questions.ask([tuning._precision_question(AUTO, CPU), wrong, kernel])
    assert rates.keys() in (RATES.keys(), {"fault"}) and right == {}
    assert "fault" in rates or all(rate > 0 for pair in rates.values() for rate in pair)
    assert fault["fault"].startswith("fails (InputError: ") and "99" in fault["fault"]
