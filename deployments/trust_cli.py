"""Commands that say how far a judge and a series of runs can be trusted: calibrate, trends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from assizes.deployments.options import AsJson, ConfigFile, Overrides, StoreUri, Verbose

app = typer.Typer()

Labels = Annotated[
    str | None,
    typer.Argument(help="File with labels of people, or cases:NAME [default: as configured]."),
]
ColumnRoles = Annotated[
    list[str] | None, typer.Option(help="ROLE=NAME of a column, e.g. label=annotator1.")
]


@app.command()
def calibrate(
    labels: Labels = None,
    run: Annotated[
        str | None, typer.Option(help="Run whose judge is calibrated; else one is made.")
    ] = None,
    judgements: Annotated[
        str | None, typer.Option(help="File with recorded grades of a judge, in place of a run.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Metric that was labelled [default: verdict].")
    ] = None,
    column: ColumnRoles = None,
    word: Annotated[list[str] | None, typer.Option(help="WORD=GRADE, e.g. tie=0.")] = None,
    levels: Annotated[str | None, typer.Option(help="The grades there are, e.g. 0,1,2,3.")] = None,
    clip: Annotated[bool, typer.Option("--clip", help="Pull numbers beyond them back.")] = False,
    nominal: Annotated[bool, typer.Option("--nominal", help="Grades without an order.")] = False,
    pass_from: Annotated[float | None, typer.Option(help="Lowest grade that passes.")] = None,
    min_kappa: Annotated[float | None, typer.Option(help="Exit code 1 under this kappa.")] = None,
    max_kappa_drop: Annotated[
        float | None, typer.Option(help="Exit code 1 so far under the judge before.")
    ] = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    store: StoreUri = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """A judge beside human labels: kappa, errors, and the pass rate corrected by them."""
    from assizes.deployments.commands.trust.calibrate import (
        CalibrateOptions,
        calibrate_and_print,
        parse_pairs,
    )

    fields: dict[str, object] = {
        "labels": labels,
        "judgements": judgements,
        "metric": metric,
        "columns": parse_pairs(column or [], "--column"),
        "words": parse_pairs(word or [], "--word"),
        "levels": levels.split(",") if levels else None,
        "clip": clip or None,
        "scale": "nominal" if nominal else None,
        "pass_from": pass_from,
        "min_kappa": min_kappa,
        "max_kappa_drop": max_kappa_drop,
    }
    options = CalibrateOptions(config, tuple(overrides or ()), fields, store, run)
    raise typer.Exit(calibrate_and_print(options, as_json=as_json, verbose=verbose))


@app.command()
def trends(
    name: Annotated[
        str | None, typer.Argument(help="Name of the runs [default: of the newest one].")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Series to watch [default: as configured, else all].")
    ] = None,
    slice_by: Annotated[
        list[str] | None, typer.Option("--slice", help="agent, agent_version, tool or tags.NAME.")
    ] = None,
    since: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Runs from this day (UTC) on.")
    ] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only the last so many runs.")] = None,
    plot: Annotated[
        str | None, typer.Option(help="Write the series with their intervals to this SVG file.")
    ] = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    store: StoreUri = None,
    as_json: AsJson = False,
) -> None:
    """How a number moved over the runs, and which problems are new, persisting or resolved."""
    from assizes.deployments.commands.trust.trends import show_trends
    from assizes.deployments.settings import read_config
    from assizes.tasks.runs.history import RunRange

    settings: dict[str, dict[str, object]] = {
        "series": {"metrics": metric or None, "slices": slice_by or None},
        "store": {"uri": store},
        "transcripts": {"uri": ""},
    }
    read = read_config(config, overrides or [], settings)
    span = RunRange(name, since.replace(tzinfo=UTC) if since else None, last)
    raise typer.Exit(show_trends(read, span, plot, as_json=as_json))
