"""The tasks of models, and how a task follows from a checkpoint's class."""

from typing import Literal

Task = Literal[
    "classification",
    "token_classification",
    "masked_lm",
    "causal_lm",
    "seq2seq",
    "image_classification",
    "speech_seq2seq",
    "encoder",
]
AUTO_CLASSES: dict[Task, str] = {
    "classification": "AutoModelForSequenceClassification",
    "token_classification": "AutoModelForTokenClassification",
    "masked_lm": "AutoModelForMaskedLM",
    "causal_lm": "AutoModelForCausalLM",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "image_classification": "AutoModelForImageClassification",
    "speech_seq2seq": "AutoModelForSpeechSeq2Seq",
    "encoder": "AutoModel",
}
CLASS_SUFFIXES: dict[str, Task] = {
    "ForSequenceClassification": "classification",
    "ForTokenClassification": "token_classification",
    "ForMaskedLM": "masked_lm",
    "ForPreTraining": "masked_lm",
    "ForCausalLM": "causal_lm",
    "LMHeadModel": "causal_lm",
    "ForConditionalGeneration": "seq2seq",
    "MTModel": "seq2seq",
    "ForImageClassification": "image_classification",
}


def task_of(class_name: str) -> Task:
    """The task of a transformers class; "encoder" if its name does not tell.

    >>> task_of("BertForSequenceClassification"), task_of("BertModel")
    ('classification', 'encoder')
    """
    if class_name.startswith("Whisper") and class_name.endswith("ForConditionalGeneration"):
        return "speech_seq2seq"
    for suffix, task in CLASS_SUFFIXES.items():
        if class_name.endswith(suffix):
            return task
    return "encoder"
