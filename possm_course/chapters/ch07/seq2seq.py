"""Sequence to sequence: an encoder reads, a decoder writes, and the loss ignores padding."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from possm_lite.nn.attention import masked_softmax
from possm_lite.nn.recurrent import GRU

PAD, BEGIN, END = 0, 1, 2  # the first three tokens of every vocabulary


def masked_cross_entropy(logits: Tensor, targets: Tensor, pad: int = PAD) -> Tensor:
    """The mean cross entropy over the real tokens (7.3).

    Args:
        logits: Shape (..., T, V).
        targets: The right tokens, shape (..., T).
        pad: The token of padding, which is not counted.

    Returns:
        The mean in nats, shape (); 0 if there are no real tokens.
    """
    each = F.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), reduction="none", ignore_index=pad
    )  # (... T,)
    return each.sum() / (targets != pad).sum().clamp(min=1)  # a mean over tokens, not over slots


def shift_right(targets: Tensor) -> Tensor:
    """The input of the decoder under teacher forcing: BEGIN, then all targets but the last.

    Args:
        targets: Tokens, shape (..., T).

    Returns:
        Tokens, shape (..., T).
    """
    begin = torch.full_like(targets[..., :1], BEGIN)
    return torch.cat([begin, targets[..., :-1]], -1)


class Seq2Seq(nn.Module):
    """Encoder and decoder joined by one vector, s_0.

        h_i = GRU(E x_i, h_{i-1}),   s_0 = h_N
        s_t = GRU(E' y_{t-1}, s_{t-1}),   p(y_t) = softmax(W s_t + b)        (7.2)

    Args:
        n_source: Tokens of the source's vocabulary.
        n_target: V, tokens of the target's vocabulary.
        dim: Features of an embedded token.
        hidden: h, features of a state.

    Source: Cho et al. 2014; Sutskever et al. 2014.
    """

    def __init__(self, n_source: int, n_target: int, dim: int = 32, hidden: int = 64):
        super().__init__()
        self.read = nn.Embedding(n_source, dim)
        self.encoder = GRU(dim, hidden)
        self.write = nn.Embedding(n_target, dim)
        self.decoder = GRU(dim, hidden)
        self.readout = nn.Linear(hidden, n_target)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The states of the encoder.

        Args:
            source: Tokens, shape (B, N), padded at the end.

        Returns:
            The states, shape (B, N, h), the mask of real tokens, shape (B, N), and the state at the
            last of them, shape (B, h).

        Raises:
            ValueError: A row has no token, or padding before its last one.
        """
        mask = source != PAD
        if not mask[:, 0].all() or (mask[:, 1:] & ~mask[:, :-1]).any():
            raise ValueError(f"Every row needs a token and its padding ({PAD}) after the last one.")
        H = self.encoder(self.read(source))[0]  # (B, N, h)
        last = mask.sum(-1) - 1  # (B,): after it the GRU has read padding
        return H, mask, H[torch.arange(len(H)), last]

    def start(self, source: Tensor) -> tuple[Tensor, ...]:
        """The decoder's state before its first word, a tuple, for the `source` tokens (B, N)."""
        _, _, last = self.encode(source)
        return (last,)

    def step(self, tokens: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One word.

        Args:
            tokens: The previous words, shape (B,).
            state: As `start` or `step` give it.

        Returns:
            The logits, shape (B, V), and the next state.
        """
        s = self.decoder.step(self.write(tokens), state[0][None])[0]  # (B, h)
        return self.readout(s), (s,)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher forcing: the logits of each word, given the true words before it.

        Args:
            source: Tokens, shape (B, N).
            target: Tokens, shape (B, T).

        Returns:
            The logits, shape (B, T, V).
        """
        s_0 = self.start(source)[0]
        states, _ = self.decoder(self.write(shift_right(target)), s_0[None])  # (B, T, h)
        return self.readout(states)

    @torch.no_grad()
    def generate(self, source: Tensor, max_len: int) -> Tensor:
        """Free running: the input is the model's own last word, the likeliest one.

        Args:
            source: Tokens, shape (B, N).
            max_len: Words of an answer at most.

        Returns:
            Tokens, padded after END, shape (B, max_len).
        """
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
    """Base of the decoders that attend to h_i = [forward_i; backward_i] with an additive score.

        alpha_i = softmax_i(w_v . tanh(W_q s + W_k h_i)),   c = sum_i alpha_i h_i        (7.4)

    A state is s (B, h), H (B, N, 2h), the keys W_k h_i (B, N, h) and the mask (B, N).

    Args:
        n_source: Tokens of the source's vocabulary.
        n_target: V, tokens of the target's vocabulary.
        dim: Features of an embedded token.
        hidden: h, features of a state, in each direction of the encoder.

    Source: Bahdanau et al. 2015, 3.1.
    """

    def __init__(self, n_source: int, n_target: int, dim: int = 32, hidden: int = 64):
        super().__init__(n_source, n_target, dim, hidden)
        self.backward_encoder = GRU(dim, hidden)
        self.W_q = nn.Parameter(torch.randn(hidden, hidden) / math.sqrt(hidden))
        self.W_k = nn.Parameter(torch.randn(hidden, 2 * hidden) / math.sqrt(2 * hidden))
        self.w_v = nn.Parameter(torch.randn(hidden) / math.sqrt(hidden))

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `Seq2Seq` does for the `source` (B, N), but states of both directions, (B, N, 2h)."""
        forward, mask, last = super().encode(source)
        i = torch.arange(source.shape[1], device=source.device)
        # reverse the real tokens alone: otherwise padding would be read first
        reversed_index = torch.where(mask, mask.sum(-1, keepdim=True) - 1 - i, i)  # (B, N)
        reversed_source = source.gather(1, reversed_index)
        states, _ = self.backward_encoder(self.read(reversed_source))  # (B, N, h)
        backward = states.gather(1, reversed_index[..., None].expand_as(states))
        return torch.cat([forward, backward], -1), mask, last

    def start(self, source: Tensor) -> tuple[Tensor, ...]:
        H, mask, last = self.encode(source)
        return last, H, H @ self.W_k.T, mask

    def context(self, S: Tensor, H: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """What the states that ask read of the source.

        Args:
            S: The states that ask, shape (B, T, h).
            H: The states of the encoder, shape (B, N, 2h).
            keys: W_k h_i, shape (B, N, h).
            mask: True at real tokens, shape (B, N).

        Returns:
            The contexts, shape (B, T, 2h), and the weights, shape (B, T, N).
        """
        queries = (S @ self.W_q.T)[:, :, None]  # (B, T, 1, h)
        scores = torch.tanh(queries + keys[:, None]) @ self.w_v  # (B, T, N)
        weights = masked_softmax(scores, mask[:, None])
        return weights @ H, weights

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.readout(self.unroll(source, target)[0])

    @torch.no_grad()
    def align(self, source: Tensor, target: Tensor) -> Tensor:
        """The attention weights of the decoder for each word of a target.

        Args:
            source: Tokens, shape (B, N).
            target: Tokens, shape (B, T).

        Returns:
            The weights, shape (B, T, N).
        """
        return self.unroll(source, target)[1]


class BahdanauSeq2Seq(AttentionSeq2Seq):
    """The previous state asks, before every word.

        c_t = sum_i alpha_i(s_{t-1}) h_i
        s_t = GRU([E' y_{t-1}; c_t], s_{t-1}),   p(y_t) = softmax(W s_t + b)        (7.5)

    Args:
        n_source: Tokens of the source's vocabulary.
        n_target: V, tokens of the target's vocabulary.
        dim: Features of an embedded token.
        hidden: h, features of a state, in each direction of the encoder.

    Source: Bahdanau et al. 2015, with a plain readout instead of maxout.
    """

    def __init__(self, n_source: int, n_target: int, dim: int = 32, hidden: int = 64):
        super().__init__(n_source, n_target, dim, hidden)
        self.decoder = GRU(dim + 2 * hidden, hidden)

    def attend_and_step(self, tokens: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """One step of the decoder.

        Args:
            tokens: The previous words, shape (B,).
            state: As `start` or `step` give it.

        Returns:
            The new state s_t, shape (B, h), and the attention weights, shape (B, N).
        """
        s, *source = state
        c, weights = self.context(s[:, None], *source)
        x = torch.cat([self.write(tokens), c[:, 0]], -1)  # (B, dim + 2 h)
        return torch.gru_cell(x, s, *self.decoder.all_weights[0]), weights[
            :, 0
        ]  # the formula of `gru_cell`, faster

    def step(self, tokens: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        s, _ = self.attend_and_step(tokens, state)
        return self.readout(s), (s, *state[1:])

    def unroll(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Teacher forcing, one word after the other.

        Args:
            source: Tokens, shape (B, N).
            target: Tokens, shape (B, T).

        Returns:
            The states s_1 ... s_T, shape (B, T, h), and all alignments, shape (B, T, N).
        """
        state = self.start(source)
        states, alignment = [], []
        for tokens in shift_right(target).unbind(1):
            s, weights = self.attend_and_step(tokens, state)
            states.append(s)
            alignment.append(weights)
            state = (s, *state[1:])
        return torch.stack(states, 1), torch.stack(alignment, 1)


class LuongSeq2Seq(AttentionSeq2Seq):
    """The new state asks, and the context goes to the readout alone.

        s_t = GRU(E' y_{t-1}, s_{t-1}),   c_t = sum_i alpha_i(s_t) h_i
        p(y_t) = softmax(W tanh(W_c [c_t; s_t]) + b)        (7.9)

    Args:
        n_source: Tokens of the source's vocabulary.
        n_target: V, tokens of the target's vocabulary.
        dim: Features of an embedded token.
        hidden: h, features of a state, in each direction of the encoder.

    Source: Luong et al. 2015, without input feeding.
    """

    def __init__(self, n_source: int, n_target: int, dim: int = 32, hidden: int = 64):
        super().__init__(n_source, n_target, dim, hidden)
        self.W_c = nn.Parameter(torch.randn(hidden, 3 * hidden) / math.sqrt(3 * hidden))

    def look_up(self, S: Tensor, *source: Tensor) -> tuple[Tensor, Tensor]:
        """What the readout reads, tanh(W_c [c_t; s_t]).

        Args:
            S: The new states, shape (B, T, h).
            source: H, keys and mask, as in `context`.

        Returns:
            What the readout reads, shape (B, T, h), and the attention weights, shape (B, T, N).
        """
        c, weights = self.context(S, *source)
        return torch.tanh(torch.cat([c, S], -1) @ self.W_c.T), weights

    def step(self, tokens: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        s = self.decoder.step(self.write(tokens), state[0][None])[0]  # (B, h)
        looked_up, _ = self.look_up(s[:, None], *state[1:])  # (B, 1, h)
        return self.readout(looked_up[:, 0]), (s, *state[1:])

    def unroll(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Teacher forcing, all steps at once.

        Args:
            source: Tokens, shape (B, N).
            target: Tokens, shape (B, T).

        Returns:
            What the readout reads, shape (B, T, h), and all alignments, shape (B, T, N).
        """
        s_0, *what_was_read = self.start(source)
        states, _ = self.decoder(self.write(shift_right(target)), s_0[None])  # (B, T, h)
        return self.look_up(states, *what_was_read)
