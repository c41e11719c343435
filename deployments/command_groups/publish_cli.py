"""`assizes publish`: the scores of a run go to where traces are kept."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

from assizes.deployments import options

app = typer.Typer()


@app.command()
def publish(
    run_id: options.RunId,
    to: Annotated[
        str | None,
        Option(help="langfuse://PROJECT, mlflow://EXPERIMENT, phoenix://PROJECT or otlp."),
    ] = None,
    include: Annotated[
        list[str] | None,
        Option(help="scores, verdicts, reasons, causes or labels; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only say what would be sent; send nothing.")
    ] = False,
    retry_refused: Annotated[
        bool, Option("--retry-refused", help="Send again what was refused before.")
    ] = False,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Send scores and verdicts of a run to where its transcripts came from, each once.

    What was sent is written down in the store, so that the command can be killed and called again.
    It exits with 4 where something was refused or is not known to have arrived.
    """
    from assizes.deployments.commands.publishing import publish as commands

    wanted = commands.PublishOptions(run_id, to, include, dry_run, retry_refused)
    raise typer.Exit(commands.publish_and_print(config, store, wanted, as_json=as_json))
