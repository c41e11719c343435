"""Options that several commands share."""

from __future__ import annotations

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
RunId = Annotated[str, typer.Argument(help="Run id; a unique beginning of it will do.")]
