"""Sequence to sequence: an encoder reads, a decoder writes, and the loss ignores padding."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from possm_lite.nn.attention import masked_softmax
from possm_lite.nn.recurrent import GRU

PAD, BEGIN, END = 0, 1, 2  # the first three tokens of every vocabulary


def masked_cross_entropy(logits: Tensor, targets: Tensor, pad: int = PAD) -> Tensor:
    """Mean over the real tokens (7.3), in nats, of logits (..., T, V) and targets (..., T); 0 if there are none."""
    each = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none", ignore_index=pad)  # (... T,)
    return each.sum() / (targets != pad).sum().clamp(min=1)  # a mean over tokens, not over slots


def shift_right(targets: Tensor) -> Tensor:
    """Input of the decoder under teacher forcing: BEGIN, then all targets but the last; (..., T)."""
    return torch.cat([torch.full_like(targets[..., :1], BEGIN), targets[..., :-1]], -1)


class Seq2Seq(nn.Module):
    """Encoder and decoder joined by one vector, s_0. Source: Cho et al. 2014; Sutskever et al. 2014.

    h_i = GRU(E x_i, h_{i-1}),   s_0 = h_N,   s_t = GRU(E' y_{t-1}, s_{t-1}),   p(y_t) = softmax(W s_t + b)       (7.2)
    """

    def __init__(self, n_source: int, n_target: int, dim: int = 32, hidden: int = 64):
        super().__init__()
        self.read = nn.Embedding(n_source, dim)
        self.encoder = GRU(dim, hidden)
        self.write = nn.Embedding(n_target, dim)
        self.decoder = GRU(dim, hidden)
        self.readout = nn.Linear(hidden, n_target)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens (B, N) to states (B, N, h), the mask of real tokens (B, N) and the state at the last one (B, h)."""
        mask = source != PAD
        if not mask[:, 0].all() or (mask[:, 1:] & ~mask[:, :-1]).any():
            raise ValueError(f"Every row needs a token and its padding ({PAD}) after the last one.")
        H = self.encoder(self.read(source))[0]  # (B, N, h)
        last = mask.sum(-1) - 1  # (B,): after it the GRU has read padding
        return H, mask, H[torch.arange(len(H)), last]

    def start(self, source: Tensor) -> tuple[Tensor, ...]:
        """The decoder's state before its first word."""
        return (self.encode(source)[2],)

    def step(self, tokens: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One word: previous tokens (B,) and state to logits (B, V) and the next state."""
        s = self.decoder.step(self.write(tokens), state[0][None])[0]  # (B, h)
        return self.readout(s), (s,)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher forcing: logits (B, T, V), given the true words before it. Source (B, N), target (B, T)."""
        s_0 = self.start(source)[0]
        return self.readout(self.decoder(self.write(shift_right(target)), s_0[None])[0])

    @torch.no_grad()
    def generate(self, source: Tensor, max_len: int) -> Tensor:
        """Free running: the input is the model's own last word, the likeliest one. Tokens (B, max_len), padded."""
        state = self.start(source)
        tokens = torch.full_like(source[:, 0], BEGIN)
        done = torch.zeros_like(tokens, dtype=torch.bool)
        written = []
        for _ in range(max_len):
            logits, state = self.step(tokens, state)
            tokens = logits.argmax(-1)  # (B,)
            written.append(tokens.masked_fill(done, PAD))
            done = done | (tokens == END)
        return torch.stack(written, 1)


class AttentionSeq2Seq(Seq2Seq):
    """Base of the decoders that attend to h_i = [forward_i; backward_i], (2 hidden), with an additive score.

        alpha_i = softmax_i(w_v . tanh(W_q s + W_k h_i)),   c = sum_i alpha_i h_i                                  (7.4)

    A state is s (B, h), H (B, N, 2h), keys W_k h_i (B, N, h) and the mask (B, N). Source: Bahdanau et al. 2015, 3.1.
    """

    def __init__(self, n_source: int, n_target: int, dim: int = 32, hidden: int = 64):
        super().__init__(n_source, n_target, dim, hidden)
        self.backward_encoder = GRU(dim, hidden)
        self.W_q = nn.Parameter(torch.randn(hidden, hidden) / math.sqrt(hidden))
        self.W_k = nn.Parameter(torch.randn(hidden, 2 * hidden) / math.sqrt(2 * hidden))
        self.w_v = nn.Parameter(torch.randn(hidden) / math.sqrt(hidden))

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        forward, mask, last = super().encode(source)
        i = torch.arange(source.shape[1], device=source.device)
        # reverse the real tokens alone: otherwise padding would be read first
        reversed_index = torch.where(mask, mask.sum(-1, keepdim=True) - 1 - i, i)  # (B, N)
        states = self.backward_encoder(self.read(source.gather(1, reversed_index)))[0]  # (B, N, h)
        backward = states.gather(1, reversed_index[..., None].expand_as(states))
        return torch.cat([forward, backward], -1), mask, last

    def start(self, source: Tensor) -> tuple[Tensor, ...]:
        H, mask, last = self.encode(source)
        return last, H, H @ self.W_k.T, mask

    def context(self, S: Tensor, H: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """What the states S (B, T, h) that ask read of the source: contexts (B, T, 2h) and weights (B, T, N)."""
        scores = torch.tanh((S @ self.W_q.T)[:, :, None] + keys[:, None]) @ self.w_v  # (B, T, N)
        weights = masked_softmax(scores, mask[:, None])
        return weights @ H, weights

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.readout(self.unroll(source, target)[0])

    @torch.no_grad()
    def align(self, source: Tensor, target: Tensor) -> Tensor:
        """Attention weights of the decoder for each word of a target, (B, T, N)."""
        return self.unroll(source, target)[1]


class BahdanauSeq2Seq(AttentionSeq2Seq):
    """The previous state asks, before every word. Source: Bahdanau et al. 2015, with a plain readout instead of maxout.

    c_t = sum_i alpha_i(s_{t-1}) h_i,   s_t = GRU([E' y_{t-1}; c_t], s_{t-1}),   p(y_t) = softmax(W s_t + b)       (7.5)
    """

    def __init__(self, n_source: int, n_target: int, dim: int = 32, hidden: int = 64):
        super().__init__(n_source, n_target, dim, hidden)
        self.decoder = GRU(dim + 2 * hidden, hidden)

    def attend_and_step(self, tokens: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Previous tokens (B,) and state to the new state s_t (B, h) and the attention weights (B, N)."""
        s, *source = state
        c, weights = self.context(s[:, None], *source)
        x = torch.cat([self.write(tokens), c[:, 0]], -1)  # (B, dim + 2 h)
        return torch.gru_cell(x, s, *self.decoder.all_weights[0]), weights[:, 0]  # the formula of `gru_cell`, faster

    def step(self, tokens: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        s, _ = self.attend_and_step(tokens, state)
        return self.readout(s), (s, *state[1:])

    def unroll(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Teacher forcing: states s_1 ... s_T (B, T, h) and all alignments (B, T, N)."""
        state = self.start(source)
        steps = []
        for tokens in shift_right(target).unbind(1):
            steps.append(self.attend_and_step(tokens, state))
            state = (steps[-1][0], *state[1:])
        states, alignment = zip(*steps, strict=True)
        return torch.stack(states, 1), torch.stack(alignment, 1)


class LuongSeq2Seq(AttentionSeq2Seq):
    """The new state asks, and the context goes to the readout alone. Source: Luong et al. 2015, without input feeding.

    s_t = GRU(E' y_{t-1}, s_{t-1}),   c_t = sum_i alpha_i(s_t) h_i,   p(y_t) = softmax(W tanh(W_c [c_t; s_t]) + b) (7.6)
    """

    def __init__(self, n_source: int, n_target: int, dim: int = 32, hidden: int = 64):
        super().__init__(n_source, n_target, dim, hidden)
        self.W_c = nn.Parameter(torch.randn(hidden, 3 * hidden) / math.sqrt(3 * hidden))

    def look_up(self, S: Tensor, *source: Tensor) -> tuple[Tensor, Tensor]:
        """New states (B, T, h) to tanh(W_c [c_t; s_t]) (B, T, h) and the attention weights (B, T, N)."""
        c, weights = self.context(S, *source)
        return torch.tanh(torch.cat([c, S], -1) @ self.W_c.T), weights

    def step(self, tokens: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        s = self.decoder.step(self.write(tokens), state[0][None])[0]  # (B, h)
        return self.readout(self.look_up(s[:, None], *state[1:])[0][:, 0]), (s, *state[1:])

    def unroll(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Teacher forcing, all steps at once: what the readout reads (B, T, h), and all alignments (B, T, N)."""
        s_0, *source = self.start(source)
        return self.look_up(self.decoder(self.write(shift_right(target)), s_0[None])[0], *source)
