"""From claims to a ledger: run each experiment, and say what became of it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import transformers

import thalweg
from papers.claims import contributions, encoders, flows, identifiability  # noqa: F401 - they enter their claims
from papers.claims.lab import Lab
from papers.claims.ledger import ENTERED, Claim, Entry, Ledger, NotHereError
from thalweg.errors import InputError, MissingExtraError, ModelError, ProofError


def reproduce(
    names: Sequence[str] | None = None,
    *,
    data: str | Path | None = None,
    models: str | Path | None = None,
    runs: str | Path = "runs",
    quick: bool = False,
    seen: Callable[[Entry], None] | None = None,
) -> Ledger:
    """Test claims of the papers on models at hand, all of them unless names are given.

    `data` is a folder of text sets and `models` one of packaged models, as docs/claims_how.md describes; what is
    missing makes claims untestable, not wrong. What takes long (trained models, rows of benches) is kept in `runs`, so
    that a run that was killed goes on. A `quick` run looks at a few examples, to see that everything works. `seen` is
    told of every claim as it is done.

    >>> reproduce(["pronouns"]).entries[0].verdict
    'not testable here'
    """
    for name, given in (("data", data), ("models", models)):
        if given is not None and not Path(given).is_dir():
            raise InputError(f"{name} was given {str(given)!r}, which is no folder")
    chosen = find_claims(names)
    lab = Lab(None if data is None else Path(data), None if models is None else Path(models), Path(runs), quick)
    entries = []
    for one in chosen:
        entries.append(_tested(one, lab))
        if seen is not None:
            seen(entries[-1])
    versions = {
        "thalweg": thalweg.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    return Ledger(tuple(entries), quick, versions)


def list_claims() -> dict[str, Claim]:
    """All claims by name, paper after paper."""
    return dict(sorted(ENTERED.items(), key=lambda item: item[1].paper))


def find_claims(names: Sequence[str] | None) -> list[Claim]:
    """The claims of these names, all without any."""
    known = list_claims()
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise InputError(f"there is no claim {unknown[0]!r}; expected one of {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names or known)]


def _tested(one: Claim, lab: Lab) -> Entry:
    try:
        return Entry(one, one.experiment(lab))
    except (NotHereError, MissingExtraError) as error:
        return Entry(one, None, str(error))
    except (ModelError, ProofError) as error:  # the others may still be tested
        return Entry(one, None, f"the experiment failed: {error}")
