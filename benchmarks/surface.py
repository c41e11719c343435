"""What hostile input gets done: reports, pages, Markdown, CSV, paths, SQL.

Starts a Prefect server and a browser of its own; every figure is a count of what got through.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figures
from tests.hostile import CELLS, ESCAPES, PATHS, XSS


def main() -> None:
    """Measure all of it; the last line is JSON."""
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="assizes-surface-") as scratch:
        folder = Path(scratch)
        for name, measure in _MEASURES.items():
            place = folder / name
            place.mkdir()
            measure(figures, place)
    figures.close()


def _reports(figures: Figures, _folder: Path) -> None:
    """Nodes and attributes that a payload adds to a report, marks it adds to Markdown."""
    from tests.tasks.reports.render.test_html import full_page, structure
    from tests.tasks.reports.render.test_markdown import ACTIVE, GITHUB, hostile_report, tokens

    groups = [XSS[start : start + 12] for start in range(0, len(XSS), 12)]
    added = marked = 0
    for group in groups:
        harmless = tuple(f"text {place}" for place, _ in enumerate(group))
        added += structure(full_page(group)) != structure(full_page(harmless))
        blocks = [
            [one.type for one in GITHUB.parse(hostile_report(texts))] for texts in (group, harmless)
        ]
        kinds = {one.type for one in tokens(hostile_report(group))}
        marked += blocks[0] != blocks[1] or not kinds.isdisjoint(ACTIVE)
    figures.add("XSS payloads", len(XSS), least=120)
    figures.add("reports (HTML) with added nodes", added, most=0)
    figures.add("reports (Markdown) with added marks", marked, most=0)


def _pages(figures: Figures, folder: Path) -> None:
    """Active nodes in every kind of served page, as a browser parses them."""
    from tests.deployments.web import hostile_site as site
    from tests.deployments.web.browser import CHROMIUM

    if CHROMIUM is None:
        figures.missing("pages with active nodes")
        return
    with (
        _prefect_server(folder) as server,
        site.hostile_site(folder / "site", server) as hostile,
        site.opened_tab(hostile.url) as tab,
    ):
        known = [*site.listed_pages(hostile), *site.case_pages(hostile), *site.score_pages(hostile)]
        found = site.active_parts(tab, known) + site.active_parts(
            tab, site.reflecting(hostile), None
        )
        figures.add("pages parsed in a browser", len(known) + len(XSS))
        figures.add("pages with active nodes", len(found), most=0)
        figures.add("dialogs", len(tab.dialogs), most=0)


def _cells(figures: Figures, _folder: Path) -> None:
    """Cells of CSV that a spreadsheet would calculate."""
    from assizes.deployments.commands.sql import csv_text
    from tests.deployments.test_cells import formulas

    texts = (*CELLS, *XSS, *ESCAPES)
    figures.add("CSV cells", len(texts))
    figures.add(
        "CSV formula cells", len(formulas(csv_text(["text"], [[one] for one in texts]))), most=0
    )


def _terminal(figures: Figures, _folder: Path) -> None:
    """Texts of which something reaches a terminal that it would act on."""
    from assizes.deployments.terminal import json_text, printable

    shown = (printable(text, "\n") + json_text({text: text}) for text in ESCAPES)
    steering = [one for one in shown if not one.replace("\n", "").isprintable()]
    figures.add("escape sequences", len(ESCAPES))
    figures.add("escape sequences let through", len(steering), most=0)


def _paths(figures: Figures, folder: Path) -> None:
    """Names that led out of their folder, over all places a name gets to."""
    from tests.hostile.places import PLACES

    escapes = []
    for name, tried in PLACES.items():
        (folder / name).mkdir()
        escapes += tried(folder / name)
    figures.add("path payloads", len(PATHS), least=60)
    figures.add("places they were tried in", len(PLACES))
    figures.add("path escapes", len(escapes), most=0)


def _sql(figures: Figures, folder: Path) -> None:
    """Attacks that were answered, bombs, normal queries that were blocked."""
    attacks, passed, queries, blocked = asyncio.run(_asked(folder))
    figures.add("SQL attacks", attacks, least=40)
    figures.add("SQL attacks that got anything", passed, most=0)
    figures.add("normal SQL queries", queries, least=100)
    figures.add("normal SQL queries blocked", blocked, most=0)
    command = [sys.executable, "-m", "tests.tasks.sandbox.bombs", str(folder / "inside"), "2"]
    took = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    figures.add("SQL bombs", len(took["bombs"]), least=12)
    figures.add("slowest bomb (s)", max(one["seconds"] for one in took["bombs"]), most=5)
    figures.add("memory of a child (MB)", took["child_mb"], most=1_500)
    figures.add("growth of the parent (MB)", took["parent_mb"], most=50)


async def _asked(folder: Path) -> tuple[int, int, int, int]:
    from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner
    from tests.tasks.sandbox.databases import CANARY, both, sqlite_file
    from tests.tasks.sandbox.normal_queries import NORMAL
    from tests.tasks.sandbox.test_attacks import DUCKDB, SQLITE, AttackSite

    for name in ("inside", "outside"):
        (folder / name).mkdir()
    sqlite_file(
        folder / "outside" / "secret.sqlite", f"CREATE TABLE s AS SELECT '{CANARY}' AS name"
    )
    (folder / "outside" / "secret.csv").write_text(f"name\n{CANARY}\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        attack_site = AttackSite(
            SandboxSqlRunner(both(folder / "inside")), folder / "outside", server
        )
        before, passed, blocked = attack_site.files(), 0, 0
        attacks = [("sqlite", one) for one in SQLITE] + [("duckdb", one) for one in DUCKDB]
        for engine, statement in attacks:
            table = await attack_site.table(engine, statement)
            got = table.error is None or CANARY in table.error or attack_site.was_called()
            passed += got or attack_site.files() != before
        for engine in ("sqlite", "duckdb"):
            tables = [await attack_site.table(engine, statement) for statement in NORMAL]
            blocked += sum(one.error is not None for one in tables)
        await attack_site.runner.aclose()
    return len(attacks), passed, 2 * len(NORMAL), blocked


@contextmanager
def _prefect_server(folder: Path) -> Iterator[str]:
    """A server with a home of its own, gone at the end."""
    os.environ |= {"PREFECT_HOME": str(folder / "prefect"), "ASSIZES_HOME": str(folder / "home")}
    (folder / "site").mkdir()
    from assizes.deployments.server import start_server, stop_server

    server = start_server()
    try:
        yield server.api_url
    finally:
        stop_server()


_MEASURES: dict[str, Callable[[Figures, Path], None]] = {
    one.__name__.strip("_"): one for one in (_reports, _cells, _terminal, _paths, _sql, _pages)
}

if __name__ == "__main__":
    main()
