"""Memory-augmented networks: a controller that writes to an external memory and reads from it."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from torch import Tensor


class MemoryAugmented(NamedTuple):
    """Four functions that make a memory-augmented network; h and m may be any objects.

        h_t, q_t, v_t = controller(x_t, r_{t-1}, h_{t-1})
        m_t = write(m_{t-1}, q_t, v_t),   r_t = read(m_t, q_t),   y_t = readout(h_t, r_t)   (8.11)

    h is the hidden state, m the memory. The query q says where to write and what to look for, the
    value v what to write.

    Attributes:
        controller: (x_t, r_{t-1}, h_{t-1}) to (h_t, q_t, v_t).
        write: (m_{t-1}, q_t, v_t) to the new memory m_t.
        read: (m_t, q_t) to the vector read r_t.
        readout: (h_t, r_t) to the output y_t.
    """

    controller: Callable[[Tensor, Tensor, Any], tuple[Any, Any, Any]]
    write: Callable[[Any, Any, Any], Any]
    read: Callable[[Any, Any], Tensor]
    readout: Callable[[Any, Tensor], Tensor]

    def run(
        self, inputs: Iterable[Tensor], memory: Any, h: Any, r: Tensor
    ) -> tuple[list[Tensor], Any]:
        """Runs a sequence through the network.

        Args:
            inputs: x_1, x_2, ..., one tensor for each step.
            memory: m_0, the memory before the first step.
            h: h_0, the hidden state before the first step.
            r: r_0, the vector read before the first step.

        Returns:
            The outputs y_t, one for each step, and the memory after the last step.
        """
        outputs = []
        for x in inputs:
            h, query, value = self.controller(x, r, h)
            memory = self.write(memory, query, value)
            r = self.read(memory, query)
            outputs.append(self.readout(h, r))
        return outputs, memory
