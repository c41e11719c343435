"""The command as a person runs it: a process, its two streams, its exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests import prefect_home, warm
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


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


class Started:
    """A command that runs, and what it has written so far.

    As a context it waits, at its end, for the end of the command.
    """

    def __init__(self, process: warm.Command | subprocess.Popen[bytes], out: int, err: int) -> None:
        self._out, self._err = out, err
        for descriptor in (out, err):
            weakref.finalize(self, os.close, descriptor)
        self.pid = process.pid
        self.poll, self.wait = process.poll, process.wait
        self.send_signal = process.send_signal

    def kill(self) -> None:
        """End it at once, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def answer(self, timeout_s: float = TIMEOUT_S) -> Answer:
        """Wait for its end; it is killed where that does not come in time."""
        try:
            code = self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return Answer(code, self.out(), self.err())

    def out(self) -> str:
        """What it has written so far to its output."""
        return _text(self._out)

    def err(self) -> str:
        """What it has written so far to its errors."""
        return _text(self._err)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.wait()


def started(
    *args: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    program: str | None = None,
    new_session: bool = False,
    warmly: bool = True,
    err: int | None = None,
) -> Started:
    """Start `assizes ARGS`, or `python -c PROGRAM ARGS`, in a folder.

    No provider key is in its environment unless given. `err` is a descriptor that takes its errors
    in the place of one of ours. Beside other processes of tests it is forked from one that has imported the
    libraries, where nothing but time tells the two apart; with `warmly=False` it is a new interpreter.
    """
    whole = _environment(env)
    if args[:1] and args[0] in (*FLOWS, "up") and env and "PREFECT_HOME" in env:
        prefect_home.fill(Path(env["PREFECT_HOME"]))
    files = os.memfd_create("out"), os.memfd_create("err")
    streams = [files[0], files[1] if err is None else err]
    process: warm.Command | subprocess.Popen[bytes]
    if warmly and warm.fits(whole) and "PYTEST_XDIST_WORKER" in os.environ:
        with Path(os.devnull).open("rb") as nothing:
            process = warm.interpreter().start(
                list(args),
                cwd=str(cwd),
                env=whole,
                streams=[nothing.fileno(), *streams],
                program=program,
                new_session=new_session,
            )
    else:
        start = ["-m", "assizes.deployments.cli"] if program is None else ["-c", program]
        process = subprocess.Popen(
            [sys.executable, *start, *args],
            cwd=cwd,
            env=whole,
            stdin=subprocess.DEVNULL,
            stdout=streams[0],
            stderr=streams[1],
            start_new_session=new_session,
        )
    return Started(process, *files)


def assizes(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> Answer:
    """Run `assizes ARGS` to its end, as `started` starts it."""
    if args[:1] and args[0] in FLOWS:
        _start_server_for(_environment(env))
    return started(*args, cwd=cwd, env=env).answer()


def cold_assizes(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> Answer:
    """The same in a new interpreter, with all that Python does when it begins and ends."""
    return started(*args, cwd=cwd, env=env, warmly=False).answer()


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

        with prefect_home.filled(Path(os.environ["PREFECT_HOME"])):
            start_server()


def _text(file: int) -> str:
    """What is in a file, as `subprocess.run(text=True)` reads it; the place of who writes stays."""
    raw = os.pread(file, os.fstat(file).st_size, 0)
    return raw.decode().replace("\r\n", "\n").replace("\r", "\n")
