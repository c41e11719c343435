"""`assizes demo`: runs over bundled transcripts, with planted faults that the reports find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from assizes.deployments.commands.output import print_json, print_line, print_outcome
from assizes.deployments.commands.run import RunOptions, evaluations
from assizes.deployments.samples import sample_cases, with_planted_regression
from assizes.deployments.samples.nights import returned_fault, three_nights
from assizes.deployments.settings import validate_config
from assizes.deployments.terminal import own_command
from assizes.judge.case import Case
from assizes.judge.catalog import available_metrics
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import native_line
from assizes.judge.suites.content import Suite, with_promoted
from assizes.tasks.runs.run_causes import causes_of_run
from assizes.tasks.store import open_store
from assizes.tasks.suites.promotion import CaseChoice, promotable_cases
from assizes.tasks.suites.suite_folder import CASES, MANIFEST, RETIRED, write_suite

NAME: Final = "demo"
"""Name of all runs."""

V1, V2, DATABASE = "demo-v1.jsonl", "demo-v2.jsonl", "demo.duckdb"
NIGHTS: Final = ("night-1.jsonl", "night-2.jsonl", "night-3.jsonl")
LATER: Final = "later.jsonl"
SUITE: Final = "suite"
"""Folder and name of the suite, and name of the run over it."""
OWN_FILES: Final = (V1, V2, *NIGHTS, LATER, DATABASE, f"{DATABASE}.wal")  # .wal: DuckDB's log
"""Files that the demo writes beside its reports, and removes again when it is run anew."""


def run_demo(folder: Path, *, as_json: bool, verbose: bool) -> int:
    """Judge the sample and a copy with a planted regression; returns 0 when that was found, else 1.

    Raises:
        ConfigurationError: the folder cannot be used.
    """
    baseline = sample_cases()
    _write_anew(folder, {V1: baseline, V2: with_planted_regression(baseline)})
    wanted = [
        RunOptions(_config(folder, V1, baseline=None)),
        RunOptions(_config(folder, V2, baseline="latest")),
    ]
    _, outcome = evaluations(wanted, verbose=verbose)
    is_detected = outcome.conclusion == "Regression"
    if not as_json:
        real = f"{len(baseline)} real transcripts of an airline agent (v1)"
        print_line(f"{real}, and a copy in which")
        print_line("every third case that changes a booking claims success without doing it (v2).")
    print_outcome(outcome, as_json=as_json)
    if not as_json:
        print_line(f"the planted regression was {'found' if is_detected else 'missed'}")
        store = folder / DATABASE
        print_line(f"look closer: {own_command()} show latest --store {store}")
        print_line(f"in a browser: {own_command()} serve --store {store}")
    return 0 if is_detected else 1


def run_nights(folder: Path, *, as_json: bool, verbose: bool) -> int:
    """Judge three nights with two planted faults, of which one is mended on the third and returns.

    The cases of the mended fault become a suite, and later conversations with the fault are judged
    over it. Returns 0 when the causes of both faults were found, and the mended one was gone and
    came back, else 1.

    Raises:
        ConfigurationError: the folder cannot be used.
    """
    _write_anew(folder, dict(zip(NIGHTS, three_nights(), strict=True)))
    outcomes = evaluations(_night_runs(folder), verbose=verbose)
    states = [
        {cause.cause_id: cause.state for cause in outcome.causes.first} if outcome.causes else {}
        for outcome in outcomes
    ]
    came = [cause_id for cause_id, state in states[1].items() if state == "new"]
    went = [cause_id for cause_id in came if states[2].get(cause_id) == "gone"]
    back = [reason for reason in outcomes[-1].reasons if "came back" in reason]
    if as_json:
        print_json([outcome.model_dump(mode="json") for outcome in outcomes])
    else:
        print_line("three nights of 40 real conversations of an airline agent; on the second the")
        print_line(
            "agent makes up arguments and breaks off, on the third it only makes up arguments."
        )
        for title, outcome in zip(_TITLES, outcomes[1:], strict=False):
            print_line(title)
            print_outcome(outcome)
        print_line(f"{len(came)} causes came on the second night, {len(went)} went on the third")
        print_line(f"{len(back)} came back over the suite {folder / SUITE}")
        own, store = own_command(), f"--store {folder / DATABASE}"
        print_line(f"look closer: {own} causes {outcomes[2].run_id} {store}")
        print_line(f"how the suite stands: {own} suite status {folder / SUITE} {store}")
    return 0 if (len(came), len(went), len(back)) == (2, 1, 1) else 1  # as planted


_TITLES: Final = ("the second night:", "the third night:", "later, over the suite:")


def _night_runs(folder: Path) -> Iterator[RunOptions]:
    """The runs of the nights; then one over a suite, which is made once they have ended."""
    for night, baseline in zip(NIGHTS, (None, "latest", "latest"), strict=True):
        yield RunOptions(_config(folder, night, baseline=baseline))
    guarded = _promote_gone(folder)
    later = [case for case in returned_fault() if case.case_id in guarded]
    (folder / LATER).write_bytes(b"".join(native_line(case) for case in later))
    config = _config(folder, LATER, baseline=None).model_dump(mode="json")
    truth = {"uri": (folder / SUITE / CASES).as_posix()}
    yield RunOptions(validate_config({**config, "name": SUITE, "ground_truth": truth}, "demo"))


def _promote_gone(folder: Path) -> set[str]:
    """Write the cases of the causes that are gone since the second night into the suite."""
    with open_store(_store(folder)) as store:
        gone = causes_of_run(store, NAME).causes.filter(pl.col("state") == "gone")["cause_id"]
        choice = CaseChoice(failed=False, causes=tuple(gone), case_ids=())
        cases = promotable_cases(store, f"{NAME}~1", choice, NAME).cases if choice.causes else []
    write_suite(folder / SUITE, with_promoted(Suite(SUITE, ()), cases).suite)
    return {case.case_id for case in cases}


def _write_anew(folder: Path, transcripts: Mapping[str, list[Case]]) -> None:
    """Remove the files of an earlier demo, but none of the user's; then write the transcripts."""
    own = [
        pattern
        for name in (NAME, SUITE)
        for pattern in (
            f"reports/{name}-*/report.*",
            f"{DATABASE}.causes/causes/*/{name}-*.parquet",
        )
    ]
    own += [f"{SUITE}/{file}" for file in (MANIFEST, CASES, RETIRED)]
    old = [file for pattern in own for file in folder.glob(pattern)]
    try:
        for file in (*(folder / name for name in OWN_FILES), *old):
            file.unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        for name, cases in transcripts.items():
            (folder / name).write_bytes(b"".join(native_line(case) for case in cases))
    except OSError as error:
        raise ConfigurationError(
            f"--folder {str(folder)!r} cannot be used: {error.strerror}; give a folder that can be "
            "written to"
        ) from None


def _config(folder: Path, transcripts: str, *, baseline: str | None) -> RunConfig:
    place = folder.as_posix()
    defaults = [metric.name for metric in available_metrics() if metric.include_in_defaults]
    body = {
        "name": NAME,
        "transcripts": {"uri": (folder / transcripts).as_posix(), "format": "native"},
        "judge": {"metrics": [*defaults, {"metric": "task_completion", "weight": 0.5}]},
        "thresholds": {"metrics_pass_threshold": 60.0, "cases_pass_threshold": 60.0},
        "comparison": {"baseline": baseline},
        "store": _store(folder).model_dump(include={"uri"}),
        "cache": {"uri": f"{place}/replies"},
        "report": {"uri": f"{place}/reports"},
    }
    return validate_config(body, "demo")


def _store(folder: Path) -> StoreConfig:
    return StoreConfig(uri=f"duckdb:///{folder.as_posix()}/{DATABASE}")
