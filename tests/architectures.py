"""Measure every family and print the table of docs/architectures.md: `python -m tests.architectures`."""

from collections import Counter
from dataclasses import dataclass
from functools import cache

import thalweg as tw
from tests.families import PROVED, REFUSED, Family
from thalweg.capture.record import Block, Capture


@dataclass(frozen=True)
class Row:
    name: str
    blocks: str
    shape: str
    parity: float
    sum_of_parts: float


def measure(family: Family) -> Row:
    capture = captured(family)
    return Row(
        family.name,
        ", ".join(f"{n} {role}" for role, n in Counter(b.role for b in capture.blocks).items()),
        shape_of(capture.blocks[0]),
        max(block.parity for block in capture.blocks),
        max(block.sum_error for block in capture.blocks),
    )


@cache
def captured(family: Family) -> Capture:
    """A capture of one example; the model has never been seen before, so its wiring is learnt from it."""
    capture = tw.load(family.build()).capture(family.inputs(1, 12))
    assert isinstance(capture, Capture)
    return capture


def shape_of(block: Block) -> str:
    """The block's algebra in words, as it was found."""
    words = ["parallel" if block.parallel else "post-norm" if block.norm else "pre-norm"]
    if block.norm:
        words.append("LayerNorm" if block.norm.centred else "RMSNorm")
    if block.branch_norm:
        words.append("branch norm")
    if block.scale is not None:
        words.append("layer scale")
    if block.multiplier != 1:
        words.append(f"residual multiplier {block.multiplier:g}")
    attention = block.attention
    if attention.value.shape[0] < attention.heads:
        words.append("grouped-query")
    if block.heads_added:
        words.append("heads added")
    if attention.softcap is not None:
        words.append("soft-cap")
    if attention.bias is not None:
        words.append("position bias")
    if attention.has_sinks:
        words.append("sinks")
    if attention.kept is not None:
        words.append("weights as the model made them")
    return ", ".join(words)


def main() -> None:
    print("# Architectures\n")
    print(
        "Written by `make docs` from what was measured on tiny random models (float32, biases "
        "and norm weights randomised). *Parity* is the largest relative difference between recomputed "
        "attention and the model's own kernel, *sum of parts* that between input plus attention branch "
        "and what really flowed; both are per token vector. Nothing here is declared by hand: the shape "
        "of a block is discovered from one short pass and proved again on every capture.\n"
    )
    print("| family | attention blocks | shape that was found | parity | sum of parts |")
    print("| --- | --- | --- | --- | --- |")
    for family in PROVED:
        row = measure(family)
        print(f"| {row.name} | {row.blocks} | {row.shape} | {row.parity:.0e} | {row.sum_of_parts:.0e} |")
    print("\n## Refused\n\nWhat cannot be proved is refused with an error that says why.\n")
    print("| family | error |\n| --- | --- |")
    for family in REFUSED:
        try:
            captured(family)
        except tw.ThalwegError as error:
            print(f"| {family.name} | {error} |")


if __name__ == "__main__":
    main()
