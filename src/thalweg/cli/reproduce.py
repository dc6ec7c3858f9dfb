"""`thalweg reproduce`: the papers' claims, tested on models at hand."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from thalweg.cli.shared import Json, answer, check_writable, names, quiet, write_text


def reproduce(
    claim: Annotated[
        str, typer.Option(help="Claims to test, separated by commas; all if left out.", show_default=False)
    ] = "",
    data: Annotated[Path | None, typer.Option(help="A folder of text sets, as docs/claims_how.md lists them.")] = None,
    models: Annotated[Path | None, typer.Option(help="A folder that model packages were installed into.")] = None,
    runs: Annotated[
        Path, typer.Option(help="Keeps what takes long: trained models, rows. A stopped run goes on.")
    ] = Path("runs"),
    quick: Annotated[bool, typer.Option("--quick", help="A few examples only, to see that everything runs.")] = False,
    available: Annotated[bool, typer.Option("--list", help="List the claims, and stop.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the ledger as Markdown.", show_default=False)] = None,
    json: Json = None,
) -> None:
    """Test what the papers claim: what they say, what is measured here, and whether it holds.

    Claims whose texts or models are not there are not testable here, and say what is missing.
    """
    check_writable(json)
    check_writable(out)
    quiet()
    from thalweg.claims.reproduce import find_claims
    from thalweg.claims.reproduce import reproduce as run
    from thalweg.views.claims import as_markdown, listed

    chosen = names(claim) or None
    if available:
        Console().print(listed(find_claims(chosen)))
        return
    console = Console(stderr=True)
    ledger = run(
        chosen,
        data=data,
        models=models,
        runs=runs,
        quick=quick,
        seen=lambda entry: console.print(f"{entry.claim.name}: {entry.verdict}", style="dim", highlight=False),
    )
    if out is not None:
        write_text(out, as_markdown(ledger, _command(quick, chosen)))
    if out is None or json is not None:
        answer(ledger, json)


def _command(quick: bool, chosen: list[str] | None) -> str:
    options = [*(["--quick"] if quick else []), *([f"--claim {','.join(chosen)}"] if chosen else [])]
    return " ".join(["thalweg reproduce", "--data … --models …", *options])
