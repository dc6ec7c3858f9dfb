"""What hidden token attribution costs: against plain reverse mode, the sketch against all directions, and growth."""

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.encoder import encoder, tokens
from benchmarks.timing import own_peak_megabytes, peak_megabytes
from thalweg.capture.record import Capture
from thalweg.decompose.jacobians import jacobians

COUNT = 32


def captured(count: int) -> tuple[torch.nn.Module, Capture]:
    subject = encoder()
    capture = subject.capture(tokens(count))
    assert isinstance(capture, Capture)
    return subject.model, capture


def seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def reverse_loop(model: torch.nn.Module, ids: Tensor, batched: bool) -> float:
    """Seconds of a loop over layers and receivers, each with a backward pass per number of its state.

    Timed on one receiver of every layer, and multiplied; `batched` runs all numbers of a receiver at once.
    """
    states = model(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True).hidden_states
    width, receiver = states[0].shape[-1], COUNT // 2
    few = 32  # of a receiver's numbers, where they are taken one by one

    def one_receiver() -> None:
        for state in states[1:]:
            if batched:
                torch.autograd.grad(
                    state[0, receiver], states[0], torch.eye(width), retain_graph=True, is_grads_batched=True
                )[0].norm(dim=(0, 3))
            else:
                for number in range(few):
                    torch.autograd.grad(state[0, receiver, number], states[0], retain_graph=True)

    one_receiver()
    return COUNT * seconds(one_receiver) * (1 if batched else width / few)


def main() -> None:
    model, capture = captured(COUNT)
    loop, batched = (reverse_loop(model, tokens(COUNT), batched) for batched in (False, True))
    jacobians(capture, rtol=0.5)  # warm
    before = own_peak_megabytes()
    exact = seconds(lambda: jacobians(capture, rtol=None))
    held = own_peak_megabytes() - before
    sketch = min(seconds(lambda: jacobians(capture)) for _ in range(3))
    again = [reverse_loop(model, tokens(COUNT), batched) for batched in (False, True)]
    loop, batched = min(loop, again[0]), min(batched, again[1])
    result = jacobians(capture)
    print(f"6 layers x 384, {COUNT} tokens, all layers and receivers, in seconds")
    print(
        f"  {loop:7.1f}  reverse mode, one number of a state at a time: exact is {loop / exact:.1f} x faster (goal: 5)"
    )
    print(f"  {batched:7.1f}  reverse mode, all numbers of a state at once: exact is {batched / exact:.1f} x faster")
    print(f"  {exact:7.1f}  exact, {held:.0f} MB more than a sketch")
    print(f"  {sketch:7.1f}  sketch at 5 %: {exact / sketch:.1f} x faster than exact (goal: 10)")
    print(f"  {result.mean_directions:.1f} directions per token, largest error bar {float(result.errors.max()):.3f}")
    print("growth: seconds of the sketch, of one exact row, and MB beyond the capture")
    for count in (16, 32, 64, 128):
        _, longer = captured(count)
        took = seconds(lambda longer=longer: jacobians(longer))
        row = seconds(lambda longer=longer: jacobians(longer, rtol=None, rows=[0]))
        base, more = (peak_megabytes("benchmarks.jacobians", str(count), job) for job in ("capture", "sketch"))
        print(f"  {count:4d} tokens: {took:6.1f} s   {row:5.2f} s   {more - base:5.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _, capture = captured(int(sys.argv[1]))
        if sys.argv[2] == "sketch":
            jacobians(capture)
        print(own_peak_megabytes())
    else:
        main()
