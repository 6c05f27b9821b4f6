"""The frame of memory-augmented networks: a controller that writes to an external memory and reads from it."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from torch import Tensor


class MemoryAugmented(NamedTuple):
    """Four functions that make a memory-augmented network; the hidden state h and the memory m may be any objects.

    h_t, q_t, v_t = controller(x_t, r_{t-1}, h_{t-1}): where to write and what to look for, and what to write
    m_t = write(m_{t-1}, q_t, v_t),   r_t = read(m_t, q_t),   y_t = readout(h_t, r_t)                             (8.11)
    """

    controller: Callable[[Tensor, Tensor, Any], tuple[Any, Any, Any]]
    write: Callable[[Any, Any, Any], Any]
    read: Callable[[Any, Any], Tensor]
    readout: Callable[[Any, Tensor], Tensor]

    def run(self, inputs: Iterable[Tensor], memory: Any, h: Any, r: Tensor) -> tuple[list[Tensor], Any]:
        """All outputs and the last memory, from the memory, the hidden state and the vector read before the start."""
        outputs = []
        for x in inputs:
            h, query, value = self.controller(x, r, h)
            memory = self.write(memory, query, value)
            r = self.read(memory, query)
            outputs.append(self.readout(h, r))
        return outputs, memory
