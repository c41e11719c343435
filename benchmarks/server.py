"""A Prefect server of a benchmark's own, in a scratch folder."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import ASSIZES
from tests.guardian import watch_over


def own_homes(folder: Path) -> dict[str, str]:
    """What keeps commands away from the servers and the settings of whoever measures."""
    return {
        "PREFECT_HOME": f"{folder}/prefect",
        "ASSIZES_HOME": f"{folder}/assizes",  # where the guardian looks for the server
        "PREFECT_API_URL": "",
        "DO_NOT_TRACK": "1",
    }


@contextmanager
def prefect_server(folder: Path, env: Mapping[str, str]) -> Iterator[str]:
    """The address of the API of a server that ends with the block, and with a process that is killed.

    Args:
        folder: the one that `env` was made for.
        env: with what `own_homes` says; commands that run in it find the server by themselves.
    """
    given = {**os.environ, **env}
    with watch_over(folder) as guardian:
        subprocess.run(
            [ASSIZES, "up"], cwd=folder, env=given, check=True, stdout=subprocess.DEVNULL
        )
        try:
            yield json.loads((folder / "assizes" / "server.json").read_text())["api_url"]
        finally:
            down = [ASSIZES, "down"]
            subprocess.run(down, cwd=folder, env=given, check=True, stdout=subprocess.DEVNULL)
            guardian.kill()  # it would remove the folder, which may be needed
