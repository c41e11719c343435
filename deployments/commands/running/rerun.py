"""`assizes requeue` and `run --only-errors`: judge again the records or cases that a run could not.

`requeue` takes the quarantined records, which could not be read; `--only-errors` takes the cases whose
judging ended in an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from assizes.deployments.commands.output import OutputOptions, print_json, print_line
from assizes.deployments.commands.running.run import RunOptions, run_evaluation
from assizes.deployments.commands.stores import store_config
from assizes.deployments.json_log import tell_user
from assizes.deployments.settings import stored_config
from assizes.judge.config.places import StoreConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.intake.selection import ScanPolicy
from assizes.tasks.intake.shards import plan_intake
from assizes.tasks.runs.rerun import rerun_selector
from assizes.tasks.sources.spool import Spool
from assizes.tasks.store import open_store

_SUFFIXES: Final = {"quarantined": "-requeue", "errored": "-errors"}
"""Suffix of the new run's name."""
_NAME_CHARS: Final = 63
"""Most characters of a run's name."""
_ALL: Final[dict[str, Any]] = {
    "limit": None,
    "number": None,
    "per_stratum": None,
    "stratify_by": [],
}
_SAMPLE_SETTINGS: Final = {"quarantined": _ALL, "errored": {**_ALL, "sample": 1.0}}
"""Sampling settings of the new run, which takes everything that is left.

Only the share `sample` still holds for quarantined records: the sample may not contain them. Cases
with an error were in the sample.
"""

Only = Literal["quarantined", "errored"]


def errored_selection(run_id: str | None, *, others: bool) -> tuple[str, Only]:
    """The run whose cases with an error `run --only-errors` judges again.

    Args:
        run_id: value of `--run-id`.
        others: whether an option was given for which the stored configuration has the value.

    Raises:
        ConfigurationError: no run is named, or such an option was given.
    """
    if run_id is None or others:
        raise ConfigurationError(
            "--only-errors: name the run with --run-id; its own configuration holds, and --set "
            "changes it"
        )
    return run_id, "errored"


def rerun_remaining(
    selection: tuple[str, Only],
    file: Path | None,
    overrides: Sequence[str],
    output: OutputOptions,
    *,
    dry_run: bool = False,
) -> int:
    """Judge what a stored run could not, in a new run with the configuration of the stored run.

    Args:
        selection: id of the stored run, or a unique beginning of it; and which kind to judge.
        file: configuration file, which names the store.
        overrides: `--set` pairs over the stored configuration.
        output: the output of the command.
        dry_run: only read and count.

    Returns:
        The exit code of the new run; 0 with `dry_run`.

    Raises:
        ConfigurationError: the stored run has no quarantined records, or no cases with an error.
        Inconclusive: none of them can be judged now.
    """
    run_id, only = selection
    store = store_config(file, None)
    config, before = _config(run_id, only, store, overrides)
    plan = _plan_rerun(config)
    counts = _counts(before, plan, only)
    if dry_run:
        if output.as_json:
            print_json(counts)
        else:
            print_line(_counts_line(counts))
        return 0
    tell_user(_counts_line(counts))
    return run_evaluation(RunOptions(config), as_json=output.as_json, verbose=output.verbose)


def _config(
    run_id: str, only: Only, store: StoreConfig, overrides: Sequence[str]
) -> tuple[RunConfig, dict[str, Any]]:
    """The configuration of the new run, and the counts of the stored run."""
    with open_store(store) as opened:
        run = opened.run(run_id)
        rejects = opened.table(run.run_id, "rejects")["reason"].value_counts()
        errored = opened.table(run.run_id, "cases")["error"].count()
    before: dict[str, Any] = {
        "run_id": run.run_id,
        "status": run.status,
        "quarantined": Plan.from_dict(run.plan).rejected,
        "reasons": dict(sorted(rejects.iter_rows())),
        "errored": errored,
    }
    suffix = _SUFFIXES[only]
    name = f"{run.name.removesuffix(suffix)[: _NAME_CHARS - len(suffix)]}{suffix}"
    settings: dict[str, dict[str, Any]] = {
        "transcripts": {**_SAMPLE_SETTINGS[only], "again": {"run": run.run_id, "only": only}},
        # Part of a run cannot be compared with a whole run, and replies that are missing from the
        # cache must be asked for even if the stored run only replayed.
        "comparison": {"baseline": None},
        "cache": {"use": "read_write"},
        "store": store.model_dump(),
    }
    snapshot = {**run.config, "name": name}
    return stored_config(snapshot, settings, overrides, f"run {run.run_id}"), before


def _plan_rerun(config: RunConfig) -> Plan:
    transcripts = config.transcripts
    with open_store(config.store) as store:
        choice = rerun_selector(store, transcripts.again)
    with Spool.of(transcripts) as spool:
        handling = ScanPolicy(choice, CasePreprocessor.from_config(config))
        return plan_intake(transcripts, config.shard_size, spool, policy=handling)


def _counts(before: dict[str, Any], plan: Plan, only: Only) -> dict[str, Any]:
    sought = before["quarantined"] if only == "quarantined" else before["errored"]
    return {
        "of": before,
        "only": only,
        "sought": sought,
        "due": plan.due,
        "still_quarantined": plan.rejected,
        "duplicate": plan.duplicates,
        "reasons": plan.reasons,
        "objects": plan.objects,
    }


def _counts_line(counts: dict[str, Any]) -> str:
    """The counts as a sentence: how many the stored run could not judge, how many are due now."""
    before, due = counts["of"], counts["due"]
    if counts["only"] == "errored":
        gone = counts["sought"] - due
        suffix = f"; {gone} no longer there word for word" if gone > 0 else ""
        return f"run {before['run_id']}: {counts['sought']} cases with an error, {due} to judge{suffix}"
    still = f"{counts['still_quarantined']} quarantined still{_reason_counts(counts['reasons'])}"
    return (
        f"run {before['run_id']}: {counts['sought']} quarantined{_reason_counts(before['reasons'])}; now "
        f"{due} to judge, {still}"
    )


def _reason_counts(reasons: dict[str, int]) -> str:
    return (
        f" ({', '.join(f'{code} {count}' for code, count in reasons.items())})" if reasons else ""
    )
