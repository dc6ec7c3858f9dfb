"""Greedy continuation of a text by a causal language model."""

import torch

from thalweg.capture.record import Capture
from thalweg.errors import InputError
from thalweg.models.encode import ModelInput, position_limit
from thalweg.models.subject import Subject


def continue_text(subject: Subject, text: ModelInput | Capture, count: int) -> tuple[ModelInput, int]:
    """The text with up to `count` generated tokens, and the number of tokens in the prompt.

    The result is a string if it tokenizes to exactly the generated ids, and the ids otherwise.
    """
    if subject.task != "causal_lm" or subject.tokenizer is None:
        raise InputError("generate needs a causal language model with a tokenizer; leave it out for other models")
    if not isinstance(text, str) or count < 1:
        raise InputError(f"generate needs a text as a string and at least 1 token, got {type(text).__name__}, {count}")
    from transformers import GenerationConfig

    model, tokenizer = subject.model, subject.tokenizer
    ids = torch.tensor([tokenizer(text, verbose=False)["input_ids"]], device=model.device)
    prompt = ids.shape[1]
    limit = position_limit(model)
    if limit is not None and prompt + count > limit:
        raise InputError(f"{prompt} prompt tokens and {count} generated ones exceed the model's limit of {limit}")
    stop = tokenizer.eos_token_id
    greedy = GenerationConfig(max_new_tokens=count, do_sample=False, eos_token_id=stop, pad_token_id=stop)
    with torch.no_grad():
        output = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=greedy)[0].tolist()  # pyright: ignore
    continued = text + str(tokenizer.decode(output[prompt:]))
    tokenized = tokenizer(continued, verbose=False)["input_ids"]
    return (continued if list(tokenized) == output else output), prompt  # pyright: ignore[reportArgumentType]
