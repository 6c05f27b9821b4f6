"""Data-parallel training under `torchrun`: each process cuts some windows of a step, and gradients are averaged."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

# An optimizer imports this inside a group, and its default arguments then keep the group's threads alive at exit.
import torch.distributed.nn.functional

from ..errors import DistributedError

_TIMEOUT = timedelta(hours=6)  # one process may fit baselines while others wait; a dead peer is noticed at once


@dataclass(frozen=True)
class ProcessGroup:
    """One of several processes. Its methods are collective: every process must call them."""

    rank: int = 0  # the process that prints and writes is 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def all_gather(self, items: dict) -> dict:
        """The dicts of several processes merged, sorted by key; for a key of more than one, the last rank's value."""
        gathered = [items] * self.size
        if self.size > 1:
            dist.all_gather_object(gathered, items)
        merged = {key: value for part in gathered for key, value in part.items()}
        return dict(sorted(merged.items()))

    def broadcast(self, value: Any) -> Any:
        """The value of the main process."""
        return self.all_gather({"value": value} if self.is_main else {})["value"]

    def all_reduce_sum(self, value: float) -> float:
        """Sum of a number over the processes."""
        if self.size == 1:
            return value
        tensor = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(tensor)
        return float(tensor)


SINGLE_PROCESS = ProcessGroup()


@contextmanager
def process_group() -> Iterator[ProcessGroup]:
    """The group that `torchrun` started this process in; if one process fails, all end and the first one reports it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield SINGLE_PROCESS
        return
    store, rank, size = next(dist.rendezvous("env://", timeout=_TIMEOUT))
    dist.init_process_group("gloo", store=dist.PrefixStore("training", store), rank=rank, world_size=size)
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)  # by which torchrun ends what remains
    try:
        yield ProcessGroup(rank, size)
    except BaseException as exc:
        signal.signal(signal.SIGTERM, lambda *_: None)  # it often comes now, and must not hide the reason
        if store.compare_set("failed first", "", str(rank)) != str(rank).encode():
            raise SystemExit(1) from exc  # another process has failed and reports it
        if isinstance(exc, RuntimeError) and "gloo" in str(exc):
            raise DistributedError(f"process {rank} of {size}: another process died, or all were stopped.") from exc
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)
        dist.destroy_process_group()
