"""`assizes labels pull`: labels that people made where traces are kept come into the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from assizes.deployments.commands.output import print_json, print_line
from assizes.deployments.commands.stores import opened_store, store_config
from assizes.deployments.settings import read_optional_config
from assizes.judge.errors import ConfigurationError
from assizes.tasks.publishing.labels_there import LabelPull, pull_labels
from assizes.tasks.publishing.places import open_place, place_of
from assizes.tasks.store.people import people_tables


@dataclass(frozen=True, slots=True)
class PullOptions:
    """From where labels are read, and which metrics the names there mean."""

    run: str
    source: str | None = None  # None: as `[publish] to`
    names: Sequence[str] = ()  # NAME=METRIC


def pull_and_print(
    file: Path | None, uri: str | None, options: PullOptions, *, as_json: bool
) -> None:
    """Store the labels of a place that belong to a run, and print how many of them are new.

    Raises:
        ConfigurationError: no place is named, or a name is no `NAME=METRIC`.
        TraceStoreError: the place cannot be reached.
    """
    names = dict(_pair(text) for text in options.names)
    config = store_config(file, uri)
    settings = read_optional_config(file).publish
    with opened_store(file, uri) as store:
        record = store.run(options.run)
        place = open_place(options.source or place_of(settings, record))
        with closing(place):
            pulled = pull_labels(store, record, place, names)
        known = set(store.people.rows("labels")["label_id"])
    new = [row for row in pulled.rows if row["label_id"] not in known]
    people_tables(config).add("labels", new)
    if as_json:
        counts = {"read": pulled.read, "elsewhere": pulled.elsewhere, "unusable": pulled.unusable}
        names_there = dict(sorted(pulled.unknown_names.items()))
        labels = {"labels": len(pulled.rows), "new": len(new), "unknown_names": names_there}
        print_json({"run_id": record.run_id, "source": place.uri, **counts, **labels})
        return
    print_line(f"{record.run_id}: {len(pulled.rows)} labels at {place.uri}, {len(new)} of them new")
    _print_left_out(pulled)


def _pair(text: str) -> tuple[str, str]:
    name, parted, metric = text.partition("=")
    if not parted or not name or not metric:
        raise ConfigurationError(f"--name {text!r}; accepted: NAME=METRIC, e.g. thumbs=verdict")
    return name, metric


def _print_left_out(pulled: LabelPull) -> None:
    if pulled.elsewhere:
        print_line(f"  {pulled.elsewhere} are about no case of the run")
    for name, count in sorted(pulled.unknown_names.items()):
        print_line(f"  {count} are named {name!r}, no metric of the run; --name {name}=METRIC")
    if pulled.unusable:
        print_line(
            f"  {pulled.unusable} have a value that is neither pass or fail nor a number 0 to 1"
        )
