"""`assizes demo`: two versions of an agent over real transcripts, the second one got worse."""

from __future__ import annotations

import shutil
from pathlib import Path

from deployments.commands.output import print_json, print_line, print_outcome
from deployments.commands.run import Wanted, evaluations
from deployments.samples import sample_cases, with_planted_regression
from deployments.settings import validated
from judge.case import Case
from judge.catalog import available_metrics
from judge.config import RunConfig
from judge.formats import native_line

FOUND, NOT_FOUND = 0, 1


def run_demo(folder: Path, *, as_json: bool, verbose: bool) -> int:
    """Judge the sample, plant a regression in a copy, judge that, and compare.

    Returns:
        0 when the planted regression was found, else 1.
    """
    shutil.rmtree(folder, ignore_errors=True)
    baseline = sample_cases()
    candidate = with_planted_regression(baseline)
    wanted = [
        Wanted(_config(folder, _written(folder / "v1.jsonl", baseline), baseline=None)),
        Wanted(_config(folder, _written(folder / "v2.jsonl", candidate), baseline="latest")),
    ]
    _, outcome = evaluations(wanted, verbose=verbose)
    found = outcome.conclusion == "Regression"
    if as_json:
        print_json(outcome.model_dump(mode="json"))
        return FOUND if found else NOT_FOUND
    print_line(f"{len(baseline)} real transcripts of an airline agent (v1), and a copy in which")
    print_line("every third case that changes a booking claims success without doing it (v2).")
    print_outcome(outcome)
    print_line("the planted regression was found" if found else "the planted regression was missed")
    print_line(f"look closer: assizes show {outcome.run_id} --store {wanted[1].config.store.uri}")
    return FOUND if found else NOT_FOUND


def _written(file: Path, cases: list[Case]) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(native_line(case) for case in cases))
    return file.as_posix()


def _config(folder: Path, transcripts: str, *, baseline: str | None) -> RunConfig:
    place = folder.as_posix()
    defaults = [metric.name for metric in available_metrics() if metric.include_in_defaults]
    body = {
        "name": "demo",
        "transcripts": {"uri": transcripts, "format": "native"},
        "judge": {"metrics": [*defaults, {"metric": "task_completion", "weight": 0.5}]},
        "thresholds": {"metrics_pass_threshold": 60.0, "cases_pass_threshold": 60.0},
        "comparison": {"baseline": baseline},
        "store": {"uri": f"duckdb:///{place}/demo.duckdb"},
        "cache": {"uri": f"{place}/replies"},
        "report": {"uri": f"{place}/reports"},
    }
    return validated(body, "demo")
