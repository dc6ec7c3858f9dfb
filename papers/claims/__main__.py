"""`python -m papers.claims`: test the papers' claims on the models that are available."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from papers.claims.reproduce import find_claims
from papers.claims.reproduce import reproduce as run
from papers.claims.view import as_markdown, listed
from thalweg.cli.options import Json, split_names
from thalweg.cli.output import check_outputs, print_error, print_out, show, silence_transformers
from thalweg.errors import ThalwegError
from thalweg.files.atomic import draft_of


def reproduce(
    claim: Annotated[str, typer.Option(help="Claims to test, comma-separated (default: all)", show_default=False)] = "",
    data: Annotated[Path | None, typer.Option(help="Folder of text sets, as listed in docs/claims_how.md")] = None,
    models: Annotated[Path | None, typer.Option(help="Folder that model packages were installed into")] = None,
    runs: Annotated[Path, typer.Option(help="Folder for trained models and rows; interrupted runs resume")] = Path(
        "runs"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Use a few examples only, to check that everything runs")
    ] = False,
    available: Annotated[bool, typer.Option("--list", help="List the claims and exit")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the ledger as Markdown", show_default=False)] = None,
    json: Json = None,
) -> None:
    """Test what the papers claim, and report what was measured and whether the claim holds.

    Claims whose texts or models are missing are not testable here; the ledger names what is missing.
    """
    outputs = check_outputs(json=json, out=out)
    silence_transformers()
    chosen = split_names(claim) or None
    if available:
        print_out(listed(find_claims(chosen)))
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
    if (page := outputs.pop("out", None)) is not None:
        with draft_of(page) as draft:
            Path(draft).write_text(as_markdown(ledger, _command(quick, chosen)), encoding="utf-8")
    if page is None or json is not None:
        show(ledger, outputs)


def _command(quick: bool, chosen: list[str] | None) -> str:
    options = [*(["--quick"] if quick else []), *([f"--claim {','.join(chosen)}"] if chosen else [])]
    return " ".join(["python -m papers.claims", "--data … --models …", *options])


def main() -> None:
    """Run the command; a user's mistake is one line and exit code 2."""
    try:
        typer.run(reproduce)
    except ThalwegError as error:
        print_error("error:", str(error))
        sys.exit(2)


if __name__ == "__main__":
    main()
