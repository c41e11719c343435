"""One contestant judging the same cases against the same model server, in a process of its own.

    python -m benchmarks.contest NAME --url URL --cases FILE [--model M] [--in-flight 64]

`floor` posts the bodies with aiohttp; `litellm` is a loop of `litellm.acompletion`; `engine` judges
with ours: prompts, calls, parsing, scores and rows; `flow` runs the whole Prefect flow, with rows
stored, and `steps` what that flow does without Prefect: plan, shards, commits, summary, report. All
send the same conversation prompt, one call a case. The last line is JSON: `wall_s`, `cpu_s` (this
process, from a warm start on), `cases`, `scored` (headline scores), `peak_mib`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from assizes.judge.case import Case
from assizes.judge.catalog import JudgePanel, resolve_judges
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.formats import FORMATS
from assizes.judge.hearing import Hearing
from assizes.judge.model_factory import model_for
from assizes.judge.rows import frame
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.case_rows import RowKey, findings
from assizes.tasks.context.run_context import freeze_heap

WARM_UP = 64
"""Calls before the clock starts: first connections, lazy imports."""


@dataclass(frozen=True)
class Contest:
    """What every contestant is given."""

    url: str
    model: str
    in_flight: int
    file: Path

    @property
    def judge(self) -> JudgeConfig:
        """[judge]: the eight default metrics."""
        return JudgeConfig(model=self.model, api_base=f"{self.url}/v1")

    @property
    def limits(self) -> LimitsConfig:
        """[limits], with a ledger beside the cases."""
        return LimitsConfig(
            max_in_flight=self.in_flight,
            timeout_s=30,
            ledger=str(self.file.parent / f"{self.file.stem}.ledger.db"),
        )

    def cases(self) -> list[Case]:
        """The transcripts, read."""
        native = FORMATS["native"]
        with self.file.open("rb") as lines:
            return [native.case(line) for line in lines]


@dataclass
class Clock:
    """Wall and CPU seconds since it was made."""

    def __post_init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def result(self, cases: int, scored: int) -> dict[str, float]:
        """The figures of a contestant."""
        return {
            "wall_s": time.perf_counter() - self.wall,
            "cpu_s": time.process_time() - self.cpu,
            "cases": cases,
            "scored": scored,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


async def pooled(size: int, jobs: Iterable[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Run jobs, `size` at a time."""
    slots = asyncio.Semaphore(size)

    async def one(job: Callable[[], Awaitable[Any]]) -> Any:
        async with slots:
            return await job()

    return await asyncio.gather(*(one(job) for job in jobs))


def requests(contest: Contest, cases: Iterable[Case]) -> list[dict[str, Any]]:
    """The parameters of each case's call, as the engine would make it."""
    from assizes.judge.models.litellm_model import LiteLLM

    model = LiteLLM(contest.judge, contest.limits)
    (judge,) = resolve_judges(contest.judge).judges
    return [model.request(Hearing(judge, case).asks[0]) for case in cases]


async def floor(contest: Contest) -> dict[str, float]:
    """Bare HTTP: what the server and the machine allow."""
    import aiohttp

    bodies = []
    for request in requests(contest, contest.cases()):
        body = {"model": contest.model.partition("/")[2], "messages": request["messages"]}
        body |= {name: request[name] for name in ("response_format", "max_tokens", "temperature")}
        bodies.append(json.dumps(body).encode())
    address = f"{contest.url}/v1/chat/completions"
    headers = {"Authorization": "Bearer none", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=contest.in_flight)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def post(body: bytes) -> bool:
            async with session.post(address, data=body) as response:
                answer = await response.json()
            return bool(json.loads(answer["choices"][0]["message"]["content"]))

        await pooled(contest.in_flight, [lambda b=body: post(b) for body in bodies[:WARM_UP]])
        clock = Clock()
        good = await pooled(contest.in_flight, [lambda b=body: post(b) for body in bodies])
    return clock.result(len(good), sum(good))


async def bare_litellm(contest: Contest) -> dict[str, float]:
    """A loop of `litellm.acompletion`, the answers parsed as JSON."""
    bodies = requests(contest, contest.cases())
    litellm = sys.modules["litellm"]
    # What others get who call litellm: our seam chooses a cheaper way into it.
    os.environ["EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER"] = "false"

    async def ask(body: dict[str, Any]) -> bool:
        response = await litellm.acompletion(**body, api_base=f"{contest.url}/v1")
        return bool(json.loads(response.choices[0].message.content))

    await pooled(contest.in_flight, [lambda b=body: ask(b) for body in bodies[:WARM_UP]])
    clock = Clock()
    good = await pooled(contest.in_flight, [lambda b=body: ask(b) for body in bodies])
    return clock.result(len(good), sum(good))


