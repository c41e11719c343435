"""Renders a run as JUnit XML: CI systems show its verdict, gates, comparison and cases as tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.etree import ElementTree as ET

import polars as pl

from assizes.judge.verdicts.executions import PASS_FLAGGED, collect_rows
from assizes.tasks.reports.data.outcomes import REGRESSION
from assizes.tasks.reports.formatting import clean_line

MAX_CASES: Final = 20_000
"""Cases that are listed, at most.

Cases that did not pass come first; the property `cases_left_out` counts the others.
"""

TEXT_CHARS: Final = 2000
"""Characters of a name or message, at most."""

_COLUMNS: Final = (
    *("case_id", "repetition", "status", "passed"),
    *("summary", "error", "root_cause", "flags"),
)


def junit_report(data: Mapping[str, Any], cases: pl.LazyFrame) -> str:
    """The XML document, in which a case that did not pass is a failure.

    A case that could not be judged is an error.

    Args:
        data: the data of the report.
        cases: table `cases` of the run.
    """
    run = data["run"]
    root = ET.Element("testsuites", name="assizes")
    suite = ET.SubElement(root, "testsuite", name=_text(run["name"]))
    properties = ET.SubElement(suite, "properties")
    total = collect_rows(cases.select(pl.len())).item()
    facts = {
        "run_id": run["run_id"],
        "verdict": data["verdict"]["word"],
        "judged_by": data["judged_by"]["model"],
        "cases_left_out": max(0, total - MAX_CASES),
    }
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=name, value=_text(str(value)))
    suite.append(_verdict(data["verdict"]))
    suite.extend(_gates(data))
    suite.extend(_case(row) for row in _ranked_rows(cases))
    for name, tag in (("tests", "testcase"), ("failures", "*/failure"), ("errors", "*/error")):
        suite.set(name, str(len(suite.findall(tag))))
    suite.set("skipped", str(len(suite.findall("*/skipped"))))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _ranked_rows(cases: pl.LazyFrame) -> Iterator[dict[str, Any]]:
    passed = pl.col("passed").fill_null(value=False)
    first = cases.select(_COLUMNS).sort(passed, "case_id", "repetition").head(MAX_CASES)
    return collect_rows(first).iter_rows(named=True)


def _verdict(verdict: Mapping[str, Any]) -> ET.Element:
    """The verdict of the report as a test, so that CI never shows success for a run that failed."""
    test = ET.Element("testcase", classname="verdict", name="verdict")
    if verdict["outcome"] != "passed":
        kind = "failure" if verdict["outcome"] in ("failed", REGRESSION) else "error"
        _add_message(
            test, kind, f"{verdict['word']}: {verdict['headline']} {'; '.join(verdict['reasons'])}"
        )
    return test


def _gates(data: Mapping[str, Any]) -> Iterator[ET.Element]:
    for gate in data["verdict"]["dimensions"]:
        test = ET.Element("testcase", classname="gates", name=gate["name"].lower())
        if gate["passed"] is False:
            _add_message(test, "failure", f"{gate['shown']}, needs {gate['needs']}")
        elif gate["passed"] is None:
            _add_message(test, "skipped", "not decided")
        yield test
    if (compared := data["comparison"]) is not None:
        test = ET.Element("testcase", classname="comparison", name="no regression")
        why = "; ".join(compared["why"]) or "no reason was kept"
        if data["verdict"]["outcome"] == REGRESSION:
            _add_message(test, "failure", why)
        elif compared["ending"] != "fine":
            _add_message(test, "error", why)
        yield test


def _case(row: Mapping[str, Any]) -> ET.Element:
    name = row["case_id"] + (f" #{row['repetition']}" if row["repetition"] else "")
    test = ET.Element("testcase", classname="cases", name=_text(name))
    if row["status"] == "errored":
        _add_message(test, "error", row["error"] or "could not be judged")
    elif row["status"] != "judged":
        _add_message(test, "skipped", row["summary"] or row["status"])
    elif not row["passed"]:
        cause = f"; root cause {row['root_cause']}" if row["root_cause"] else ""
        _add_message(test, "failure", f"{row['summary'] or 'did not pass'}{cause}")
        if PASS_FLAGGED in (row["flags"] or ()):
            test[0].set("type", PASS_FLAGGED)
    return test


def _add_message(test: ET.Element, kind: str, message: str) -> None:
    ET.SubElement(test, kind, message=_text(message))


def _text(text: str) -> str:
    """Text for XML, which allows no control characters, not even escaped ones."""
    return clean_line(text, TEXT_CHARS)
