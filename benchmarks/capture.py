"""Cost of a capture relative to a plain forward pass of the same model, by level of proof, and its memory."""

import sys
from functools import partial

import torch

from benchmarks.encoder import encoder, tokens
from benchmarks.timing import best_of, own_peak_megabytes, peak_megabytes


def main() -> None:
    subject = encoder()
    print("capture / plain forward pass, 6 layers x 384 (goals: quick at most 1.2, default at most 2.2)")
    for count in (128, 512):
        ids = tokens(count)
        mask = torch.ones_like(ids)

        def forward(ids: torch.Tensor = ids, mask: torch.Tensor = mask) -> None:
            with torch.no_grad():
                subject.model(input_ids=ids, attention_mask=mask)

        levels = {level: partial(subject.capture, ids, level=level) for level in ("quick", "default")}
        seconds = best_of(15, forward=forward, **levels)
        seconds |= best_of(3, audit=partial(subject.capture, ids, level="audit"))
        ratios = ", ".join(f"{level} {seconds[level] / seconds['forward']:.2f}" for level in (*levels, "audit"))
        print(f"  {count:4d} tokens: {ratios}  ({1000 * seconds['forward']:.0f} ms forward)")
    print("first capture, which learns and audits the wiring / plain forward pass of 128 tokens")
    first = best_of(3, first=lambda: encoder().capture(tokens(128)), load=encoder)
    ids = tokens(128)
    plain = best_of(15, forward=partial(subject.model, input_ids=ids))
    print(f"  {(first['first'] - first['load']) / plain['forward']:.1f}")
    print("peak memory of the whole process with one capture held (goal: 2,048 MB at 4,096 tokens)")
    for count in (512, 1024, 2048, 4096):
        print(f"  {count:4d} tokens: {peak_megabytes('benchmarks.capture', str(count)):.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        held = encoder().capture(tokens(int(sys.argv[1])))
        print(own_peak_megabytes())
    else:
        main()
