"""`assizes align`: from labels of people to a better judge, if it is shown to be one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from assizes.deployments import options

app = typer.Typer()

Metric = Annotated[str, Option(help="Metric whose judge is aligned; its cases are labelled.")]
Model = Annotated[str | None, Option(help="Model that proposes guidelines, e.g. openai/gpt-4.1.")]
Optimiser = Annotated[
    str | None, Option(help="Your own proposer in place of a model: module:function.")
]
Budget = Annotated[float, Option(help="Most US dollars for all asks, those of the judge too.")]
Labels = Annotated[str, Option(help="Labels: store:, a file, or cases:NAME.", show_default=True)]
Write = Annotated[Path | None, Option(help="New file for the rubric, for you to read and edit.")]
Apply = Annotated[
    Path | None,
    Option(help="Try this rubric file on the held-out labels; if better, put it in place."),
]
Guidelines = Annotated[int, Option(min=0, max=12, help="Most new guidelines.")]
Examples = Annotated[int, Option(min=0, max=12, help="Most new examples.")]
HeldOut = Annotated[
    float, Option(min=0.2, max=0.7, help="Share of the labels for the verdict alone.")
]
Folds = Annotated[int, Option(min=2, max=20, help="Folds of the other labels.")]
Seed = Annotated[str, Option(help="Another word divides the labels otherwise.")]
DryRun = Annotated[
    bool, Option("--dry-run", help="Only say what would be asked and what it may cost.")
]


@app.command()
def align(
    run_id: options.RunId,
    metric: Metric,
    model: Model = None,
    optimiser: Optimiser = None,
    budget: Budget = 1.0,
    labels: Labels = "store:",
    write: Write = None,
    apply: Apply = None,
    guidelines: Guidelines = 5,
    examples: Examples = 4,
    held_out: HeldOut = 0.4,
    folds: Folds = 4,
    seed: Seed = "",
    dry_run: DryRun = False,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Propose a better rubric from labels; write it only where held-out labels show it is better.

    Exit code 0: better; 1: not shown to be better, and nothing is written.
    """
    from assizes.deployments.commands.people import align as commands
    from assizes.judge.alignment.result import AlignmentRequest
    from assizes.judge.errors import ConfigurationError

    if apply is not None and write is not None:
        raise ConfigurationError("--write and --apply: give one of them")
    if budget <= 0:
        raise ConfigurationError(f"--budget {budget:g}: wanted a number above 0")
    read = options.read_config(config, overrides, _settings(labels, metric, store))
    request = AlignmentRequest(
        run=run_id,
        metric=metric,
        model=model,
        optimiser=optimiser,
        budget_usd=budget,
        held_out=held_out,
        folds=folds,
        guidelines=guidelines,
        examples=examples,
        seed=seed,
        file=None if apply is None else str(apply),
    )
    wanted = commands.AlignOutput(write, apply is not None, dry_run, as_json, verbose)
    raise typer.Exit(commands.align_and_print(read, request, wanted))


def _settings(labels: str, metric: str, store: str | None) -> dict[str, dict[str, object]]:
    """The settings that the options stand for."""
    return {
        "calibration": {"labels": labels, "metric": metric},
        "store": {"uri": store},
        "transcripts": {"uri": ""},  # those of the run are read
    }
