"""A small transformer that reads a sequence and writes another one."""

import torch
from torch import Tensor, nn

from possm_course.chapters.ch07.seq2seq import BEGIN, END, PAD, shift_right
from possm_lite.nn.heads import MultiHeadAttention, TransformerBlock


class WritingBlock(TransformerBlock):
    """A block that looks at what was read, between its two parts: u = z + att(LN(z), H).

    Args:
        dim: Features of a token.
        n_heads: Heads of both attentions.
    """

    def __init__(self, dim: int, n_heads: int):
        super().__init__(dim, n_heads)
        self.look_norm = nn.LayerNorm(dim)
        self.look = MultiHeadAttention(dim, n_heads, bias=True)

    def forward(self, y: Tensor, H: Tensor, causal: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Words that look at earlier words, and then at the source.

        Args:
            y: Words, shape (B, T, D).
            H: What was read, shape (B, N, D).
            causal: True where a word may read a word, shape (T, T).
            mask: True at the real tokens of the source, shape (B, N).

        Returns:
            The words after the block, shape (B, T, D), and how they look at the source, shape
            (B, H, T, N).
        """
        attended, _ = self.attention(self.attention_norm(y), mask=causal)
        z = y + attended
        looked, weights = self.look(self.look_norm(z), H, mask[:, None])
        u = z + looked
        return u + self.mlp(self.mlp_norm(u)), weights


class Transformer(nn.Module):
    """Blocks that read, and blocks that write (7.7).

    Args:
        n_source: Tokens of the source's vocabulary.
        n_target: Tokens of the target's vocabulary.
        dim: Features of a token.
        n_heads: Heads of each attention.
        n_blocks: Blocks that read, and as many that write.

    Source: Vaswani et al. 2017, with the norm before each part.
    """

    def __init__(
        self, n_source: int, n_target: int, dim: int = 56, n_heads: int = 4, n_blocks: int = 1
    ):
        super().__init__()
        self.read = nn.Embedding(n_source, dim)
        self.write = nn.Embedding(n_target, dim)
        self.read_at = nn.Embedding(24, dim)  # learned positions
        self.write_at = nn.Embedding(24, dim)
        self.readers = nn.ModuleList(TransformerBlock(dim, n_heads) for _ in range(n_blocks))
        self.writers = nn.ModuleList(WritingBlock(dim, n_heads) for _ in range(n_blocks))
        self.read_norm = nn.LayerNorm(dim)
        self.write_norm = nn.LayerNorm(dim)
        self.readout = nn.Linear(dim, n_target)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """What is read of the `source` (B, N): H (B, N, D), and the mask of real tokens (B, N)."""
        mask = source != PAD  # (B, N)
        x = self.read(source) + self.read_at.weight[: source.shape[1]]  # (B, N, D)
        for block in self.readers:
            x = block(x, mask[:, None])
        return self.read_norm(x), mask

    def decode(self, previous: Tensor, H: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of each word, from all words before it.

        Args:
            previous: The word before each word, shape (B, T).
            H: What was read, shape (B, N, D).
            mask: True at the real tokens of the source, shape (B, N).

        Returns:
            The logits, shape (B, T, V), and how the last block looks at the source, a mean over
            heads, shape (B, T, N).
        """
        T = previous.shape[1]
        causal = torch.ones(T, T).tril().bool()
        y = self.write(previous) + self.write_at.weight[:T]  # (B, T, D)
        for block in self.writers:
            y, weights = block(y, H, causal, mask)
        return self.readout(self.write_norm(y)), weights.mean(1)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher forcing: `source` (B, N) and `target` (B, T) to logits (B, T, V)."""
        H, mask = self.encode(source)
        return self.decode(shift_right(target), H, mask)[0]

    @torch.no_grad()
    def align(self, source: Tensor, target: Tensor) -> Tensor:
        """How each word of a `target` (B, T) looks at the `source` (B, N): (B, T, N)."""
        H, mask = self.encode(source)
        return self.decode(shift_right(target), H, mask)[1]

    @torch.no_grad()
    def generate(self, source: Tensor, max_len: int) -> Tensor:
        """Free running: `source` (B, N) to `max_len` words, padded, (B, max_len)."""
        H, mask = self.encode(source)
        said = torch.full_like(source[:, :1], BEGIN)  # (B, 1), and a word more each time
        for _ in range(max_len):
            logits, _ = self.decode(said, H, mask)
            word = logits[:, -1].argmax(-1)  # (B,)
            ended = (said == END).any(1) | (said[:, 1:] == PAD).any(1)
            said = torch.cat([said, word.masked_fill(ended, PAD)[:, None]], 1)
        return said[:, 1:]
