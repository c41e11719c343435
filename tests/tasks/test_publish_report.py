"""What is told of a run, by its end."""

from __future__ import annotations

import pytest

from assizes.tasks.publish_report import run_events
from tests.tasks.reports.sample import Said, compared, run


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ("passed", []),
        ("failed", ["assizes.run.failed"]),
        ("not_comparable", ["assizes.run.failed"]),
        ("incomplete", ["assizes.run.failed"]),
        ("inconclusive", ["assizes.run.inconclusive"]),
        ("undecided", ["assizes.run.inconclusive"]),
        ("regression", ["assizes.regression.detected"]),
    ],
)
def test_every_end_but_a_pass_has_one_event_of_its_own(outcome: str, told: list[str]):
    ended = run([Said("good", (5, 5))])
    data = ended.data() | {"verdict": {"outcome": outcome, "reasons": []}}
    names, _ = run_events(ended.record, ended.summary, data, {})
    assert names == ["assizes.run.finished", *told]


def test_an_event_says_why_a_gate_failed_and_why_a_run_is_worse():
    good, bad = Said("good", (5, 5)), Said("bad", (1, 2), done=False)
    after = run([bad])
    _, said = run_events(after.record, after.summary, after.data(), {"html": "r.html"})
    assert (said["outcome"], said["baseline"], said["report"]) == ("failed", None, "r.html")
    assert [one.partition(":")[0] for one in said["reasons"]] == ["metrics gate", "cases gate"]
    before = run([good], run_id="nightly-bbbbbbbbbbbb")
    fallen = run([Said("good", (1, 2), done=False)])
    _, said = run_events(fallen.record, fallen.summary, compared(before, fallen), {})
    assert said["baseline"] == "nightly-bbbbbbbbbbbb"
    assert any("pass rate fell" in one for one in said["reasons"])
    assert any(one.startswith("cases gate") for one in said["reasons"])
