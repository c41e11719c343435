"""`assizes calibrate`: a judge beside the labels of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assizes.deployments.commands.output import print_json, print_line
from assizes.deployments.commands.trust.calibration_tables import print_calibration
from assizes.deployments.settings import read_config
from assizes.judge.calibration.canaries import Canaries
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError, NoStore
from assizes.tasks.runs.calibrations import CalibrationResult, calibrate_judgements, calibrate_run
from assizes.tasks.store import existing_store


@dataclass(frozen=True, slots=True)
class CalibrateOptions:
    """A calibration as asked for on the command line.

    Args:
        file: configuration file.
        overrides: `--set` pairs.
        given: fields of [calibration]; null: not given.
        store: in place of the configured one.
        run_id: the run to calibrate; null: judge the configured transcripts, or judgements.
    """

    file: Path | None
    overrides: tuple[str, ...]
    fields: Mapping[str, object]
    store: str | None
    run_id: str | None


def calibrate_and_print(options: CalibrateOptions, *, as_json: bool, verbose: bool) -> int:
    """Calibrate, keep the record, print it.

    Returns:
        1 where the judge falls short of a configured floor, else 0.

    Raises:
        ConfigurationError: for labels or settings that cannot be used.
        UnknownRun: the store has no such run.
    """
    config = _config(options)
    if options.run_id is None and config.calibration.judgements is not None:
        result = _judgements(config)
    else:
        run_id = (
            _judge_transcripts(config, verbose=verbose)
            if options.run_id is None
            else options.run_id
        )
        with existing_store(config.store) as store:
            result = calibrate_run(store, run_id, config.calibration)
        if options.run_id is None:
            result = result.with_canaries(_canaries(config, run_id))
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        for calibration in result.calibrations:
            print_calibration(calibration)
        if result.canaries is not None:
            print_line(result.canaries.sentence())
        for reason in result.shortfalls:
            print_line(f"FALLS SHORT: {reason}")
    return 1 if result.shortfalls else 0


def parse_pairs(texts: Sequence[str], option: str) -> dict[str, Any] | None:
    """`NAME=VALUE` pairs as a table; a name given twice has a list. Null without any.

    Raises:
        ConfigurationError: for a text without `=`.
    """
    values: dict[str, Any] = {}
    for pair in texts:
        name, separator, value = pair.partition("=")
        if not separator or not name or not value:
            raise ConfigurationError(f"{option} {pair!r}: write NAME=VALUE")
        values[name] = [*values[name], value] if name in values else [value]
    return {name: items if len(items) > 1 else items[0] for name, items in values.items()} or None


def _config(options: CalibrateOptions) -> RunConfig:
    """The configuration; transcripts are needed only where they are to be judged."""
    if options.run_id is not None and options.fields["judgements"]:
        raise ConfigurationError("--run and --judgements: the judge's side is one of the two")
    settings: dict[str, Mapping[str, Any]] = {
        "calibration": options.fields,
        "store": {"uri": options.store},
    }
    if options.run_id is not None or options.fields["judgements"]:
        settings["transcripts"] = {"uri": ""}
    config = read_config(options.file, options.overrides, settings)
    if config.calibration.labels is None:
        raise ConfigurationError("labels: name a file or cases:NAME, or set [calibration] labels")
    return config


def _judgements(config: RunConfig) -> CalibrationResult:
    """With recorded judgements a store is not needed, and none is made."""
    with ExitStack() as closing:
        store = None
        with suppress(NoStore):
            store = closing.enter_context(existing_store(config.store))
        return calibrate_judgements(store, config.calibration)


def _canaries(config: RunConfig, run_id: str) -> Canaries | None:
    """What became of the canaries, where some are wanted."""
    if not config.calibration.canaries:
        return None
    from assizes.deployments.commands.running.run import run_flows
    from assizes.flows.canaries import judge_canaries

    return run_flows(judge_canaries(config, run_id, config.name))


def _judge_transcripts(config: RunConfig, *, verbose: bool) -> str:
    """Judge the configured transcripts, or find it done; the run's id."""
    from assizes.deployments.commands.running.run import RunOptions, evaluations, preflight

    wanted = RunOptions(config)
    preflight(wanted)
    (outcome,) = evaluations([wanted], verbose=verbose)
    return outcome.run_id
