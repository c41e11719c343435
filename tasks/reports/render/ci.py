"""Renders a run for CI systems and chats: in a few lines of Markdown, and as JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.etree import ElementTree as ET

import polars as pl

from assizes.judge.verdicts.executions import PASS_FLAGGED, collect_rows
from assizes.judge.verdicts.run_outcome import REGRESSION
from assizes.tasks.reports.formatting import bullets, clean_line, code, plain, plural, table
from assizes.tasks.reports.render.cause_lines import first_causes
from assizes.tasks.reports.render.markdown import gate_cells

MAX_FIRST_CASES: Final = 5  # cases in the few lines of Markdown, at most
MAX_CASES: Final = 20_000  # cases in the XML, at most; those that did not pass come first
TEXT_CHARS: Final = 2000  # characters of a name or message in the XML, at most

_COLUMNS: Final = (
    *("case_id", "repetition", "status", "passed"),
    *("summary", "error", "root_cause", "flags"),
)


def brief_report(data: Mapping[str, Any]) -> str:
    """The verdict of a run, its reasons and gates, and up to five cases to read first."""
    return "\n\n".join(_blocks(data)) + "\n"


def _blocks(data: Mapping[str, Any]) -> Iterator[str]:
    verdict, run = data["verdict"], data["run"]
    if (corrected := data.get("corrected")) and corrected["first"]:
        yield f"**{plain(corrected['first'], 1000)}**"
    yield f"## {verdict['word']}: {plain(run['name'])}"
    yield f"{code(run['run_id'])} · {plain(data['judged_by']['line'], 1000)}"
    reasons = [*verdict["reasons"], *(f"Warning: {caution}" for caution in verdict["cautions"])]
    if reasons:
        yield bullets(plain(reason, 500) for reason in reasons)
    yield from first_causes(data)
    rows = (gate_cells(dimension) for dimension in verdict["dimensions"])
    yield table(["Gate", "", "Value", "Needs"], rows, numbers=2)
    if (compared := data["comparison"]) is not None:
        totals = compared["totals"]
        yield (
            f"Against {code(compared['baseline']['run_id'])}: {totals['regressions']} worse, "
            f"{totals['improvements']} better, {totals['unchanged']} unchanged of "
            f"{plural(totals['matched'], 'case')} in both."
        )
    if first := data["cases"]["read_first"][:MAX_FIRST_CASES]:
        yield "Read these first:"
        yield bullets(f"{code(case['case_id'])} {plain(case['summary'] or '')}" for case in first)
    yield data["counts"]["sentence"]


def junit_report(data: Mapping[str, Any], cases: pl.LazyFrame) -> str:
    """The verdict, gates, comparison and cases of a run as tests in JUnit XML.

    A case that did not pass is a failure, one that could not be judged an error. `cases` is table
    `cases` of the run.
    """
    run = data["run"]
    root = ET.Element("testsuites", name="assizes")
    suite = ET.SubElement(root, "testsuite", name=clean_line(run["name"], TEXT_CHARS))
    properties = ET.SubElement(suite, "properties")
    total = collect_rows(cases.select(pl.len())).item()  # counted without loading the rows
    facts = {
        "run_id": run["run_id"],
        "verdict": data["verdict"]["word"],
        "judged_by": data["judged_by"]["model"],
        "cases_left_out": max(0, total - MAX_CASES),
    }
    for name, value in facts.items():
        text = clean_line(str(value), TEXT_CHARS)
        ET.SubElement(properties, "property", name=name, value=text)
    suite.extend(_verdict_tests(data))
    passed = pl.col("passed").fill_null(value=False)  # sorts False first: what did not pass is kept
    first = cases.select(_COLUMNS).sort(passed, "case_id", "repetition").head(MAX_CASES)
    suite.extend(_case(row) for row in collect_rows(first).iter_rows(named=True))
    tags = {"failures": "*/failure", "errors": "*/error", "skipped": "*/skipped"}  # as XPath
    for name, tag in {"tests": "testcase", **tags}.items():
        suite.set(name, str(len(suite.findall(tag))))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _verdict_tests(data: Mapping[str, Any]) -> Iterator[ET.Element]:
    """The verdict, its gates and the comparison as tests."""
    verdict, compared = data["verdict"], data["comparison"]
    kind: str | None = None  # the element within the test; `None`: the test passed
    if verdict["outcome"] != "passed":
        kind = "failure" if verdict["outcome"] in ("failed", REGRESSION) else "error"
    reasons = "; ".join(verdict["reasons"])
    # The verdict itself is a test, so that CI never shows success for a run that failed.
    yield _test("verdict", "verdict", kind, f"{verdict['word']}: {verdict['headline']} {reasons}")
    for gate in verdict["dimensions"]:
        kind = {True: None, False: "failure", None: "skipped"}[gate["passed"]]
        message = f"{gate['shown']}, needs {gate['needs']}" if kind == "failure" else "not decided"
        yield _test("gates", gate["name"].lower(), kind, message)
    if compared is not None:
        # An ending that is undecided or not comparable is an error: nothing is ruled out.
        kind = None if compared["ending"] == "fine" else "error"
        if verdict["outcome"] == REGRESSION:
            kind = "failure"
        why = "; ".join(compared["why"]) or "no reason was kept"
        yield _test("comparison", "no regression", kind, why)


def _case(row: Mapping[str, Any]) -> ET.Element:
    name = row["case_id"] + (f" #{row['repetition']}" if row["repetition"] else "")
    if row["status"] == "errored":
        return _test("cases", name, "error", row["error"] or "could not be judged")
    if row["status"] != "judged":
        return _test("cases", name, "skipped", row["summary"] or row["status"])
    if row["passed"]:
        return _test("cases", name)
    cause = f"; root cause {row['root_cause']}" if row["root_cause"] else ""
    test = _test("cases", name, "failure", f"{row['summary'] or 'did not pass'}{cause}")
    if PASS_FLAGGED in (row["flags"] or ()):
        test[0].set("type", PASS_FLAGGED)
    return test


def _test(group: str, name: str, kind: str | None = None, message: str = "") -> ET.Element:
    """A test; with a `kind` such as `failure` it holds an element of that name with the message."""
    # XML allows no control characters, not even escaped ones.
    test = ET.Element("testcase", classname=group, name=clean_line(name, TEXT_CHARS))
    if kind is not None:
        ET.SubElement(test, kind, message=clean_line(message, TEXT_CHARS))
    return test
