"""A run for CI: JUnit XML and a few lines of Markdown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from assizes.judge.history.anchors import Attribution
from assizes.tasks.reports.data.report import verdict_with_attribution
from assizes.tasks.reports.render.ci import brief_report, junit_report
from tests.tasks.reports.render.hostile import PAYLOADS
from tests.tasks.reports.sample import Run, Said, compared, run

GOOD, BAD = Said("good", (5, 5)), Said("bad", (1, 2), done=False)
LOST = Said("lost", (0, 0), error="timeout: no answer")


def junit(of: Run, data: dict[str, Any] | None = None) -> ET.Element:
    return ET.fromstring(junit_report(data or of.data(), of.frames["cases"].lazy()))


def outcome(root: ET.Element, name: str) -> str:
    (test,) = root.findall(f".//testcase[@name='{name}']")
    return next((child.tag for child in test), "passed")


def test_each_case_and_gate_is_a_test_and_the_counts_add_up():
    root = junit(run([GOOD, BAD, LOST]))
    (suite,) = root.findall("testsuite")
    assert (outcome(root, "good"), outcome(root, "bad"), outcome(root, "lost")) == (
        "passed",
        "failure",
        "error",
    )
    assert outcome(root, "cases") == "failure"
    tests = suite.findall("testcase")
    assert int(suite.get("tests", "")) == len(tests)
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(count, "")) == sum(one.find(tag) is not None for one in tests)


def test_a_regression_is_a_failed_test():
    before, after = (
        run([GOOD, BAD], run_id="nightly-bbbbbbbbbbbb"),
        run([BAD, Said("good", (0, 0), done=False)]),
    )
    data = compared(before, after)
    assert outcome(junit(after, data), "no regression") == "failure"
    assert outcome(junit(before, compared(before, before)), "no regression") == "passed"


def test_a_run_that_passed_has_a_verdict_that_passed():
    assert outcome(junit(run([GOOD])), "verdict") == "passed"


@pytest.mark.parametrize("said", [[GOOD, BAD], [BAD]])
def test_a_missed_gate_is_a_verdict_that_failed(said: list[Said]):
    assert outcome(junit(run(said)), "verdict") == "failure"


def test_a_run_that_did_not_end_is_an_error_whatever_its_gates_say():
    made = run([GOOD])
    cut = replace(made, record=replace(made.record, status="incomplete"))
    root = junit(cut)
    assert outcome(root, "metrics") == "passed"
    assert outcome(root, "verdict") == "error"


def test_an_inconclusive_run_is_an_error():
    assert outcome(junit(run([GOOD, LOST])), "verdict") == "error"


def test_a_fall_while_the_judge_moved_is_an_error_and_no_failure():
    before, after = (
        run([GOOD, BAD], run_id="nightly-bbbbbbbbbbbb"),
        run([BAD, replace(GOOD, levels=(0, 0))]),
    )
    data = compared(before, after)
    assert data["comparison"]["ending"] == "regressed"
    moved = Attribution(cause="judge", anchors=None, data=None, against=None)
    root = junit(after, {**data, "verdict": verdict_with_attribution(data["verdict"], moved)})
    assert (outcome(root, "verdict"), outcome(root, "no regression")) == ("error", "error")
    still = junit(after, data)
    assert (outcome(still, "verdict"), outcome(still, "no regression")) == ("failure", "failure")


@pytest.mark.parametrize("payload", [*PAYLOADS[:20], "a\x00b", "]]>", "\x1b[31m"])
def test_no_text_of_a_transcript_breaks_the_document(payload: str):
    root = junit(run([Said(payload, (1, 1), done=False, why=payload)]))
    known = {"testsuites", "testsuite", "properties", "property", "testcase", "failure"}
    assert {one.tag for one in root.iter()} <= known | {"skipped", "error"}


def test_the_brief_says_verdict_reasons_and_what_to_read():
    before, after = (
        run([GOOD, BAD], run_id="nightly-bbbbbbbbbbbb"),
        run([BAD, Said("good", (0, 0), done=False)]),
    )
    text = brief_report(compared(before, after))
    assert text.startswith("## REGRESSION: nightly\n")
    assert "1 worse" in text
    assert "`good`" in text
    assert len(text.splitlines()) < 40
