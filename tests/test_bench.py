"""The measurements of network, search, memory and self-play: what their lines hold. How fast anything is, is no matter
for a test.
"""

from __future__ import annotations

import argparse
import json

import pytest
import torch

from zerogo.bench import __main__ as bench
from zerogo.bench import net
from zerogo.bench.memory import peak_bytes
from zerogo.bench.net import peaks_of
from zerogo.search.captured import captured

CPU = ["--device", "cpu", "--threads", "1"]
TINY = ["--size", "3", "--batch", "4", "--blocks", "1", "--channels", "8", *CPU]
SHORT = ["--seconds", "0.02", "--rounds", "1"]
COMMON = {"bench", "size", "batch", "device", "dtype", "threads"}
SEARCH = {"simulations_per_s", "evals_per_s", "efficiency", "simulations_per_s_with_moves", "efficiency_with_moves"}
TREES = {"bytes_per_node", "finished_share", "closed_share", "kept_nodes", "deepest", "kernels"}
FIELDS = {
    "net": {"evals_per_s"},
    "search": SEARCH | TREES,
    "selfplay": {"games_per_hour", "moves_per_s", "samples_per_s", "simulations_per_s", "evals_per_s", "efficiency"},
}


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("name", FIELDS)
def test_line(name: str, capsys) -> None:
    sims = [] if name == "net" else ["--sims", "3"]
    assert bench.main([name, *TINY, *SHORT, *sims]) == 0
    (line,) = lines_of(capsys)
    assert COMMON | FIELDS[name] <= line.keys()
    assert (line["bench"], line["size"], line["batch"], line["device"]) == (name, 3, 4, "cpu")
    rates = [field for field in FIELDS[name] if field.endswith(("_per_s", "_per_hour"))]
    assert all(line[field] > 0 for field in rates)


def test_no_share_of_a_peak_on_a_cpu(capsys) -> None:
    assert bench.main(["net", *TINY, *SHORT]) == 0
    (line,) = lines_of(capsys)
    assert not {"peak_tflops_per_s", "share_of_peak"} & line.keys()


def test_peaks_by_a_devices_name() -> None:
    """The longest entry that fits counts, whole words only, and none for devices that only look like one."""
    known = {
        "NVIDIA H100 80GB HBM3": 989, "NVIDIA H100 PCIe": 756, "NVIDIA A100-SXM4-80GB": 312, "NVIDIA A10": 125,
        "NVIDIA L4": 121, "NVIDIA L40S": 362, "NVIDIA GeForce RTX 4090": 165.2, "NVIDIA GeForce RTX 4080 SUPER": 104.4,
    }  # fmt: skip
    assert {name: peaks_of(name)[0] for name in known} == known
    unknown = (
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4070 SUPER",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "RTX A1000",
    )
    without = [
        f"NVIDIA GeForce RTX {words}"
        for words in ("3060 Ti", "3070 Ti", "3080 Ti", "4070 Ti SUPER", "4090 D", "5090 D")
    ]
    assert [peaks_of(name) for name in (*unknown, *without)] == [None] * 10
    assert peaks_of("NVIDIA GeForce RTX 3090 Ti")[0] == 80 and peaks_of("NVIDIA GeForce RTX 3090")[0] == 71


@pytest.mark.parametrize("has_graph", [False, True])
@pytest.mark.parametrize("name", FIELDS)
def test_the_network_alone_counts_in_its_faster_way(name: str, has_graph: bool, capsys, monkeypatch) -> None:
    """As on CUDA, where the other way is a graph: here one that has no work at all, or none."""
    monkeypatch.setattr(net, "captured", lambda work, device: (lambda: None) if has_graph else None)
    assert bench.main([name, *TINY, *SHORT, *([] if name == "net" else ["--sims", "3"])]) == 0
    assert (lines_of(capsys)[0]["evals_per_s"] > 1e6) == has_graph


def test_no_graph_off_cuda() -> None:
    assert captured(lambda: pytest.fail("not asked for"), torch.device("cpu")) is None


