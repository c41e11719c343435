"""Commands that register flows on a Prefect server, and commands that maintain or query a store."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from assizes.deployments.options import AsJson, ConfigFile, Overrides, RunId, StoreUri, Yes
from assizes.judge.errors import ConfigurationError

app = typer.Typer()


@app.command()
def deploy(
    config: ConfigFile = None,
    overrides: Overrides = None,
    folder: Annotated[
        str | None,
        typer.Option(help="Folder on the workers for relative paths [default: this one]."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Take away what was registered for this name.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Register deployments, schedules, triggers, limits and notifications on a Prefect server."""
    from assizes.deployments.commands.operating.deploy import DeployOptions
    from assizes.deployments.commands.operating.deploy import deploy as register
    from assizes.deployments.settings import read_config

    options = DeployOptions(read_config(config, overrides or []), folder, dry_run, remove)
    raise typer.Exit(register(options, as_json=as_json))


@app.command()
def serve_flows(
    config: ConfigFile = None,
    overrides: Overrides = None,
    limit: Annotated[int, typer.Option(min=1, help="Flow runs at once.")] = 4,
) -> None:
    """Serve the same deployments from this process, without a work pool, until interrupted."""
    from assizes.deployments.commands.operating.serve_flows import serve_flows as serve
    from assizes.deployments.settings import read_config

    raise typer.Exit(serve(read_config(config, overrides or []), limit))


@app.command()
def metrics_export(
    run_id: RunId,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Folder [default: printed].")
    ] = None,
    config: ConfigFile = None,
    store: StoreUri = None,
) -> None:
    """The numbers of a run as Prometheus text, for a textfile collector."""
    from assizes.deployments.commands.reading.report import export_metrics

    raise typer.Exit(export_metrics(run_id, output, config, store))


@app.command()
def rebuild(
    source: Annotated[
        str | None, typer.Option("--from", help="Parquet store to take the runs from.")
    ] = None,
    config: ConfigFile = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """Make a damaged DuckDB store anew; the damaged files are put aside, never deleted."""
    from assizes.deployments.commands.operating.upkeep import rebuild_and_print

    raise typer.Exit(rebuild_and_print(config, store, source, as_json=as_json))


@app.command()
def gc(
    older_than: Annotated[
        float, typer.Option(help="Hours; nothing younger is taken. No writer takes longer.")
    ] = 24.0,
    yes: Yes = False,
    config: ConfigFile = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """Remove what dead writers left in a Parquet store, and parts that were replaced."""
    from assizes.deployments.commands.operating.upkeep import collect_and_print

    raise typer.Exit(collect_and_print(config, store, older_than, yes=yes, as_json=as_json))


@app.command()
def forget(
    case_id: Annotated[str | None, typer.Argument(help="Case id.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="key=value; every case with all of these tags.")
    ] = None,
    run_id: Annotated[str | None, typer.Option(help="In this run only.")] = None,
    yes: Yes = False,
    config: ConfigFile = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """Delete every row of a case, or of all cases of a subject."""
    from assizes.deployments.commands.operating.upkeep import ForgetOptions, forget_and_print

    options = ForgetOptions(case_id, tag or [], run_id)
    raise typer.Exit(forget_and_print(config, store, options, yes=yes, as_json=as_json))


@app.command()
def compact(
    run_id: RunId, config: ConfigFile = None, store: StoreUri = None, as_json: AsJson = False
) -> None:
    """Merge the small Parquet parts of a complete run; its rows stay what they are."""
    from assizes.deployments.commands.operating.upkeep import compact_and_print

    raise typer.Exit(compact_and_print(config, store, run_id, as_json=as_json))


@app.command()
def sql(
    target: Annotated[
        str, typer.Argument(metavar="RUN_OR_STORE", help="Run id, or a store: file, folder, URI.")
    ],
    query: Annotated[str, typer.Argument(help="One SELECT over the tables of docs/rows.md.")],
    config: ConfigFile = None,
    store: StoreUri = None,
    as_json: AsJson = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV on stdout; no cell is a formula.")
    ] = False,
) -> None:
    """Ask a store, or one run of it, in SQL; read-only."""
    from assizes.deployments.commands.reading.sql import query_and_print

    if as_json and as_csv:
        raise ConfigurationError("--json and --csv: give one of the two")
    shape: Literal["table", "json", "csv"] = "json" if as_json else "csv" if as_csv else "table"
    raise typer.Exit(query_and_print(target, query, config, store, shape))
