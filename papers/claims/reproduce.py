"""Run the experiments of the claims and collect their verdicts in a ledger."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import transformers

import thalweg
from papers.claims import contributions, encoders, flows, identifiability  # noqa: F401 - they register their claims
from papers.claims.lab import Lab
from papers.claims.ledger import CLAIMS, Claim, Entry, Ledger, NotHereError
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
    """Test the papers' claims (all of them unless `names` selects some).

    `data` is a folder of datasets and `models` a folder of packaged models, as described in docs/claims_how.md; a
    claim whose data or model is missing is not testable. Trained models and benchmark rows are kept in `runs`, so
    interrupted runs resume. A `quick` run uses a few examples, to check that everything works. `seen` is called with
    every entry as it is finished.

    >>> reproduce(["pronouns"]).entries[0].verdict
    'not testable here'
    """
    for name, folder in (("data", data), ("models", models)):
        if folder is not None and not Path(folder).is_dir():
            raise InputError(f"{name} must be an existing folder, got {folder}")
    chosen = find_claims(names)
    lab = Lab(None if data is None else Path(data), None if models is None else Path(models), Path(runs), quick)
    entries = []
    for claim in chosen:
        entries.append(_test(claim, lab))
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
    return dict(sorted(CLAIMS.items(), key=lambda item: item[1].paper))


def find_claims(names: Sequence[str] | None) -> list[Claim]:
    """Look claims up by name; all of them if there are no names."""
    known = list_claims()
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise InputError(f"unknown claim {unknown[0]!r}; expected one of {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names or known)]


def _test(claim: Claim, lab: Lab) -> Entry:
    try:
        return Entry(claim, claim.experiment(lab))
    except (NotHereError, MissingExtraError) as error:
        return Entry(claim, None, str(error))
    except (ModelError, ProofError) as error:  # the others may still be tested
        return Entry(claim, None, f"the experiment failed: {error}")
