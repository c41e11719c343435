"""Commands that judge on a trigger (nightly, after-deployment, backfill), and `import`."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from assizes.deployments.options import AsJson, Batch, ConfigFile, Overrides, Verbose

app = typer.Typer()


class DayOrder(StrEnum):
    """Which day of a backfill is judged first."""

    oldest = "oldest"
    newest = "newest"


FirstDay = Annotated[
    datetime | None,
    typer.Option("--from", formats=["%Y-%m-%d"], help="First day, e.g. 2026-03-01."),
]
LastDay = Annotated[
    datetime | None,
    typer.Option("--to", formats=["%Y-%m-%d"], help="Last day, included [default: yesterday]."),
]


@app.command()
def nightly(
    config: ConfigFile = None,
    overrides: Overrides = None,
    date: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"], help="This day alone [default: yesterday, and missed nights]."
        ),
    ] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Yesterday's transcripts by [nightly] time_zone, and those of nights that were missed."""
    from assizes.deployments.commands.output import OutputOptions
    from assizes.deployments.commands.running.triggered import run_nightly
    from assizes.deployments.settings import read_config

    read = read_config(config, overrides or [])
    on = date.date() if date else None
    raise typer.Exit(run_nightly(read, on, OutputOptions(as_json=as_json, verbose=verbose)))


@app.command("after-deployment")
def after_deployment(
    version: Annotated[str, typer.Option(help="agent_version of the transcripts.")],
    agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None,
    min_transcripts: Annotated[
        int | None,
        typer.Option(min=1, help="Wait for so many [default: after_deployment.min_transcripts]."),
    ] = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Wait for transcripts of a version, judge them beside the version before; gates a rollout."""
    from assizes.deployments.commands.output import OutputOptions
    from assizes.deployments.commands.running.triggered import DeployedVersion, run_after_deployment
    from assizes.deployments.settings import read_config

    read = read_config(config, overrides or [])
    which = DeployedVersion(version, agent, min_transcripts)
    raise typer.Exit(
        run_after_deployment(read, which, OutputOptions(as_json=as_json, verbose=verbose))
    )


@app.command()
def backfill(
    since: FirstDay = None,
    until: LastDay = None,
    uris: Annotated[
        list[str] | None, typer.Option("--uri", help="Instead of days, a place; may be repeated.")
    ] = None,
    in_flight: Annotated[int | None, typer.Option(min=1, help="Days judged at once.")] = None,
    order: Annotated[DayOrder | None, typer.Option(help="Which day comes first.")] = None,
    batch: Batch = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """A run for each day of a range; the same command goes on where it was interrupted."""
    from assizes.deployments.commands.output import OutputOptions
    from assizes.deployments.commands.running.triggered import BackfillSelection, run_backfill
    from assizes.deployments.settings import read_config

    settings: dict[str, dict[str, object]] = {
        "backfill": {"in_flight": in_flight, "order": order.value if order else None},
        "runner": {"batch": batch},
    }
    read = read_config(config, overrides or [], settings)
    days = [moment.date() if moment else None for moment in (since, until)]
    selection = BackfillSelection(days[0], days[1], uris or None)
    raise typer.Exit(run_backfill(read, selection, OutputOptions(as_json=as_json, verbose=verbose)))


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
