"""Stores of thousands of runs: commands, pages and API, and fifty clients on a run of 50,000 cases.

    python -m benchmarks.runs [--names 100] [--nights 50] [--cases 40] [--clients 50] [--big 50000]

Commands are measured by their CPU seconds and their memory, as both hold on a busy machine; pages by
the clock, first on a new server, then again. The same commands run once more over a tenth of the
nights: the ratio says what grows with runs that are not shown.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from benchmarks import bulk_rows, many_runs
from benchmarks.bulk import ended
from benchmarks.figures import ROOT, Figures, p95
from benchmarks.serving import asked_ms, served

KINDS = ("lake", "duckdb")
NAME = "agent-007"
ROUNDS = 3
CLIENT_ASKS = 6
"""Requests of each client."""
_MB = 1024  # kilobytes
_LAUNCHER = """
import os, sys
null = os.open(os.devnull, os.O_WRONLY)
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
_, status, usage = os.wait4(pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def main() -> None:
    """Measure, print, and end with one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=100, help="names of runs")
    parser.add_argument("--nights", type=int, default=50, help="runs of each name")
    parser.add_argument("--cases", type=int, default=40, help="cases of each run")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--big", type=int, default=50_000, help="cases of the run of the clients")
    parser.add_argument("--folder", type=Path, help="keep the stores here, and use them again")
    wanted = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="assizes-runs-") as temporary:
        folder = wanted.folder or Path(temporary)
        os.environ["ASSIZES_HOME"] = str(folder / "home")
        few = max(2, wanted.nights // 10)
        for kind in KINDS:
            uris = [_store(folder, kind, wanted, nights) for nights in (few, wanted.nights)]
            _measure_commands(figures, kind, folder, *uris)
            _measure_pages(figures, kind, uris[1])
            _measure_clients(figures, kind, folder, wanted.clients, wanted.big)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    figures.close()


def _store(folder: Path, kind: str, wanted: argparse.Namespace, nights: int) -> str:
    place = folder / f"{wanted.names}x{nights}"
    uri = many_runs.uri_of(place, kind)
    if not (place / f"{kind}.whole").exists():
        place.mkdir(parents=True, exist_ok=True)
        template = many_runs.template(place, wanted.cases)
        many_runs.made(place, kind, template, wanted.names, nights)
        (place / f"{kind}.whole").touch()
    return uri


def _measure_commands(figures: Figures, kind: str, folder: Path, few: str, many: str) -> None:
    config = folder / "assizes.toml"
    transcripts = folder / "one.jsonl"
    transcripts.write_text(
        '{"id":"a","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes"}]}\n'
    )
    commands = {
        "runs": ["runs"],
        "trends": ["trends", NAME],
        "plan": ["plan", "-c", str(config)],
    }
    for name, command in commands.items():
        took: dict[str, list[float]] = {few: [], many: []}
        peak = 0.0
        for _ in range(ROUNDS + 1):  # the first makes the index, and is not counted
            for uri in (few, many):  # side by side, as the machine may be busy
                config.write_text(
                    f'name = "{NAME}"\n[transcripts]\nuri = "{transcripts}"\n'
                    f'[store]\nuri = "{uri}"\n'
                )
                rest = [] if name == "plan" else ["--store", uri]
                seconds, megabytes = _cpu_of([*command, *rest])
                took[uri].append(seconds)
                peak = max(peak, megabytes)
        best = min(took[many][1:])
        figures.add(f"{kind}: {name}, first CPU s", took[many][0])
        figures.add(f"{kind}: {name}, CPU s", best, most=2)
        figures.add(f"{kind}: {name}, MB", peak, most=400)
        figures.add(f"{kind}: {name}, times a tenth", best / min(took[few][1:]))


def _cpu_of(command: list[str]) -> tuple[float, float]:
    """CPU seconds and megabytes of a command of ours."""
    program = [sys.executable, "-m", "assizes.deployments.cli", *command]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    # Through a small process: a child's peak begins with the memory of the process that forks it.
    done = subprocess.run(
        [sys.executable, "-S", "-c", _LAUNCHER, *program],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    seconds, kilobytes = done.stdout.split()
    return float(seconds), float(kilobytes) / _MB


def _measure_pages(figures: Figures, kind: str, uri: str) -> None:
    with open_store(StoreConfig(uri=uri)) as store:
        run_id = store.full_id(NAME)
        before = store.full_id(f"{NAME}~1")
    pages = {
        "page of runs": "/",
        "page of trends": f"/view/trends?name={NAME}",
        "page of a run": f"/view/runs/{run_id}",
        "page of cases": f"/view/runs/{run_id}/cases",
        "page of two runs": f"/view/compare?baseline={before}&candidate={run_id}",
        "API runs": "/runs",
        "API runs, last page": "/runs?limit=50&offset=4900",
        "API run": f"/runs/{run_id}",
        "API cases": f"/runs/{run_id}/cases",
    }
    for name, path in pages.items():
        with served(uri, warm=False) as url:
            figures.add(f"{kind}: {name}, cold s", asked_ms(url + path) / 1000, most=2)
            warm = min(asked_ms(url + path) for _ in range(ROUNDS)) / 1000
            figures.add(f"{kind}: {name}, warm s", warm, most=0.5)


def _measure_clients(figures: Figures, kind: str, folder: Path, clients: int, cases: int) -> None:
    place = folder / f"big-{cases}"
    uri = many_runs.uri_of(place, kind)
    if not (place / f"{kind}.whole").exists():
        place.mkdir(parents=True, exist_ok=True)
        with open_store(StoreConfig(uri=uri), writing=True) as store:
            bulk_rows.fill(store, "big", cases, 1000)
        ended(uri, ["big"])
        (place / f"{kind}.whole").touch()
    paths = [
        "/runs/big/cases?limit=50&offset={}",
        "/runs/big/cases?passed=false&offset={}",
        "/runs",
    ]
    with served(uri, first="/runs/big/cases") as url:

        def client(number: int) -> list[float]:
            return [
                asked_ms(url + paths[ask % len(paths)].format((number * 97 + ask * 13) % 1000))
                for ask in range(CLIENT_ASKS)
            ]

        began = time.perf_counter()
        with ThreadPoolExecutor(clients) as pool:
            took = [each for asked in pool.map(client, range(clients)) for each in asked]
        seconds = time.perf_counter() - began
    figures.add(f"{kind}: {clients} clients, p95 s", p95(took) / 1000, most=1)
    figures.add(f"{kind}: {clients} clients, requests a s", len(took) / seconds)


if __name__ == "__main__":
    main()
