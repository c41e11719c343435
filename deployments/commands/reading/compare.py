"""`assizes compare`: two stored runs, by the rules of seed 001 and by statistics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from assizes.deployments.commands.output import print_comparison, print_json
from assizes.deployments.commands.stores import store_config
from assizes.deployments.settings import read_optional_config
from assizes.judge.comparison.compare import Ending
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.runs.stored_comparison import compare_stored
from assizes.tasks.store import existing_store

EXIT_CODES: Final[dict[Ending, int]] = {
    "fine": 0,
    "regressed": 1,
    "not_comparable": 3,
    "inconclusive": 4,
}
"""Exit code of `assizes compare` for each ending of a comparison."""


def compare_and_print(
    sides: tuple[str, str],
    limits: Mapping[str, Any],
    file: Path | None,
    store: str | None,
    *,
    as_json: bool,
) -> int:
    """Compare two stored runs, write the verdict into the store and print it.

    Args:
        sides: run ids of baseline and candidate.
        limits: thresholds given on the command line, by field of `ComparisonConfig`.
        file: configuration file.
        store: value of `--store`.
        as_json: print one JSON document.

    Returns:
        0 without a regression, 1 with a regression, 3 for runs that were judged differently, 4
        where the statistics decide and the data cannot tell.

    Raises:
        StoreError: there is no such store.
        ConfigurationError: a threshold cannot be used.
    """
    thresholds = _thresholds(limits, file)
    with existing_store(store_config(file, store)) as opened:
        comparison = compare_stored(opened, *sides, thresholds)
    if as_json:
        print_json(comparison.model_dump(mode="json"))
    else:
        print_comparison(comparison)
    return EXIT_CODES[comparison.verdict.ending]


def _thresholds(limits: Mapping[str, Any], file: Path | None) -> ComparisonConfig:
    """The configured thresholds, replaced by the thresholds of the command line where given."""
    configured = read_optional_config(file).comparison
    try:
        return ComparisonConfig.model_validate({**configured.model_dump(), **limits})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = "--" + str(fault["loc"][0]).replace("_", "-")
        raise ConfigurationError(f"{name}: {fault['msg']} (given {fault['input']!r})") from None
