"""Compiles the kernels of the CPU, which Numba keeps on disk: half a minute once, instead of once in each process that
runs tests."""

import subprocess
import sys
import tempfile
from pathlib import Path


def compile_kernels() -> None:
    """Has a process compile all kernels, unless that was done since their sources changed."""
    from zerogo import kernels
    from zerogo.kernels.cpu import loops

    folder = kernels.cache_folder() if loops.numba is not None else None
    if folder is not None and not (mark := folder / "all-compiled").exists():
        subprocess.run((sys.executable, __file__), check=True, capture_output=True)
        mark.touch()


def _use_kernels() -> None:
    """Plays, learns and searches with everything that has a kernel."""
    import tiny
    import torch

    from zerogo import board, features
    from zerogo.players.analyst import analyst_of_playouts
    from zerogo.rules import Rules

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        tiny.run(Path(folder), "features.encoder=alphago48", "pipeline.iterations=1")
    states = board.new_games(4, Rules(5))
    analyst_of_playouts(8).choose(states, torch.arange(4), 1)
    for name in ("zero17", "katago22", "alphago48"):
        features.make_encoder(name, komi_input=True).planes(states)


if __name__ == "__main__":
    _use_kernels()
