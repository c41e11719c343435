"""`assizes promote`: cases of a stored run become cases of a suite."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from pathlib import Path

from assizes.deployments.commands import output
from assizes.deployments.commands.stores import opened_store
from assizes.judge.errors import ConfigurationError
from assizes.judge.suites.content import Promotion, with_promoted
from assizes.tasks.suites.promotion import CaseChoice, PromotableCases, promotable_cases
from assizes.tasks.suites.suite_folder import read_or_new_suite, write_suite

_NAMED = 3
"""The most cases that an error message names."""


@dataclass(frozen=True, slots=True)
class PromoteOptions:
    """Which cases of which run are written into which suite."""

    run_id: str  # or another name of the run
    choice: CaseChoice
    to: str  # folder of the suite
    promoted_by: str | None  # `None`: the user of this process
    dry_run: bool


def promote_and_print(
    wanted: PromoteOptions, file: Path | None, uri: str | None, *, as_json: bool
) -> None:
    """Write the chosen cases of a run into a suite, and print which of them are new in it.

    Raises:
        UnknownRun: the store has no such run.
        UnknownCase: the run has no such case, or none that failed.
        ConfigurationError: nothing is chosen, the suite cannot be read or written, or some case
            could not be written; the others are written all the same.
    """
    if wanted.choice.is_empty:
        raise ConfigurationError(
            "promote: no case is chosen; give --failed, --cause CAUSE or --case CASE"
        )
    place = wanted.to
    if "://" in place.removeprefix("file://"):
        raise ConfigurationError(f"--to {place!r}: a suite is a folder on disk; give its path")
    folder = Path(place.removeprefix("file://"))
    suite = read_or_new_suite(folder)  # before the store is searched
    with opened_store(file, uri) as store:
        who = _user(wanted.promoted_by)
        chosen = promotable_cases(store, wanted.run_id, wanted.choice, who)
    promotion = with_promoted(suite, chosen.cases)
    if promotion.added and not wanted.dry_run:
        write_suite(folder, promotion.suite)
    _print(folder, chosen, promotion, dry_run=wanted.dry_run, as_json=as_json)
    if chosen.refused:
        some = [f"case {case_id!r}: {why}" for case_id, why in chosen.refused.items()]
        more = f"; and {len(some) - _NAMED} more" if len(some) > _NAMED else ""
        raise ConfigurationError(
            f"promote: {len(some)} of {len(some) + len(chosen.cases)} cases were left out: "
            f"{'; '.join(some[:_NAMED])}{more}"
        )


def _user(given: str | None) -> str:
    """Who promotes: as given, else the user of this process; empty where it has no name."""
    if given is not None:
        return given
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run under a number without a name
        return ""


def _print(
    folder: Path, chosen: PromotableCases, promotion: Promotion, *, dry_run: bool, as_json: bool
) -> None:
    suite = promotion.suite
    if as_json:
        output.print_json(
            {
                "suite": suite.name,
                "folder": str(folder),
                "run_id": chosen.run_id,
                "dry_run": dry_run,
                "version": suite.version,
                "cases": len(suite.cases),
                "added": promotion.added,
                "already_there": promotion.held,
                "other_conversation": promotion.taken,
                "left_out": chosen.refused,
            }
        )
        return
    verb = "would be added to" if dry_run else "added to"
    word = "case" if len(promotion.added) == 1 else "cases"
    if promotion.added:
        output.print_line(f"{len(promotion.added)} {word} {verb} suite {suite.name!r} in {folder}")
        output.print_lines(f"  {case_id}" for case_id in promotion.added)
    else:
        output.print_line(f"nothing to add to suite {suite.name!r} in {folder}")
    if promotion.held:
        output.print_line(f"already there: {', '.join(promotion.held)}")
    if promotion.taken:
        output.print_line(
            f"already there with another conversation, which stays: {', '.join(promotion.taken)}"
        )
    output.print_line(f"{len(suite.cases)} cases, version {suite.version}")
