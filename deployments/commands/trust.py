"""`assizes calibrate`: how far a judge agrees with people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from assizes.deployments.commands import output
from assizes.deployments.commands.people.calibration import (
    print_calibration,
    print_earlier,
    write_disagreements,
)
from assizes.deployments.settings import DEFAULT_FILE, read_config
from assizes.judge.config.gates import CASES_PREFIX, STORE_LABELS
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError, NoStore
from assizes.tasks.runs.calibrations import calibrate_judgements, calibrate_run
from assizes.tasks.store import existing_store


def calibrate_and_print(
    config: RunConfig, run_id: str | None, apart: Path | None, *, as_json: bool, verbose: bool
) -> int:
    """Calibrate a judge, store and print the calibrations; returns 1 below a floor, else 0.

    `apart` is a CSV file to write with the items that the judge and people grade differently.

    Raises:
        ConfigurationError: the labels or a setting cannot be used, or the file cannot be written.
        UnknownRun: the store has no such run.
    """
    if run_id is None and config.calibration.judgements is not None:  # grades recorded before
        with ExitStack() as closing:
            store = None  # the calibration is then stored nowhere
            with suppress(NoStore):  # recorded judgements need no store, and make none
                store = closing.enter_context(existing_store(config.store))
            result = calibrate_judgements(store, config.calibration)
    else:  # the scores of a run: of the one that is named, or of one made now
        of_run = _judge_transcripts(config, verbose=verbose) if run_id is None else run_id
        with existing_store(config.store) as store:
            result = calibrate_run(store, of_run, config.calibration)
        if run_id is None and config.calibration.canaries:
            from assizes.deployments.commands.run import run_flows
            from assizes.flows.evaluate import judge_canaries

            result = result.with_canaries(run_flows(judge_canaries(config, of_run, config.name)))
    if apart is not None:
        write_disagreements(apart, result.disagreements)
    if as_json:
        output.print_json(result.model_dump(mode="json"))
    else:
        for calibration, disagreements in zip(
            result.calibrations, result.disagreements, strict=True
        ):
            print_calibration(calibration, disagreements)
        print_earlier(result.earlier)
        if result.canaries is not None:
            output.print_line(result.canaries.sentence())
        output.print_lines(f"FALLS SHORT: {reason}" for reason in result.shortfalls)
    return 1 if result.shortfalls else 0


def check_disagreements(apart: Path, config: RunConfig, file: Path | None) -> None:
    """Check that the file to write is a CSV file that `assizes calibrate` does not read itself.

    `file` is the configuration file that was named.

    Raises:
        ConfigurationError: it is of another kind, or is read.
    """
    settings = config.calibration
    read = {
        "the configuration": str(file or DEFAULT_FILE),
        "the file of labels": settings.labels,
        "the file of judgements": settings.judgements,
    }
    for what, name in read.items():
        if name is not None and Path(name.removeprefix("file://")).resolve() == apart.resolve():
            raise ConfigurationError(
                f"--disagreements {str(apart)!r} is {what}, which this command reads; name another file"
            )
    if apart.suffix.lower() != ".csv":
        raise ConfigurationError(f"--disagreements {str(apart)!r}: name a .csv file")


def parse_pairs(texts: Sequence[str], option: str) -> dict[str, Any] | None:
    """Parse `NAME=VALUE` texts of an option into a table; `None` without any text.

    Raises:
        ConfigurationError: a text has no `=`, no name or no value.
    """
    values: dict[str, Any] = {}
    for pair in texts:
        name, separator, value = pair.partition("=")
        if not separator or not name or not value:
            raise ConfigurationError(f"{option} {pair!r}: write NAME=VALUE")
        values[name] = [*values[name], value] if name in values else [value]  # a list if repeated
    return {name: items if len(items) > 1 else items[0] for name, items in values.items()} or None


def calibration_config(
    file: Path | None,
    overrides: Sequence[str],
    fields: Mapping[str, object],  # of [calibration]; None: the option was not given
    store: str | None,
    run_id: str | None,  # run whose judge is calibrated
) -> RunConfig:
    """The configuration of a calibration; it may lack transcripts where none are to be judged.

    Raises:
        ConfigurationError: a setting cannot be used, no labels are named, or both a run and
            judgements are given.
    """
    if run_id is not None and fields["judgements"]:
        raise ConfigurationError("--run and --judgements: give one of them")
    settings: dict[str, Mapping[str, Any]] = {"calibration": fields, "store": {"uri": store}}
    if run_id is not None or fields["judgements"]:
        settings["transcripts"] = {"uri": ""}
    config = read_config(file, overrides, settings)
    if config.calibration.labels is None:
        raise ConfigurationError(
            "labels: name a file, cases:NAME or store:, or set [calibration] labels"
        )
    labels = config.calibration.labels
    elsewhere = "://" in labels or labels.startswith(CASES_PREFIX) or labels == STORE_LABELS
    if not (elsewhere or Path(labels).exists()):
        raise ConfigurationError(
            f"[calibration] labels {labels!r}: no such file in {Path.cwd()}; give a file with labels "
            "of people, cases:NAME, or store:"
        )
    return config


def _judge_transcripts(config: RunConfig, *, verbose: bool) -> str:
    """Judge the configured transcripts, unless a stored run has done so; returns the run id."""
    from assizes.deployments.commands.run import RunOptions, evaluations, preflight

    wanted = RunOptions(config)
    preflight(wanted)
    (outcome,) = evaluations([wanted], verbose=verbose)
    return outcome.run_id
