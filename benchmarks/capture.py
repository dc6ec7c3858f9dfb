"""Cost of a capture relative to a plain forward pass of the same model, and its memory."""

import sys

import torch

from benchmarks.encoder import encoder, tokens
from benchmarks.timing import best_of, own_peak_megabytes, peak_megabytes


def main() -> None:
    subject = encoder()
    print("capture / plain forward pass, 6 layers x 384 (goal: at most 1.5)")
    for count in (128, 512):
        ids = tokens(count)
        mask = torch.ones_like(ids)

        def forward(ids: torch.Tensor = ids, mask: torch.Tensor = mask) -> None:
            with torch.no_grad():
                subject.model(input_ids=ids, attention_mask=mask)

        def capture(ids: torch.Tensor = ids) -> None:
            subject.capture(ids)

        seconds = best_of(15, forward=forward, capture=capture)
        ratio = seconds["capture"] / seconds["forward"]
        print(f"  {count:4d} tokens: {ratio:.2f}  ({1000 * seconds['forward']:.0f} ms forward)")
    print("peak memory of the whole process with one capture held (goal: 2,048 MB at 4,096 tokens)")
    for count in (512, 1024, 2048, 4096):
        print(f"  {count:4d} tokens: {peak_megabytes('benchmarks.capture', str(count)):.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        held = encoder().capture(tokens(int(sys.argv[1])))
        print(own_peak_megabytes())
    else:
        main()
