"""Section on the run: model, options, versions, and the most frequent errors."""

from thalweg.corpus.summary import Band, Summary
from thalweg.drawing.elements import Markup, el, section, table


def run_section(summary: Summary) -> Markup:
    missing = summary.identity["texts"] - summary.counts.texts
    unfinished = (
        el("p", f"The run is not finished: {missing:,} texts are missing.", class_="warning") if missing else ""
    )
    entries = (item for name, value in _facts(summary).items() for item in (el("dt", name), el("dd", value)))
    note = "Texts are numbered from 0, as in the rows; lines are numbered from 1."
    return section("run", "The run", note, unfinished, el("dl", *entries), _errors(summary))


def _facts(summary: Summary) -> dict[str, object]:
    options, counts, provenance = summary.identity, summary.counts, summary.provenance
    target = options["target"]
    return {
        "model": f"{provenance['model']} ({provenance['class']}, {provenance['dtype']})",
        "digests": ", ".join(f"{name} {options[name]}" for name in ("weights", "config", "tokenizer")),
        "methods": ", ".join(options["methods"]) or "none",
        "certificates": f"{options['certificate']}, for every head" if options["certificate"] else "none",
        "target": "the prediction, or every position if the model makes none" if target is None else str(target),
        "texts": f"{counts.texts:,} of {options['texts']:,}, {counts.rows:,} rows",
        "tokens per text": _token_counts(summary.tokens),
        "failed": f"{counts.failed:,} texts without results",
        "incomplete": f"{counts.incomplete:,} texts without a method or the certificate",
        "limits": f"{options['max_tokens']:,} tokens per text, {options['top']} sources kept per method and target",
        "identity": f"{summary.digest}, schema {options['schema']}, texts {options['texts_digest']}",
        "versions": ", ".join(f"{name} {provenance[name]}" for name in ("thalweg", "transformers", "torch")),
        "folder": summary.folder,
    }


def _token_counts(tokens: Band | None) -> str:
    if tokens is None:
        return "unknown"
    return f"{tokens.mean:.1f} on average, 10th to 90th percentile {tokens.low:.0f} to {tokens.high:.0f}"


def _errors(summary: Summary) -> Markup | str:
    if not summary.errors:
        return ""
    return table(
        "Most frequent errors, grouped regardless of numbers and quoted names; the message is that of the first text",
        ("part", "texts", "first text", "error"),
        (
            (group.part, f"{group.count:,}", f"{group.text:,}", el("td", group.error, class_="words"))
            for group in summary.errors
        ),
        "numbers worded",
    )
