"""`assizes demo`: judge real transcripts of an agent, and a copy in which the agent got worse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from assizes.deployments.commands.output import print_json, print_line, print_outcome
from assizes.deployments.commands.running.run import RunOptions, evaluations
from assizes.deployments.samples import sample_cases, with_planted_regression
from assizes.deployments.settings import validate_config
from assizes.judge.case import Case
from assizes.judge.catalog import available_metrics
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import native_line

FOUND, NOT_FOUND = 0, 1
"""Exit codes: whether the comparison found the planted regression."""

NAME = "demo"
"""Name of both runs."""

V1, V2, DATABASE = "demo-v1.jsonl", "demo-v2.jsonl", "demo.duckdb"
OWN_FILES = (V1, V2, DATABASE, f"{DATABASE}.wal")
"""Files that the demo writes beside its reports, and removes again when it is run anew."""


def run_demo(folder: Path, *, as_json: bool, verbose: bool) -> int:
    """Judge the sample, judge a copy with a planted regression, and compare the two runs.

    Args:
        folder: where transcripts, store, reply cache and reports are written.
        as_json: print the outcome of the second run as one JSON document.
        verbose: show Prefect's log.

    Returns:
        0 when the planted regression was found, else 1.

    Raises:
        ConfigurationError: the folder cannot be used.
    """
    _clear_folder(folder)
    baseline = sample_cases()
    candidate = with_planted_regression(baseline)
    wanted = [
        RunOptions(_config(folder, _write_cases(folder / V1, baseline), baseline=None)),
        RunOptions(_config(folder, _write_cases(folder / V2, candidate), baseline="latest")),
    ]
    _, outcome = evaluations(wanted, verbose=verbose)
    is_detected = outcome.conclusion == "Regression"
    if as_json:
        print_json(outcome.model_dump(mode="json"))
        return FOUND if is_detected else NOT_FOUND
    print_line(f"{len(baseline)} real transcripts of an airline agent (v1), and a copy in which")
    print_line("every third case that changes a booking claims success without doing it (v2).")
    print_outcome(outcome)
    print_line(
        "the planted regression was found" if is_detected else "the planted regression was missed"
    )
    print_line(f"look closer: assizes show {outcome.run_id} --store {wanted[1].config.store.uri}")
    return FOUND if is_detected else NOT_FOUND


def _clear_folder(folder: Path) -> None:
    """Remove the files of an earlier demo from the folder; files of the user stay."""
    with _report_unusable(folder):
        for name in OWN_FILES:
            (folder / name).unlink(missing_ok=True)
        for report in folder.glob(f"reports/{NAME}-*/report.*"):
            report.unlink()


def _write_cases(file: Path, cases: list[Case]) -> str:
    with _report_unusable(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(native_line(case) for case in cases))
    return file.as_posix()


@contextlib.contextmanager
def _report_unusable(folder: Path) -> Iterator[None]:
    try:
        yield
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
        "transcripts": {"uri": transcripts, "format": "native"},
        "judge": {"metrics": [*defaults, {"metric": "task_completion", "weight": 0.5}]},
        "thresholds": {"metrics_pass_threshold": 60.0, "cases_pass_threshold": 60.0},
        "comparison": {"baseline": baseline},
        "store": {"uri": f"duckdb:///{place}/{DATABASE}"},
        "cache": {"uri": f"{place}/replies"},
        "report": {"uri": f"{place}/reports"},
    }
    return validate_config(body, "demo")
