"""One contestant judging the same cases against the same model server, in a process of its own.

    python -m benchmarks.contest NAME --url URL --cases FILE --more FILE [--metrics one]
        [--model M] [--in-flight 64] [--processes 1]

`floor` posts the bodies with aiohttp; `litellm` is a loop of `litellm.acompletion`; `own` is ours
with a model in the same process, so that no call is made; `engine` is ours with prompts, calls,
parsing, scores and rows; `flow` runs the whole Prefect flow, with rows stored and a report, and
`steps` what that flow does without Prefect. All send the same prompt, one call a case.

Each contestant judges the first cases with no warm-up (`cold`: lazy imports, connections and
whatever is kept by text are new), and then other cases, which share no sentence with the first
(`warm`). The last line is JSON: `start_s` (CPU from the start of the process to the first case),
and for `cold` and `warm` each `wall_s`, `cpu_s` (of this process), `children_s` (CPU of processes that it started), `cases`, `scored` (headline
scores), `peak_mib`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
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
from assizes.judge.models.model import Completion
from assizes.judge.protocol import Ask
from assizes.judge.rows import frame
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.case_rows import RowKey, findings
from assizes.tasks.context.run_context import freeze_heap
from assizes.tasks.runtime.own_process import collect_seldom
from tests.doubles.openai_question import Question

ONE = "tool_routing"
"""The metric of a judge that scores one."""


PASSES = ("cold", "warm")

Result = dict[str, Any]


@dataclass(frozen=True)
class Contest:
    """What every contestant is given."""

    url: str
    model: str
    in_flight: int
    files: tuple[Path, Path]  # of the cold and of the warm pass
    has_one_metric: bool = False
    processes: str = "1"  # [runner] processes of the flow

    @property
    def judge(self) -> JudgeConfig:
        """[judge]: the eight default metrics and the outcomes, or one metric."""
        some: dict[str, Any] = {"metrics": (ONE,)} if self.has_one_metric else {}
        return JudgeConfig(model=self.model, api_base=f"{self.url}/v1", **some)

    @property
    def limits(self) -> LimitsConfig:
        """[limits], with a ledger beside the cases."""
        return LimitsConfig(
            max_in_flight=self.in_flight,
            timeout_s=30,
            ledger=str(self.files[0].parent / f"{self.files[0].stem}.ledger.db"),
        )

    def passes(self) -> Iterator[tuple[str, list[Case]]]:
        """Yield the transcripts of each pass, read, one pass after the other."""
        native = FORMATS["native"]
        for name, file in zip(PASSES, self.files, strict=True):
            with file.open("rb") as lines:
                yield name, [native.case(line) for line in lines]


@dataclass
class Clock:
    """Wall and CPU seconds since it was made."""

    def __post_init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        self.children = _children_s()

    def result(self, cases: int, scored: int) -> Result:
        """The figures of a contestant."""
        return {
            "wall_s": time.perf_counter() - self.wall,
            "cpu_s": time.process_time() - self.cpu,
            "children_s": _children_s() - self.children,
            "cases": cases,
            "scored": scored,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def _children_s() -> float:
    """CPU seconds of the processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def started() -> Result:
    """The figures so far: what it cost to start."""
    return {"start_s": time.process_time()}


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


async def floor(contest: Contest) -> Result:
    """Bare HTTP: what the server and the machine allow."""
    import aiohttp

    address = f"{contest.url}/v1/chat/completions"
    headers = {"Authorization": "Bearer none", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=contest.in_flight)
    result = started()
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def post(body: bytes) -> bool:
            async with session.post(address, data=body) as response:
                answer = await response.json()
            return bool(json.loads(answer["choices"][0]["message"]["content"]))

        for name, cases in contest.passes():
            bodies = [body_of(contest, request) for request in requests(contest, cases)]
            clock = Clock()
            good = await pooled(contest.in_flight, [lambda b=body: post(b) for body in bodies])
            result[name] = clock.result(len(good), sum(good))
    return result


def body_of(contest: Contest, request: Mapping[str, Any]) -> bytes:
    """The body that litellm would send."""
    names = ("messages", "response_format", "max_tokens", "temperature")
    body = {"model": contest.model.partition("/")[2], **{name: request[name] for name in names}}
    return json.dumps(body).encode()


async def bare_litellm(contest: Contest) -> Result:
    """A loop of `litellm.acompletion`, the answers parsed as JSON."""
    import litellm

    # What others get who call litellm: our seam chooses a cheaper way into it.
    os.environ["EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER"] = "false"
    result = started()

    async def ask(body: dict[str, Any]) -> bool:
        response = await litellm.acompletion(**body, api_base=f"{contest.url}/v1")
        return bool(json.loads(response.choices[0].message.content))

    for name, cases in contest.passes():
        bodies = requests(contest, cases)
        clock = Clock()
        good = await pooled(contest.in_flight, [lambda b=body: ask(b) for body in bodies])
        result[name] = clock.result(len(good), sum(good))
    return result


