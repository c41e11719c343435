"""Commands that read a store or the catalogue of judges, and those that say how far to trust it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from assizes.deployments import commands
from assizes.deployments.options import (
    RUN_NAMES,
    AsJson,
    CaseId,
    ConfigFile,
    Overrides,
    Repetition,
    RunId,
    StoreUri,
    Verbose,
    named_place,
    read_config,
)

app = typer.Typer()


@app.command("help")
def help_(
    context: typer.Context,
    topic: Annotated[
        list[str] | None, Argument(metavar="TOPIC", help="`words`, or a command such as `run`.")
    ] = None,
    markdown: Annotated[bool, Option("--markdown", help="Print the words as Markdown.")] = False,
) -> None:
    """Print the help of a command; `assizes help words` explains the words of the reports."""
    root = context.find_root()
    commands.help.print_help(root.command, root.info_name, topic or [], markdown=markdown)


@app.command("json-schema")
def json_schema(
    command: Annotated[
        list[str], Argument(metavar="COMMAND", help="A command with --json, such as `causes show`.")
    ],
) -> None:
    """Print the JSON Schema of what a command prints with --json."""
    from assizes.deployments.documents.table import document_schema

    commands.output.print_json(document_schema(" ".join(command)))


@app.command()
def runs(
    last: Annotated[
        int | None,
        Option(min=1, help="Only the last so many runs [default: 100 in a table, all in JSON]."),
    ] = None,
    config: ConfigFile = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """List the runs of a store, those about the newest day first."""
    from assizes.deployments.commands.reading.run_list import show_runs

    show_runs(config, store, last=last, as_json=as_json)


@app.command()
def show(
    run_id: RunId, config: ConfigFile = None, store: StoreUri = None, as_json: AsJson = False
) -> None:
    """Show one run: its gates, metrics, counts and cost."""
    commands.show.show_run(run_id, config, store, as_json=as_json)


@app.command()
def rejects(
    run_id: RunId, config: ConfigFile = None, store: StoreUri = None, as_json: AsJson = False
) -> None:
    """List the records of a run that were not judged: where each stands, and why."""
    commands.show.show_rejects(run_id, config, store, as_json=as_json)


@app.command()
def case(
    run_id: RunId,
    case_id: CaseId,
    repetition: Repetition = None,
    conversation: Annotated[
        bool, Option(help="Also print the conversation, with the findings at their turns.")
    ] = True,
    config: ConfigFile = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """Show one case of a run: its verdict, outcomes, metrics with reasons, and conversation."""
    chosen = commands.stores.CaseSelection(run_id, case_id, repetition)
    commands.case.show_case(chosen, config, store, as_json=as_json, conversation=conversation)


@app.command()
def explain(
    run_id: RunId,
    case_id: CaseId,
    metric: Annotated[str, Argument(metavar="METRIC", help="Metric; `assizes case` lists them.")],
    repetition: Repetition = None,
    config: ConfigFile = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """Show why a metric got its score: the exact prompt, the reply, its cost and versions."""
    chosen = commands.stores.CaseSelection(run_id, case_id, repetition)
    commands.case.explain_metric(chosen, metric, config, store, as_json=as_json)


def _print_schema(*, wanted: bool) -> None:
    from assizes.tasks.reports.schema import schema_text

    if wanted:
        typer.echo(schema_text(), nl=False)
        raise typer.Exit


ReportSchema = Annotated[
    bool,
    Option(
        "--schema",
        is_eager=True,  # runs before the run id is missed
        callback=lambda wanted: _print_schema(wanted=wanted),
        help="Print the JSON Schema of report.json; no run is needed.",
    ),
]


@app.command()
def report(
    run_id: RunId,
    output: Annotated[
        str | None,
        Option(
            *("-o", "--output"),
            metavar="<str>",
            parser=named_place,
            help="Folder or URI [default: as configured].",
        ),
    ] = None,
    junit: Annotated[
        Path | None, Option(help="Write JUnit XML to this file, and no report files.")
    ] = None,
    brief: Annotated[
        bool, Option("--brief", help="Print a few lines of Markdown, and write no report files.")
    ] = False,
    schema: ReportSchema = False,  # its callback prints the schema and exits
    config: ConfigFile = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """Write report.html, report.md and report.json of a stored run, or a summary for CI."""
    wanted = commands.report.ReportOptions(output, junit, brief)
    commands.report.write_stored_report(run_id, wanted, config, store, as_json=as_json)


@app.command()
def export(
    run_id: RunId,
    wide: Annotated[
        Path | None,
        Option(
            help="A row for each case, a column for each assessment, to this .parquet, .csv or "
            ".jsonl file."
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        Option(help="A row for each score, to such a file; docs/rows.md has the columns."),
    ] = None,
    cases: Annotated[Path | None, Option(help="A row for each case, to such a file.")] = None,
    config: ConfigFile = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """Write the scores of a run to a file for other programs."""
    targets = {"wide": wide, "scores": scores, "cases": cases}
    commands.export.export_tables(run_id, targets, config, store, as_json=as_json)


@app.command()
def metrics(
    rubrics: Annotated[list[str] | None, Option(help="Folder with your own rubrics.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the conversation metrics, opt-in ones included."""
    commands.show.show_metrics(rubrics or [], as_json=as_json)


