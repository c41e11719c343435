"""`assizes cascade`: makes the run that asks both models, sets the thresholds and prints them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assizes.deployments.commands import output
from assizes.deployments.commands.run import RunOptions, evaluations, preflight
from assizes.judge.calibration.cascade_result import CascadeResult
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.cascades.thresholds import collecting_config, set_thresholds
from assizes.tasks.store import existing_store


@dataclass(frozen=True, slots=True)
class CascadeOutput:
    """How the result is given out."""

    write: Path | None  # new file for the settings
    as_json: bool
    verbose: bool


def cascade_and_print(
    config: RunConfig,
    run_id: str | None,
    promise: tuple[float | None, float | None],  # agreement, delta; `None`: as configured
    wanted: CascadeOutput,
) -> None:
    """Set the thresholds of the judges of a run that asked both models, and print them.

    Raises:
        ConfigurationError: a setting, the labels or the file cannot be used, there are too few
            labels, or no threshold keeps the promise.
        UnknownRun: the store has no such run.
    """
    if wanted.write is not None and wanted.write.exists():
        raise ConfigurationError(f"--write {str(wanted.write)!r}: exists; name a new file")
    both = collecting_config(config, *promise, needs_model=run_id is None)
    of_run = _judge_with_both(both, verbose=wanted.verbose) if run_id is None else run_id
    with existing_store(config.store) as store:
        result = set_thresholds(store, of_run, both)
    if wanted.write is not None:
        try:
            wanted.write.write_text(result.settings(), encoding="utf-8")
        except OSError as error:
            fault = f"--write {str(wanted.write)!r} cannot be written"
            raise ConfigurationError(f"{fault}: {error.strerror or error}") from error
    if wanted.as_json:
        output.print_json(result.model_dump(mode="json"))
    else:
        _print_result(result)


def _judge_with_both(config: RunConfig, *, verbose: bool) -> str:
    """Judge the configured transcripts, unless a stored run has done so; returns the run id."""
    options = RunOptions(config)
    preflight(options)
    (outcome,) = evaluations([options], verbose=verbose)
    return outcome.run_id


def _print_result(result: CascadeResult) -> None:
    output.print_line(
        f"run {result.run_id}: {', '.join(result.first)} first, then {result.senior}; agreement "
        f"{result.agreement:g} with the chance {1 - result.delta:g}"
    )
    for judge in result.judges:
        calibration = judge.calibration
        output.print_line(calibration.sentence())
        span = (
            ""
            if calibration.escalated_low is None or calibration.escalated_high is None
            else f" [{calibration.escalated_low:.1%}, {calibration.escalated_high:.1%}]"
        )
        output.print_line(
            f"threshold {calibration.confidence:g}: {calibration.escalated:.1%}{span} of {calibration.cases:,} cases "
            f"escalated; {_cost(calibration.expected_usd)} a case, {_cost(calibration.senior_usd)} if "
            f"{result.senior} judged alone"
        )
        rows = [
            (
                metric.metric,
                metric.labels,
                f"{metric.attained:.3f}",
                f"{metric.attained_low:.3f}",
                f"{metric.first_alone:.3f}",
                f"{metric.senior_alone:.3f}",
                metric.undecided,
            )
            for metric in calibration.metrics
        ]
        columns = ("metric", "#labels", "#agreement", "#at least", "#first alone")
        output.print_table("", (*columns, "#stronger alone", "#undecided"), rows)
    output.print_lines(f"note: {note}" for note in result.notes)
    output.print_line("put this into the configuration:")
    output.print_text(result.settings().rstrip())


def _cost(usd: float | None) -> str:
    return "price not known" if usd is None else f"{usd:.6f} USD"
