"""Commands that read a store or the catalogue of judges and change nothing in a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assizes.deployments.options import AsJson, ConfigFile, RunId, StoreUri

app = typer.Typer()


@app.command()
def runs(config: ConfigFile = None, store: StoreUri = None, as_json: AsJson = False) -> None:
    """List the runs of a store, newest first."""
    from assizes.deployments.commands.reading.show import show_runs

    raise typer.Exit(show_runs(config, store, as_json=as_json))


@app.command()
def show(
    run_id: RunId, config: ConfigFile = None, store: StoreUri = None, as_json: AsJson = False
) -> None:
    """One run: its gates, metrics, counts and cost."""
    from assizes.deployments.commands.reading.show import show_run

    raise typer.Exit(show_run(run_id, config, store, as_json=as_json))


@app.command()
def case(
    run_id: RunId,
    case_id: Annotated[str, typer.Argument(help="Case id.")],
    repetition: Annotated[int | None, typer.Option(help="Which repetition of the case.")] = None,
    conversation: Annotated[
        bool, typer.Option(help="Also what was said, with the findings in place.")
    ] = True,
    config: ConfigFile = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """One case of a run: verdict, outcomes, metrics with their reasons, the conversation."""
    from assizes.deployments.commands.reading.case import show_case
    from assizes.deployments.commands.stores import CaseSelection

    chosen = CaseSelection(run_id, case_id, repetition)
    code = show_case(chosen, config, store, as_json=as_json, conversation=conversation)
    raise typer.Exit(code)


@app.command()
def explain(
    run_id: RunId,
    case_id: Annotated[str, typer.Argument(help="Case id.")],
    metric: Annotated[str, typer.Argument(help="Metric; `assizes case` lists them.")],
    repetition: Annotated[int | None, typer.Option(help="Which repetition of the case.")] = None,
    config: ConfigFile = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """Why a metric got its score: the exact prompt, the reply, its cost and versions."""
    from assizes.deployments.commands.reading.explain import explain_metric
    from assizes.deployments.commands.stores import CaseSelection

    chosen = CaseSelection(run_id, case_id, repetition)
    raise typer.Exit(explain_metric(chosen, metric, config, store, as_json=as_json))


def _print_schema(*, wanted: bool) -> None:
    from assizes.tasks.reports.schema import schema_text

    if wanted:
        typer.echo(schema_text(), nl=False)
        raise typer.Exit


ReportSchema = Annotated[
    bool,
    typer.Option(
        "--schema",
        is_eager=True,
        callback=lambda wanted: _print_schema(wanted=wanted),
        help="Print the JSON Schema of report.json; no run is needed.",
    ),
]


@app.command()
def report(
    run_id: RunId,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Folder or URI [default: as configured].")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(help="Write JUnit XML to this file, and no report files.")
    ] = None,
    brief: Annotated[
        bool,
        typer.Option("--brief", help="Print a few lines of Markdown, and write no report files."),
    ] = False,
    schema: ReportSchema = False,  # its callback prints the schema and exits
    config: ConfigFile = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """Write report.html, report.md and report.json of a stored run; or a summary for CI."""
    from assizes.deployments.commands.reading.report import ReportOptions, write_stored_report

    wanted = ReportOptions(output, junit, brief)
    raise typer.Exit(write_stored_report(run_id, wanted, config, store, as_json=as_json))


@app.command()
def metrics(
    rubrics: Annotated[list[str] | None, typer.Option(help="Folder with your own rubrics.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the conversation metrics, opt-in ones included."""
    from assizes.deployments.commands.reading.show import show_metrics

    raise typer.Exit(show_metrics(rubrics or [], as_json=as_json))


@app.command()
def judges(
    rubrics: Annotated[list[str] | None, typer.Option(help="Folder with your own judges.")] = None,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="Also the judges that it chooses.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the judges, what they need and which options they take."""
    from assizes.deployments.commands.reading.show import show_judges

    raise typer.Exit(show_judges(rubrics or [], config, as_json=as_json))


@app.command()
def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than loopback need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8320,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name this server is called by.")
    ] = None,
    config: ConfigFile = None,
    store: StoreUri = None,
) -> None:
    """Serve the HTTP API and web pages over a store, on loopback unless told otherwise."""
    from assizes.deployments.commands.operating.serve import BindAddress
    from assizes.deployments.commands.operating.serve import serve as serve_store

    raise typer.Exit(serve_store(config, store, BindAddress(host, port, allow_host or ())))
