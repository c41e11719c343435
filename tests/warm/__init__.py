"""Commands started without the seconds of CPU that an interpreter needs to import Prefect and litellm.

A warm interpreter has imported the libraries and our modules, and forks a child for each command, or for
a program as of `python -c`. The child is a process of its own: working directory, environment, streams,
signals and exit code are those of the command. What a library reads while it is imported is read anew in
the child (`tests.warm.imports`), or the command starts as `python -m` does: see `fits`.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

_OWN = (
    *("ASSIZES_", "PREFECT_", "PYTEST_", "TESTS_", "AWS_"),
    *("OPENAI_API_", "OPENAI_BASE_", "ANTHROPIC_API_", "GEMINI_API_", "VERTEXAI_", "STORAGE_"),
    *("LANGFUSE_", "MLFLOW_", "PHOENIX_", "OTEL_EXPORTER_", "GITHUB_", "GITLAB_", "CI_"),
)
"""Variables that our code or a library reads when it needs them, or, Prefect, anew in each child."""

_ANYTHING = {"COLUMNS", "TERM", "PWD", "OLDPWD", "DO_NOT_TRACK"}
_at_start = dict(os.environ)
"""Of the test process, before libraries set variables while they are imported or used."""

_COVERAGE = "COVERAGE_"
"""Coverage counts the lines of a process from its start."""


def remember_environment() -> None:
    """Take the environment of this moment as that of the test process."""
    _at_start.clear()
    _at_start.update(os.environ)


def inherited() -> dict[str, str]:
    """What commands take over: the environment as it was remembered, and the variables that tests set."""
    set_by_tests = {name: text for name, text in os.environ.items() if name.startswith(_OWN)}
    rest = {name: text for name, text in _at_start.items() if not name.startswith(_OWN)}
    return rest | set_by_tests


def fits(env: Mapping[str, str]) -> bool:
    """Whether a warm interpreter can take the place of a new one with this environment."""
    if any(name.startswith(_COVERAGE) for name in (*env, *_at_start)):
        return False
    return all(
        name in _ANYTHING or name.startswith(_OWN) or env.get(name) == _at_start.get(name)
        for name in env.keys() | _at_start.keys()
    )


@dataclass
class Command:
    """A started command: its process id, and the end of it."""

    pid: int
    _answers: socket.socket
    returncode: int | None = field(default=None, init=False)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal, as `subprocess.Popen.wait` returns it."""
        if self.returncode is None:
            self._answers.settimeout(timeout)
            try:
                answer = self._answers.recv(64)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
            assert answer, "the warm interpreter ended"
            self.returncode = int(answer)
            self._answers.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit code; `None` while the command runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, sign: int) -> None:
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
            os.kill(self.pid, sign)


class Interpreter:
    """A process that has imported what a command needs; it ends with the process that started it."""

    def __init__(self) -> None:
        self._control, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its_end:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm.server", str(its_end.fileno())],
                pass_fds=[its_end.fileno()],
                env=_at_start,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def start(
        self,
        arguments: list[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        streams: list[int],
        program: str | None = None,
        new_session: bool = False,
    ) -> Command:
        """Start `assizes ARGUMENTS`, or `python -c PROGRAM ARGUMENTS`.

        `streams` are descriptors for its input, output and errors.
        """
        mine, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        asked: dict[str, Any] = {"arguments": arguments, "cwd": cwd, "env": dict(env)}
        asked |= {"program": program, "new_session": new_session}
        with its_end:
            descriptors = [its_end.fileno(), *streams]
            socket.send_fds(self._control, [json.dumps(asked).encode()], descriptors)
        return Command(int(mine.recv(64)), mine)

    def close(self) -> None:
        """End the interpreter, and commands of it that still run."""
        self._control.close()
        self.process.wait(30)


@cache
def interpreter() -> Interpreter:
    """The one of this process, started with the first call."""
    started = Interpreter()
    atexit.register(started.close)
    return started
