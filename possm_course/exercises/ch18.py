"""Exercises of chapter 18: the gradient of a whole batch, windows of a process, parts in turns, a limit, and a ring."""

import torch

from possm_course.checks import Case, Complaint, ValueCheck, edited, exercise, normal
from possm_course.checks.compare import difference


# Exercise 18.1: the gradient of the whole from those of its parts
def _parts(*n_samples, shape=(4,)):
    """Makes the gradient of each part, NaN of one without samples, and the number of samples of each."""

    def make():
        gradients = []
        for i, n in enumerate(n_samples):
            gradient = normal(*shape, seed=i)
            gradients.append(gradient if n else gradient * torch.nan)
        return gradients, list(n_samples)

    return make


@exercise(
    cases={
        "two parts of 5 samples each": _parts(5, 5),
        "parts of 30 and 10 samples": _parts(30, 10),
        "three parts of 7, 1 and 2 samples, a matrix as gradient": _parts(7, 1, 2, shape=(2, 3)),
        "a part without samples, whose gradient is NaN": _parts(6, 0, 3),
        "no samples in the first part": _parts(0, 6, 3),
        "a part with samples that has diverged to NaN": lambda: ([normal(4), normal(4) * torch.nan], [5, 5]),
    },
    mistakes={
        ("n * g → g", " if n > 0 → ", "sum(n_samples) → len(known)"): (
            "this is the plain mean of the gradients: a sample of a small part then counts for more than one of a "
            "large part. Weigh each gradient by its samples."
        ),
        ("n * g → n * g.nan_to_num()", " if n > 0 → "): "the NaN of a part *with* samples must not be hidden.",
        " if n > 0 → ": "a part without samples spoils all: 0 times NaN is NaN. Leave such a part out.",
        "return sum(known) / sum(n_samples) → return sum(known)": "the sum is not divided by the number of samples.",
        (
            "return sum(known) / sum(n_samples) → return sum(known) / len(n_samples)"
        ): "divided by the parts. Divide by the samples.",
        (
            "n * g → g",
            "sum(n_samples) → len(known)",
        ): (
            "the mean of the gradients of parts that have samples: a sample of a small part counts for more. "
            "Weigh by samples."
        ),
        ("n * g → g", "return sum(known) / sum(n_samples) → return sum(known)"): (
            "the gradients are added as they are. They are means: weigh each by its samples, then divide by all."
        ),
    },
)
def whole_gradient(gradients, n_samples):
    """Gradient of the mean over all samples, from those of the parts: lists of equal length."""
    known = [n * g for n, g in zip(n_samples, gradients, strict=True) if n > 0]  # n g: gradient of the sum
    return sum(known) / sum(n_samples)


# Exercise 18.2: the windows of a process
def _processes(size, n, seed=3, room_s=600.0):
    """A case that observes the windows of all `size` processes."""

    def observe(function, size):
        return tuple(function(seed, n, room_s, rank, size) for rank in range(size))

    return Case(lambda: (size,), observe)


