"""Where the background Prefect server of `assizes up` is written down."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """The folder for the address and the log of the background server (`ASSIZES_HOME`)."""
    return Path(os.environ.get("ASSIZES_HOME", Path.home() / ".assizes"))


def state_file() -> Path:
    """The file in which `assizes up` writes down the server that it started."""
    return home() / "server.json"
