"""Anchor runs in a store: attribution of a change, and bridges between judges."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from assizes.deployments.web import pages
from assizes.deployments.web.read_routes import StoreReader
from assizes.deployments.web.schemas import RunQuery
from assizes.judge.config.gates import SeriesConfig
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.tasks.reports.render.html import html_report
from assizes.tasks.reports.render.markdown import markdown_report
from assizes.tasks.reports.stored import stored_report_data
from assizes.tasks.runs.anchor_runs import anchor_config, has_due_anchors, stored_attribution
from assizes.tasks.runs.history import RunRange, stored_trends
from assizes.tasks.runs.stored_comparison import compare_stored, stored_comparison
from assizes.tasks.store import Store, open_store
from tests.tasks.reports.sample import BEGUN, Run, Said, config, run
from tests.tasks.stored_runs import put

ANCHORED = {"anchors": {"uri": "golden/"}}


def night(number: int, worse: int, *, anchors: bool = False, model: str | None = None) -> Run:
    """Forty cases, so many of them a level worse than usual in everything."""
    said = [Said(f"c{n}", (4, 4) if n < worse else (5, 5)) for n in range(40)]
    judge = {"judge": {"metrics": ["tool_routing"], "model": model, "provider": "openai"}}
    run_id = f"nightly-{number:012d}" + ("-anchors" if anchors else "")
    made = run(said, run_id=run_id, **(judge if model else {}), **({} if anchors else ANCHORED))
    at = BEGUN + timedelta(days=number, minutes=5 * anchors)
    name = "nightly-anchors" if anchors else "nightly"
    return replace(made, record=replace(made.record, name=name, started_at=at, finished_at=at))


def both_nights(store: Store, *, anchors: int, data: int):
    for made in (night(0, 0), night(0, 0, anchors=True)):
        put(store, made)
    for made in (night(1, data), night(1, anchors, anchors=True)):
        put(store, made)
    record = store.run("nightly-000000000001")
    limits = config().comparison
    comparison = compare_stored(store, "nightly-000000000000", record.run_id, limits)
    return record, comparison


@pytest.mark.parametrize(
    ("anchors", "data", "cause"),
    [(0, 0, "none"), (0, 25, "agent"), (25, 25, "judge"), (15, 40, "both")],
)
def test_the_anchors_tell_the_judge_from_the_agent(
    anchors: int, data: int, cause: str, store: Store
):
    record, comparison = both_nights(store, anchors=anchors, data=data)
    found = stored_attribution(store, record, comparison)
    assert found.cause == cause
    assert found.against == "nightly-000000000000-anchors"
    assert found.anchors.paired


def test_reports_say_that_the_judge_moved(store: Store):
    record, comparison = both_nights(store, anchors=25, data=25)
    data = stored_report_data(store, record, comparison)
    said = "Judge or agent: the JUDGE CHANGED on the anchors, and that explains the change"
    assert said in markdown_report(data)
    assert said in html_report(data)
    assert data["attribution"]["cause"] == "judge"
    assert comparison.verdict.ending == "regressed"
    assert data["verdict"]["word"] == "INCONCLUSIVE"
    assert "REGRESSION" not in markdown_report(data)


@pytest.mark.parametrize(("anchors", "tag"), [(25, "inconclusive"), (0, "▼ regression")])
def test_the_list_of_runs_says_what_the_report_says(anchors: int, tag: str, tmp_path: Path):
    config = StoreConfig(uri=f"duckdb:///{tmp_path}/s.duckdb")
    with open_store(config, writing=True) as opened:
        record, comparison = both_nights(opened, anchors=anchors, data=25)
        data = stored_report_data(opened, record, comparison)
    books = StoreReader(config)
    (listed,) = [one for one in books.runs(RunQuery()).data if one.run_id == record.run_id]
    assert listed.verdict == books.run(record.run_id).verdict == data["verdict"]["outcome"]
    shown = pages.runs(books, {}).body.decode()
    assert tag in shown
    assert ("▼ regression" in shown) is (listed.verdict == "regression")


def test_a_report_calls_a_fall_a_regression_while_the_judge_holds_still(store: Store):
    data = stored_report_data(store, *both_nights(store, anchors=0, data=25))
    assert data["verdict"]["outcome"] == "regression"


def test_a_run_without_anchors_has_no_attribution(store: Store):
    put(store, night(0, 0))
    record = store.run("nightly-000000000000")
    assert stored_attribution(store, record, None) is None


def test_anchors_are_due_nightly_and_with_a_judge_they_have_not_seen(store: Store):
    def due(made: Run, trigger: str = "nightly", **tables) -> bool:
        chosen = config(**{**ANCHORED, **tables})
        return has_due_anchors(store, replace(made.record, trigger=trigger), chosen)

    assert due(night(0, 0))
    assert due(night(0, 0), "adhoc")
    put(store, night(0, 0, anchors=True))
    assert not due(night(0, 0))
    assert due(night(1, 0))
    assert not due(night(1, 0), "adhoc")
    assert due(night(1, 0, model="gpt-4.1"), "adhoc")
    assert not due(night(1, 0), anchors={})
    assert not due(night(1, 0), cache={"use": "replay_only"})
    unfinished = night(1, 0)
    assert not due(replace(unfinished, record=replace(unfinished.record, status="incomplete")))


def test_the_anchor_run_asks_the_same_judge_anew_and_gates_nothing():
    chosen = config(**ANCHORED, comparison={"baseline": "latest"}, runner={"batch": True})
    found = anchor_config(chosen)
    assert found.name == "nightly-anchors"
    assert (found.transcripts.uri, found.cache.use) == ("golden/", "refresh")
    assert found.judge == chosen.judge
    assert (found.comparison.baseline, found.runner.batch, found.anchors.uri) == (None, False, None)


def test_a_name_that_leaves_no_room_for_the_anchors_is_refused():
    with pytest.raises(ValueError, match="name: at most 55 characters"):
        RunConfig.model_validate({"name": "n" * 56, "transcripts": {"uri": "t"}, **ANCHORED})


@pytest.mark.full
def test_a_change_of_judge_is_bridged_by_the_anchors_that_both_judged(store: Store):
    for number in range(6):
        put(store, night(number, 0))
    put(store, night(5, 0, anchors=True))
    # The new judge finds half of the same golden cases a level worse, and the nights as well.
    put(store, night(6, 20, anchors=True, model="gpt-4.1"))
    for number in range(6, 12):
        put(store, night(number, 20, model="gpt-4.1"))
    wanted = SeriesConfig(metrics=("tool_routing",), reference_runs=6)
    (trend,) = stored_trends(store, RunRange("nightly"), wanted).series
    assert [point.value for point in trend.points] == pytest.approx([1.0] * 6 + [0.9] * 6)
    assert [point.bridged for point in trend.points] == pytest.approx([0.9] * 12)
    assert trend.state == "quiet"
    assert trend.points[-1].z == pytest.approx(0, abs=1e-6)


@pytest.mark.full
def test_days_that_the_later_judge_judged_are_bridged_too_where_they_lie_before(store: Store):
    for number in range(6, 12):
        put(store, night(number, 0))
    put(store, night(11, 0, anchors=True))
    put(store, night(12, 20, anchors=True, model="gpt-4.1"))
    for number in range(6):  # a backfill of the week before, by the new judge
        made = night(number, 20, model="gpt-4.1")
        day = made.record.started_at.date()
        snapshot = {**made.record.config, "day": day.isoformat()}
        begun = BEGUN + timedelta(days=20, hours=number)
        put(store, replace(made, record=replace(made.record, config=snapshot, started_at=begun)))
    wanted = SeriesConfig(metrics=("tool_routing",), reference_runs=6)
    (trend,) = stored_trends(store, RunRange("nightly"), wanted).series
    assert [point.value for point in trend.points] == pytest.approx([0.9] * 6 + [1.0] * 6)
    assert [point.bridged for point in trend.points] == pytest.approx([1.0] * 12)
    assert trend.state == "quiet"


@pytest.mark.row("J2")
def test_runs_of_two_judges_are_compared_over_the_bridge_of_the_anchors_that_both_judged(
    store: Store,
):
    # The new judge finds half of the golden cases a level worse; of the run five more are worse.
    put(store, night(0, 0))
    put(store, night(0, 0, anchors=True))
    put(store, night(1, 20, anchors=True, model="gpt-4.1"))
    put(store, night(1, 25, model="gpt-4.1"))
    runs = ("nightly-000000000000", "nightly-000000000001")
    limits = config(comparison={"allow": True}).comparison
    comparison = compare_stored(store, *runs, limits)
    found = comparison.verdict.statistics
    assert found.verdict == "inconclusive"
    (score,) = [one for one in found.bridge if one.measure == "overall_score"]
    assert (score.judge, score.anchors) == (pytest.approx(-7.5), 40)
    assert score.delta == pytest.approx(-1.875)
    assert score.low < -1.875 < score.high
    assert score.line in found.reasons
    assert "on 40 anchors of both judges the later judge gives -7.5" in score.line
    assert stored_comparison(store, store.run(runs[1])) == comparison


def test_without_anchors_of_both_judges_there_is_no_bridge(store: Store):
    put(store, night(0, 0))
    put(store, night(0, 0, anchors=True))
    put(store, night(1, 25, model="gpt-4.1"))
    limits = config(comparison={"allow": True}).comparison
    comparison = compare_stored(store, "nightly-000000000000", "nightly-000000000001", limits)
    assert comparison.verdict.statistics.bridge == ()
