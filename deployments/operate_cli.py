"""The commands that make it run by itself: on a Prefect server, by workers or by one process."""

from __future__ import annotations

from typing import Annotated

import typer

from assizes.deployments.options import AsJson, ConfigFile, Overrides, RunId, StoreUri

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
    from assizes.deployments.commands.reading.metrics_export import export_metrics

    raise typer.Exit(export_metrics(run_id, output, config, store))
