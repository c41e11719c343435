"""The JSON Schema of report.json: whatever is in a report is described, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assizes.tasks.reports import json_report
from assizes.tasks.reports.schema import report_schema, schema_text
from tests.command import ROOT, assizes
from tests.tasks.reports.sample import DESCRIBED, Said, compared, run
from tests.tasks.reports.sample_families import families_run

GOOD, BAD = Said("a", (5, 5)), Said("a", (1, 2), done=False, outcomes=(("It is paid.", False, ""),))
LOST = Said("b", (0, 0), error="timeout: no answer in 120 s")
REPEATED = [
    Said(f"{one}", (5 - one % 2, 4), repetition=number) for one in range(12) for number in (0, 1)
]


def read(data: dict[str, Any]) -> Any:
    return json.loads(json_report(data))


REPORTS = {
    "compared": read(compared(run([GOOD, LOST]), run([BAD, LOST], run_id="nightly-bbbbbbbbbbbb"))),
    "families": read(families_run().data()),
    "repeated": read(compared(run(REPEATED), run(REPEATED, run_id="nightly-cccccccccccc"))),
    "empty": read(run([]).data()),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_report_is_as_its_schema_says(report: Any):
    DESCRIBED.validate(report)


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_key_that_the_schema_has_not_is_found_wherever_it_is(report: Any):
    free = {"config", "thresholds_used"}
    for place in objects(report, free):
        place["a_new_key"] = 1
        assert not DESCRIBED.is_valid(report)
        del place["a_new_key"]
    assert DESCRIBED.is_valid(report)


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_key_that_went_is_found_too(report: Any):
    needed = report_schema()["required"]
    assert set(report) - set(needed) <= {
        "first_look",
        "corrected",
        "causes",
        "early_stop",
    }  # came later: older files lack it
    for name in needed:
        value = report.pop(name)
        assert not DESCRIBED.is_valid(report), name
        report[name] = value


def objects(value: Any, free: set[str]) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for name, one in pairs if isinstance(value, dict | list) else ():
        if name not in free and isinstance(one, dict | list):
            yield from objects(one, free)


def test_the_file_in_the_docs_is_the_schema_of_this_version():
    kept = (ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8")
    assert kept == schema_text(), "assizes report --schema > docs/report.schema.json"
    assert json.loads(kept) == report_schema()


@pytest.mark.promised
def test_the_command_prints_it_without_a_run(tmp_path: Path):
    answer = assizes("report", "--schema", cwd=tmp_path)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == schema_text()