class InProcess:
    """A model that answers at once from this process: all the CPU that is left is our own.

    `stub_s` are the CPU seconds that making the answers took, which the model server makes else.
    """

    def __init__(self, contest: Contest) -> None:
        from assizes.judge.models.litellm_model import LiteLLM

        self._model = LiteLLM(contest.judge, contest.limits)
        self.name, self.provider, self.price = "in/process", "in", self._model.price
        self.cache_key = self._model.cache_key
        self.stub_s = 0.0

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """As the real model."""
        return self._model.tokens(ask, cap)

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Answer as the model server does, after the event loop has had its turn."""
        request = self._model.request(ask)
        await asyncio.sleep(0)
        begun = time.process_time()
        text = Question.read(request, reasons=True).text
        answer = Completion(
            text, self.name, 3000, 600, 0.001, 1.0, json.loads(text)["reply_id"], by_schema=True
        )
        self.stub_s += time.process_time() - begun
        return answer

    async def aclose(self) -> None:
        """Close the real model, which was never called."""
        await self._model.aclose()


async def engine(contest: Contest) -> Result:
    """Ours without Prefect and without a store, every row made."""
    return await _engine(contest, model_for(contest.judge, contest.limits))


async def own(contest: Contest) -> Result:
    """The same without the call."""
    return await _engine(contest, InProcess(contest))


async def _engine(contest: Contest, model: Any) -> Result:
    bench = resolve_judges(contest.judge)
    asking = Engine(model, contest.limits)
    result = started()
    for name, cases in contest.passes():
        clock, stub_s = Clock(), getattr(model, "stub_s", 0.0)
        size = 2 * contest.in_flight  # of a shard, as in a run
        shards = [cases[start : start + size] for start in range(0, len(cases), size)]
        with freeze_heap():
            scored = await asyncio.gather(*(_shard(asking, bench, shard) for shard in shards))
        result[name] = clock.result(len(cases), sum(scored))
        result[name]["cpu_s"] -= getattr(model, "stub_s", 0.0) - stub_s
    await asking.aclose()
    return result


async def _shard(asking: Engine, bench: JudgePanel, cases: Iterable[Case]) -> int:
    """Judge the cases of a shard and make its rows; returns the headline scores."""
    found = await asyncio.gather(*(_judged(asking, bench, case) for case in cases))
    frames = {
        table: frame(table, [row for one in found for row in one.rows[table]])
        for table in ("scores", "asks", "cases")
    }
    return frames["scores"].filter(status="scored", part="").height


async def _judged(asking: Engine, bench: JudgePanel, case: Case) -> Any:
    heard = [await asking.hear(judge, case) for judge in bench.judges]
    return findings(RowKey("run", "file", 0), case, heard, bench)


async def flow(contest: Contest) -> Result:
    """Ours inside the Prefect flow, rows stored; PREFECT_API_URL names the server."""
    from assizes.flows.evaluate import evaluate

    async def run(config: RunConfig) -> RunSummary:
        work: Any = evaluate(config, return_state=True)
        outcome = await (await work).aresult(raise_on_failure=False)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome.summary

    return await _timed(contest, run)


async def steps(contest: Contest) -> Result:
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
                await pooled(config.shards_at_once, jobs)
                ended, summary = await summarise_run.fn(room, planned, has_lost_shards=False)
            against = await compare_with_baseline.fn(room, ended)
            await publish_report.fn(room, ended, summary, against.comparison)
        return summary

    return await _timed(contest, run)


async def _timed(contest: Contest, run: Callable[[RunConfig], Awaitable[RunSummary]]) -> Result:
    collect_seldom()  # as `assizes run`, shard processes and the flow runs of workers do
    result = started()
    for name, file in zip(PASSES, contest.files, strict=True):
        folder = file.parent / f"flow-{time.time_ns()}"
        folder.mkdir()
        clock = Clock()
        summary = await run(_run_config(contest, file, folder))
        scored = sum(metric.scored for metric in summary.metrics)
        counts = summary.counts
        result[name] = clock.result(counts["judged"] + counts["errored"], scored)
    return result


def _run_config(contest: Contest, file: Path, folder: Path) -> RunConfig:
    return RunConfig.model_validate(
        {
            "transcripts": {"uri": str(file)},
            "judge": contest.judge.model_dump(),
            "limits": contest.limits.model_dump() | {"ledger": str(folder / "ledger.db")},
            "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
            "cache": {"uri": str(folder / "replies")},
            "report": {"uri": str(folder / "reports")},
            "runner": {
                "fail_flow": False,
                "processes": "auto" if contest.processes == "auto" else int(contest.processes),
            },
        }
    )


CONTESTANTS = {
    "floor": floor,
    "litellm": bare_litellm,
    "own": own,
    "engine": engine,
    "steps": steps,
    "flow": flow,
}


def main() -> None:
    """Run one contestant and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=CONTESTANTS)
    parser.add_argument("--url", required=True)
    parser.add_argument("--cases", type=Path, required=True, help="of the cold pass")
    parser.add_argument("--more", type=Path, required=True, help="of the warm pass")
    parser.add_argument("--metrics", choices=("nine", "one"), default="nine")
    parser.add_argument("--model", default="openai/gpt-4o-mini")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--processes", default="1")
    given = parser.parse_args()
    files = (given.cases, given.more)
    has_one = given.metrics == "one"
    contest = Contest(given.url, given.model, given.in_flight, files, has_one, given.processes)
    print(json.dumps(asyncio.run(CONTESTANTS[given.name](contest))))


if __name__ == "__main__":
    main()
