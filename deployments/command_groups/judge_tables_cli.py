"""`assizes judge-tables`: what recorded judges of others are worth, and the product's own beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from assizes.deployments import options
from assizes.judge.errors import ConfigurationError

app = typer.Typer()

Model = Annotated[
    str | None, Option(help="Model that is asked about the same items too, as openai/gpt-4.1.")
]
ApiBase = Annotated[str | None, Option(help="Address of a model that you host.")]
Budget = Annotated[
    float | None, Option(help="US dollars that --model may cost in all [default: 5].", min=0)
]
Limit = Annotated[
    int | None, Option(help="Ask --model about at most so many items of each task.", min=1)
]
Out = Annotated[
    Path | None,
    Option(
        metavar="<path>",
        parser=options.named_folder,
        help="Folder for the page, the Parquet tables and the chart.",
    ),
]


@app.command("judge-tables")
def judge_tables(
    model: Model = None,
    api_base: ApiBase = None,
    budget_usd: Budget = None,
    limit: Limit = None,
    config: options.ConfigFile = None,
    out: Out = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what recorded judges are worth: agreement with people, with intervals.

    The recorded judgements lie in the folder that ASSIZES_DATA names (by default ../shared/data).
    """
    if model is None and (api_base, budget_usd, limit, config) != (None,) * 4:
        raise ConfigurationError(
            "--api-base, --budget-usd, --limit and --config are about --model, which is not given"
        )
    from assizes.deployments.recorded import judge_tables as commands

    budget = 5.0 if budget_usd is None else budget_usd
    asked = model and commands.AskedModel(model, api_base, budget, limit, config)
    commands.print_judge_tables(out, asked or None, as_json=as_json)
