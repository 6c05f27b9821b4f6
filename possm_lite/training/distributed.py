"""Data-parallel training under `torchrun`: each process cuts some windows of a step, and gradients are averaged."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

# Torch imports this inside a group, and its default arguments then keep the group's threads alive at exit.
import torch.distributed.nn.functional  # noqa: F401

from ..errors import DistributedError


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

    def sum(self, value: float) -> float:
        """Sum of a number over the processes."""
        return sum(self.all_gather({self.rank: value}).values())


SINGLE_PROCESS = ProcessGroup()


@contextmanager
def process_group() -> Iterator[ProcessGroup]:
    """The group that `torchrun` started this process in; if one process fails, it says why, and all end."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield SINGLE_PROCESS
        return
    # One process may fit baselines while others wait; a dead peer is noticed at once.
    dist.init_process_group("gloo", timeout=timedelta(hours=6))
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size())
        dist.barrier()  # torch 2.6 may deadlock at the end of the group while its thread frees the last gathering
    except RuntimeError as exc:
        if "gloo" not in str(exc):
            raise
        raise DistributedError("another process died, or was stopped") from exc
    finally:
        dist.destroy_process_group()