async def engine(contest: Contest) -> dict[str, float]:
    """Ours without Prefect and without a store, every row made."""
    bench = resolve_judges(contest.judge)
    cases = contest.cases()
    asking = Engine(model_for(contest.judge, contest.limits), contest.limits)
    await pooled(
        contest.in_flight, [lambda c=c: _judged(asking, bench, c) for c in cases[:WARM_UP]]
    )
    clock = Clock()
    with freeze_heap():
        found = await asyncio.gather(*(_judged(asking, bench, case) for case in cases))
    frames = {
        table: frame(table, [row for one in found for row in one.rows[table]])
        for table in ("scores", "asks", "cases")
    }
    scored = frames["scores"].filter(status="scored", part="").height
    result = clock.result(len(cases), scored)
    await asking.aclose()
    return result


async def _judged(asking: Engine, bench: JudgePanel, case: Case) -> Any:
    heard = [await asking.hear(judge, case) for judge in bench.judges]
    return findings(RowKey("run", "file", 0), case, heard, bench)


async def flow(contest: Contest) -> dict[str, float]:
    """Ours inside the Prefect flow, rows stored; PREFECT_API_URL names the server."""
    from assizes.flows.evaluate import evaluate

    async def run(config: RunConfig) -> RunSummary:
        work: Any = evaluate(config, return_state=True)
        outcome = await (await work).aresult(raise_on_failure=False)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome.summary

    return await _timed(contest, run)


async def steps(contest: Contest) -> dict[str, float]:
    """The steps of the flow, one after the other, with no flow and no task run."""
    from assizes.tasks.context.run_context import open_run_context
    from assizes.tasks.judge_shard import judge_shard
    from assizes.tasks.plan import RunRequest, lock_unfinished_run, plan_run
    from assizes.tasks.publish_report import publish_report
    from assizes.tasks.summarise import compare_with_baseline, summarise_run

    async def run(config: RunConfig) -> RunSummary:
        async with open_run_context(config) as room:
            planned = await plan_run.fn(room, RunRequest())
            async with lock_unfinished_run(room, planned):
                jobs = [
                    lambda shard=shard: judge_shard.fn(room, planned.run_id, shard)
                    for shard in planned.intake.shards
                ]
                await pooled(config.runner.shards_in_flight, jobs)
                ended, summary = await summarise_run.fn(room, planned, has_lost_shards=False)
            against = await compare_with_baseline.fn(room, ended)
            await publish_report.fn(room, ended, summary, against.comparison)
        return summary

    return await _timed(contest, run)


async def _timed(
    contest: Contest, run: Callable[[RunConfig], Awaitable[RunSummary]]
) -> dict[str, float]:
    few = contest.file.with_name(f"few-of-{contest.file.name}")
    with contest.file.open() as lines:
        few.write_text("".join(islice(lines, WARM_UP)))
    for file in (few, contest.file):  # the first run is the warm-up
        folder = contest.file.parent / f"flow-{time.time_ns()}"
        folder.mkdir()
        clock = Clock()
        summary = await run(_run_config(contest, file, folder))
    scored = sum(metric.scored for metric in summary.metrics)
    counts = summary.counts
    return clock.result(counts["judged"] + counts["errored"], scored)


def _run_config(contest: Contest, file: Path, folder: Path) -> RunConfig:
    return RunConfig.model_validate(
        {
            "transcripts": {"uri": str(file)},
            "judge": contest.judge.model_dump(),
            "limits": contest.limits.model_dump() | {"ledger": str(folder / "ledger.db")},
            "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
            "cache": {"uri": str(folder / "replies")},
            "report": {"uri": str(folder / "reports")},
            "runner": {"fail_flow": False},
        }
    )


CONTESTANTS = {
    "floor": floor,
    "litellm": bare_litellm,
    "engine": engine,
    "steps": steps,
    "flow": flow,
}


def main() -> None:
    """Run one contestant and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=CONTESTANTS)
    parser.add_argument("--url", required=True)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--model", default="openai/gpt-4o-mini")
    parser.add_argument("--in-flight", type=int, default=64)
    given = parser.parse_args()
    contest = Contest(given.url, given.model, given.in_flight, given.cases)
    print(json.dumps(asyncio.run(CONTESTANTS[given.name](contest))))


if __name__ == "__main__":
    main()
