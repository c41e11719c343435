"""The parent's side of the sandbox: starts a child process and talks to it over its pipes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import assizes
from assizes.tasks.sandbox.fixtures import Fixture
from assizes.tasks.sandbox.values import Caps

_ROOT = Path(assizes.__file__).parents[1]
"""The folder from which `assizes` is imported; the child process gets no other import path."""

_PROGRAM = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from assizes.tasks.sandbox.child import main; main()"
_START_S = 15.0
"""Seconds to wait for the first answer of a child: importing DuckDB from a cold disk is slow."""

_GRACE_S = 1.0
"""Seconds after a statement's time at which the child is killed; its own timer takes half of them."""

_FRAME_BYTES = 16_000_000
"""The most bytes of a frame; a child that keeps to its caps sends less."""


class ChildEnded(Exception):
    """The child process is gone; the message says how it ended."""


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The result of a statement; `error` is None when the statement ran."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    truncated: bool = False
    error: str | None = None


class Worker:
    """A child process with an empty environment and an empty working folder.

    The child runs one statement at a time. Once `failed` is set, only `end` may be called.
    """

    def __init__(self, process: asyncio.subprocess.Process, caps: Caps) -> None:
        """Take over a running child process; `start_worker` starts one."""
        self.failed = False
        self.statements = 0
        self._process = process
        self._caps = caps

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._process.pid

    async def open(self, fixture: Fixture, *, writes: bool) -> str | None:
        """Open a database and close the one before.

        Returns:
            The error message when the database cannot be opened, else None.

        Raises:
            ChildEnded: when the child did not answer.
        """
        request = {"path": str(fixture.path), "engine": fixture.engine, "writes": writes}
        answer = await self._send_request({"open": request}, _START_S)
        return None if answer["error"] is None else str(answer["error"])

    async def run(self, statement: str) -> StatementResult:
        """Run one statement on the open database; if the child ends, the result says so."""
        if len(statement) > self._caps.statement_chars:
            return StatementResult(error=f"longer than {self._caps.statement_chars} characters")
        self.statements += 1
        try:
            answer = await self._send_request({"run": statement}, self._caps.time_s + _GRACE_S)
        except ChildEnded as ended:
            return StatementResult(error=str(ended))
        self.failed = answer["spent"]
        if answer["error"] is not None:
            return StatementResult(error=answer["error"])
        rows = tuple(tuple(row) for row in answer["rows"])
        return StatementResult(tuple(answer["columns"]), rows, answer["truncated"])

    async def end(self) -> None:
        """Kill the child and wait until it has ended."""
        self.failed = True
        if self._process.returncode is None:
            # Not Process.kill(): that may reap a child that has just ended by itself, and then its
            # exit code is lost.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        await self._process.wait()

    async def _send_request(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a frame and read the answer; any error or cancelling meanwhile leaves `failed` set."""
        failed, self.failed = self.failed, True
        if failed:
            raise ChildEnded("the sandbox has ended")
        try:
            async with asyncio.timeout(seconds):
                answer = await self._exchange_frames(json.dumps(request).encode())
        except TimeoutError as error:
            await self.end()
            raise ChildEnded(self._timeout_text()) from error
        except (asyncio.IncompleteReadError, OSError, ValueError) as error:
            await self.end()
            raise ChildEnded(self._exit_text()) from error
        self.failed = False
        return answer

    async def _exchange_frames(self, body: bytes) -> dict[str, Any]:
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        if pipe_in is None or pipe_out is None:
            raise ChildEnded("the sandbox has no pipes")
        pipe_in.write(len(body).to_bytes(4, "big") + body)
        await pipe_in.drain()
        length = int.from_bytes(await pipe_out.readexactly(4), "big")
        if length > _FRAME_BYTES:
            raise OSError(f"a frame of {length} bytes")
        answer: dict[str, Any] = json.loads(await pipe_out.readexactly(length))
        return answer

    def _timeout_text(self) -> str:
        return f"took longer than {self._caps.time_s:g} s"

    def _exit_text(self) -> str:
        """How the child ended: its timers send SIGALRM or SIGXCPU, other signals mean its memory."""
        code = self._process.returncode
        if code in {-signal.SIGALRM, -signal.SIGXCPU}:
            return self._timeout_text()
        return f"the sandbox ended ({code}); it may have needed more memory than allowed"


async def start_worker(caps: Caps, folder: Path) -> Worker:
    """Start a child process.

    Args:
        caps: the limits of its statements.
        folder: an empty folder, its working directory.

    Raises:
        OSError: when the system cannot start a process.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-c",
        _PROGRAM,
        json.dumps(asdict(caps)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=folder,
        env={},
        start_new_session=True,
    )
    return Worker(process, caps)
