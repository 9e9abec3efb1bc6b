"""Two ranks of gloo on this machine, in processes of their own."""

import os
import socket
from collections.abc import Callable
from typing import Any

import torch.multiprocessing

from zerogo.system import distributed


def environments(number: int, restarts: int = 0) -> list[dict[str, str]]:
    """Returns what torchrun tells each of so many ranks on one machine."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        found = {"MASTER_ADDR": "localhost", "MASTER_PORT": free.getsockname()[1], "WORLD_SIZE": number}
    found |= {"LOCAL_WORLD_SIZE": number, "TORCHELASTIC_RESTART_COUNT": restarts}
    return [{name: str(one) for name, one in (found | {"RANK": k, "LOCAL_RANK": k}).items()} for k in range(number)]


def run_in_two(work: Callable[..., None], *arguments: Any) -> None:
    """Calls work(*arguments), a function of a module, in two ranks; raises what one of them raises."""
    torch.multiprocessing.spawn(_in_rank, (environments(2), work, arguments), nprocs=2)


def _in_rank(rank: int, environments: list[dict[str, str]], work: Callable[..., None], arguments: tuple) -> None:
    os.environ.update(environments[rank])
    torch.set_num_threads(1)
    with distributed.process_group():
        work(*arguments)
    distributed.leave(0)
