"""Section on heads: in how many texts each head got which verdict."""

from thalweg.corpus.page.bands import VERDICT_CLASSES, missing_certificate
from thalweg.corpus.summary import HeadFigures, Summary
from thalweg.drawing.charts import grid, legend
from thalweg.drawing.elements import Markup, details, section, table

KEYS_NOTES = {
    "values": "not identifiable by values: others do, and the keys were not checked",
    "full": "locally unique given the keys: other weights do, but none within reach of a small query perturbation",
}


def head_section(summary: Summary) -> Markup:
    title = "Certificates of heads"
    if not summary.heads:
        return section("heads", title, missing_certificate(summary))
    note = (
        "Verdicts on each head over all texts. Identifiable: no other weights give the head's output; "
        f"{KEYS_NOTES[summary.identity['certificate']]}. Bars are shares of texts; numbers are the per cent of texts "
        "in which the head is identifiable."
    )
    total = sum(summary.verdicts.values())
    names = legend(
        [(VERDICT_CLASSES[verdict], f"{verdict} ({count / total:.1%})") for verdict, count in summary.verdicts.items()]
    )
    picture = grid(
        "Verdicts by layer and head; the figures are in the table below",
        sorted({head.layer for head in summary.heads}),
        [
            (
                head.layer,
                head.head,
                f"{100 * head.verdicts['identifiable'] / head.texts:.0f}",
                [(VERDICT_CLASSES[verdict], count / head.texts) for verdict, count in head.verdicts.items() if count],
                _tooltip(head),
            )
            for head in summary.heads
        ],
    )
    return section("heads", title, note, names, picture, details("Figures", _table(summary)))


def _tooltip(head: HeadFigures) -> str:
    counts = ", ".join(f"{verdict} in {count:,}" for verdict, count in head.verdicts.items())
    return f"layer {head.layer} head {head.head}: {counts} of {head.texts:,} texts"


def _table(summary: Summary) -> Markup:
    return table(
        "Texts by verdict, and mean null share in per cent",
        ("head", *summary.possible_verdicts, "null share", "rows summing to one"),
        (
            (
                f"layer {head.layer} head {head.head}",
                *(f"{count:,}" for count in head.verdicts.values()),
                *(
                    "–" if share is None else f"{100 * share:.1f}"
                    for share in (head.null_share, head.null_share_row_sum)
                ),
            )
            for head in summary.heads
        ),
    )
