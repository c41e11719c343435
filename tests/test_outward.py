"""Nobody calls home: not the tests, not a process they start, not the product as people start it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from assizes.deployments.settings import PREFECT_DEFAULTS, WORKER_ENVIRONMENT
from tests.command import ROOT, assizes
from tests.outward import PYTHONPATH, attempts, sitecustomize

QUIET = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
OUTSIDE = "192.0.2.1"
"""Reserved for documentation; nobody is there."""

TRIES = {
    "a connection": f"import socket; socket.create_connection(('{OUTSIDE}', 9), 0.1)",
    "a name": "import socket; socket.getaddrinfo('example.com', 443)",
    "a datagram": f"import socket as s; s.socket(2, 2).sendto(b'x', ('{OUTSIDE}', 9))",
    "a client": "import httpx; httpx.get('https://example.com')",
    "an event loop": "import asyncio; asyncio.run(asyncio.open_connection('example.com', 80))",
    "a process of a process": (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', "
        f"\"import socket; socket.create_connection(('{OUTSIDE}', 9), 0.1)\"], check=True)"
    ),
}


def tried(program: str, log: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A Python process with a log of its own, and without what the tests set for all others."""
    told = {*QUIET, "LITELLM_LOCAL_MODEL_COST_MAP"}
    mine = {name: value for name, value in os.environ.items() if name not in told}
    env = {**mine, "PYTHONPATH": PYTHONPATH, sitecustomize.LOG: str(log), **more}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.row("S13")
@pytest.mark.parametrize("what", TRIES)
def test_an_attempt_of_a_process_is_refused_and_counted(what: str, tmp_path: Path):
    done = tried(TRIES[what], tmp_path / "log")
    assert done.returncode != 0
    assert len(attempts(tmp_path / "log")) >= 1, done.stderr


@pytest.mark.row("S13")
def test_loopback_is_not_the_outside(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = f"import socket; socket.create_connection(('localhost', {port}), 5)"
        done = tried(program, tmp_path / "log")
    assert done.returncode == 0, done.stderr
    assert attempts(tmp_path / "log") == []


@pytest.mark.row("S13")
def test_what_this_process_itself_tries_would_be_counted(outward_log: Path):
    assert Path(os.environ[sitecustomize.LOG]) == outward_log
    assert PYTHONPATH.split(os.pathsep)[0] in os.environ["PYTHONPATH"]


PRINTS = (
    "import os; names = ('DO_NOT_TRACK', 'PREFECT_SERVER_ANALYTICS_ENABLED', "
    "'LITELLM_LOCAL_MODEL_COST_MAP'); print(*(os.environ.get(name) for name in names))"
)


@pytest.mark.row("S13")
@pytest.mark.parametrize(
    ("begins", "said"),
    [
        ("import assizes.flows.evaluate, assizes.deployments.api", "None None None"),
        ("import assizes.judge.models.litellm_model", "None None None"),
        ("from assizes.tasks.runtime.process import prepare_process as p; p()", "1 false None"),
        ("from assizes.deployments.settings import prepare_environment as p; p()", "1 false None"),
    ],
)
def test_telemetry_is_off_once_the_process_is_prepared_and_an_import_changes_nothing(
    begins: str, said: str, tmp_path: Path
):
    done = tried(f"{begins}; {PRINTS}", tmp_path / "log")
    assert done.stdout.strip() == said, done.stderr
    assert attempts(tmp_path / "log") == []


@pytest.mark.row("S13")
def test_prefect_itself_takes_the_settings_for_off(tmp_path: Path):
    program = (
        "from assizes.tasks.runtime.process import prepare_process\n"
        "prepare_process()\n"
        "from prefect._internal.analytics.enabled import is_telemetry_enabled as enabled\n"
        "from prefect.settings import get_current_settings as now\n"
        "print(enabled(), now().server.analytics_enabled)"
    )
    done = tried(program, tmp_path / "log")
    assert done.stdout.strip() == "False False", done.stderr


@pytest.mark.row("S13")
def test_who_wants_to_be_counted_still_can(tmp_path: Path):
    done = tried(
        f"from assizes.tasks.runtime.process import prepare_process as p; p(); {PRINTS}",
        tmp_path / "log",
        DO_NOT_TRACK="0",
    )
    assert done.stdout.strip() == "0 false None"


@pytest.mark.row("S13")
def test_workers_and_the_background_server_are_told_the_same():
    assert QUIET.items() <= dict(PREFECT_DEFAULTS).items()
    assert QUIET.items() <= dict(WORKER_ENVIRONMENT).items()
    for file in ("prefect.yaml", "kubernetes.yaml"):
        text = (ROOT / "deployments" / file).read_text(encoding="utf-8")
        assert all(name in text for name in QUIET), file


@pytest.mark.full
@pytest.mark.row("S13")
def test_a_whole_demo_with_a_server_of_its_own_speaks_to_nobody(tmp_path: Path, monkeypatch):
    log = tmp_path / "log"
    for name in QUIET:
        monkeypatch.delenv(name)
    env = {sitecustomize.LOG: str(log), "CI": ""}
    said = assizes("demo", "--json", cwd=tmp_path, env={**env, "PREFECT_HOME": f"{tmp_path}/p"})
    assert said.code == 0, said.err
    assert attempts(log) == []
