"""What certificates cost, as ratios to the model's forward pass and to a singular value decomposition of every T."""

import torch

import thalweg as tw
from benchmarks.encoder import encoder, tokens
from benchmarks.timing import best_of
from thalweg.axes import HeadMaps
from thalweg.capture.record import Capture
from thalweg.decompose.value_space import ValueSpace, value_space
from thalweg.identifiability.movable import moved_mass, sampled_rows, witnesses


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


def ranking(prepared: list[tuple[ValueSpace, HeadMaps]]) -> None:
    """How much can move in every head, by witnesses for the sampled rows, from spaces and weights of all blocks."""
    for space, weights in prepared:
        rows = sampled_rows(weights.shape[1])
        moved_mass(weights[:, rows], witnesses(space, rows, weights[:, rows]))


def main() -> None:
    subject = encoder()
    print("rank, null space and effective attention of all 72 heads, 6 layers x 384; capture not counted")
    print(
        "tokens  / forward (goal: at most 1)  full SVD of T / ours (goal: at least 10)  "
        "ranking heads by what can move / forward (goal: at most 5)  whole certificate with an example / forward"
    )
    for count in (128, 256, 512):
        ids = tokens(count)
        capture = subject.capture(ids)
        assert isinstance(capture, Capture)

        def forward(ids: torch.Tensor = ids) -> None:
            with torch.no_grad():
                subject.model(input_ids=ids, attention_mask=torch.ones_like(ids))

        def ours(capture: Capture = capture) -> None:
            core(capture)

        prepared = [(value_space(block), block.weights()) for block in capture.blocks]
        seconds = best_of(7, forward=forward, ours=ours, ranking=lambda prepared=prepared: ranking(prepared))
        slow = best_of(
            1,
            direct=lambda capture=capture: decompositions(capture),
            whole=lambda capture=capture: tw.trust(subject, capture),
        )
        print(
            f"{count:6d}  {seconds['ours'] / seconds['forward']:.2f} ({1000 * seconds['forward']:.0f} ms forward)"
            f"  {slow['direct'] / seconds['ours']:.0f}"
            f"  {seconds['ranking'] / seconds['forward']:.2f}  {slow['whole'] / seconds['forward']:.0f}"
        )


if __name__ == "__main__":
    main()
