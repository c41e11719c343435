"""`assizes demo`: runs over bundled transcripts, with planted faults that the reports find."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from assizes.deployments.commands.output import print_line, print_outcome
from assizes.deployments.commands.run import RunOptions, evaluations
from assizes.deployments.samples import sample_cases, with_planted_regression
from assizes.deployments.samples.nights import three_nights
from assizes.deployments.settings import validate_config
from assizes.deployments.terminal import own_command
from assizes.judge.case import Case
from assizes.judge.catalog import available_metrics
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import native_line

NAME: Final = "demo"
"""Name of all runs."""

V1, V2, DATABASE = "demo-v1.jsonl", "demo-v2.jsonl", "demo.duckdb"
NIGHTS: Final = ("night-1.jsonl", "night-2.jsonl", "night-3.jsonl")
OWN_FILES: Final = (V1, V2, *NIGHTS, DATABASE, f"{DATABASE}.wal")  # .wal: DuckDB's log
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
    """Judge three nights with two planted faults, of which one is mended on the third.

    Returns 0 when the causes of both faults were found, and the mended one is gone, else 1.

    Raises:
        ConfigurationError: the folder cannot be used.
    """
    _write_anew(folder, dict(zip(NIGHTS, three_nights(), strict=True)))
    baselines = (None, "latest", "latest")
    configs = (
        _config(folder, night, baseline=baseline)
        for night, baseline in zip(NIGHTS, baselines, strict=True)
    )
    outcomes = evaluations([RunOptions(config) for config in configs], verbose=verbose)
    states = [
        {cause.cause_id: cause.state for cause in outcome.causes.first} if outcome.causes else {}
        for outcome in outcomes
    ]
    came = [cause_id for cause_id, state in states[1].items() if state == "new"]
    went = [cause_id for cause_id in came if states[2].get(cause_id) == "gone"]
    if not as_json:
        print_line("three nights of 40 real conversations of an airline agent; on the second the")
        print_line(
            "agent calls a tool that it is not offered, and breaks off; on the third it does only"
        )
        print_line("the former.")
        print_line("the second night:")
        print_outcome(outcomes[1])
        print_line("the third night:")
    print_outcome(outcomes[2], as_json=as_json)
    if not as_json:
        store = f"--store {folder / DATABASE}"
        print_line(f"{len(came)} causes came on the second night, {len(went)} went on the third")
        print_line(f"look closer: {own_command()} causes latest {store}")
    return 0 if len(came) == 2 and len(went) == 1 else 1  # as planted


def _write_anew(folder: Path, transcripts: Mapping[str, list[Case]]) -> None:
    """Remove the files of an earlier demo, but none of the user's; then write the transcripts."""
    own = (f"reports/{NAME}-*/report.*", f"{DATABASE}.causes/causes/*/{NAME}-*.parquet")
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
        "store": {"uri": f"duckdb:///{place}/{DATABASE}"},
        "cache": {"uri": f"{place}/replies"},
        "report": {"uri": f"{place}/reports"},
    }
    return validate_config(body, "demo")
