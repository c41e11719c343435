"""`assizes cascade`: the threshold below which a stronger model judges, set from labels of people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from assizes.deployments import options

app = typer.Typer()

Labels = Annotated[
    str | None, Option(help="Labels of people: a file, cases:NAME or store: [default: configured].")
]
Run = Annotated[
    str | None,
    Option(help=f"Run that asked both models ({options.RUN_NAMES}); else one is made."),
]
Metric = Annotated[str | None, Option(help="Labelled metric, for labels that name none.")]
Agreement = Annotated[
    float | None, Option(help="Share of decisions that must agree with people, e.g. 0.9.")
]
Delta = Annotated[
    float | None, Option(help="Accepted chance that the promise fails [default: 0.1].")
]
PassFrom = Annotated[float | None, Option(help="Lowest grade that passes.")]
Write = Annotated[
    Path | None, Option(help="New TOML file for the settings, besides printing them.")
]


@app.command()
def cascade(
    labels: Labels = None,
    agreement: Agreement = None,
    delta: Delta = None,
    run: Run = None,
    metric: Metric = None,
    column: options.Columns = None,
    pass_from: PassFrom = None,
    write: Write = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Set from labels when a cheap judge may decide, and when [judge] escalate_to must.

    Judges the labelled transcripts with both models, unless --run names a run that did.
    """
    from assizes.deployments.commands import trust
    from assizes.deployments.commands.people import cascade as commands

    fields: dict[str, object] = {  # of [calibration]; None: not given
        "labels": labels,
        "metric": metric,
        "columns": trust.parse_pairs(column or [], "--column"),
        "pass_from": pass_from,
        "judgements": None,
    }
    read = trust.calibration_config(config, overrides or (), fields, store, run)
    wanted = commands.CascadeOutput(write, as_json, verbose)
    commands.cascade_and_print(read, run, (agreement, delta), wanted)
