"""`assizes labels ...`: which cases people label, their labels in and out, and what they are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from assizes.deployments import options
from assizes.deployments.commands import people

labels_app = typer.Typer(
    name="labels",
    cls=options.ListingGroup,
    help="Labels of people: draw cases, list, import, export, and see what they are worth.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Metric = Annotated[str, Option(help="What is labelled: verdict, or a metric of the run.")]


@labels_app.command("queue")
def draw(
    run_id: options.RunId,
    size: Annotated[int, Option(help="Cases to draw.")] = 100,
    metric: Metric = "verdict",
    random_share: Annotated[
        float, Option(help="Share of the cases drawn evenly, above 0 to 1; the rest tells most.")
    ] = 0.5,
    other: Annotated[
        str | None, Option(help=f"A run whose verdicts show flips: {options.RUN_NAMES}.")
    ] = None,
    seed: Annotated[str, Option(help="Another word draws other cases.")] = "",
    rater: Annotated[str, Option("--by", help="Who draws the queue.")] = "",
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Draw the cases that people label, each with its chance; the same words draw the same cases."""
    wanted = people.labels.QueueOptions(run_id, metric, size, random_share, other, seed, rater)
    people.labels.draw_and_print(config, store, wanted, as_json=as_json)


@labels_app.command()
def status(
    run_id: options.RunId,
    against: Annotated[
        str | None, Option(help="A run with labels of its own, to say how far they differ.")
    ] = None,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Say how far the labels of a run are, what they correct, and how many more would tell."""
    people.labels.print_status(config, store, run_id, against, as_json=as_json)


@labels_app.command("list")
def list_labels(
    run_id: Annotated[
        str | None, Argument(metavar="RUN", help=f"{options.RUN_NAMES} [default: every run].")
    ] = None,
    metric: Annotated[str | None, Option(help="Only labels of this metric, or verdict.")] = None,
    rater: Annotated[str | None, Option(help="Only labels of this person.")] = None,
    case: Annotated[str | None, Option(help="Only labels of this case.")] = None,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """List the labels that count: not those that were corrected or withdrawn."""
    wanted = {"metric": metric, "rater": rater, "case_id": case}
    people.labels.print_labels(config, store, run_id, wanted, as_json=as_json)


@labels_app.command("import")
def import_labels(
    file: Annotated[str, Argument(metavar="FILE", help="CSV, TSV, Parquet, JSON or JSON lines.")],
    run: Annotated[str, Option(help=f"The run whose cases were labelled: {options.RUN_NAMES}.")],
    metric: Annotated[
        str | None, Option(help="Labelled metric, where the file names none [default: verdict].")
    ] = None,
    rater: Annotated[str | None, Option(help="Who labelled, where the file names nobody.")] = None,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Store the labels of a file; the same file again changes nothing."""
    wanted = people.labels.LabelImport(file, run, metric, rater)
    people.labels.import_and_print(config, store, wanted, as_json=as_json)


@labels_app.command()
def pull(
    run_id: options.RunId,
    source: Annotated[
        str | None,
        Option(
            "--from",
            help="langfuse://PROJECT, mlflow://EXPERIMENT or phoenix://PROJECT [default: configured].",
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        Option(help="NAME=METRIC: which metric, or verdict, a name there means; repeatable."),
    ] = None,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Store the labels that people made where the traces are kept; again, only new ones come."""
    from assizes.deployments.commands.publishing.pull import PullOptions, pull_and_print

    wanted = PullOptions(run_id, source, name or ())
    pull_and_print(config, store, wanted, as_json=as_json)


@labels_app.command("export")
def export_labels(
    run_id: options.RunId,
    to: Annotated[Path, Option(help="File to write: .csv, .jsonl or .parquet.")],
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the labels of a run that count to a file, which `import` and `calibrate` read."""
    people.labels.export_and_print(config, store, run_id, to, as_json=as_json)
