"""The numbers of a run as Prometheus reads them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from assizes.judge.errors import ConfigurationError, Inconclusive
from assizes.judge.rows import frame
from assizes.tasks.reports.render.prometheus import metrics_text, write_metrics
from assizes.tasks.runs.corrected import corrected_numbers
from assizes.tasks.store import Store
from tests.tasks.reports.sample import BEGUN, Said, run
from tests.tasks.stored_runs import put


def numbers(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by name, then by the labels that are not the run's."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            own = {k: v for k, v in sample.labels.items() if k not in ("name", "trigger")}
            assert sample.labels["name"] == "nightly"
            found.setdefault(sample.name, {})[tuple(own.values())] = sample.value
    return found


@pytest.mark.row("O5")
def test_the_text_holds_what_the_rows_hold(store: Store):
    made = run([Said("secret-case", (5, 5)), Said("b", (1, 2), done=False)])
    put(store, made)
    text = metrics_text(store, store.run(made.record.run_id))
    found = numbers(text)
    asks = made.frames["asks"]
    assert found["assizes_judgements"]["scored",] == sum(m.scored for m in made.summary.metrics)
    assert found["assizes_records"]["judged",] == made.summary.counts["judged"]
    assert sum(found["assizes_attempts"].values()) == asks["attempts"].sum()
    assert found["assizes_cache_hits"][()] == asks["cached"].sum()
    assert found["assizes_coverage_ratio"][()] == made.summary.coverage
    assert found["assizes_ask_latency_seconds_count"][()] == (asks["attempts"] > 0).sum()
    assert found["assizes_ask_latency_seconds_bucket"]["+Inf",] == (asks["attempts"] > 0).sum()
    took_ms = found["assizes_duration_seconds"][()] * 1000
    called_ms = asks.filter(asks["attempts"] > 0)["latency_ms"].sum()
    assert found["assizes_in_flight"][()] == pytest.approx(called_ms / took_ms)
    assert found["assizes_limiter_wait_seconds"][()] == (asks["waited_ms"].sum() or 0) / 1000
    assert (
        found["assizes_last_complete_timestamp_seconds"][()]
        == store.runs()["finished_at"][0].timestamp()
    )
    assert found["assizes_passed"][()] == float(made.summary.outcome == "passed")
    assert "secret-case" not in text
    assert made.record.run_id not in text


@pytest.mark.row("O5")
def test_records_that_cannot_be_read_are_counted_by_reason(store: Store):
    made = run([Said("a", (5, 5))])
    why = ("json", "json", "too_long")
    rows = [
        {"run_id": made.record.run_id, "uri": "file:///secret.jsonl", "position": n, "reason": code}
        for n, code in enumerate(why)
    ]
    put(store, replace(made, frames={**made.frames, "rejects": frame("rejects", rows)}))
    text = metrics_text(store, store.run(made.record.run_id))
    assert numbers(text)["assizes_quarantined"] == {("json",): 2, ("too_long",): 1}
    assert "secret" not in text


@pytest.mark.row("O5")
def test_a_golden_set_that_moved_is_a_number(store: Store):
    for number, level in ((0, 5), (1, 3)):
        for anchors in (False, True):
            said = [Said(f"c{n}", (level if anchors else 5,) * 2) for n in range(20)]
            run_id = f"nightly-{number:012d}" + ("-anchors" if anchors else "")
            made = run(said, run_id=run_id)
            at = BEGUN + timedelta(days=number, minutes=5 * anchors)
            name = "nightly-anchors" if anchors else "nightly"
            changed = replace(made.record, name=name, started_at=at, finished_at=at)
            put(store, replace(made, record=changed))
    found = numbers(metrics_text(store, store.run("nightly-000000000001")))
    assert found["assizes_golden_set_drift_points"][()] < -10
    assert found["assizes_golden_set_drifted"][()] == 1


def test_numbers_that_labels_correct_have_their_interval(store: Store):
    made = run([Said(f"c{n}", (5, 5), done=n % 4 > 0) for n in range(60)])
    put(store, made)
    run_id = made.record.run_id
    assert "assizes_corrected" not in metrics_text(store, store.run(run_id))
    alike = {"run_id": run_id, "repetition": 0, "metric": "verdict", "rater": "ann"}
    alike |= {"role": "rater", "kind": "label", "shown": "{}", "at": BEGUN, "probability": 0.5}
    rows = [
        alike | {"label_id": f"l{n}", "case_id": f"c{n}", "value": float(n % 2)} for n in range(30)
    ]
    store.people.add("labels", rows)
    (number,) = corrected_numbers(store, run_id)
    found = numbers(metrics_text(store, store.run(run_id)))
    now = number.number.estimate
    assert found["assizes_corrected_ratio"]["verdict",] == now.value
    assert found["assizes_corrected_low_ratio"]["verdict",] == now.low < now.value
    assert found["assizes_corrected_high_ratio"]["verdict",] == now.high > now.value
    assert found["assizes_corrected_labels"]["verdict",] == 30


@pytest.mark.row("O5")
def test_a_file_is_replaced_whole_and_named_for_what_ran(store: Store, tmp_path: Path):
    made = run([Said("a", (5, 5))])
    put(store, made)
    folder = tmp_path / "collector"
    record = store.run(made.record.run_id)
    for _ in range(2):
        path = write_metrics(store, record, str(folder))
    assert path.name == f"assizes-nightly-{record.trigger}.prom"
    assert [one.name for one in folder.iterdir()] == [path.name]
    assert path.read_text() == metrics_text(store, record)


def test_a_folder_that_cannot_be_is_one_line(store: Store, tmp_path: Path):
    made = run([Said("a", (5, 5))])
    put(store, made)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="metrics .* cannot be written"):
        write_metrics(store, store.run(made.record.run_id), str(tmp_path / "file"))


def test_a_file_that_cannot_be_replaced_leaves_no_draft(store: Store, tmp_path: Path):
    made = run([Said("a", (5, 5))])
    put(store, made)
    folder = tmp_path / "collector"
    taken = folder / f"assizes-nightly-{made.record.trigger}.prom"
    taken.mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="metrics .* cannot be written"):
        write_metrics(store, store.run(made.record.run_id), str(folder))
    assert list(folder.iterdir()) == [taken]


def test_a_run_without_numbers_says_so(store: Store):
    made = run([Said("a", (5, 5))])
    begun = store.begin(replace(made.record, status="running", finished_at=None, summary=None))
    with pytest.raises(Inconclusive, match="no numbers yet"):
        metrics_text(store, begun)
