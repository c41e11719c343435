"""`assizes store ...`: upkeep of a store. The names without `store` are old and hidden."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument, Option

from assizes.deployments import commands, options

app = typer.Typer()
store_app = typer.Typer(
    name="store",
    cls=options.ListingGroup,
    help="Upkeep of a store: merge, clean, delete, repair.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(store_app)


@app.command("compact", hidden=True)
@store_app.command()
def compact(
    run_id: options.RunId,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Merge the small Parquet parts of a complete run; its rows stay what they are."""
    commands.upkeep.compact_and_print(config, store, run_id, as_json=as_json)


@app.command("gc", hidden=True)
@store_app.command()
def clean(
    older_than: Annotated[  # a younger object may be a writer's that is at work
        float,
        Option(
            max=1_000_000,
            help="Hours; younger files stay, because a process may need them.",
        ),
    ] = 24.0,
    yes: options.Yes = False,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove the files of a Parquet store that nobody reads, such as those of dead processes."""
    commands.upkeep.collect_and_print(config, store, older_than, yes=yes, as_json=as_json)


@app.command("forget", hidden=True)
@store_app.command()
def forget(
    case_id: Annotated[str | None, Argument(metavar="CASE", help="Id of a case.")] = None,
    tag: Annotated[
        list[str] | None, Option(help="KEY=VALUE; the cases that have all of these tags.")
    ] = None,
    run_id: Annotated[str | None, Option(help=f"In this run only: {options.RUN_NAMES}.")] = None,
    yes: options.Yes = False,
    wait: Annotated[
        bool, Option("--wait", help="Wait for a process that works on one of the runs.")
    ] = False,
    here_only: Annotated[
        bool, Option("--here-only", help="Leave, and list, what `assizes publish` sent elsewhere.")
    ] = False,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Delete every row of a case, or of all cases with some tags.

    Scores of these cases that `assizes publish` sent are deleted where they are, too.
    """
    subject = commands.upkeep.ForgetOptions(case_id, tag or [], run_id, wait, here_only)
    commands.upkeep.forget_and_print(config, store, subject, yes=yes, as_json=as_json)


@app.command("rebuild", hidden=True)
@store_app.command()
def rebuild(
    source: Annotated[
        str | None, Option("--from", help="Parquet store from which lost runs are copied.")
    ] = None,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Repair a damaged DuckDB store; the damaged files are renamed, never deleted."""
    commands.upkeep.rebuild_and_print(config, store, source, as_json=as_json)
