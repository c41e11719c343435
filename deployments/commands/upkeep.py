"""`assizes stop`, the kill switch, and `assizes store ...`, the upkeep of a store."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from assizes.deployments.commands.output import print_json, print_line, print_lines, print_table
from assizes.deployments.commands.publishing.elsewhere import Elsewhere
from assizes.deployments.commands.stores import opened_store, store_config
from assizes.deployments.settings import read_optional_config
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import (
    ConfigurationError,
    StoreBusy,
    StoreError,
    UnknownCase,
    UnknownRun,
)
from assizes.judge.rows import COMPLETE
from assizes.tasks.runs.stored_cases import run_config
from assizes.tasks.sources.trace_forgetting import forget_traces
from assizes.tasks.spending.ledger_file import known_runs, lift_stop, write_stop
from assizes.tasks.store import Store, existing_store, open_store, rebuild_store, upkeep
from assizes.tasks.store.run_names import names_in_ids, resolve_run
from assizes.tasks.trace_stores.address import is_trace_store


@dataclass(frozen=True, slots=True)
class ForgetOptions:
    """Whose rows are deleted."""

    case_id: str | None  # None: of every case with the tags
    tags: list[str]  # key=value; a case has all of them
    run_id: str | None  # None: in all runs
    waits: bool = False  # for processes that work on one of the runs
    here_only: bool = False  # what was sent elsewhere stays there


log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0  # seconds between two tries of a deletion that waits

DRY_RUN_NOTE = "nothing was changed: this is what --yes would do"
UNTOUCHED_NOTE = (
    "not touched: transcripts, reports already written, and the reply cache (its entries carry no "
    "case id; remove the cache to be rid of them). Counts and metrics of the runs stay as they were."
)


def rebuild_and_print(
    file: Path | None, uri: str | None, source: str | None, *, as_json: bool
) -> None:
    """Rebuild a damaged DuckDB file and print which runs were kept and which were lost."""
    config = store_config(file, uri)
    copy = config.at(source) if source else None  # a second copy of runs
    done = rebuild_store(config, copy)
    if as_json:
        aside = str(done.old_file) if done.old_file else None
        print_json({"kept": done.kept_run_ids, "lost": done.losses, "aside": aside})
        return
    ids = f": {', '.join(done.kept_run_ids)}" if done.kept_run_ids else ""
    print_line(f"{config.uri}: kept {len(done.kept_run_ids)} runs{ids}")
    print_lines(f"lost {run_id}: {why}" for run_id, why in done.losses.items())
    if done.old_file is not None:
        print_line(f"the damaged files are kept as {done.old_file} (.wal, .commits)")
    if copy is None:
        print_line(
            "there was no second copy to take them from: run again what is lost or incomplete; "
            "replies in the cache are not paid for twice"
        )


def collect_and_print(
    file: Path | None, uri: str | None, hours: float, *, yes: bool, as_json: bool
) -> None:
    """List, or with `yes` remove, the objects of a Parquet store that no reader needs.

    Raises:
        ConfigurationError: `hours` is negative.
    """
    if hours < 0:
        raise ConfigurationError(f"--older-than {hours:g}: accepted are hours from 0 on")
    with opened_store(file, uri) as store:
        # Younger objects stay: they may belong to a writer at work.
        objects = upkeep.collect_garbage(store, older_than=timedelta(hours=hours), removing=yes)
        where = store.uri
    if as_json:
        print_json({"removed": yes, "objects": [asdict(item) for item in objects]})
        return
    sizes: defaultdict[str, list[int]] = defaultdict(list)  # kind of object -> bytes of each
    for item in objects:
        sizes[item.kind].append(item.size)
    if objects:
        rows = [(kind, len(sizes[kind]), f"{sum(sizes[kind]) / 1e6:.1f}") for kind in sorted(sizes)]
        print_table("", ("kind", "#objects", "#MB"), rows)
    print_line(f"{where}: {len(objects)} objects {'removed' if yes else 'to remove'}")
    if objects and not yes:
        print_line(DRY_RUN_NOTE)


def forget_and_print(
    file: Path | None, uri: str | None, options: ForgetOptions, *, yes: bool, as_json: bool
) -> None:
    """Count, or with `yes` delete, every row of a case or of all cases with some tags.

    Raises:
        ConfigurationError: a tag is no `key=value`, or the id is empty.
        UnknownCase: nothing is stored of such a case.
        StoreBusy: another process works on one of the runs, and `options` do not wait for it.
    """
    tags = {}
    for text in options.tags:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise ConfigurationError(f"--tag {text!r}; accepted: key=value")
        tags[key] = value
    if options.case_id is not None and not options.case_id.strip():
        raise ConfigurationError("store forget '': name a case; an empty id is none")
    subject = upkeep.DataSubject(options.case_id, tags)
    config = store_config(file, uri)
    elsewhere = Elsewhere(config, here_only=options.here_only)
    if yes:
        matches = _forget(config, subject, options, elsewhere)
    else:  # counting only reads: it needs no writer's lock on a DuckDB file
        with opened_store(file, uri) as store:
            matches = upkeep.find_subject(store, subject, options.run_id)
            elsewhere.count(matches)
    if not matches:
        raise UnknownCase(f"{config.uri}: {_nothing_of(options)}; nothing was deleted")
    if as_json:
        runs = [asdict(match) for match in matches]
        print_json({"deleted": yes, "runs": runs, "elsewhere": elsewhere.document()})
        return
    tables = ("cases", "scores", "asks")
    rows = [(match.run_id, *(match.rows[table] for table in tables)) for match in matches]
    print_table("", ("run", *(f"#{table}" for table in tables)), rows)
    print_line(f"{config.uri}: rows in {len(matches)} runs {'deleted' if yes else 'to delete'}")
    print_lines(elsewhere.lines())
    print_line(UNTOUCHED_NOTE if yes else DRY_RUN_NOTE)


def _nothing_of(options: ForgetOptions) -> str:
    """What was looked for in vain: a case, or a case with some tags, in one run or in all."""
    case = "no case" if options.case_id is None else f"no case {options.case_id!r}"
    tags = f" with {' and '.join(f'--tag {tag}' for tag in options.tags)}" if options.tags else ""
    where = "any run" if options.run_id is None else f"run {options.run_id}"
    return f"{case}{tags} is in {where}"


def _forget(
    config: StoreConfig,
    subject: upkeep.DataSubject,
    options: ForgetOptions,
    elsewhere: Elsewhere,
) -> list[upkeep.SubjectRows]:
    """Delete the rows of a subject; returns what there was."""
    said = False
    while True:
        try:
            with existing_store(config) as store:
                matches = upkeep.find_subject(store, subject, options.run_id)
                # What rows alone tell of goes first: where that fails, the command is called again.
                before = partial(_forget_outside, store, matches, elsewhere)
                upkeep.forget_subject(store, matches, before)
                elsewhere.forget(matches)
                return matches
        except StoreBusy as error:
            if not options.waits:
                raise
            if not said:
                log.warning("waiting: %s", error)
                said = True
        time.sleep(_RETRY_S)


def _forget_outside(store: Store, matches: list[upkeep.SubjectRows], elsewhere: Elsewhere) -> None:
    """Delete what was sent to other places, then the copies of traces."""
    elsewhere.withdraw(matches)
    for match in matches:  # once the rows are gone, nobody finds the copies
        record = store.run(match.run_id)
        if is_trace_store(record.config.get("transcripts", {}).get("uri", "")):
            forget_traces(run_config(record).transcripts, match.case_ids)


def compact_and_print(file: Path | None, uri: str | None, run_id: str, *, as_json: bool) -> None:
    """Merge the small Parquet parts of a complete run and print how many there were."""
    with existing_store(store_config(file, uri)) as store:
        run_id = store.run(run_id).run_id
        done = upkeep.compact_run(store, run_id)
    if as_json:
        print_json(asdict(done))
    else:
        now = f"{done.after} now; `assizes store clean` removes the old parts"
        print_line(f"{run_id}: {done.before} parts before, {now}")


STOP_DELAY_S: Final = 2
"""Seconds within which running processes notice a stop."""


def stop_runs(
    run: str | None, file: Path | None, *, every: bool, lift: bool, as_json: bool
) -> None:
    """Stop a run, or with `every` all runs, also those that begin later; `lift` ends that again.

    A run is named as elsewhere, but for its day, which the ledger does not know.

    Raises:
        ConfigurationError: not exactly one of `run`, `every` and `lift` is given, the run is
            complete, or the ledger cannot be written.
        UnknownRun: the ledger knows no such run.
    """
    _check_one_given(run, every=every, lift=lift)
    config = read_optional_config(file)
    ledger = config.limits.ledger  # which the processes of all runs share
    call = f"new call from now on (within {STOP_DELAY_S} s)"  # replies in flight are stored
    document: dict[str, object]
    if lift:
        document = {"lifted": lift_stop(ledger)}
        line = "runs may begin again" if document["lifted"] else "nothing was stopped"
    elif run is None:
        write_stop(ledger, None)
        document = {"stopped": "all"}
        line = f"no run makes a {call}, until `assizes stop --lift`"
    else:
        known = names_in_ids(known_runs(ledger))  # the store may be locked by the run itself
        try:
            run_id = resolve_run(run, known, f"ledger {ledger!r}")
        except UnknownRun:
            _check_not_complete(config.store, run)  # a run that asked no model is in no ledger
            raise
        _check_not_complete(config.store, run_id)
        write_stop(ledger, run_id)
        document = {"stopped": run_id}
        line = f"{run_id} makes no {call}; `assizes resume {run_id}` goes on"
    if as_json:
        print_json(document)
    else:
        print_line(line)


def _check_one_given(run: str | None, *, every: bool, lift: bool) -> None:
    """Check that exactly one of a run, `--all` and `--lift` is given to `assizes stop`."""
    given = {"a run": run is not None, "--all": every, "--lift": lift}
    names = [name for name, is_given in given.items() if is_given]
    if names == ["a run", "--lift"]:
        raise ConfigurationError(
            "stop: --lift ends a stop of all runs, and takes no run; "
            f"`assizes resume {run}` goes on with one"
        )
    if len(names) != 1:
        fault = f"{' and '.join(names)} were given, which is unclear; " if names else ""
        raise ConfigurationError(
            f"stop: {fault}name a run (`assizes stop latest`), or give --all or --lift"
        )


def _check_not_complete(config: StoreConfig, run: str) -> None:
    """Check that the store does not hold a run as complete; a store that is not there holds none."""
    try:
        with open_store(config) as store:
            record = store.run(run)
    except StoreError:
        return  # the run may be elsewhere, or the run itself has the file
    if record.status == COMPLETE:
        raise ConfigurationError(
            f"run {record.run_id} is complete, so there is nothing to stop; "
            f"`assizes show {record.run_id}` shows it"
        )
