"""A process that asks a judge model as fast as a shared limit lets it.

    python -m tests.tasks.distribute.sharer PREFECT_API_URL MODEL_URL NAME RPM TPM

0: no such limit. Says `ready`, reads from stdin until when to ask (`time.monotonic`), asks, and
prints JSON: `calls`, `refused`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import aiohttp
from prefect.settings import PREFECT_API_URL, temporary_settings

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.limits.limits import Limiter
from assizes.tasks.distribute.shared_limits import PrefectLeases

MODEL = "openai/gpt-shared"
CALLERS = 40
BODY = {"model": "gpt-shared", "messages": [{"role": "user", "content": "Was it polite?"}]}


async def share(model_url: str, limits: LimitsConfig, end: float) -> dict[str, int]:
    leases = PrefectLeases(limits)
    limiter = Limiter(limits, leases)
    counts = {"calls": 0, "refused": 0}

    async def call(session: aiohttp.ClientSession, tokens: int) -> int:
        async with limiter.admit(MODEL, tokens) as permit:
            if time.monotonic() > end:
                permit.cancel()
                return tokens
            async with session.post(f"{model_url}/v1/chat/completions", json=BODY) as response:
                answer = await response.json()
                refused = response.status == 429
                counts["refused" if refused else "calls"] += 1
                if refused:
                    permit.report_refusal(float(response.headers["Retry-After"]))
                    return tokens
                taken = int(answer["usage"]["total_tokens"])
                permit.settle(taken)
                return taken

    async def caller(session: aiohttp.ClientSession) -> None:
        tokens = 10
        while time.monotonic() < end:
            tokens = await call(session, tokens)

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(caller(session) for _ in range(CALLERS)))
    await leases.aclose()
    return counts


def main() -> None:
    api_url, model_url, name, rpm, tpm = sys.argv[1:]
    limits = LimitsConfig(
        requests_per_minute=int(rpm) or None,
        tokens_per_minute=int(tpm) or None,
        shared=name,
        max_in_flight=CALLERS,
    )
    print("ready", flush=True)  # noqa: T201
    end = float(sys.stdin.readline())
    with temporary_settings({PREFECT_API_URL: api_url}):
        print(json.dumps(asyncio.run(share(model_url, limits, end))))  # noqa: T201


if __name__ == "__main__":
    main()
