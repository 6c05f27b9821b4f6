"""Data-parallel training under `torchrun`: each process cuts some windows of a step.

Gradients are averaged over the processes.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

# Torch imports this inside a group, and its default arguments then keep the group's threads alive
# at exit.
import torch.distributed.nn.functional  # noqa: F401

from ..errors import DistributedError


@dataclass(frozen=True)
class ProcessGroup:
    """One of several processes. Its methods are collective: every process must call them.

    Attributes:
        rank: number of this process, from 0; process 0 is the main one, which prints and writes.
        size: number of processes.
    """

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.rank == 0

    def all_gather(self, items: dict) -> dict:
        """The dicts of all processes as one, sorted by key.

        Args:
            items: the part of this process. A key of several processes gets the last rank's value.

        Returns:
            The same dict in every process.
        """
        gathered = [items] * self.size
        if self.size > 1:
            dist.all_gather_object(gathered, items)
        merged = {}
        for part in gathered:
            merged |= part
        return dict(sorted(merged.items()))

    def broadcast(self, value: Any) -> Any:
        """The `value` of the main process, in every process; that of the others is not used."""
        return self.all_gather({"value": value} if self.is_main else {})["value"]

    def sum(self, value: float) -> float:
        """Sum over the processes of a number, the `value` of each."""
        return sum(self.all_gather({self.rank: value}).values())


SINGLE_PROCESS = ProcessGroup()


@contextmanager
def process_group() -> Iterator[ProcessGroup]:
    """The group that `torchrun` started this process in; without it, `SINGLE_PROCESS`.

    If one process fails, it says why, and all end.

    Raises:
        DistributedError: another process died, or was stopped.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield SINGLE_PROCESS
        return
    # One process may fit baselines while others wait; a dead peer is noticed at once.
    dist.init_process_group("gloo", timeout=timedelta(hours=6))
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size())
        # torch 2.6 may deadlock at the end of the group while its thread frees the last gathering
        dist.barrier()
    except RuntimeError as exc:
        if "gloo" not in str(exc):
            raise
        raise DistributedError("another process died, or was stopped") from exc
    finally:
        dist.destroy_process_group()
