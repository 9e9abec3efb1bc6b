"""Two ranks of gloo on this machine, in processes of their own."""

import os
import socket
from collections.abc import Callable
from typing import Any

import torch.multiprocessing

from zerogo.system import distributed


def environments(number: int, restarts: int = 0, port: int = 0) -> list[dict[str, str]]:
    """Returns what torchrun tells each of so many ranks on one machine. port: of a store that is there; 0: rank 0 makes
    one at a free port."""
    common = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": number, "LOCAL_WORLD_SIZE": number}
    common |= {"TORCHELASTIC_USE_AGENT_STORE": bool(port), "TORCHELASTIC_RESTART_COUNT": restarts}
    if not port:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            common["MASTER_PORT"] = free.getsockname()[1]
    return [{name: str(one) for name, one in (common | {"RANK": k, "LOCAL_RANK": k}).items()} for k in range(number)]


def run_in_two(work: Callable[..., None], *arguments: Any) -> None:
    """Calls work(*arguments), a function of a module, in two ranks; raises what one of them raises. As under torchrun
    the store outlives the ranks: one that rank 0 keeps may be gone while rank 1 still takes its leave."""
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    torch.multiprocessing.spawn(_in_rank, (environments(2, port=store.port), work, arguments), nprocs=2)


def _in_rank(rank: int, environments: list[dict[str, str]], work: Callable[..., None], arguments: tuple) -> None:
    os.environ.update(environments[rank])
    torch.set_num_threads(1)
    with distributed.process_group():
        work(*arguments)
    distributed.leave(0)
