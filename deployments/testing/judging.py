"""Who judges the cases of a session of tests: a thread with one run, or a connection to it.

With pytest-xdist the thread is in the process that started the others. So one rate limit, one reply
cache, one ledger and one budget hold for all of them, and one run has all their cases.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from assizes.deployments.settings import prepare_environment
from assizes.deployments.testing.sharing import JudgingConnection
from assizes.judge import errors
from assizes.judge.case import Case
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError, Inconclusive
from assizes.judge.formats import FORMATS, native_line

if TYPE_CHECKING:
    from assizes.flows.live_run import LiveRun
    from assizes.flows.outcome import RunOutcome

log = logging.getLogger(__name__)


class Judging(Protocol):
    """Judges one case at a time; called from any thread."""

    def judge(self, case: Case) -> dict[str, Any]:
        """The verdict and the headline scores of a case, as `LiveRun.judge` returns them.

        Raises:
            AssizesError: the case cannot be judged.
        """


class JudgingThread:
    """A live run in an event loop of its own, which begins with the first case."""

    def __init__(self, config: RunConfig, run_id: str) -> None:
        self.config, self.run_id = config, run_id  # config: of `live_config`
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._opened: Future[tuple[asyncio.AbstractEventLoop, LiveRun]] = Future()
        self._ending = asyncio.Event()

    def judge(self, case: Case) -> dict[str, Any]:
        """As `Judging.judge`."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="assizes", daemon=True)
                self._thread.start()
        loop, run = self._opened.result()
        return asyncio.run_coroutine_threadsafe(run.judge(case), loop).result()

    def finish(self) -> RunOutcome | None:
        """Store the run and end the thread; `None` where no case was judged.

        Raises:
            AssizesError: the run cannot be stored.
        """
        if self._thread is None or self._opened.exception() is not None:
            return None
        loop, run = self._opened.result()
        try:
            return asyncio.run_coroutine_threadsafe(run.commit(), loop).result()
        finally:
            loop.call_soon_threadsafe(self._ending.set)
            self._thread.join()

    def _run(self) -> None:
        prepare_environment()
        from assizes.flows.live_run import LiveRun  # imports Prefect: seconds
        from assizes.tasks.context.run_context import open_run_context

        async def serve() -> None:
            async with open_run_context(self.config) as context:
                run = LiveRun(context, self.run_id)
                self._opened.set_result((asyncio.get_running_loop(), run))
                await self._ending.wait()

        try:
            asyncio.run(serve())
        except (AssizesError, OSError) as error:
            if self._opened.done():
                log.warning("the judges of the tests could not be closed: %s", error)
            else:
                self._opened.set_exception(error)
        finally:
            if not self._opened.done():  # a defect; whoever waits must not wait for ever
                self._opened.set_exception(Inconclusive("the judges could not be made ready"))


class RemoteJudging:
    """Has cases judged by the process that started this one."""

    def __init__(self, connection: JudgingConnection) -> None:
        self._connection = connection

    def judge(self, case: Case) -> dict[str, Any]:
        """As `Judging.judge`."""
        try:
            answer = json.loads(self._connection.ask(native_line(case).rstrip(b"\n")))
        except OSError as error:
            raise Inconclusive(f"the process that judges does not answer ({error})") from None
        if "error" in answer:
            kind = getattr(errors, answer["error"], Inconclusive)
            raise kind.__new__(kind, answer["message"])  # whatever its class takes
        return dict(answer["verdict"])


def answered(judging: Judging, question: bytes) -> bytes:
    """The answer to a question of `RemoteJudging`: the verdict on a case, or why there is none."""
    body: dict[str, Any]
    try:
        body = {"verdict": judging.judge(FORMATS["native"].case(question))}
    except AssizesError as error:
        body = {"error": type(error).__name__, "message": str(error)}
    return json.dumps(body).encode()
