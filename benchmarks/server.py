"""A Prefect server of a benchmark's own, in a scratch folder."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import ASSIZES


def own_homes(folder: Path) -> dict[str, str]:
    """What keeps commands away from the servers and the settings of whoever measures."""
    return {
        "PREFECT_HOME": f"{folder}/prefect",
        "ASSIZES_HOME": f"{folder}/home",
        "PREFECT_API_URL": "",
        "DO_NOT_TRACK": "1",
    }


@contextmanager
def prefect_server(folder: Path, env: Mapping[str, str]) -> Iterator[str]:
    """The address of the API of a server that ends with the block.

    Args:
        folder: the one that `env` was made for.
        env: with what `own_homes` says; commands that run in it find the server by themselves.
    """
    given = {**os.environ, **env}
    subprocess.run([ASSIZES, "up"], cwd=folder, env=given, check=True, stdout=subprocess.DEVNULL)
    try:
        yield json.loads((folder / "home" / "server.json").read_text())["api_url"]
    finally:
        down = [ASSIZES, "down"]
        subprocess.run(down, cwd=folder, env=given, check=True, stdout=subprocess.DEVNULL)
