"""What an adjudicator settled counts wherever labels of people are read, not what it overruled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.config.gates import VERDICT, CalibrationConfig
from assizes.tasks.runs import alignments
from assizes.tasks.runs.alignments import labelled_metric
from assizes.tasks.runs.anchor_runs import chosen_canaries
from assizes.tasks.store import Store, open_store
from tests.tasks.reports.sample import BEGUN, Said, run
from tests.tasks.stored_runs import put

METRIC = "tool_routing"
FAILED = (0, 0)


def label(case_id: str, value: float, *, metric: str, role: str = "rater") -> dict[str, Any]:
    return {
        **{"label_id": f"{case_id}-{role}", "case_id": case_id, "repetition": 0, "metric": metric},
        **{"rater": f"{role} ann", "role": role, "kind": "label", "value": value, "shown": "{}"},
        "at": BEGUN,
    }


def labelled_run(store: Store, metric: str, values: dict[str, tuple[float, float]]) -> str:
    """A run that fails every case, each with the value of a rater and that of an adjudicator."""
    run_id = put(store, run([Said("whole", (5, 5)), *(Said(case, FAILED) for case in values)]))
    rows = []
    for case_id, (given, settled) in values.items():
        rows.append(label(case_id, given, metric=metric))
        rows.append(label(case_id, settled, metric=metric, role="adjudicator"))
    store.people.add("labels", [row | {"run_id": run_id} for row in rows])
    return run_id


def test_attacks_are_planted_in_cases_that_failed_by_what_was_settled(tmp_path: Path):
    values = {"overruled": (0.0, 1.0), "failed": (1.0, 0.0)}
    with open_store(f"duckdb:///{tmp_path}/s.duckdb", writing=True) as store:
        run_id = labelled_run(store, VERDICT, values)
        config = CalibrationConfig(labels="store:", scale="ordinal", canaries=5)
        assert chosen_canaries(store, run_id, config) == ["failed"]


def test_a_level_that_only_an_adjudicator_gave_says_which_levels_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def read_again(_record: object, rows: list[dict[str, Any]]) -> list[tuple[Case, Case]]:
        turns = [{"role": "user", "text": "Why?"}, {"role": "assistant", "text": "So."}]
        transcript = {"turns": turns}
        ids = [row["case_id"] for row in rows]
        return [(Case.model_validate({"case_id": i, "transcript": transcript}),) * 2 for i in ids]

    # The transcripts of the sample are in no place from which they could be read.
    monkeypatch.setattr(alignments, "sent_and_shown_cases", read_again)
    with open_store(f"duckdb:///{tmp_path}/s.duckdb", writing=True) as store:
        run_id = labelled_run(store, METRIC, {"four": (0.0, 0.8), "two": (0.0, 0.4)})
        config = CalibrationConfig(labels="store:", metric=METRIC, scale="ordinal")
        found = labelled_metric(store, store.run(run_id), METRIC, config)
    assert {item.case.case_id: item.people for item in found.items} == {"four": True, "two": False}
