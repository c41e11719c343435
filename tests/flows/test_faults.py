"""What goes wrong during a run: it ends incomplete, says why, and the same command goes on."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.flows.outcome import RunOutcome
from assizes.judge.case import Case
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import UnknownRun
from assizes.tasks.runs.stored_comparison import stored_comparison
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.doubles.fixtures import running_openai_server
from tests.flows.test_evaluate import config, outcome_of, tables, written

pytestmark = pytest.mark.usefixtures("prefect_server")

MODULE = '''
from pathlib import Path

from assizes.judge.score import Score

FOLDER = Path(__file__).parent
heard = []

def thief(case):
    """Delete a transcript that was planned and is not yet judged."""
    (FOLDER / "transcripts" / "b.jsonl").unlink(missing_ok=True)
    return [Score("thief", value=1.0, raw=1.0)]

def clumsy(case):
    """Make the first commit fail, and allow the commit when the shard is judged again."""
    heard.append(case.case_id)
    (commits,) = [run / "commits" for run in (FOLDER / "lake" / "runs").iterdir()]
    if len(heard) == 1:
        commits.write_text("in the way")
    elif commits.is_file():
        commits.unlink()
    return [Score("clumsy", value=1.0, raw=1.0)]
'''


@pytest.fixture
def own(tmp_path: Path) -> Iterator[str]:
    """Write a module with custom judges into the folder of the test."""
    (tmp_path / "own_faults.py").write_text(MODULE, "utf-8")
    sys.path.append(str(tmp_path))
    yield "own_faults"
    sys.path.remove(str(tmp_path))
    sys.modules.pop("own_faults", None)


def split(folder: Path, *parts: list[Case]) -> str:
    """Transcript files a.jsonl, b.jsonl ... in a folder; its URI."""
    transcripts = folder / "transcripts"
    transcripts.mkdir()
    for name, cases in zip("abc", parts, strict=False):
        written(transcripts / f"{name}.jsonl", cases)
    return str(transcripts)


def status_of(wanted: RunConfig, run_id: str) -> str:
    with open_store(wanted.store) as store:
        return store.run(run_id).status


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_an_object_that_vanishes_after_planning_leaves_the_run_incomplete(
    tmp_path: Path, own: str
):
    cases = sample_cases()[:5]
    uri = split(tmp_path, cases[:2], cases[2:])
    judge = {"judges": [f"{own}:thief"]}
    wanted = config(tmp_path, uri, judge=judge, runner={"shards_in_flight": 1})
    outcome = await outcome_of(wanted)

    assert (outcome.conclusion, outcome.exit_code) == ("Incomplete", 4)
    assert outcome.reasons == [
        f"3 cases could not be judged; `assizes resume {outcome.run_id}` judges them",
        f"vanished: '{uri}/b.jsonl' was deleted after it was listed (1 shard)",
    ]
    assert outcome.summary.counts["not_attempted"] == 3
    assert status_of(wanted, outcome.run_id) == "incomplete"
    assert tables(wanted.store, outcome.run_id)["cases"].height == 2


async def test_an_outage_is_not_frozen_and_the_same_command_goes_on_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    cases, port = sample_cases()[:6], free_port()
    uri = split(tmp_path, cases[:2], cases[2:])
    judge = {"model": "openai/gpt-4o-mini", "api_base": f"http://127.0.0.1:{port}/v1"}
    wanted = config(tmp_path, uri, judge=judge)
    first = config(tmp_path, f"{uri}/a.jsonl", judge=judge)
    with running_openai_server("--port", str(port)):
        await outcome_of(first, run_id="first")

    outage = await outcome_of(wanted)
    assert (outage.conclusion, outage.exit_code) == ("Incomplete", 4)
    left, why = outage.reasons
    assert left == f"4 cases could not be judged; `assizes resume {outage.run_id}` judges them"
    assert why.startswith("openai/gpt-4o-mini: transient_exhausted: Cannot connect to host")
    assert why.endswith(" (1 shard)")
    assert tables(wanted.store, outage.run_id)["cases"].height == 2

    with running_openai_server("--port", str(port)) as back:
        whole = await outcome_of(wanted)
        assert back.stats()["requests"] == 4
    assert (whole.run_id, whole.conclusion) == (outage.run_id, "Passed")
    assert whole.summary.counts["judged"] == 6
    assert status_of(wanted, whole.run_id) == "complete"


async def test_a_run_without_one_judged_case_ends_cleanly_and_names_the_fault(
    tmp_path: Path, judge_server
):
    uri = written(tmp_path / "t.jsonl", sample_cases()[:10])
    judge = {"model": "openai/status-503", "api_base": judge_server.api_base}
    # Fewer calls in all than open the breaker, whose probes would take half a minute.
    limits = {"max_attempts": 2}
    outcome = await outcome_of(config(tmp_path, uri, judge=judge, limits=limits))

    assert (outcome.conclusion, outcome.exit_code) == ("Incomplete", 4)
    left, why = outcome.reasons
    assert left == f"10 cases could not be judged; `assizes resume {outcome.run_id}` judges them"
    assert why == "openai/status-503: transient_exhausted: stub answers 503 (2 shards)"
    assert outcome.summary.counts["not_attempted"] == 10
    assert outcome.summary.coverage is None
    assert "incomplete" in Path(outcome.reports["md"]).read_text("utf-8").lower()


@pytest.mark.full
@pytest.mark.parametrize("store", ["duckdb", "lake"])
async def test_a_run_is_found_again_whatever_its_shards_and_its_speed(tmp_path: Path, store: str):
    uri = written(tmp_path / "t.jsonl", sample_cases()[:9])
    places = {"duckdb": f"duckdb:///{tmp_path}/rows.duckdb", "lake": str(tmp_path / "lake")}
    place = {"uri": places[store]}
    first = await outcome_of(config(tmp_path, uri, store=place))
    again = await outcome_of(
        config(
            tmp_path,
            uri,
            store=place,
            runner={"shard_size": 2, "shards_in_flight": 1},
            limits={"max_in_flight": 5},
        )
    )
    assert again == first


async def test_a_commit_that_fails_once_is_made_the_second_time(tmp_path: Path, own: str):
    uri = written(tmp_path / "t.jsonl", sample_cases()[:1])
    judge = {"judges": [f"{own}:clumsy"]}
    wanted = config(tmp_path, uri, judge=judge, store={"uri": str(tmp_path / "lake")})
    outcome = await outcome_of(wanted)

    assert outcome.conclusion != "Incomplete"
    assert len(sys.modules[own].heard) == 2
    assert tables(wanted.store, outcome.run_id)["cases"].height == 1


async def incomplete(folder: Path, api_base: str) -> RunOutcome:
    """An incomplete run in the store of the folder."""
    uri = written(folder / "lost.jsonl", sample_cases()[:2])
    judge = {"model": "openai/status-503", "api_base": api_base}
    return await outcome_of(config(folder, uri, judge=judge), run_id="lost")


@pytest.mark.full
async def test_a_baseline_that_cannot_be_compared_with_costs_the_comparison_not_the_run(
    tmp_path: Path, judge_server
):
    await incomplete(tmp_path, judge_server.api_base)
    uri = written(tmp_path / "t.jsonl", sample_cases()[:4])
    outcome = await outcome_of(config(tmp_path, uri, comparison={"baseline": "lost"}))

    assert (outcome.conclusion, outcome.exit_code) == ("Inconclusive", 4)
    assert outcome.reasons == [
        "not compared: baseline run 'lost' has status 'incomplete'; "
        "only 'complete' runs are compared"
    ]
    assert outcome.comparison is None
    report = json.loads(Path(outcome.reports["json"]).read_text())
    assert report["verdict"]["word"] == "INCONCLUSIVE"
    assert report["verdict"]["reasons"] == ["no comparison with its baseline lost is stored"]
    assert outcome.summary.counts["judged"] == 4


async def test_a_baseline_that_is_not_there_is_told_before_any_model_is_asked(
    tmp_path: Path, judge_server
):
    uri = written(tmp_path / "t.jsonl", sample_cases()[:2])
    judge = {"model": "openai/gpt-4o-mini", "api_base": judge_server.api_base}
    with pytest.raises(UnknownRun, match="no run 'nowhere'"):
        await outcome_of(config(tmp_path, uri, judge=judge, comparison={"baseline": "nowhere"}))
    assert judge_server.stats()["requests"] == 0


@pytest.mark.full
@pytest.mark.parametrize("named", ["latest", "bbb", "bbb-baseline", "suite"])
async def test_the_report_of_a_run_keeps_its_own_baseline_whatever_is_compared_by_hand(
    tmp_path: Path, named: str
):
    from assizes.flows.compare import compare_runs

    cases = sample_cases()[:3]
    one = config(tmp_path, written(tmp_path / "v1.jsonl", cases))
    for run_id in ("zzz-older", "aaa-older", "bbb-baseline"):
        await outcome_of(one, run_id=run_id)
    comparison = {"baseline": named}
    wanted = config(tmp_path, written(tmp_path / "v2.jsonl", cases), comparison=comparison)
    await outcome_of(wanted, run_id="run")

    for other in ("zzz-older", "aaa-older", "run"):
        await compare_runs(other, "run", wanted.store, wanted.comparison, return_state=True)

    with open_store(wanted.store) as store:
        found = stored_comparison(store, store.run("run"))
        kept = sorted(store.comparisons()["baseline"])
        stored = store.run("run").config["comparison"]["baseline"]
    assert stored == ("latest" if named == "latest" else "bbb-baseline")
    assert found is not None
    assert found.baseline_run_id == "bbb-baseline"
    assert kept == ["aaa-older", "bbb-baseline", "zzz-older"]


@pytest.mark.full
async def test_a_resumed_run_holds_the_rows_of_one_never_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    cases, port = sample_cases()[:6], free_port()
    uri = written(tmp_path / "t.jsonl", cases)
    judge = {"model": "openai/gpt-4o-mini", "api_base": f"http://127.0.0.1:{port}/v1"}
    wanted = config(tmp_path, uri, judge=judge)
    await outcome_of(wanted, run_id="broken")
    with running_openai_server("--port", str(port)):
        await outcome_of(wanted, run_id="broken")
        await outcome_of(wanted, run_id="straight")
    broken, straight = (tables(wanted.store, run_id) for run_id in ("broken", "straight"))
    for name in ("scores", "cases", "rejects"):
        left, right = broken[name].drop("run_id"), straight[name].drop("run_id")
        assert left.equals(right, null_equal=True), name


@pytest.mark.full
def test_an_error_of_the_store_inside_the_flow_is_one_line(tmp_path: Path, prefect_server: str):
    written(tmp_path / "t.jsonl", sample_cases()[:3])
    env = {"PREFECT_API_URL": prefect_server}
    run = ("run", "--set", "transcripts.uri=t.jsonl", "--run-id", "taken")
    assizes(*run, cwd=tmp_path, env=env)
    refused = assizes(*run, "--limit", "2", cwd=tmp_path, env=env)

    assert refused.code == 2
    (line,) = refused.err.splitlines()
    told = "assizes: run 'taken' in duckdb:///assizes.duckdb was begun with another configuration: "
    assert line.startswith(f"{told}transcripts.limit differ; ")
