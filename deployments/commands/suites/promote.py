"""`assizes promote`: cases of a stored run become cases of a suite."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from assizes.deployments.commands import output
from assizes.deployments.commands.stores import store_config
from assizes.deployments.settings import read_optional_config
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.suites.content import Promotion, with_promoted
from assizes.tasks.runs.stored_cases import run_config
from assizes.tasks.store import open_store
from assizes.tasks.suites.promotion import CaseChoice, PromotableCases, promotable_cases
from assizes.tasks.suites.separate import check_separate
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


class Promoted(NamedTuple):
    """What a promotion chose of a run, and what became of it in the suite."""

    folder: Path
    chosen: PromotableCases
    promotion: Promotion

    def document(self, *, dry_run: bool) -> dict[str, Any]:
        """The promotion as a JSON document."""
        suite = self.promotion.suite
        return {
            "suite": suite.name,
            "folder": str(self.folder),
            "run_id": self.chosen.run_id,
            "dry_run": dry_run,
            "version": suite.version,
            "cases": len(suite.cases),
            "added": self.promotion.added,
            "already_there": self.promotion.held,
            "other_conversation": self.promotion.taken,
            "left_out": self.chosen.refused,
        }

    def check_complete(self) -> None:
        """Check that every chosen case could be written.

        Raises:
            ConfigurationError: some were left out; the message says which and why.
        """
        refused = self.chosen.refused
        if not refused:
            return
        some = [f"case {case_id!r}: {why}" for case_id, why in refused.items()]
        more = f"; and {len(some) - _NAMED} more" if len(some) > _NAMED else ""
        raise ConfigurationError(
            f"promote: {len(some)} of {len(some) + len(self.chosen.cases)} cases were left out: "
            f"{'; '.join(some[:_NAMED])}{more}"
        )


def promote(wanted: PromoteOptions, config: RunConfig) -> Promoted:
    """Write the chosen cases of a run into a suite, except in a dry run.

    `config` says where the store is; it may lack transcripts.

    Raises:
        UnknownRun: the store has no such run.
        UnknownCase: the run has no such case, or none that failed.
        ConfigurationError: nothing is chosen, the suite cannot be read or written, or a run would
            read it as transcripts.
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
    check_separate(folder, config.transcripts.uri, "[transcripts] uri names")
    with open_store(config.store) as store:
        record = store.run(wanted.run_id)
        check_separate(folder, run_config(record).transcripts.uri, f"run {record.run_id} reads")
        who = _user(wanted.promoted_by)
        chosen = promotable_cases(store, record.run_id, wanted.choice, who)
    promotion = with_promoted(suite, chosen.cases)
    if promotion.added and not wanted.dry_run:
        write_suite(folder, promotion.suite)
    return Promoted(folder, chosen, promotion)


def promote_and_print(
    wanted: PromoteOptions, file: Path | None, uri: str | None, *, as_json: bool
) -> None:
    """Write the chosen cases of a run into a suite, and print which of them are new in it.

    Raises:
        UnknownRun: the store has no such run.
        UnknownCase: the run has no such case, or none that failed.
        ConfigurationError: as `promote`; or some case could not be written, but the others are.
    """
    config = read_optional_config(file).model_copy(update={"store": store_config(file, uri)})
    promoted = promote(wanted, config)
    if as_json:
        output.print_json(promoted.document(dry_run=wanted.dry_run))
    else:
        _print(promoted.folder, promoted.promotion, dry_run=wanted.dry_run)
    promoted.check_complete()


def _user(given: str | None) -> str:
    """Who promotes: as given, else the user of this process; empty where it has no name."""
    if given is not None:
        return given
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run under a number without a name
        return ""


def _print(folder: Path, promotion: Promotion, *, dry_run: bool) -> None:
    suite = promotion.suite
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