@app.command()
def judges(
    rubrics: Annotated[list[str] | None, Option(help="Folder with your own judges.")] = None,
    config: Annotated[
        Path | None, Option("-c", "--config", help="Also the judges that it chooses.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the judges, what they need and which options they take."""
    commands.show.show_judges(rubrics or [], config, as_json=as_json)


@app.command()
def serve(
    host: Annotated[
        str, Option(help="Address to listen on; others than loopback need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=1, max=65535, help="Port to listen on.")] = 8320,
    allow_host: Annotated[
        list[str] | None, Option(help="Another host name that requests may call this server by.")
    ] = None,
    labelling: Annotated[
        bool, Option("--labelling", help="Let people label and comment; needs ASSIZES_API_TOKEN.")
    ] = False,
    config: ConfigFile = None,
    store: StoreUri = None,
) -> None:
    """Serve the HTTP API and web pages over a store, on 127.0.0.1 unless --host says otherwise."""
    from assizes.deployments.api import serve as serve_store

    serve_store(config, store, host, port, allow_host or (), labelling=labelling)


@app.command()
def mcp(
    config: ConfigFile = None,
    store: StoreUri = None,
    base_url: Annotated[
        str | None,
        Option(help="Address of `assizes serve`: answers then link to its pages."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        Option(
            help="What assistants may do beside reading: plan, run, label, promote, all; repeatable."
        ),
    ] = None,
    suites: Annotated[
        Path, Option(help="Folder of the suites into which cases may be promoted.")
    ] = Path("suites"),
) -> None:
    """Let an assistant read a store: a Model Context Protocol server on stdin and stdout."""
    from assizes.deployments.agents.server import serve_agents
    from assizes.deployments.agents.workspace import WorkspaceOptions, workspace_of

    given = WorkspaceOptions(config, store, base_url, allow or (), suites)
    serve_agents(workspace_of(given))


Labels = Annotated[
    str | None,
    Argument(
        metavar="LABELS",
        help="File with labels of people, cases:NAME, or store: [default: as configured].",
    ),
]
ColumnRoles = Annotated[
    list[str] | None, Option(help="Which column holds what: ROLE=NAME, e.g. label=annotator1.")
]


MinKappa = Annotated[float | None, Option(help="Exit code 1 when kappa is lower than this.")]
MaxKappaDrop = Annotated[
    float | None, Option(help="Exit code 1 when kappa fell by more than this since the last judge.")
]
Disagreements = Annotated[
    Path | None, Option(help="CSV file to write: the cases that people grade otherwise.")
]


@app.command()
def calibrate(
    labels: Labels = None,
    run: Annotated[
        str | None, Option(help=f"Run whose judge is calibrated ({RUN_NAMES}); else one is made.")
    ] = None,
    judgements: Annotated[
        str | None, Option(help="File with recorded grades of a judge, in place of a run.")
    ] = None,
    metric: Annotated[str | None, Option(help="Labelled metric [default: verdict].")] = None,
    column: ColumnRoles = None,
    word: Annotated[
        list[str] | None, Option(help="Grade of a word: WORD=GRADE, e.g. tie=0.")
    ] = None,
    levels: Annotated[str | None, Option(help="All grades, e.g. 0,1,2,3.")] = None,
    clip: Annotated[
        bool, Option("--clip", help="Clip numbers outside the grades to the nearest grade.")
    ] = False,
    nominal: Annotated[bool, Option("--nominal", help="The grades have no order.")] = False,
    pass_from: Annotated[float | None, Option(help="Lowest grade that passes.")] = None,
    min_kappa: MinKappa = None,
    max_kappa_drop: MaxKappaDrop = None,
    disagreements: Disagreements = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    store: StoreUri = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Compare a judge with human labels: kappa, errors, and the pass rate corrected for them."""
    fields: dict[str, object] = {  # of [calibration]; None: not given
        "labels": labels,
        "judgements": judgements,
        "metric": metric,
        "columns": commands.trust.parse_pairs(column or [], "--column"),
        "words": commands.trust.parse_pairs(word or [], "--word"),
        "levels": levels.split(",") if levels else None,
        "clip": clip or None,
        "scale": "nominal" if nominal else None,
        "pass_from": pass_from,
        "min_kappa": min_kappa,
        "max_kappa_drop": max_kappa_drop,
    }
    read = commands.trust.calibration_config(config, overrides or (), fields, store, run)
    if disagreements is not None:  # before anything is paid for
        commands.trust.check_disagreements(disagreements, read, config)
    raise typer.Exit(
        commands.trust.calibrate_and_print(
            read, run, disagreements, as_json=as_json, verbose=verbose
        )
    )


@app.command()
def trends(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="Name of the runs [default: that of the newest].")
    ] = None,
    metric: Annotated[
        list[str] | None, Option(help="Series to watch [default: as configured, else all].")
    ] = None,
    slice_by: Annotated[
        list[str] | None,
        Option("--slice", help="Also watch each agent, agent_version, tool or tags.NAME."),
    ] = None,
    since: Annotated[
        datetime | None,
        Option(formats=["%Y-%m-%d"], help="Runs about this day (UTC) and later ones."),
    ] = None,
    last: Annotated[int | None, Option(min=1, help="Only the last so many runs.")] = None,
    plot: Annotated[
        str | None, Option(help="Write the series with their intervals to this SVG file.")
    ] = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """Show how numbers moved over the runs, and which problems are new, persisting or resolved."""
    from assizes.deployments.commands.reading.trend_list import show_trends
    from assizes.tasks.runs.history import RunRange

    settings: dict[str, dict[str, object]] = {  # table -> field -> value; None: not given
        "series": {"metrics": metric or None, "slices": slice_by or None},
        "store": {"uri": store},
        "transcripts": {"uri": ""},  # required of a configuration, but none are read
    }
    read = read_config(config, overrides, settings)
    span = RunRange(name, since.replace(tzinfo=UTC) if since else None, last)
    show_trends(read, span, plot, slice_by or (), as_json=as_json)
