"""One model call, four ways, in one process that takes turns: what each costs in CPU.

    python -m benchmarks.calls [--calls 1000] [--rounds 5]

`floor` posts a body with aiohttp and parses the answer; `litellm` is a loop of `litellm.acompletion`;
`plain` is our call by litellm's function, as with `ASSIZES_LITELLM_CALLS=plain`; `direct` is our call
from a template, which is the usual way. The prompts are those of the conversation judge over
transcripts of 6 KB in which no sentence comes twice. Only ratios of one run mean something.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.formats import FORMATS
from assizes.judge.hearing import Hearing
from assizes.judge.protocol import Ask
from benchmarks.contest import pooled
from benchmarks.figures import Figures
from tests.doubles.fixtures import OpenAIServer, running_openai_server

IN_FLIGHT = 64
TRANSCRIPT_CHARS = 6_100
SYLLABLES = (
    "ba",
    "den",
    "fi",
    "gor",
    "hu",
    "kal",
    "lem",
    "mi",
    "nor",
    "pe",
    "ras",
    "tu",
    "vo",
    "é",
)

Call = Callable[[Ask[Any]], Awaitable[object]]


def varied_asks(count: int, judge: JudgeConfig) -> list[Ask[Any]]:
    """The asks of transcripts without a sentence that comes twice."""
    words = random.Random(7)
    (conversation,) = resolve_judges(judge).judges
    read = FORMATS["native"].case
    return [
        Hearing(conversation, read(json.dumps(_case(number, words)).encode())).asks[0]
        for number in range(count)
    ]


def _case(number: int, words: random.Random) -> dict[str, object]:
    turns: list[dict[str, str]] = []
    while sum(len(turn["text"]) + 16 for turn in turns) < TRANSCRIPT_CHARS:
        role = ("user", "assistant")[len(turns) % 2]
        said = ("".join(words.choices(SYLLABLES, k=words.randint(1, 4))) for _ in range(30))
        turns.append({"role": role, "text": f"{' '.join(said)}."})
    return {"case_id": f"case-{number}", "transcript": {"turns": turns}}


async def measure(server: OpenAIServer, calls: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of CPU a call, by way and round."""
    import aiohttp

    from assizes.judge.models.litellm_direct import CALLS
    from assizes.judge.models.litellm_library import ROUTE, litellm
    from assizes.judge.models.litellm_model import LiteLLM

    config = JudgeConfig(model="openai/gpt-4o-mini", api_base=f"{server.url}/v1")
    limits = LimitsConfig(max_in_flight=IN_FLIGHT, timeout_s=30)
    asks = varied_asks(calls, config)
    direct = LiteLLM(config, limits)
    os.environ[CALLS] = "plain"
    plain = LiteLLM(config, limits)
    bodies = {id(ask): direct.request(ask) for ask in asks}
    raw = {
        key: json.dumps({**body, "model": "gpt-4o-mini"}).encode() for key, body in bodies.items()
    }
    headers = {"Authorization": "Bearer none", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(headers=headers) as session:

        async def floor(ask: Ask[Any]) -> object:
            address = f"{server.url}/v1/chat/completions"
            async with session.post(address, data=raw[id(ask)]) as response:
                answer = json.loads(await response.read())
            return json.loads(answer["choices"][0]["message"]["content"])

        async def bare(ask: Ask[Any]) -> object:
            address = f"{server.url}/v1"
            response = await litellm.acompletion(**bodies[id(ask)], api_base=address)
            return json.loads(response.choices[0].message.content)

        ways: dict[str, tuple[Call, str]] = {
            "floor": (floor, "true"),
            "litellm": (bare, "false"),
            "plain": (plain.complete, "true"),
            "direct": (direct.complete, "true"),
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            for name, (call, route) in ways.items():
                os.environ[ROUTE] = route  # what others get who call litellm: OpenAI's SDK
                each_ms = await _cpu_ms(call, asks[: IN_FLIGHT * 2] if number == 0 else asks)
                found[name] += [each_ms] * (number > 0)  # the first is the warm-up
    await direct.aclose()
    assert direct.calls.way() == "direct"
    return found


async def _cpu_ms(call: Call, asks: list[Ask[Any]]) -> float:
    began = time.process_time()
    await pooled(IN_FLIGHT, [lambda ask=ask: call(ask) for ask in asks])
    return 1000 * (time.process_time() - began) / len(asks)


def main() -> None:
    """Measure the four ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    os.environ.update(OPENAI_API_KEY="none", LITELLM_LOG="ERROR")
    figures = Figures()
    with running_openai_server() as server:
        found = asyncio.run(measure(server, given.calls, given.rounds))
    for name, rounds in found.items():
        figures.add(f"call_{name}_ms", statistics.median(rounds))
    for name, most in (("plain", None), ("direct", 0.3), ("floor", None)):
        ratios = [mine / others for mine, others in zip(found[name], found["litellm"], strict=True)]
        figures.add(f"call_{name}_litellm_x", statistics.median(ratios), most=most)
    figures.close()


if __name__ == "__main__":
    main()
