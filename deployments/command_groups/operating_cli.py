"""Commands that judge on a trigger, run a server, register flows, import, or query by SQL."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from assizes.deployments import commands, options
from assizes.judge.errors import ConfigurationError

app = typer.Typer()


@app.command()
def deploy(
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    folder: Annotated[
        str | None, Option(help="Folder on the workers for relative paths [default: this one].")
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only say what would change; change nothing.")
    ] = False,
    remove: Annotated[
        bool, Option("--remove", help="Delete what was registered under this name.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Register deployments, schedules, triggers, limits and notifications on a Prefect server."""
    read = options.read_config(config, overrides)
    wanted = commands.deploy.DeployOptions(read, folder, dry_run, remove)
    given = [] if config is None else ["-c", str(config)]
    for override in overrides or ():
        given += ["--set", override]
    commands.deploy.deploy(wanted, given, as_json=as_json)


@app.command()
def up(
    port: Annotated[
        int | None,
        Option(help="Port on 127.0.0.1 [default: that of the last server, else a free one]."),
    ] = None,
) -> None:
    """Start a Prefect server in the background; later commands find it."""
    from assizes.deployments.server import start_server

    server = start_server(port)
    print(f"Prefect server on {server.ui_url} (pid {server.pid}); `assizes down` stops it")  # noqa: T201  # the command's answer


@app.command()
def down() -> None:
    """Stop the Prefect server that `up` started."""
    from assizes.deployments.server import stop_server

    print("stopped" if stop_server() else "no background server was running")  # noqa: T201  # the command's answer


@app.command("serve-flows", hidden=True)
@app.command()
def worker(
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    limit: Annotated[int, Option(min=1, help="Flow runs at once.")] = 4,
) -> None:
    """Execute the flow runs of a configuration until it is interrupted; registers it if nobody did."""
    commands.deploy.serve_flows(options.read_config(config, overrides), limit)


@app.command("metrics-export", hidden=True)
@app.command()
def export_metrics(
    run_id: options.RunId,
    output: Annotated[
        str | None, Option("-o", "--output", help="Folder for the file [default: print it].")
    ] = None,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
) -> None:
    """Print the numbers of a run as Prometheus text, or write a file for its textfile collector."""
    commands.report.export_metrics(run_id, output, config, store)


AsCsv = Annotated[bool, Option("--csv", help="Print CSV on stdout; no cell is a formula.")]
AllColumns = Annotated[
    bool, Option("--all", help="Print every column, one a line, also where a table has no room.")
]
QueryTimeout = Annotated[
    float, Option("--timeout", metavar="SECONDS", min=0.1, help="The longest that the query runs.")
]
QueryMemory = Annotated[
    int, Option("--memory", metavar="MB", min=50, help="The most memory that the query takes.")
]


@app.command()
def sql(
    target: Annotated[
        str,
        Argument(
            metavar="RUN_OR_STORE",
            help=f"A store: file, folder, URI; or a run: {options.RUN_NAMES}.",
        ),
    ],
    query: Annotated[
        str, Argument(metavar="QUERY", help="One SELECT over the tables of docs/rows.md.")
    ],
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    every_column: AllColumns = False,
    as_json: options.AsJson = False,
    as_csv: AsCsv = False,
    timeout: QueryTimeout = 300.0,
    memory: QueryMemory = 4_000,
    verify: Annotated[
        bool, Option("--verify", help="Check the hashes of the files of a Parquet store first.")
    ] = False,
) -> None:
    """Ask a store, or one run of it, one SQL query; nothing is changed, and no other file is read."""
    shape = _shape(as_json=as_json, as_csv=as_csv, every_column=every_column)
    limits = (timeout, memory)
    commands.sql.query_and_print(target, query, (config, store), shape, limits, verify=verify)


