"""A judge model over real HTTP: speaks the OpenAI protocol, answers by rule, fails on demand.

    python -m tests.doubles.openai_server --port 0 [--latency 0.3 [--jitter]] [--outcomes echo|none]
        [--reasons] [--rpm 600] [--tpm 100000] [--window 60] [--no-hint] [--batch-delay 0.2]

The first line on stdout is its URL. `POST /v1/chat/completions` fills the JSON schema of the
request (`openai_filler`); `/v1/files` and `/v1/batches` do it for many at once (`openai_batches`).
The end of the model's name chooses a behaviour: a fault (`openai_faults`, `openai_texts`), one that
passes (`openai_schedule`), `obedient` and `echoing` (`openai_obedient`), `long-hater` and
`proposer` (`openai_aligning`), `fair` and `placed-30` (`openai_pairs`), `namer` (`openai_naming`), or `slow` and `slow-2.5`, which wait so
many seconds (10). `GET /stats`
counts requests (`openai_tally`), `GET /requests` holds the last 100 bodies, `GET /timeline` when
requests came and whether the limits let them in, `POST /reset` forgets all of it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from aiohttp import web

from tests.doubles.openai_aligning import ALIGNING, aligning
from tests.doubles.openai_answer import Answer, error, good
from tests.doubles.openai_batch_routes import BatchRoutes
from tests.doubles.openai_batches import Batches
from tests.doubles.openai_cascade import CASCADE, cascading
from tests.doubles.openai_delivery import deliver
from tests.doubles.openai_faults import fault
from tests.doubles.openai_limits import MINUTE_S, Limiter, Limits
from tests.doubles.openai_naming import NAMING, naming
from tests.doubles.openai_obedient import OBEDIENT, obedient
from tests.doubles.openai_pairs import PAIRS, comparing
from tests.doubles.openai_question import Question
from tests.doubles.openai_schedule import schedule_of
from tests.doubles.openai_tally import Tally

SLOW = re.compile(r"\bslow(?:-([\d.]+))?$")
JITTER_SIGMA = 0.5
SEED = 7
MAX_BODY_BYTES = 1 << 30


@dataclass(frozen=True)
class Options:
    """How the server behaves for every model.

    Attributes:
        latency_s: from a request to its answer; its median where it jitters.
        echo: whether expected outcomes are repeated.
        reasons: whether answers give reasons of one or two sentences, each prompt others.
    """

    limits: Limits
    latency_s: float = 0.0
    jitter: bool = False
    echo: bool = True
    reasons: bool = False
    batch_delay_s: float = 0.2


@lru_cache(maxsize=1024)
def slow_s(model: str) -> float | None:
    slow = SLOW.search(model)
    return float(slow[1] or 10) if slow else None


def respond(question: Question, tally: Tally) -> Answer:
    """What a question is answered with, by its model's name."""
    for names, answer in ((ALIGNING, aligning), (NAMING, naming), (PAIRS, comparing)):
        if names.search(question.model):
            return answer(question)
    if CASCADE.search(question.model):
        return cascading(question)
    if OBEDIENT.search(question.model):
        return obedient(question)
    try:
        schedule = schedule_of(question.model)
    except ValueError as unknown:
        return error(404, str(unknown), "model_not_found")
    name = schedule(question, tally.earlier(question)) if schedule else None
    return fault(name)(question) if name else good(question)


