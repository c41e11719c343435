"""Options and arguments that several commands of the command line share."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path | None, typer.Option("-c", "--config", help="Configuration file [default: assizes.toml].")
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Override a setting: table.field=value.")
]
StoreUri = Annotated[
    str | None, typer.Option("--store", help="Store to read instead of the configured one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Show Prefect's log and the traceback of a defect.")
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Do it; without this, only say what would be done.")
]
RunId = Annotated[str, typer.Argument(help="Run id; a unique beginning of it will do.")]
Limit = Annotated[int | None, typer.Option(help="Judge at most so many cases.")]
Day = Annotated[
    datetime | None,
    typer.Option(formats=["%Y-%m-%d"], help="Day for date placeholders in the URI."),
]
Batch = Annotated[
    bool | None,
    typer.Option("--batch/--no-batch", help="Ask by the provider's batches, at half price."),
]
Refresh = Annotated[bool, typer.Option("--refresh", help="Ask anew what other runs were answered.")]
ReplayOnly = Annotated[
    bool, typer.Option("--replay-only", help="Kept replies alone: no key, no network.")
]
