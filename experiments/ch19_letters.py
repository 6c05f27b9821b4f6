"""Trains the letter reader of chapter 19 with CTC, in minutes, and writes ch19_letters.npz.

python experiments/ch19_letters.py
"""

import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from possm_course.chapters.ch19.ctc import LetterReader, beam_search, greedy, letter_error_rate, log_probabilities
from possm_course.chapters.ch19.writer import BIN_S, N_UNITS, SIZE_MM, WORDS, nonsense, tokens, write
from possm_lite.simulate.reaches import hand_at

FILE = Path(__file__).with_suffix(".npz")
N_TRAIN, BATCH, LR = 1800, 16, 3e-3
PEN_STEPS, EPOCHS = 500, 8  # where the pen is and how fast, then letters
NOISE = 0.6  # on the tokens, of their spread


def one_cycle(parameters, n_steps):
    """An optimizer whose learning rate rises and falls once."""
    optimizer = torch.optim.AdamW(parameters, LR)
    return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, n_steps, pct_start=0.1)


def descend(loss, parameters, optimizer, schedule):
    """One step down."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    schedule.step()


def pen_at(writing, rows, n_bins):
    """Where the pen is in the middle of each bin of some words, and how fast it goes, (B, T, 4)."""
    times = BIN_S * (np.arange(n_bins) + 0.5)
    seen = [hand_at(writing.reaches, start + times) for start in writing.reaches.trials[rows, 0]]
    pen = np.stack([np.concatenate([place / SIZE_MM, velocity / 300], -1) for place, velocity in seen])
    return torch.tensor(pen, dtype=torch.float32)


def train_pen(model, writing, rng):
    """All of the POSSM learns the pen's place and velocity, as in chapter 12."""
    head = nn.Linear(model.signs.in_features, 4)
    parameters = [*model.parameters(), *head.parameters()]
    optimizer, schedule = one_cycle(parameters, PEN_STEPS)
    for step in range(PEN_STEPS):
        rows = rng.choice(N_TRAIN, BATCH, replace=False)
        batch = writing.batch(rows, rng.random(N_UNITS) > 0.3 * rng.random())
        hidden, _ = model.possm.backbone(model.possm.encode(batch))
        is_bin = torch.arange(hidden.shape[1]) < batch.n_bins[:, None]
        right = pen_at(writing, rows, hidden.shape[1])[is_bin]
        loss = (((head(hidden)[is_bin] - right) ** 2).mean(0) / (right**2).mean(0)).mean()
        descend(loss, parameters, optimizer, schedule)
        if step % 100 == 99:
            print(f"pen, step {step + 1}: {loss.item():.3f}, {time.process_time():.0f} s", flush=True)


@torch.no_grad()
def bin_tokens(model, writing):
    """What the input attention makes of each bin of each word, a list of (T, D)."""
    found = []
    for rows in np.array_split(np.arange(len(writing.texts)), 36):
        batch = writing.batch(rows)
        z = model.possm.encode(batch)
        found += [row[:n].clone() for row, n in zip(z, batch.n_bins.tolist(), strict=True)]
    return found


def train_letters(model, writing, rng):
    """The input attention stays as it is; the GRU and the readout learn letters. The mean loss in each epoch."""
    z = bin_tokens(model, writing)
    spread = torch.cat(z).std(0)
    parameters = [*model.possm.backbone.parameters(), *model.signs.parameters()]
    optimizer, schedule = one_cycle(parameters, EPOCHS * (N_TRAIN // BATCH))
    losses = []
    for epoch in range(EPOCHS):
        losses_now = []
        for chosen in np.array_split(rng.permutation(N_TRAIN), N_TRAIN // BATCH):
            x = pad_sequence([z[row] for row in chosen], batch_first=True)
            hidden, _ = model.possm.backbone(x + NOISE * spread * torch.randn_like(x))
            log_p = model.signs(F.dropout(hidden, 0.2)).log_softmax(-1).transpose(0, 1)  # (T, B, 13)
            texts = [tokens(writing.texts[row]) for row in chosen]
            lengths = [len(z[row]) for row in chosen], [len(text) for text in texts]
            loss = F.ctc_loss(log_p, torch.tensor(sum(texts, [])), *map(torch.tensor, lengths))
            descend(loss, parameters, optimizer, schedule)
            losses_now.append(loss.item())
        losses.append(np.mean(losses_now))
        print(f"epoch {epoch + 1}: loss {losses[-1]:.3f}, {time.process_time():.0f} s", flush=True)
    return losses


def train(seed=0):
    """A reader that has learned from nonsense words, and its CTC loss in each epoch."""
    rng = np.random.default_rng(seed)
    writing = write(nonsense(rng, N_TRAIN), seed)
    torch.manual_seed(seed)
    model = LetterReader()
    train_pen(model, writing, rng)
    return model, train_letters(model, writing, rng)


def test_words():
    """The words of the test, each of the table once, in a random order."""
    return np.random.default_rng(190).permutation(WORDS).tolist()


def main():
    torch.set_num_threads(1)
    model, losses = train()
    writing = write(test_words(), 1001)  # movements and spikes on which no setting was chosen
    log_p = log_probabilities(model, writing)
    np.savez_compressed(
        FILE,
        losses=np.array(losses, np.float32),
        n_bins=np.array([len(rows) for rows in log_p]),
        log_p=torch.cat(log_p).numpy().astype(np.float16),
    )
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} KB")
    ways = {
        "greedy": [greedy(rows) for rows in log_p],
        "beam": [beam_search(rows, 8)[0] for rows in log_p],
        "beam and table": [beam_search(rows, 30, WORDS)[0] for rows in log_p],
    }
    for name, said in ways.items():
        print(f"{name:15} letter error rate {letter_error_rate(said, writing.texts):.3f}", said[:8], flush=True)


if __name__ == "__main__":
    main()
