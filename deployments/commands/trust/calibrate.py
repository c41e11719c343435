"""`assizes calibrate`: measure how far a judge agrees with the labels of people."""

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
from assizes.tasks.runs.calibrations import calibrate_judgements, calibrate_run
from assizes.tasks.store import existing_store


@dataclass(frozen=True, slots=True)
class CalibrateOptions:
    """The options of `assizes calibrate`.

    Attributes:
        file: configuration file; `None` for `assizes.toml` where it exists.
        overrides: `--set` pairs.
        fields: values for fields of [calibration]; `None` for an option that was not given.
        store: URI of the store, in place of the configured store.
        run_id: the run whose scores are compared with the labels; `None`: take recorded judgements
            where the configuration names some, else judge the configured transcripts.
    """

    file: Path | None
    overrides: tuple[str, ...]
    fields: Mapping[str, object]
    store: str | None
    run_id: str | None


def calibrate_and_print(options: CalibrateOptions, *, as_json: bool, verbose: bool) -> int:
    """Calibrate a judge, store the calibrations and print them.

    Returns:
        1 where the judge misses a configured floor, else 0.

    Raises:
        ConfigurationError: the labels or a setting cannot be used.
        UnknownRun: the store has no such run.
    """
    config = _config(options)
    if options.run_id is None and config.calibration.judgements is not None:
        with ExitStack() as closing:
            store = None
            with suppress(NoStore):  # recorded judgements need no store, and make none
                store = closing.enter_context(existing_store(config.store))
            result = calibrate_judgements(store, config.calibration)
    else:
        run_id = options.run_id
        if run_id is None:
            run_id = _judge_transcripts(config, verbose=verbose)
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
    """Parse `NAME=VALUE` texts into a table.

    Args:
        texts: the texts; the values of a name that is given several times become a list.
        option: name of the option, for error messages.

    Returns:
        The table; `None` without any text.

    Raises:
        ConfigurationError: a text has no `=`, no name or no value.
    """
    values: dict[str, Any] = {}
    for pair in texts:
        name, separator, value = pair.partition("=")
        if not separator or not name or not value:
            raise ConfigurationError(f"{option} {pair!r}: write NAME=VALUE")
        values[name] = [*values[name], value] if name in values else [value]
    return {name: items if len(items) > 1 else items[0] for name, items in values.items()} or None


def _config(options: CalibrateOptions) -> RunConfig:
    """The configuration; it may lack transcripts where none are to be judged.

    Raises:
        ConfigurationError: a setting cannot be used, no labels are named, or both a run and
            judgements are given.
    """
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


def _canaries(config: RunConfig, run_id: str) -> Canaries | None:
    """Judge cases with planted attacks, if `[calibration] canaries` asks for them."""
    if not config.calibration.canaries:
        return None
    from assizes.deployments.commands.running.run import run_flows
    from assizes.flows.canaries import judge_canaries

    return run_flows(judge_canaries(config, run_id, config.name))


def _judge_transcripts(config: RunConfig, *, verbose: bool) -> str:
    """Judge the configured transcripts, unless a stored run has done so; returns the run id."""
    from assizes.deployments.commands.running.run import RunOptions, evaluations, preflight

    wanted = RunOptions(config)
    preflight(wanted)
    (outcome,) = evaluations([wanted], verbose=verbose)
    return outcome.run_id
