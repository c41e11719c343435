"""What is told of a run, by its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.tasks.publish_report import report_address, run_events
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
    names, _ = run_events(ended.record, ended.summary, data, None)
    assert names == ["assizes.run.finished", *told]


def test_an_event_says_why_a_gate_failed_and_why_a_run_is_worse():
    good, bad = Said("good", (5, 5)), Said("bad", (1, 2), done=False)
    after = run([bad])
    _, said = run_events(after.record, after.summary, after.data(), "file:///r.html")
    assert (said["outcome"], said["baseline"], said["report"]) == ("failed", None, "file:///r.html")
    assert [one.partition(":")[0] for one in said["reasons"]] == ["metrics gate", "cases gate"]
    before = run([good], run_id="nightly-bbbbbbbbbbbb")
    fallen = run([Said("good", (1, 2), done=False)])
    _, said = run_events(fallen.record, fallen.summary, compared(before, fallen), None)
    assert said["baseline"] == "nightly-bbbbbbbbbbbb"
    assert any("pass rate fell" in one for one in said["reasons"])
    assert any(one.startswith("cases gate") for one in said["reasons"])


@pytest.mark.parametrize(
    ("path", "base_url", "address"),
    [
        ("reports/a b/report.html", None, f"{Path.cwd().as_uri()}/reports/a%20b/report.html"),
        ("/srv/report.html", None, "file:///srv/report.html"),
        ("s3://bucket/report.html", None, "s3://bucket/report.html"),
        (None, None, None),
        (
            "/srv/report.html",
            "https://pages.example/ours/",
            "https://pages.example/ours/view/runs/r-1",
        ),
        (None, "http://10.0.0.7:8320", "http://10.0.0.7:8320/view/runs/r-1"),
    ],
)
def test_who_is_told_can_open_the_report(path: str | None, base_url: str | None, address: str):
    assert report_address("r-1", path, base_url) == address