@exercise(
    tolerance=1e-9,
    cases={
        "one process": _processes(1, 6),
        "two processes and 8 windows": _processes(2, 8),
        "another seed": _processes(2, 8, seed=4),
        "a part of 90 s": _processes(2, 8, room_s=90.0),
        "three processes and 8 windows": _processes(3, 8),
        "six processes and 16 windows": _processes(6, 16),
    },
    mistakes={
        ("seed(seed) → seed(seed + rank)", "rand(n, → rand(n // size,", ".tensor_split(size)[rank] → "): (
            "the seed depends on the rank, so other windows are drawn when the number of processes changes."
        ),
        ".tensor_split(size)[rank] → [rank * (n // size) : (rank + 1) * (n // size)]": (
            "windows are lost where their number is no multiple: 8 windows of three processes are 3, 3 and 2."
        ),
        ".tensor_split(size)[rank] → [rank::size]": "the batch is right, but you deal it out like cards.",
        ("rand(n, → rand(n // size,", ".tensor_split(size)[rank] → "): (
            "the seed is right now, and one of the two bugs is left: every process draws the same few windows. "
            "All should draw "
            "all n, and each take its own."
        ),
        ("rand(n, → rand(-(-n // size),", ".tensor_split(size)[rank] → "): (
            "every process draws the same few windows. All should draw all n, and each take its own."
        ),
        "seed(seed) → seed(seed + rank)": (
            "one of the two bugs is left: the seed still depends on the rank, so that each process cuts its part "
            "out of other "
            "windows."
        ),
        ".tensor_split(size)[rank] → .chunk(size)[rank] if rank < len(torch.arange(n).chunk(size)) else starts[:0]": (
            "`chunk` rounds the size of a part up: the last process gets few windows, or none. Parts should "
            "differ by one at most."
        ),
        ".tensor_split(size)[rank] → [rank * (n // size) : (rank + 1) * (n // size) if rank < size - 1 else n]": (
            "the last process takes all that is left over. Parts should differ by one at most."
        ),
        "return starts.tensor_split(size)[rank] → m = -(-n // size); "
        "return torch.cat([starts, starts[: m * size - n]])[rank * m : (rank + 1) * m]": (
            "the batch is filled up with repeats, as DistributedSampler does: some windows count twice. Parts "
            "may differ by one."
        ),
        "return starts.tensor_split(size)[rank] → m = -(-n // size); "
        "return torch.cat([starts, starts[: m * size - n]])[rank::size]": (
            "the batch is filled up with repeats and dealt out, as DistributedSampler does: some windows count twice."
        ),
        "torch.rand(n, generator=generator, dtype=torch.float64) → torch.rand(n, generator=generator).double()": (
            "drawn in float32, which are other numbers: `dtype=torch.float64`."
        ),
        " * room_s → ": "the starts are between 0 and 1. They should be between 0 and room_s.",
        (
            "return starts.tensor_split(size)[rank] → return starts"
        ): "every process takes all windows. Each should take its part.",
    },
)
def my_windows(seed, n, room_s, rank, size):
    """Starts in s, float64, (about n / size,), of the windows of process `rank`, counted from 0."""
    generator = torch.Generator().manual_seed(seed)  # the same in every process
    starts = torch.rand(n, generator=generator, dtype=torch.float64) * room_s  # (n,): all draw all
    return starts.tensor_split(size)[rank]  # and each takes its own


# Exercise 18.3: gradient accumulation
def _in_turns(function, *sizes):
    """Observe the gradient after batches of these sizes, and how many samples are kept at once for the way back."""
    model = torch.nn.Linear(3, 2)
    model.weight.grad = torch.ones(2, 3)  # of the step before
    kept = []  # more and fewer samples that wait for the way back
    model.register_forward_hook(lambda module, inputs, y: kept.append(len(y)))
    model.register_full_backward_hook(lambda module, dx, dy: kept.append(-len(dy[0])))
    batches = [(normal(n, 3, seed=n), normal(n, 2, seed=10 + n)) for n in sizes]
    result = function(model, batches)
    most = max(*sizes, *torch.tensor(kept).cumsum(0).tolist())  # fewer than the largest batch are right, too
    return {"the gradient by the weights": result[0], "samples kept for the way back": most}


@exercise(
    cases={
        "two batches of 4 and 5 samples": Case(lambda: (4, 5), _in_turns),
        "three batches of 1, 6 and 2 samples": Case(lambda: (1, 6, 2), _in_turns),
    },
    mistakes={
        "model.zero_grad() → pass": "the gradient of the step before is still in `.grad`.",
        " / n) → )": "this is the gradient of the sum, not of the mean.",
        "sum(y.numel() → sum(len(y)": "divided by samples: a sample of y has several values, and each counts.",
        "/ n → / y.numel()": "every batch has its own mean: divide by the number of values in all batches.",
        "/ n → / y.numel() / len(batches)": "the mean of the batches' means: a value of a small batch counts for more.",
        "((model(x) → model.zero_grad(); ((model(x)": "`zero_grad` inside the loop: only the last batch is left.",
        "return [p.grad for p in model.parameters()] → return [p.grad / len(batches) for p in model.parameters()]": (
            "divided by the number of batches once more: the mean over all values is enough."
        ),
    },
)
def accumulated(model, batches):
    """Gradients of the mean of (model(x) - y)^2 over all batches, of pairs (x, y): a list, one of each parameter."""
    model.zero_grad()
    n = sum(y.numel() for _, y in batches)
    for x, y in batches:
        ((model(x) - y).square().sum() / n).backward()  # adds to .grad; then the batch can be forgotten
    return [p.grad for p in model.parameters()]


# Exercise 18.4: when the exchange takes longer than the computing
_SESSIONS = 0.2 * 1e9 / 8 / (200 * 64 * 4)  # 2 (n - 1) / n is 1 for two processes

