"""`assizes report`: the report of a stored run, written anew."""

from __future__ import annotations

from pathlib import Path

from deployments.commands.output import print_json, print_line
from deployments.commands.stores import store_config
from deployments.settings import read_places
from judge.errors import StoreError
from tasks.compared import stored_comparison
from tasks.reports.stored import render_stored
from tasks.store import open_store


def write_stored_report(
    run_id: str, output: str | None, file: Path | None, store: str | None, *, as_json: bool
) -> int:
    """Write the three files and say where they lie.

    Raises:
        UnknownRun: the store has no such run.
        StoreError: the run is not finished yet.
        ConfigurationError: the files cannot be written there.
    """
    configured = read_places(file).report
    target = configured.model_copy(update={"uri": output}) if output else configured
    with open_store(store_config(file, store)) as opened:
        record = opened.run(run_id)
        if record.summary is None:
            raise StoreError(f"run {record.run_id!r} is {record.status}: no summary to report yet")
        comparison = stored_comparison(opened, record)
        _, links = render_stored(opened, record, comparison, target)
    if as_json:
        print_json(links)
    for link in [] if as_json else links.values():
        print_line(link)
    return 0