def test_no_graph_of_work_that_waits_or_cannot_be_captured(monkeypatch) -> None:
    """Pretends that there is a CUDA device."""
    device = torch.device("cuda")
    monkeypatch.setattr("zerogo.search.captured.record", lambda work, device: work)
    work = lambda: torch.zeros(1) + 1  # noqa: E731
    assert captured(work, device) is work
    assert captured(lambda: torch.zeros(1).nonzero(), device) is None

    def refused(work, device) -> None:
        raise RuntimeError("capture failed")

    monkeypatch.setattr("zerogo.search.captured.record", refused)
    assert captured(work, device) is None


@pytest.mark.parametrize(
    "options", [["--algorithm", "gumbel"], ["--kernels", "plain"], ["--leaves", "2"], ["--spread", "2"]], ids=" ".join
)
def test_searches_of_all_kinds(options: list[str], capsys) -> None:
    assert bench.main(["search", *TINY, *SHORT, "--sims", "5", *options]) == 0
    (line,) = lines_of(capsys)
    assert str(line[options[0].removeprefix("--")]).startswith(options[1])
    assert ("collision_share" in line) == ("--leaves" in options)


def test_memory(capsys, monkeypatch) -> None:
    """Trees that fit grow with the memory and shrink with the batch, and what a line adds up to fits the device."""
    monkeypatch.setattr("zerogo.bench.memory.GAMES", (2, 6))
    monkeypatch.setattr("zerogo.bench.memory.SIMULATIONS", (2, 8))
    words = [
        "--size",
        "3",
        "--memory",
        "1,2",
        "--batch",
        "8,64",
        "--sims",
        "10",
        "--blocks",
        "1",
        "--channels",
        "8",
        *CPU,
    ]
    assert bench.main(["memory", *words]) == 0
    lines = lines_of(capsys)
    given = ("batch", "batch", "simulations")
    assert [(line["memory_gb"], line["given"]) for line in lines] == [
        (memory, what) for memory in (1, 2) for what in given
    ]
    for line in lines:
        assert COMMON <= line.keys() and 0 < line["bytes_per_node"] < 1400
        parts = sum(line[name] for name in ("trees_mb", "games_mb", "workspace_mb", "network_mb", "context_mb"))
        assert 0.98 * line["memory_gb"] * 1000 < parts < 1.005 * line["memory_gb"] * 1000
    nodes = [line["nodes"] for line in lines if line["given"] == "batch"]
    assert nodes[0] > nodes[1] and nodes[2] > nodes[0] and nodes[3] > nodes[1]


def test_peak_of_memory() -> None:
    """What was given back before the next tensor came counts once, and what is held beside another counts with it."""
    setup = argparse.Namespace(device=torch.device("cpu"))
    assert peak_bytes(lambda: [torch.zeros(1000, 1000).sum() for _ in range(3)], setup) == pytest.approx(4e6, rel=0.01)
    assert peak_bytes(lambda: torch.zeros(1000, 1000) + torch.zeros(1000), setup) == pytest.approx(8e6, rel=0.01)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["search", *TINY, "--sims", "0"], "--sims is 0"),
        (["search", *TINY, "--leaves", "0"], "--leaves is 0"),
        (["search", *TINY, "--spread", "-1"], "--spread is -1.0"),
        (["search", *TINY, "--kernels", "fast"], "--kernels is 'fast'; allowed are compiled and plain"),
        (["search", *TINY, "--algorithm", "best"], "'best'"),
        (["profile", *TINY, "--sims", "0"], "--sims is 0"),
        (["selfplay", *TINY, "--sims", "0"], "--sims is 0"),
        (["memory", "--memory", "much"], "'much' is not a list of whole numbers"),
        (["memory", "--size", "3", "--blocks", "-1", *CPU], "-1"),
    ],
)
def test_bad_input_gets_one_sentence(words: list[str], sentence: str, capsys) -> None:
    assert bench.main(words) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
