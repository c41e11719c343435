"""`assizes rubric ...`: rubrics tried on cases whose level people know."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from assizes.deployments import options

app = typer.Typer()
rubric_app = typer.Typer(
    name="rubric",
    cls=options.ListingGroup,
    help="Rubrics tried on cases whose level people know.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(rubric_app)

File = Annotated[
    str, Argument(metavar="FILE", help="Rubric file, or the name of a built-in metric.")
]
Cases = Annotated[
    Path | None,
    Option(help="CSV of further cases: request, response, expected, passage, expected_response."),
]
Run = Annotated[
    str | None,
    Option(help=f"Stored run whose labels of the metric are tried too ({options.RUN_NAMES})."),
]
Against = Annotated[str | None, Option(help="Another rubric, tried on the same cases.")]
Labels = Annotated[str, Option(help="Labels of --run: store:, a file, or cases:NAME.")]
NoAsk = Annotated[bool, Option("--no-ask", help="Only read the text: no model is asked.")]


@rubric_app.command("test")
def rubric_test(
    file: File,
    cases: Cases = None,
    run: Run = None,
    against: Against = None,
    labels: Labels = "store:",
    no_ask: NoAsk = False,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Try a rubric: its own tests, its levels beside those that people gave, and its words.

    Exit code 0: each test of the file got its level; 1: one did not.
    """
    from assizes.deployments.commands.people.rubrics import RubricTestOptions, try_and_print

    settings: dict[str, dict[str, object]] = {
        "calibration": {"labels": labels},
        "store": {"uri": store},
        "transcripts": {"uri": ""},  # those of the run are read
    }
    read = options.read_config(config, overrides, settings)
    wanted = RubricTestOptions(file, against, cases, run, asks=not no_ask, as_json=as_json)
    raise typer.Exit(try_and_print(read, wanted))
