"""Trains the letter reader of chapter 19 with CTC, in minutes, and writes ch19_letters.npz.

python experiments/ch19_letters.py
"""

import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from possm_course.chapters.ch19.ctc import LetterReader, beam_search, greedy, letter_error_rate, log_probabilities
from possm_course.chapters.ch19.writer import BIN_S, LETTERS, N_UNITS, WORDS, nonsense, tokens, write
from possm_lite.simulate.reaches import hand_at

FILE = Path(__file__).with_suffix(".npz")
N_SINGLE, N_TRAIN, BATCH, LR = 640, 1200, 16, 3e-3
PEN_STEPS, SINGLE_EPOCHS, EPOCHS = 600, 20, 20  # the pen's velocity first, then single letters, then words


def pen_velocity(writing, rows, n_bins):
    """Velocity of the pen in the middle of each bin of some words, m/s, (B, T, 2)."""
    times = BIN_S * (np.arange(n_bins) + 0.5)
    starts = writing.reaches.trials[rows, 0]
    velocity = np.stack([hand_at(writing.reaches, start + times)[1] for start in starts])
    return torch.tensor(velocity / 1000, dtype=torch.float32)


def train_pen(model, writing, rng):
    """The velocity of the pen is learned, as in chapter 12: CTC alone takes much longer to begin."""
    head = nn.Linear(model.signs.in_features, 2)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], 3e-3)
    for step in range(PEN_STEPS):
        rows = N_SINGLE + rng.choice(N_TRAIN, BATCH, replace=False)
        batch = writing.batch(rows, rng.random(N_UNITS) > 0.3 * rng.random())
        hidden, _ = model.possm.backbone(model.possm.encode(batch))
        is_bin = torch.arange(hidden.shape[1]) < batch.n_bins[:, None]
        right = pen_velocity(writing, rows, hidden.shape[1])
        loss = ((head(hidden) - right)[is_bin] ** 2).mean() / (right[is_bin] ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 99:
            print(f"pen, step {step + 1}: {loss.item():.3f}", flush=True)


def train_letters(model, writing, rows, epochs, rng):
    """The mean CTC loss in each epoch over some words."""
    losses, n_steps = [], epochs * (len(rows) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), LR)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, n_steps, pct_start=0.1)
    for epoch in range(epochs):
        losses_now = []
        for chosen in rng.permutation(rows).reshape(-1, BATCH):
            batch = writing.batch(chosen, rng.random(N_UNITS) > 0.3 * rng.random())
            texts = [tokens(writing.texts[row]) for row in chosen]
            log_p = model(batch).transpose(0, 1)  # (T, B, 13)
            lengths = torch.tensor([len(text) for text in texts])
            loss = F.ctc_loss(log_p, torch.tensor(sum(texts, [])), batch.n_bins, lengths)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses_now.append(loss.item())
        losses.append(np.mean(losses_now))
        print(f"epoch {epoch + 1}: loss {losses[-1]:.3f}, {time.process_time():.0f} s", flush=True)
    return losses


def train(seed=0):
    """A reader that has learned from single letters and nonsense words, and its loss in each epoch of both."""
    rng = np.random.default_rng(seed)
    singles = rng.choice(list(LETTERS), N_SINGLE).tolist()
    writing = write(singles + nonsense(rng, N_TRAIN), seed)
    torch.manual_seed(seed)
    model = LetterReader()
    train_pen(model, writing, rng)
    losses = train_letters(model, writing, np.arange(N_SINGLE), SINGLE_EPOCHS, rng)
    return model, losses + train_letters(model, writing, np.arange(N_SINGLE, N_SINGLE + N_TRAIN), EPOCHS, rng)


def test_words():
    """The words of the test, each of the table once, in a random order."""
    return np.random.default_rng(190).permutation(WORDS).tolist()


def main():
    torch.set_num_threads(1)
    model, losses = train()
    writing = write(test_words(), 1000)
    log_p = log_probabilities(model, writing)
    said = [greedy(rows) for rows in log_p]
    print(f"letter error rate {letter_error_rate(said, writing.texts):.3f}", list(zip(said, writing.texts))[:20])
    print([round(letter_error_rate([w for w, _ in (beam_search(r, 8, table) for r in log_p)], writing.texts), 3) for table in (None, WORDS)])
    np.savez_compressed(
        FILE,
        losses=np.array(losses, np.float32),
        n_bins=np.array([len(rows) for rows in log_p]),
        log_p=torch.cat(log_p).numpy().astype(np.float16),
    )
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
