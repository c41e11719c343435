"""The labelled cases that an alignment reads of a stored run."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.config.gates import CalibrationConfig
from assizes.tasks.runs import alignments
from assizes.tasks.runs.alignments import labelled_metric
from assizes.tasks.store import open_store
from tests.tasks.reports.sample import BEGUN, Said, run
from tests.tasks.stored_runs import put

METRIC = "tool_routing"


def label(case_id: str, rater: str, **more: Any) -> dict[str, Any]:
    return {
        **{"label_id": f"{case_id}-{rater}", "case_id": case_id, "repetition": 0, "metric": METRIC},
        **{"rater": rater, "role": "rater", "kind": "label", "value": 1.0, "shown": "{}"},
        **{"at": BEGUN, **more},
    }


def case_of(row: dict[str, Any]) -> Case:
    turns = [{"role": "user", "text": "A question?"}, {"role": "assistant", "text": "An answer."}]
    return Case.model_validate({"case_id": row["case_id"], "transcript": {"turns": turns}})


def test_a_drawn_case_keeps_its_weight_when_it_is_labelled_again_or_settled_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # The transcripts of the sample are in no place from which they could be read.
    monkeypatch.setattr(
        alignments, "sent_and_shown_cases", lambda _, rows: [(case_of(row),) * 2 for row in rows]
    )
    drawn = {"probability": 0.25, "queue_id": "q"}
    rows = [
        *(label(f"c{n}", "ann", **drawn) for n in range(3)),
        label("c0", "cid", role="adjudicator"),
        label("c1", "ann", label_id="again", note="again", at=BEGUN + timedelta(minutes=1)),
        label("by hand", "ann"),
    ]
    with open_store(f"duckdb:///{tmp_path}/s.duckdb", writing=True) as store:
        run_id = put(store, run([Said(name, (5, 5)) for name in ("c0", "c1", "c2", "by hand")]))
        store.people.add("labels", [row | {"run_id": run_id} for row in rows])
        config = CalibrationConfig(labels="store:", metric=METRIC, scale="ordinal", pass_from=3)
        found = labelled_metric(store, store.run(run_id), METRIC, config)
    assert {item.case.case_id: item.weight for item in found.items} == {"c0": 4, "c1": 4, "c2": 4}
    assert found.labelled_until == "2026-03-02"