class Server:
    """Counts, remembers and answers."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.forget()

    def forget(self) -> None:
        options = self.options
        self.tally = Tally(options.limits.window_s)
        self.limiter = Limiter(options.limits)
        self.batches = Batches(respond, options.batch_delay_s, echo=options.echo)
        self.random = random.Random(SEED)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        arrived = asyncio.get_running_loop().time()
        try:
            question = Question.read(
                orjson.loads(await request.read()),
                request.headers.get("Authorization", ""),
                echo=self.options.echo,
                reasons=self.options.reasons,
            )
        except ValueError as wrong:
            return await deliver(request, error(400, f"request body: {wrong}"))
        tally = self.tally
        if refusal := self.admit(question, tally):
            return await deliver(request, refusal)
        tally.begin()
        try:
            return await self.answer(request, question, tally, arrived)
        except (asyncio.CancelledError, ConnectionError) as left:
            tally.counts["disconnects"] += 1
            if isinstance(left, asyncio.CancelledError):
                raise
            return web.Response()
        finally:
            tally.in_flight -= 1

    def admit(self, question: Question, tally: Tally) -> Answer | None:
        """Note a request; the refusal where it exceeds the limits."""
        now = time.monotonic()
        tally.receive(question, now)
        tokens = question.input_tokens + len(question.text) // 4 + 1
        refusal = self.limiter.admit(tokens, now) if self.limiter.active else None
        tally.decide(tokens, now, accepted=refusal is None)
        return refusal

    async def answer(
        self, request: web.Request, question: Question, tally: Tally, arrived: float
    ) -> web.StreamResponse:
        answer = respond(question, tally)
        if wait_s := self.wait_s(question.model):  # what the answer took to make is part of it
            await asyncio.sleep(arrived + wait_s - asyncio.get_running_loop().time())
        sent = await deliver(request, answer)
        if answer.delivery in ("whole", "drip"):
            tally.bill(question, answer)
        return sent

    def wait_s(self, model: str) -> float:
        slow = slow_s(model)
        if slow is not None:
            return slow
        latency_s = self.options.latency_s
        if latency_s and self.options.jitter:
            return latency_s * self.random.lognormvariate(0, JITTER_SIGMA)
        return latency_s

    async def stats(self, request: web.Request) -> web.Response:
        return web.json_response(self.tally.stats())

    async def requests(self, request: web.Request) -> web.Response:
        return web.json_response(list(self.tally.bodies))

    async def timeline(self, request: web.Request) -> web.Response:
        return web.json_response(list(self.tally.timeline))

    async def reset(self, request: web.Request) -> web.Response:
        self.forget()
        return web.json_response({})


async def serve(port: int, server: Server) -> None:
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_get("/stats", server.stats)
    app.router.add_get("/requests", server.requests)
    app.router.add_get("/timeline", server.timeline)
    app.router.add_post("/reset", server.reset)
    BatchRoutes(server).add_to(app)
    # Without cancellation, an answer that hangs would outlive the caller who left.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
    await site.start()
    host, bound = runner.addresses[0][:2]
    print(f"http://{host}:{bound}", flush=True)  # noqa: T201  # the contract of this program
    await asyncio.Event().wait()


def positive(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"expected more than 0, not {text}")
    return number


def options(arguments: list[str] | None = None) -> tuple[int, Options]:
    """The port and the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add: Any = parser.add_argument
    add("--port", type=int, default=0)
    add("--latency", type=float, default=0.0, help="seconds from a request to its answer")
    add("--jitter", action="store_true", help="lognormal latency, its median as given")
    add("--outcomes", choices=("echo", "none"), default="echo")
    add("--reasons", action="store_true", help="reasons of one or two sentences, all different")
    add("--rpm", type=positive, help="requests a minute")
    add("--tpm", type=positive, help="tokens a minute")
    add("--window", type=positive, default=MINUTE_S, help="seconds the limits are held in")
    add("--no-hint", action="store_true", help="refuse without Retry-After")
    add("--batch-delay", type=float, default=0.2, help="seconds until a batch is done")
    given = parser.parse_args(arguments)
    limits = Limits(given.rpm, given.tpm, given.window, hint=not given.no_hint)
    echo = given.outcomes == "echo"
    return given.port, Options(
        limits, given.latency, given.jitter, echo, given.reasons, given.batch_delay
    )


def main() -> None:
    port, chosen = options()
    asyncio.run(serve(port, Server(chosen)))


if __name__ == "__main__":
    main()
