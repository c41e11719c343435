"""The command as a person runs it: a process, its two streams, its exit code."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests import warm
from tests.outward import PYTHONPATH

ROOT = Path(__file__).resolve().parents[1]
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL")
TIMEOUT_S = 400
FLOWS = (
    "after-deployment",
    "backfill",
    "calibrate",
    "cascade",
    "demo",
    "nightly",
    "resume",
    "retry-rejected",
    "run",
)
"""Commands that look for a Prefect server, and start a temporary one, for 8 s of CPU, where there is none."""

_commands = itertools.count()  # that this process has started


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def assizes(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> Answer:
    """Run `assizes ARGS` in a folder; no provider key is in its environment unless given.

    The process is forked from one that has imported the libraries, where nothing but time tells the two apart.
    """
    whole = _environment(env)
    if args[:1] and args[0] in FLOWS:
        _start_server_for(whole)
    # One command alone takes less than an interpreter that becomes warm.
    is_first = next(_commands) == 0 and "PYTEST_XDIST_WORKER" not in os.environ
    run = _run_warm if warm.fits(whole) and not is_first else _run_cold
    return run(args, cwd, whole)


def cold_assizes(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> Answer:
    """The same in a new interpreter, with all that Python does when it begins and ends."""
    return _run_cold(args, cwd, _environment(env))


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    inherited = {name: text for name, text in warm.inherited().items() if name not in KEYS}
    return {**inherited, "PYTHONPATH": PYTHONPATH, "COLUMNS": "160", **(env or {})}


def _start_server_for(env: Mapping[str, str]) -> None:
    """Start the server of this test process if the command would look for it; else it starts its own."""
    is_elsewhere = env.get("PREFECT_API_URL") is not None or any(
        env.get(name) != os.environ.get(name) for name in ("ASSIZES_HOME", "PREFECT_HOME")
    )
    # In a run of few tests, one after the other, a command that needs no server would wait for it.
    if not is_elsewhere and "PYTEST_XDIST_WORKER" in os.environ:
        from assizes.deployments.server import start_server

        start_server()


def _run_cold(args: tuple[str, ...], cwd: Path, env: dict[str, str]) -> Answer:
    done = subprocess.run(
        [sys.executable, "-m", "assizes.deployments.cli", *args],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def _run_warm(args: tuple[str, ...], cwd: Path, env: dict[str, str]) -> Answer:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        streams = [0, out.fileno(), err.fileno()]
        command = warm.interpreter().start(list(args), cwd=str(cwd), env=env, streams=streams)
        try:
            code = command.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.kill(command.pid, 9)
            raise
        out.seek(0)
        err.seek(0)
        return Answer(code, _text(out.read()), _text(err.read()))


def _text(raw: bytes) -> str:
    """As `subprocess.run(text=True)` reads it."""
    return raw.decode().replace("\r\n", "\n").replace("\r", "\n")
