"""The processes that train one model together: `torchrun` starts them, each says here what the others must know.

A process holds some of the sessions and cuts some of the windows of every step; gradients are averaged, so that all of
them make the same step. Started in any other way, a process is a crew of one and nothing here costs anything.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

# The default arguments of this module hold the group that there is when it is imported, to the end of the process. An
# optimizer imports it too, and then there is a group: its threads outlive it, and abort a process that ends meanwhile.
import torch.distributed.nn.functional
from torch import nn

from ..errors import DistributedError

# processes wait for each other while one of them fits the baselines of its sessions; one that dies is noticed at once
_PATIENCE = timedelta(hours=6)


class PeerFailed(SystemExit):
    """Another process has failed and said so; this one ends without a word."""


@dataclass(frozen=True)
class ProcessGroup:
    """One of `size` processes, the one with number `rank`, from 0."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the process that talks and writes."""
        return self.rank == 0

    def collect(self, known: dict) -> dict:
        """What all processes know, put together in the order of the keys; of two that know a key, the later."""
        if self.size == 1:
            return known
        parts: list[dict] = [{}] * self.size
        dist.all_gather_object(parts, known)
        merged = {key: value for part in parts for key, value in part.items()}
        return {key: merged[key] for key in sorted(merged)}

    def total(self, amount: float) -> float:
        """The sum of an amount over the processes."""
        if self.size == 1:
            return amount
        tensor = torch.tensor(amount, dtype=torch.float64)
        dist.all_reduce(tensor)
        return float(tensor)

    def share(self, model: nn.Module) -> nn.Module:
        """The model, its gradients averaged over the processes on the way back; weights as in the first of them."""
        if self.size == 1:
            return model
        return nn.parallel.DistributedDataParallel(model)


SINGLE_PROCESS = ProcessGroup()


@contextmanager
def crew() -> Iterator[ProcessGroup]:
    """The crew that `torchrun` has put this process in; when one process fails, all end and one of them says why.

    Raises:
        PeerFailed: another process has failed first.
        DistributedError: another process went away without a word, killed for instance, or all were told to stop.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield SINGLE_PROCESS
        return
    store, rank, size = next(dist.rendezvous("env://", timeout=_PATIENCE))
    dist.init_process_group("gloo", store=dist.PrefixStore("training", store), rank=rank, world_size=size)
    before = signal.signal(signal.SIGTERM, _stop)  # torchrun's way of ending those that are left
    try:
        yield ProcessGroup(rank, size)
        # torch 2.5 destroys a group with the interpreter locked, and waits for threads that may need it for a tensor
        time.sleep(0.1)
    except BaseException as trouble:
        # the store lives with torchrun, so it is there whichever of the processes has gone
        if store.compare_set("failed first", "", str(rank)) != str(rank).encode():
            raise PeerFailed(1) from trouble
        if isinstance(trouble, _Stopped) or (isinstance(trouble, RuntimeError) and "gloo" in str(trouble)):
            raise DistributedError(
                f"process {rank} of {size}: another process has gone away, or all were stopped."
            ) from trouble
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        dist.destroy_process_group()


class _Stopped(BaseException):
    """SIGTERM has come."""


def _stop(*_):
    raise _Stopped
