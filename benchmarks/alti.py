"""Cost of ALTI relative to a forward pass and to the literal implementation, and its memory."""

import sys
import time

import torch

import thalweg as tw
from benchmarks.encoder import encoder, tokens
from benchmarks.timing import best_of, own_peak_megabytes, peak_megabytes
from thalweg.capture.record import Capture


def published(capture: Capture) -> None:
    """The published implementation: the parts of all heads at once, [head query key width] per layer."""
    for block in capture.blocks:
        vectors = block.attention.values() @ block.projection  # [head key width]
        parts = torch.einsum("hij,hjd->hijd", block.weights(), vectors).sum(0)  # [query key width]
        parts[range(len(parts)), range(len(parts))] += block.input
        assert block.norm is not None
        assert block.norm.weight is not None
        width = parts.shape[-1]
        matrix = torch.diag(block.norm.weight) @ (torch.eye(width) - 1 / width)
        parts = parts @ matrix.T / block.norm.deviation(block.summed)[:, None]
        (block.output.abs().sum(-1)[:, None] - (block.output[:, None] - parts).abs().sum(-1)).clamp_min(0)


def main() -> None:
    subject = encoder()
    print("ALTI / plain forward pass, 6 layers x 384, all rows, capture not counted (goal: at most 3)")
    for count in (128, 256, 512):
        ids = tokens(count)
        capture = subject.capture(ids)

        def forward(ids: torch.Tensor = ids) -> None:
            with torch.no_grad():
                subject.model(input_ids=ids, attention_mask=torch.ones_like(ids))

        def alti(capture: object = capture) -> None:
            tw.explain(subject, capture, "alti", "all")  # pyright: ignore[reportArgumentType]

        def raw(ids: torch.Tensor = ids) -> None:
            tw.explain(subject, ids, "alti", "all")

        seconds = best_of(5, forward=forward, alti=alti, whole=raw)
        first, whole = seconds["alti"] / seconds["forward"], seconds["whole"] / seconds["forward"]
        took = 1000 * seconds["forward"]
        print(f"  {count:4d} tokens: {first:.2f}, with its capture {whole:.2f} ({took:.0f} ms forward)")
    short = subject.capture(tokens(128))
    assert isinstance(short, Capture)
    seconds = best_of(3, ours=lambda: tw.explain(subject, short, "alti", "all"), published=lambda: published(short))
    print(f"full tensors of all heads / ours at 128 tokens: {seconds['published'] / seconds['ours']:.1f}")
    slower = twin_seconds(short) / seconds["ours"]
    print(f"slow twin / ours at 128 tokens (goal: at least 100): {slower:.0f}, extrapolated from a few rows")
    print("memory beyond the capture (goal: 256 MB at 512 tokens, constant in the number of layers)")
    for count in (512, 2048):
        base, more = (peak_megabytes("benchmarks.alti", str(count), job) for job in ("capture", "alti"))
        print(f"  {count:4d} tokens: {more - base:.0f} MB")


def twin_seconds(capture: Capture) -> float:
    """The literal formula in loops over queries, keys and heads, timed on a few rows of one layer."""
    block, rows = capture.blocks[0], 2
    weights, values = block.weights(), block.attention.values()
    assert block.norm is not None
    assert block.norm.weight is not None
    width = block.input.shape[1]
    matrix = torch.diag(block.norm.weight) @ (torch.eye(width) - 1 / width)
    start = time.perf_counter()
    for i in range(rows):
        for j in range(weights.shape[2]):
            part = block.input[i].clone() if i == j else torch.zeros(width)
            for h in range(len(weights)):
                part += weights[h, i, j] * (values[h, j] @ block.projection[h])
            part = matrix @ part / block.norm.deviation(block.summed[i : i + 1])[0]
            (block.output[i].abs().sum() - (block.output[i] - part).abs().sum()).clamp_min(0)
    return (time.perf_counter() - start) / rows * weights.shape[1] * len(capture.blocks)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        subject = encoder()
        held = subject.capture(tokens(int(sys.argv[1])))
        if sys.argv[2] == "alti":
            tw.explain(subject, held, "alti", 0)  # pyright: ignore[reportArgumentType]
        print(own_peak_megabytes())
    else:
        main()
