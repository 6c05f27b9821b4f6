"""Trains the letter reader of chapter 19 with CTC, in minutes, and writes ch19_letters.npz.

python experiments/ch19_letters.py
"""

import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from possm_course.chapters.ch19.ctc import LetterReader, greedy, letter_error_rate, log_probabilities
from possm_course.chapters.ch19.writer import N_UNITS, WORDS, nonsense, tokens, write

FILE = Path(__file__).with_suffix(".npz")
N_TRAIN, EPOCHS, BATCH, LR = 480, 100, 16, 5e-3


def train(seed=0):
    """A reader that has learned from nonsense words, and its mean loss in each epoch."""
    rng = np.random.default_rng(seed)
    writing = write(nonsense(rng, N_TRAIN), seed)
    torch.manual_seed(seed)
    model, losses = LetterReader(), []
    n_steps = EPOCHS * N_TRAIN // BATCH
    optimizer = torch.optim.AdamW(model.parameters(), LR)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, n_steps)
    for epoch in range(EPOCHS):
        begun, losses_now = time.process_time(), []
        for rows in rng.permutation(N_TRAIN).reshape(-1, BATCH):
            batch = writing.batch(rows, rng.random(N_UNITS) > 0.3 * rng.random())
            texts = [tokens(writing.texts[row]) for row in rows]
            log_p = model(batch).transpose(0, 1)  # (T, B, 13)
            lengths = torch.tensor([len(text) for text in texts])
            loss = F.ctc_loss(log_p, torch.tensor(sum(texts, [])), batch.n_bins, lengths)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses_now.append(loss.item())
        losses.append(np.mean(losses_now))
        print(f"epoch {epoch + 1}: loss {losses[-1]:.3f}, {time.process_time() - begun:.1f} s", flush=True)
    return model, losses


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
    np.savez_compressed(
        FILE,
        losses=np.array(losses, np.float32),
        n_bins=np.array([len(rows) for rows in log_p]),
        log_p=torch.cat(log_p).numpy().astype(np.float16),
    )
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
