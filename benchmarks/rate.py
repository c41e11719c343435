"""How much of a rate limit is used, over real HTTP through litellm, and what is refused and lost.

    python -m benchmarks.rate [--seconds 120]

The judge model is a process of its own that refuses what exceeds its limit in any sliding minute.
`use` is what it let in, over what the limit allows in the time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assizes.judge.case import Case, Transcript, Turn
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.engine.limits.limits import Leases
from assizes.judge.families.conversation import ConversationJudge
from assizes.judge.model_factory import check_model, model_for
from assizes.judge.rubrics.rubric import built_in_rubrics
from benchmarks.figures import ROOT, Figures
from benchmarks.server import own_homes, prefect_server
from tests.doubles.fixtures import OpenAIServer, running_openai_server

RPM = 3_000
TPM = 1_000_000
LATENCY_S = 0.3
IN_FLIGHT = 64
PROCESSES = 3
MODEL = "openai/stub"
WORDS = "I would like to change the return flight of my booking to the next morning. "

Counts = dict[str, int]


def main() -> None:
    """Measure known, shared and unknown limits, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="each measurement takes")
    parser.add_argument("--only", choices=("requests", "tokens", "shared", "unknown"))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        print(json.dumps(asyncio.run(_work(json.loads(given.worker)))))
        return
    figures = Figures()
    for name, measure in {
        "requests": _requests,
        "tokens": _tokens,
        "shared": _shared,
        "unknown": _unknown,
    }.items():
        if given.only in (None, name):
            measure(figures, given.seconds)
    figures.close()


def _requests(figures: Figures, seconds: float) -> None:
    """A limit of requests that is known."""
    with running_openai_server("--rpm", str(RPM), "--latency", str(LATENCY_S)) as server:
        counts = _asked(server, seconds, {"requests_per_minute": RPM})
        figures.add("requests_use", _use(server, seconds), least=0.98)
        _faults(figures, "requests", server, counts, most_refused=0.0)


def _tokens(figures: Figures, seconds: float) -> None:
    """A limit of tokens that is known; what a call takes is not, before it was made."""
    with running_openai_server("--tpm", str(TPM), "--latency", str(LATENCY_S)) as server:
        counts = _asked(server, seconds, {"tokens_per_minute": TPM}, turns=60)
        stats = server.stats()
        minutes = (stats["last_at"] - stats["first_at"]) / 60
        taken = stats["input_tokens"] + stats["output_tokens"]
        figures.add("tokens_use", taken / (TPM * minutes), least=0.98)
        figures.add("tokens_most_in_a_minute", stats["peak_window_tokens"] / TPM, most=1.0)
        _faults(figures, "tokens", server, counts, most_refused=0.0)


def _shared(figures: Figures, seconds: float) -> None:
    """A limit that processes share through a Prefect server."""
    limits = {"requests_per_minute": RPM, "shared": "bench"}
    with running_openai_server("--rpm", str(RPM), "--latency", str(LATENCY_S)) as server:
        with tempfile.TemporaryDirectory() as scratch:
            env = own_homes(Path(scratch))
            with prefect_server(Path(scratch), env) as api_url:
                env["PREFECT_API_URL"] = api_url
                counts = _asked(server, seconds, limits, processes=PROCESSES, env=env)
        figures.add("shared_use", _use(server, seconds), least=0.95)
        _faults(figures, "shared", server, counts, most_refused=0.0)


def _unknown(figures: Figures, seconds: float) -> None:
    """A limit that only the server knows."""
    with running_openai_server("--rpm", str(RPM), "--latency", str(LATENCY_S)) as server:
        counts = _asked(server, seconds, {})
        figures.add("unknown_use", _use(server, seconds), least=0.9)
        _faults(figures, "unknown", server, counts, most_refused=0.1)


def _use(server: OpenAIServer, seconds: float) -> float:
    """Requests let in during the time that the callers asked, over what the limit allows in it."""
    accepted = [at for at, in_ in server.timeline() if in_]
    end = accepted[0] + seconds
    return sum(1 for at in accepted if at <= end) / (RPM * seconds / 60)


def _faults(
    figures: Figures, name: str, server: OpenAIServer, counts: Counts, *, most_refused: float
) -> None:
    stats = server.stats()
    figures.add(f"{name}_refused", stats["refused"] / stats["answered"], most=most_refused)
    figures.add(f"{name}_lost", counts["lost"], most=0)
    figures.add(f"{name}_judged", counts["judged"])


def _asked(
    server: OpenAIServer,
    seconds: float,
    limits: Mapping[str, Any],
    *,
    turns: int = 4,
    processes: int = 1,
    env: Mapping[str, str] | None = None,
) -> Counts:
    """What the processes judged in so many seconds."""
    job = {"url": server.url, "seconds": seconds, "limits": limits, "turns": turns}
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.rate", "--worker", json.dumps(job)],
            cwd=ROOT,
            env={**os.environ, "OPENAI_API_KEY": "none", **(env or {})},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    total: Counts = {"judged": 0, "lost": 0}
    for worker in workers:
        printed, _ = worker.communicate()
        if worker.returncode:
            raise SystemExit(f"a worker ended with {worker.returncode}")
        for key, value in json.loads(printed.splitlines()[-1]).items():
            total[key] += value
    return total


async def _work(job: Mapping[str, Any]) -> Counts:
    """Hear cases with all slots for so many seconds."""
    limits = LimitsConfig(max_in_flight=IN_FLIGHT, timeout_s=30, **job["limits"])
    judges = JudgeConfig(model=MODEL, api_base=f"{job['url']}/v1")
    check_model(judges)
    model = model_for(judges, limits)
    leases = _leases(limits)
    engine = Engine(model, limits, EngineDependencies(leases=leases))
    judge = ConversationJudge(built_in_rubrics()[:1])
    counts: Counts = {"judged": 0, "lost": 0}
    end = time.monotonic() + job["seconds"]

    async def hear(line: int) -> None:
        number = 0
        while time.monotonic() < end:
            number += 1
            heard = await engine.hear(judge, _case(f"{os.getpid()}-{line}-{number}", job["turns"]))
            lost = any(one.error for one in heard.asks)
            counts["lost" if lost else "judged"] += 1

    await asyncio.gather(*(hear(line) for line in range(2 * IN_FLIGHT)))
    await engine.aclose()
    if leases is not None:
        await leases.aclose()
    return counts


def _leases(limits: LimitsConfig) -> Any:
    if limits.shared is None:
        return None
    from assizes.tasks.distribute.shared_limits import PrefectLeases

    leases: Leases = PrefectLeases(limits)
    return leases


def _case(name: str, turns: int) -> Case:
    texts = [f"({name}.{place}) {WORDS}" for place in range(turns)]
    roles = ("user", "assistant")
    said = tuple(Turn(role=roles[place % 2], text=text) for place, text in enumerate(texts))
    return Case(case_id=name, transcript=Transcript(turns=said))


if __name__ == "__main__":
    main()