sessions_at_half = ValueCheck(
    "sessions_at_half",
    expected=_SESSIONS,
    tolerance=3.0,
    mistakes={
        8 * _SESSIONS: "a network's bits are not bytes: 1 Gbit/s is 125 million bytes a second.",
        _SESSIONS / 2: "with two processes each sends 2 (n - 1) / n = 1 times the gradient: once, not twice.",
        _SESSIONS * 2: "with two processes 2 (n - 1) / n is 1, not a half: the sums go round, and then once more.",
    },
    hint="Bytes of a gradient for each session, and bytes that the network carries in the time: mind bits and bytes.",
)


# Exercise 18.5: a ring of processes
def _sums_and_bytes(function, buffers):
    """Observe both results of a ring, whichever way round it goes."""
    result = function(buffers)
    if difference(result, _to_the_left(buffers), 0.0) is None:
        result = ring_all_reduce.reference(buffers)  # the other direction is as good
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Complaint("return two lists: what each process has in the end, and the bytes each has sent")
    return {
        "the sums": torch.stack([x.double() for x in result[0]]),  # (n, length)
        "the bytes sent": torch.tensor([float(x) for x in result[1]]),  # (n,)
    }


def _buffers(n, length, dtype=torch.float32):
    """A case of a tensor (length,) in each of n processes."""
    return Case(lambda: ([normal(length, seed=r).to(dtype) for r in range(n)],), _sums_and_bytes)


def _order_shows():
    """Numbers of which some sums in float32 depend on the order."""
    generator = torch.Generator().manual_seed(18)
    buffers = []
    for size in (1e7, 1.0, -1e7, -1.0):
        buffers.append(size * (1 + torch.rand(8, generator=generator)))
    return (buffers,)


@exercise(
    cases={
        "two processes": _buffers(2, 6),
        "three processes": _buffers(3, 6),
        "five processes, with chunks of unequal length": _buffers(5, 13),
        "numbers of 8 bytes": _buffers(3, 6, torch.float64),
        "a single process": _buffers(1, 4),
        "fewer numbers than processes": _buffers(4, 3),
        "sums in float32, in the order in which chunks travel": Case(_order_shows, _sums_and_bytes, tolerance=0.0),
    },
    mistakes={
        "range(2 * (n - 1)) → range(n - 1)": "each process has one complete chunk, the others are parts of sums.",
        "(r - i) % n → (r - i % (n - 1)) % n": "the second half begins with the chunk that is complete, r + 1, not r.",
        " if adding else message → ": "in the second half a chunk that arrives is complete: do not add it.",
        "sent[r] += message.nbytes → sent[r] += message.numel()": "numbers are counted. The bytes sent should be.",
        "sent[r] += message.nbytes → sent[r] += 1": "messages are counted. The bytes sent should be.",
        "return [torch.cat(own) for own in chunks], sent → return [torch.cat(own) / n for own in chunks], sent": (
            "divided by the number of processes. The sum is wanted."
        ),
        "message.nbytes → buffers[0].nbytes": "whole buffers are counted. In each round one chunk is sent.",
        (
            "return [torch.cat(own) for own in chunks], sent → return [sum(buffers)] * n, [2 * (n - 1) * "
            "buffers[0].nbytes // n] * n"
        ): ("the bytes are those of the formula. With chunks of unequal length each process sends its own number."),
    },
)
def ring_all_reduce(buffers):
    """The sum in every process, and the bytes each has sent: two lists. `buffers`: a tensor of each process."""
    n = len(buffers)
    chunks = [[chunk.clone() for chunk in buffer.tensor_split(n)] for buffer in buffers]  # chunks[r][c]
    sent = [0] * n
    for i in range(2 * (n - 1)):
        adding = i < n - 1
        numbers = [(r - i) % n for r in range(n)]  # in round 0 its own chunk, then always the one that has just come in
        messages = [chunks[r][c].clone() for r, c in enumerate(numbers)]  # first all send, then all change
        for r, (c, message) in enumerate(zip(numbers, messages, strict=True)):
            own = chunks[(r + 1) % n]
            own[c] = own[c] + message if adding else message
            sent[r] += message.nbytes
    return [torch.cat(own) for own in chunks], sent


_to_the_left = edited(ring_all_reduce.reference, ("(r - i) % n → (r + i) % n", "(r + 1) % n → (r - 1) % n"))
