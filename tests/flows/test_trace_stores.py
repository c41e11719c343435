"""Nightly runs, runs after a deployment, `since_last` and resumed runs over traces of a store.

The store is a server of the tests that speaks the protocol of Langfuse.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from assizes.flows.after_deployment import after_deployment
from assizes.flows.evaluate import evaluate
from assizes.flows.nightly import nightly
from assizes.judge.config.run import RunConfig
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.doubles.fixtures import OpenAIServer
from tests.doubles.json_server import JsonServer, json_server
from tests.doubles.langfuse_traces import KEYS, LangfuseTraces, public_traces
from tests.flows.nights import ago, dated, ended, rows
from tests.flows.test_kills import KILLED

pytestmark = [pytest.mark.usefixtures("prefect_server"), pytest.mark.data]


def trace_of(number: int, at: datetime, version: str = "v1") -> dict[str, Any]:
    """A trace with one answer of an agent, begun at this time."""
    pattern = copy.deepcopy(public_traces()[0])
    answer = next(row for row in pattern["observations"] if row["type"] == "GENERATION")
    trace_id, begun = f"{number:032x}", at.isoformat().replace("+00:00", "Z")
    answer |= {
        **{"id": f"{number:016x}", "traceId": trace_id, "parentObservationId": None},
        **{"startTime": begun, "endTime": begun},
        "input": [{"role": "user", "content": f"What is {number} plus {number}?"}],
        "output": {"role": "assistant", "content": f"It is {2 * number}."},
    }
    own = {"id": trace_id, "timestamp": begun, "release": version, "observations": [answer]}
    return {**pattern, **own, "scores": []}


def on(day: date, hour: int = 12) -> datetime:
    return datetime.combine(day, time(hour), UTC)


@pytest.fixture
def double() -> LangfuseTraces:
    return LangfuseTraces(traces=[])


@pytest.fixture
def server(double: LangfuseTraces, monkeypatch: pytest.MonkeyPatch) -> Iterator[JsonServer]:
    with json_server(double.answer) as started:
        for name, value in {**KEYS, "LANGFUSE_BASE_URL": started.url}.items():
            monkeypatch.setenv(name, value)
        yield started


def traced(folder: Path, **tables: Any) -> RunConfig:
    """A configuration over the traces of the store."""
    copies = {"copies": f"{folder}/copies"}
    transcripts = {"uri": "langfuse://support", "traces": copies, **tables.pop("transcripts", {})}
    return dated(folder, transcripts=transcripts, **tables)


def cases_of(config: RunConfig, run_id: str) -> set[str]:
    """The ids of the judged cases of a run, which are those of their traces."""
    with open_store(config.store) as store:
        return set(store.table(run_id, "cases")["case_id"])


def ids(*numbers: int) -> set[str]:
    return {f"{number:032x}" for number in numbers}


@pytest.mark.full
async def test_a_night_judges_the_traces_of_its_day_and_the_next_one_those_of_the_next(
    tmp_path: Path, double: LangfuseTraces, server: JsonServer
):
    double.traces = [trace_of(n, on(ago(3 - n // 2), n)) for n in range(6)]  # two a day
    config = traced(tmp_path, comparison={"baseline": "latest"})
    first = await ended(await nightly(config, ago(2), return_state=True))
    second = await ended(await nightly(config, ago(1), return_state=True))
    found = [cases_of(config, part.run_id) for night in (first, second) for part in night.parts]

    assert found == [ids(2, 3), ids(4, 5)]
    assert [row["trigger"] for row in rows(config)] == ["nightly", "nightly"]
    with open_store(config.store) as store:
        (pair,) = store.comparisons().select("baseline", "candidate").rows()
    assert pair == (first.parts[0].run_id, second.parts[0].run_id)
    again = await ended(await nightly(config, ago(2), return_state=True))
    assert again.parts[0].run_id == first.parts[0].run_id
    assert len(rows(config)) == 2


async def test_after_a_deployment_the_traces_of_its_version_alone_are_judged(
    tmp_path: Path, double: LangfuseTraces, server: JsonServer
):
    now = datetime.now(UTC)
    double.traces = [trace_of(n, now - timedelta(minutes=5 + n), "v2") for n in range(4)]
    double.traces += [trace_of(n, now - timedelta(minutes=5 + n), "v1") for n in range(4, 7)]
    double.traces += [trace_of(n, now - timedelta(days=40), "v2") for n in range(7, 9)]
    waiting = {"min_transcripts": 4, "deadline_minutes": 2.0, "poll_s": 0.2}
    config = traced(tmp_path, after_deployment=waiting)
    outcome = await ended(await after_deployment(config, "v2", return_state=True))

    assert cases_of(config, outcome.run_id) == ids(0, 1, 2, 3)
    assert not any("transcripts" in reason for reason in outcome.reasons)  # enough of them
    (row,) = rows(config)
    assert row["trigger"] == "deployment"


async def test_since_last_judges_what_is_new_and_asks_the_store_for_no_more(
    tmp_path: Path, double: LangfuseTraces, server: JsonServer
):
    double.traces = [trace_of(n, on(ago(5), n)) for n in range(3)]
    config = traced(tmp_path, transcripts={"since_last": True})
    first = await ended(await evaluate(config, return_state=True))
    double.traces += [trace_of(n, datetime.now(UTC)) for n in range(3, 5)]
    server.requests.clear()
    second = await ended(await evaluate(config, return_state=True))

    assert cases_of(config, first.run_id) == ids(0, 1, 2)
    assert cases_of(config, second.run_id) == ids(3, 4)
    starts = [request.params.get("fromStartTime") for request in server.requests]
    asked = [datetime.fromisoformat(start) for start in starts if start]
    assert asked
    assert min(asked) > datetime.now(UTC) - timedelta(hours=3)  # some before the last reading


@pytest.mark.full
def test_a_killed_run_goes_on_with_its_copies_and_asks_nothing_twice(
    tmp_path: Path,
    double: LangfuseTraces,
    server: JsonServer,
    judge_server: OpenAIServer,
    prefect_server: str,
):
    """A trace that has changed in the store meanwhile does not change the run."""
    double.traces = [trace_of(n, on(ago(1), n)) for n in range(8)]
    (tmp_path / "assizes.toml").write_text(
        'name = "killed"\n[transcripts]\nuri = "langfuse://support"\n'
        f'[judge]\nmodel = "openai/gpt-4o-mini"\napi_base = "{judge_server.api_base}"\n'
        'judges = ["conversation"]\n'
        "[runner]\nshard_size = 3\n"
        "[thresholds]\nmetrics_pass_threshold = 0\ncases_pass_threshold = 0\n"
    )
    env = {
        **KEYS,
        "LANGFUSE_BASE_URL": server.url,
        "PREFECT_API_URL": prefect_server,
        "OPENAI_API_KEY": "key-of-the-tests",
    }
    failing = {**env, "ASSIZES_FAILPOINT": "shard.committed:2"}
    killed = assizes("run", "--run-id", "r", cwd=tmp_path, env=failing)
    assert killed.code == KILLED, killed.err
    paid = judge_server.stats()["requests"]
    assert paid > 0
    changed = double.traces[7]["observations"][0]
    changed["output"] = {"role": "assistant", "content": "I do not know."}
    server.requests.clear()
    resumed = assizes("resume", "r", "--json", cwd=tmp_path, env=env)

    assert resumed.code == 0, resumed.err
    outcome = json.loads(resumed.out)
    assert (outcome["run_id"], outcome["summary"]["counts"]["judged"]) == ("r", 8)
    assert server.requests == []  # the copies are read
    asks = sql(tmp_path, "SELECT count(*) AS n FROM asks WHERE NOT cached")
    assert judge_server.stats()["requests"] == asks[0]["n"]
    assert len(sql(tmp_path, "SELECT DISTINCT case_id FROM cases")) == 8
    shown = assizes("case", "r", f"{7:032x}", cwd=tmp_path, env=env)
    assert "It is 14." in shown.out
    assert "I do not know." not in shown.out


def sql(folder: Path, query: str) -> list[dict[str, Any]]:
    body = json.loads(assizes("sql", "r", query, "--json", cwd=folder).out)
    found: list[dict[str, Any]] = body["rows"] if isinstance(body, dict) else body
    return found
