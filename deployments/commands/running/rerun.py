"""`assizes requeue` and `assizes run --only-errors`: take up what a stored run left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from assizes.deployments.commands.output import OutputOptions, print_json, print_line
from assizes.deployments.commands.running.run import RunOptions, run_evaluation
from assizes.deployments.commands.stores import store_config
from assizes.deployments.json_log import tell_user
from assizes.deployments.settings import stored_config
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.intake.selection import ScanPolicy
from assizes.tasks.intake.shards import plan_intake
from assizes.tasks.runs.rerun import rerun_selector
from assizes.tasks.sources.spool import Spool
from assizes.tasks.store import open_store

_SUFFIXES: Final = {"quarantined": "-requeue", "errored": "-errors"}
_NAME_CHARS: Final = 63
"""The most that a run's name has."""
_ALL: Final[dict[str, Any]] = {
    "limit": None,
    "number": None,
    "per_stratum": None,
    "stratify_by": [],
}
_SAMPLE_SETTINGS: Final = {"quarantined": _ALL, "errored": {**_ALL, "sample": 1.0}}
"""Settings of the sample: all that was left is taken. Only a share (`sample`) still holds for records
that could not be read, for it may leave them out; the cases that erred were in it.
"""

Only = Literal["quarantined", "errored"]


def errored_selection(run_id: str | None, *, others: bool) -> tuple[str, Only]:
    """What `run --only-errors` is about.

    Args:
        run_id: as given by `--run-id`.
        others: whether an option was given that the stored configuration decides.

    Raises:
        ConfigurationError: no run is named, or there are such options.
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
    """Judge in a run of its own what a stored run left, under the configuration of that run.

    Args:
        selection: the stored run, or the beginning of its id; and the records it could not read, or the
            cases it could not judge.
        file: says where the store is.
        overrides: `--set` pairs over the stored configuration.
        output: how to answer.
        dry_run: only read and count.

    Returns:
        The exit code.

    Raises:
        ConfigurationError: the run left nothing of the kind.
        Inconclusive: nothing of it can be judged now either.
    """
    run_id, only = selection
    store = store_config(file, None)
    config, before = _config(run_id, only, store, overrides)
    plan = _plan(config)
    counts = _counts(before, plan, only)
    if dry_run:
        _show(counts, as_json=output.as_json)
        return 0
    tell_user(_line(counts))
    return run_evaluation(RunOptions(config), as_json=output.as_json, verbose=output.verbose)


def _config(
    run_id: str, only: Only, store: StoreConfig, overrides: Sequence[str]
) -> tuple[RunConfig, dict[str, Any]]:
    """The configuration of the new run, and what the stored one left."""
    with open_store(store) as opened:
        run = opened.run(run_id)
        rejects = opened.table(run.run_id, "rejects")["reason"].value_counts()
        errored = opened.table(run.run_id, "cases")["error"].count()
    before = {
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
        # A part of a run is no match for a whole one, and what is missing has to be asked for.
        "comparison": {"baseline": None},
        "cache": {"use": "read_write"},
        "store": store.model_dump(),
    }
    snapshot = {**run.config, "name": name}
    return stored_config(snapshot, settings, overrides, f"run {run.run_id}"), before


def _plan(config: RunConfig) -> Plan:
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


def _show(counts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(counts)
    else:
        print_line(_line(counts))


def _line(counts: dict[str, Any]) -> str:
    """What was left, and what can be judged of it now."""
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
