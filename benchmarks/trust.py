"""What certificates cost, as ratios to the model's forward pass and to a singular value decomposition of every T."""

import torch

import thalweg as tw
from benchmarks.encoder import encoder, tokens
from benchmarks.timing import best_of
from thalweg.capture.record import Capture
from thalweg.decompose.value_space import value_space


def core(capture: Capture) -> None:
    """Rank, null space and effective attention of all heads and layers, both variants' ranks, P1's projection."""
    for block in capture.blocks:
        space = value_space(block)
        for rows, weights, _ in block.rows():
            space.effective(rows, weights)


def decompositions(capture: Capture) -> None:
    """The direct way: a full singular value decomposition of T = V·W_O for each head, and the projection."""
    for block in capture.blocks:
        weights = block.weights().double()
        for head in range(block.attention.heads):
            values = block.attention.values()[head].double() @ block.projection[head].double()
            left, sizes, _ = torch.linalg.svd(values)
            null = left[:, int((sizes > sizes[0] * max(values.shape) * 2e-16).sum()) :]
            weights[head] -= (weights[head] @ null) @ null.T


def main() -> None:
    subject = encoder()
    print("rank, null space and effective attention of all 72 heads, 6 layers x 384; capture not counted")
    print("tokens  / forward (goal: at most 1)  full SVD of T / ours (goal: at least 10)  whole certificate / forward")
    for count in (128, 256, 512):
        ids = tokens(count)
        capture = subject.capture(ids)
        assert isinstance(capture, Capture)

        def forward(ids: torch.Tensor = ids) -> None:
            with torch.no_grad():
                subject.model(input_ids=ids, attention_mask=torch.ones_like(ids))

        def ours(capture: Capture = capture) -> None:
            core(capture)

        seconds = best_of(7, forward=forward, ours=ours)
        slow = best_of(
            1,
            direct=lambda capture=capture: decompositions(capture),
            whole=lambda capture=capture: tw.trust(subject, capture),
        )
        print(
            f"{count:6d}  {seconds['ours'] / seconds['forward']:.2f} ({1000 * seconds['forward']:.0f} ms forward)"
            f"  {slow['direct'] / seconds['ours']:.0f}  {slow['whole'] / seconds['forward']:.0f}"
        )


if __name__ == "__main__":
    main()
