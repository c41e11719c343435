"""`assizes rebuild`, `gc`, `compact`, `forget`: keeping a store in order."""

from __future__ import annotations

from pathlib import Path

from deployments.commands.output import print_json, print_line
from deployments.commands.stores import store_config
from tasks.store import rebuild_store


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


def _listed(ids: list[str]) -> str:
    return f": {', '.join(ids)}" if ids else ""
