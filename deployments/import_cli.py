"""Commands that bring transcripts in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assizes.deployments.options import AsJson

app = typer.Typer()


@app.command("import")
def import_(
    format_: Annotated[
        str, typer.Argument(metavar="FORMAT", help="Format of the transcripts, or `auto`.")
    ],
    source: Annotated[
        str, typer.Argument(metavar="IN", help="File, folder, glob or s3:// URI of transcripts.")
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="File of lines to write; .gz packs it.")
    ],
    to: Annotated[
        str, typer.Option(help="Format to write: native, openai_chat, anthropic.")
    ] = "native",
    labels: Annotated[
        Path | None,
        typer.Option(help="File for labels of people [default: OUT with .labels.jsonl]."),
    ] = None,
    endpoint_url: Annotated[
        str | None, typer.Option(help="Endpoint of an S3 store other than AWS.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.")] = False,
    as_json: AsJson = False,
) -> None:
    """Convert foreign transcripts, and say what was kept, moved and dropped."""
    from assizes.deployments.commands.running.convert import ImportOptions, import_and_print

    wanted = ImportOptions(format_, source, out, to, labels, endpoint_url)
    raise typer.Exit(import_and_print(wanted, force=force, as_json=as_json))
