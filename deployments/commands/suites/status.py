"""`assizes suite status` and `assizes suite retire`: how a suite stands, and what leaves it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from assizes.deployments.commands import output
from assizes.deployments.commands.stores import opened_store
from assizes.deployments.settings import read_optional_config
from assizes.judge.errors import ConfigurationError, NoStore, UnknownCase
from assizes.judge.suites.content import without
from assizes.tasks.suites.suite_folder import read_suite, suite_in_use, write_suite
from assizes.tasks.suites.suite_status import SuiteStatus, status_document, suite_status

CASE_COLUMNS = ("case", "now", "#passes in a row", "causes", "note")
CAUSE_COLUMNS = ("cause", "name", "#cases", "#failing", "#came back")
SHOWN_RUNS = 5


def print_status(
    folder: Path | None, file: Path | None, uri: str | None, passes: int, *, as_json: bool
) -> None:
    """Print how a suite stands after the runs over it in the store.

    Raises:
        ConfigurationError: the folder is no suite, or none is named.
        StoreError: the store cannot be read.
    """
    status = _status(_folder(folder, file), file, uri)
    document = status_document(status, passes)
    if as_json:
        output.print_json(document)
        return
    _print_summary(document, passes)


def retire_and_print(
    folder: Path | None,
    case_ids: Collection[str],
    file: Path | None,
    uri: str | None,
    passes: int | None,  # retire what has passed so often; `None`: only the named cases
    *,
    as_json: bool,
) -> None:
    """Retire cases of a suite: their lines are kept, and runs read them no more.

    Raises:
        UnknownCase: the suite has no such case.
        ConfigurationError: nothing is chosen, the folder is no suite, or it cannot be written to.
        StoreError: the store cannot be read.
    """
    if not case_ids and passes is None:
        raise ConfigurationError("suite retire: give --case CASE or --retirable")
    place = _folder(folder, file)
    suite = read_suite(place)
    if missing := sorted(set(case_ids) - {case.case_id for case in suite.cases}):
        raise UnknownCase(f"suite {suite.name!r} has no case {missing[0]!r}")
    leaving = set(case_ids)
    if passes is not None:
        leaving.update(_status(place, file, uri).retirable(passes))
    smaller = without(suite, leaving)
    if leaving:
        write_suite(place, smaller)
    if as_json:
        document = {"suite": suite.name, "version": smaller.version, "retired": sorted(leaving)}
        output.print_json(document)
        return
    output.print_line(f"{len(leaving)} cases retired from suite {suite.name!r}")
    output.print_lines(f"  {case_id}" for case_id in sorted(leaving))
    output.print_line(f"{len(smaller.cases)} cases, version {smaller.version}")


def _folder(folder: Path | None, file: Path | None) -> Path:
    """The folder of a suite: the given one, else the one that the configuration names."""
    if folder is not None:
        return folder
    used = suite_in_use(read_optional_config(file))
    if used is None:
        raise ConfigurationError("the configuration names no suite; give its folder")
    return used.folder


def _status(folder: Path, file: Path | None, uri: str | None) -> SuiteStatus:
    suite = read_suite(folder)
    try:
        with opened_store(file, uri) as store:
            return suite_status(store, suite)
    except NoStore:
        if uri is not None:  # it was asked for
            raise
        return suite_status(None, suite)


def _print_summary(document: dict[str, Any], passes: int) -> None:
    output.print_line(
        f"suite {document['name']!r}: {document['cases']} cases, version {document['version']}, "
        f"{document['retired']} retired"
    )
    for run in document["runs"][:SHOWN_RUNS]:
        now = "" if run["version"] == document["version"] else ", another version"
        output.print_line(f"run {run['run_id']} on {run['day']}: version {run['version']}{now}")
    if not document["runs"]:
        output.print_line("no run over new conversations of it in this store")
    if document["cases"]:
        output.print_table("", CASE_COLUMNS, map(_case_cells, document["standings"]))
    if document["causes"]:
        rows = [
            [row[name] for name in ("cause_id", "name", "cases", "failing", "came_back")]
            for row in document["causes"]
        ]
        output.print_table("", CAUSE_COLUMNS, rows)
    counts = [f"{document[state]} {state}" for state in ("passing", "failing", "undecided")]
    output.print_line(f"{', '.join(counts)}, {len(document['never_judged'])} never judged")
    if (check := document["judge_check"]) is not None:
        output.print_line(
            f"judges checked by run {check['run']['run_id']} on {check['run']['day']}: they fail "
            f"{check['failing']} stored conversations and pass {len(check['passing'])}"
        )
    if count := len(document["retirable"]):
        output.print_line(
            f"{count} can be retired: they passed {passes} times in a row or more "
            "(`assizes suite retire`)"
        )


def _case_cells(row: dict[str, Any]) -> list[object]:
    notes = []
    if row["came_back"]:
        notes.append(f"came back: {', '.join(row['came_back'])}")
    if row["retirable"]:
        notes.append("can be retired")
    state = row["state"] or "never judged"
    return [row["case_id"], state, row["passes"], ", ".join(row["causes"]), "; ".join(notes)]
