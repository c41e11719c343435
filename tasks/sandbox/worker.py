"""The parent's side of the sandbox: one child process, asked over its pipes."""

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
"""The folder from which `assizes` is imported: the child knows no other path to it."""

_PROGRAM = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from assizes.tasks.sandbox.child import main; main()"
_START_S = 15.0
"""A first import of DuckDB from a cold disk takes seconds."""

_GRACE_S = 1.0
"""The child's own clock rings half a second after the time is over; then it is killed."""

_FRAME_BYTES = 16_000_000
"""A longer frame cannot come from a child that keeps to its caps."""


class ChildEnded(Exception):
    """The child is gone; the text says how."""


@dataclass(frozen=True, slots=True)
class StatementResult:
    """What a statement returned: `error` is null when it ran."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    truncated: bool = False
    error: str | None = None


class Worker:
    """A child process with nothing in its environment and an empty folder to stand in.

    It runs one statement at a time. Once it `failed`, it is only good for `end`.
    """

    def __init__(self, process: asyncio.subprocess.Process, caps: Caps) -> None:
        """Take over a running child; `started` makes one."""
        self.failed = False
        self.statements = 0
        self._process = process
        self._caps = caps

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    async def open(self, fixture: Fixture, *, writes: bool) -> str | None:
        """Open a database, closing the one before; says what is wrong with it, or null.

        Raises:
            ChildEnded: when the child did not answer.
        """
        request = {"path": str(fixture.path), "engine": fixture.engine, "writes": writes}
        answer = await self._send_request({"open": request}, _START_S)
        return None if answer["error"] is None else str(answer["error"])

    async def run(self, statement: str) -> StatementResult:
        """Run one statement on the open database. A child that ends is an error of the statement."""
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
        """Kill the child and wait until it is gone."""
        self.failed = True
        if self._process.returncode is None:
            # Not Process.kill(): that may reap a child that has just ended by itself, and then
            # nobody learns how.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        await self._process.wait()

    async def _send_request(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """One frame out, one frame in; whatever goes wrong meanwhile, the child cannot go on."""
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
        """How the child ended: SIGALRM and SIGXCPU are its clocks, others are its memory."""
        code = self._process.returncode
        if code in {-signal.SIGALRM, -signal.SIGXCPU}:
            return self._timeout_text()
        return f"the sandbox ended ({code}); it may have needed more memory than allowed"


async def start_worker(caps: Caps, folder: Path) -> Worker:
    """A new child that stands in an empty folder.

    Raises:
        OSError: when the system gives no process.
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