@app.command()
def results(
    run_id: options.RunId,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    every_column: AllColumns = False,
    as_json: options.AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Print the yes/no judges of a run as one table: a row for each case, a column for each judge."""
    shape = _shape(as_json=as_json, as_csv=as_csv, every_column=every_column)
    commands.sql.print_results(run_id, config, store, shape)


def _shape(
    *, as_json: bool, as_csv: bool, every_column: bool
) -> Literal["table", "records", "json", "csv"]:
    if as_json + as_csv + every_column > 1:
        raise ConfigurationError("--json, --csv and --all: give one of them")
    return "json" if as_json else "csv" if as_csv else "records" if every_column else "table"


class AnnotationStyle(StrEnum):
    """For whom `assizes ci` writes its annotations."""

    auto = "auto"
    github = "github"
    gitlab = "gitlab"
    plain = "plain"
    none = "none"


def _output_file(text: str) -> Any:
    return Option(metavar="FILE", help=text)


@app.command()
def ci(
    transcripts: Annotated[
        str | None,
        Argument(metavar="SUITE_OR_FILES", help="What to judge [default: as configured]."),
    ] = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    baseline: Annotated[
        str | None, Option(metavar="RUN", help="Compare with this run, not that of the base.")
    ] = None,
    base: Annotated[
        str | None,
        Option(metavar="COMMIT", help="Base commit or branch [default: as the CI service says]."),
    ] = None,
    needs_baseline: Annotated[
        bool, Option("--require-baseline", help="Judge nothing where no base run is stored.")
    ] = False,
    annotations: Annotated[
        AnnotationStyle, Option(help="Annotations; auto: by the environment of the job.")
    ] = AnnotationStyle.auto,
    summary: Annotated[Path | None, _output_file("Summary as Markdown.")] = None,
    comment: Annotated[Path | None, _output_file("Pull-request comment as Markdown.")] = None,
    junit: Annotated[Path | None, _output_file("Cases as JUnit XML.")] = None,
    sarif: Annotated[Path | None, _output_file("Findings as SARIF 2.1.0.")] = None,
    code_quality: Annotated[Path | None, _output_file("Findings for GitLab, as JSON.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge a suite or files in a CI job, compare with the base branch, and annotate the change."""
    from assizes.deployments.commands.ci.outputs import CiFiles
    from assizes.deployments.commands.ci.run import CiOptions, run_ci

    read = options.read_config(config, overrides, {"transcripts": {"uri": transcripts}})
    files = CiFiles(summary, comment, junit, sarif, code_quality)
    files.check_separate()
    wanted = CiOptions(read, baseline, base, needs_baseline, annotations.value, files)
    raise typer.Exit(run_ci(wanted, as_json=as_json))


class DayOrder(StrEnum):
    """Which day of a backfill is judged first."""

    oldest = "oldest"
    newest = "newest"


FirstDay = Annotated[
    datetime | None, Option("--from", formats=["%Y-%m-%d"], help="First day, e.g. 2026-03-01.")
]
LastDay = Annotated[
    datetime | None,
    Option("--to", formats=["%Y-%m-%d"], help="Last day, included [default: yesterday]."),
]


@app.command()
def nightly(
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    date: Annotated[
        datetime | None,
        Option(
            formats=["%Y-%m-%d"], help="This day alone [default: yesterday, and missed nights]."
        ),
    ] = None,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Judge yesterday's transcripts, and those of the nights that were missed."""
    read = options.read_config(config, overrides)
    on = date.date() if date else None  # None: every day that is due
    raise typer.Exit(commands.triggered.run_nightly(read, on, as_json=as_json, verbose=verbose))


@app.command("after-deployment")
def after_deployment(
    version: Annotated[str, Option(help="The new agent_version.")],
    agent: Annotated[str | None, Option(help="Only transcripts of this agent.")] = None,
    min_transcripts: Annotated[
        int | None,
        Option(min=1, help="Wait for so many transcripts [default: as configured]."),
    ] = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Wait for transcripts of a new agent version, and judge them against the version before."""
    read = options.read_config(config, overrides)
    asked = (version, agent, min_transcripts)
    raise typer.Exit(
        commands.triggered.run_after_deployment(read, *asked, as_json=as_json, verbose=verbose)
    )


@app.command()
def backfill(
    since: FirstDay = None,
    until: LastDay = None,
    uris: Annotated[
        list[str] | None, Option("--uri", help="Judge this place instead of days; repeatable.")
    ] = None,
    in_flight: Annotated[int | None, Option(min=1, help="Days judged at once.")] = None,
    order: Annotated[DayOrder | None, Option(help="Which day comes first.")] = None,
    batch: options.Batch = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Judge each day of a range as a run; the same command goes on where it was interrupted."""
    settings: dict[str, dict[str, object]] = {  # table -> field -> value; None: not given
        "backfill": {"in_flight": in_flight, "order": order.value if order else None},
        "runner": {"batch": batch},
    }
    read = options.read_config(config, overrides, settings)
    days = (since.date() if since else None, until.date() if until else None)
    raise typer.Exit(
        commands.triggered.run_backfill(read, days, uris or None, as_json=as_json, verbose=verbose)
    )


@app.command("import")
def import_(
    format_: Annotated[
        str, Argument(metavar="FORMAT", help="Format of the transcripts, or `auto`.")
    ],
    source: Annotated[
        str, Argument(metavar="IN", help="File, folder, glob or s3:// URI of transcripts.")
    ],
    out: Annotated[Path, Argument(metavar="OUT", help="File to write, a transcript a line.")],
    to: Annotated[str, Option(help="Format to write: native, openai_chat, anthropic.")] = "native",
    labels: Annotated[
        Path | None, Option(help="File for labels of people [default: OUT with .labels.jsonl].")
    ] = None,
    endpoint_url: options.EndpointUrl = None,
    column: options.Columns = None,
    force: Annotated[bool, Option("--force", help="Overwrite OUT.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Convert transcripts of other formats, and say what was kept, moved and dropped."""
    wanted = commands.init.ImportOptions(
        format_, source, out, to, labels, endpoint_url, column or ()
    )
    commands.init.import_and_print(wanted, force=force, as_json=as_json)
