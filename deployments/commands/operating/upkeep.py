"""`assizes rebuild`, `gc`, `compact`, `forget`: keeping a store in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from assizes.deployments.commands.output import print_json, print_line, print_table
from assizes.deployments.commands.stores import opened_store, store_config
from assizes.judge.errors import ConfigurationError
from assizes.tasks.store import existing_store, rebuild_store
from assizes.tasks.store.upkeep import Subject, collected, compacted, find, forget


@dataclass(frozen=True, slots=True)
class Whom:
    """Whose rows to delete, as given on the command line; in one run or in all."""

    case_id: str | None
    tags: list[str]
    run_id: str | None


DRY = "nothing was changed: this is what --yes would do"
UNTOUCHED = (
    "not touched: transcripts, reports already written, and the reply cache (its entries carry no "
    "case id; remove the cache to be rid of them). Counts and metrics of the runs stay as they were."
)


def rebuild_and_print(
    file: Path | None, uri: str | None, source: str | None, *, as_json: bool
) -> int:
    """Make a damaged DuckDB file anew and say what was kept.

    Returns:
        0, also when some runs could not be kept: they are named.
    """
    config = store_config(file, uri)
    copy = config.model_copy(update={"uri": source}) if source else None
    done = rebuild_store(config, copy)
    if as_json:
        aside = str(done.aside) if done.aside else None
        print_json({"kept": done.kept, "lost": done.lost, "aside": aside})
        return 0
    print_line(f"{config.uri}: kept {len(done.kept)} runs{_listed(done.kept)}")
    for run_id, why in done.lost.items():
        print_line(f"lost {run_id}: {why}")
    if done.aside is not None:
        print_line(f"the damaged files are kept as {done.aside} (.wal, .commits)")
    if copy is None:
        print_line(
            "there was no second copy to take them from: run again what is lost or incomplete; "
            "replies in the cache are not paid for twice"
        )
    return 0


def collect_and_print(
    file: Path | None, uri: str | None, hours: float, *, yes: bool, as_json: bool
) -> int:
    """Show, or with `yes` remove, what nobody reads any more.

    Returns:
        0.
    """
    if hours < 0:
        raise ConfigurationError(f"--older-than {hours:g}: accepted are hours from 0 on")
    with opened_store(file, uri) as store:
        found = collected(store, older_than=timedelta(hours=hours), removing=yes)
        where = store.uri
    if as_json:
        print_json({"removed": yes, "objects": [asdict(one) for one in found]})
        return 0
    count, size = Counter(one.kind for one in found), Counter[str]()
    for one in found:
        size[one.kind] += one.size
    rows = [(kind, count[kind], f"{size[kind] / 1e6:.1f}") for kind in sorted(count)]
    if rows:
        print_table("", ("kind", "#objects", "#MB"), rows)
    print_line(f"{where}: {len(found)} objects {'removed' if yes else 'to remove'}")
    if found and not yes:
        print_line(DRY)
    return 0


def forget_and_print(
    file: Path | None, uri: str | None, whom: Whom, *, yes: bool, as_json: bool
) -> int:
    """Show, or with `yes` delete, every row of a subject.

    Returns:
        0.
    """
    subject = Subject(whom.case_id, _tags(whom.tags))
    config = store_config(file, uri)
    with existing_store(config) if yes else opened_store(file, uri) as store:
        found = find(store, subject, whom.run_id)
        if yes:
            forget(store, found)
    if as_json:
        print_json({"deleted": yes, "runs": [asdict(one) for one in found]})
        return 0
    columns = ("run", "#cases", "#scores", "#asks")
    rows = [(one.run_id, one.rows["cases"], one.rows["scores"], one.rows["asks"]) for one in found]
    if rows:
        print_table("", columns, rows)
    print_line(f"{config.uri}: rows in {len(found)} runs {'deleted' if yes else 'to delete'}")
    if found:
        print_line(UNTOUCHED if yes else DRY)
    return 0


def compact_and_print(file: Path | None, uri: str | None, run_id: str, *, as_json: bool) -> int:
    """Merge the small parts of a complete run.

    Returns:
        0.
    """
    with existing_store(store_config(file, uri)) as store:
        done = compacted(store, run_id)
    if as_json:
        print_json(asdict(done))
    else:
        print_line(
            f"{run_id}: {done.before} parts before, {done.after} now; `assizes gc` removes the old"
        )
    return 0


def _tags(given: Iterable[str]) -> dict[str, str]:
    tags = {}
    for one in given:
        key, separator, value = one.partition("=")
        if not separator or not key:
            raise ConfigurationError(f"--tag {one!r}; accepted: key=value")
        tags[key] = value
    return tags


def _listed(ids: list[str]) -> str:
    return f": {', '.join(ids)}" if ids else ""
