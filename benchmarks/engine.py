"""The hearing engine beside a bare HTTP loop and a bare litellm loop, in one run on one machine.

Every contestant is a process of its own and asks a model server that is a process of its own. What
counts are ratios: `litellm_x` is a figure over that of the bare litellm loop of the same run. No
sentence of a transcript comes twice, and replies give reasons of one or two sentences: what is kept
by text helps nobody. `cold` is the first pass of a process, `warm` one over other cases after it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import ROOT, Figures
from benchmarks.server import own_homes, prefect_server
from benchmarks.varied_texts import varied_record
from tests.doubles.fixtures import OpenAIServer, running_openai_server

CONTESTANTS = ("floor", "litellm", "engine", "flow")

Result = dict[str, Any]


class Bench:
    """A scratch folder with cases, and the environment contestants run in."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.env = {**os.environ, **env, "OPENAI_API_KEY": "none", "LITELLM_LOG": "ERROR"}

    def cases(self, count: int, first: int = 0, *, expected: bool = True) -> Path:
        """A file of that many transcripts from a number on; no sentence comes in two of them."""
        file = self.folder / f"{count}-{first}-{expected:d}.jsonl"
        if not file.exists():
            with file.open("w", encoding="utf-8") as lines:
                for number in range(first, first + count):
                    record = varied_record(number)
                    if not expected:
                        del record["expected"]
                    lines.write(f"{json.dumps(record, ensure_ascii=False)}\n")
        return file

    def run(
        self, name: str, server: OpenAIServer, count: int, *rest: str, warm: int | None = None
    ) -> Result:
        """The figures of one contestant: `count` cases cold, then `warm` others, or as many."""
        has_nine = "one" not in rest
        parts = ((count, 0), (warm or count, count))
        files = [self.cases(many, first, expected=has_nine) for many, first in parts]
        given = ["--url", server.url, "--cases", str(files[0]), "--more", str(files[1]), *rest]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.contest", name, *given],
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{name} ended with {done.returncode}:\n{done.stderr[-3000:]}")
        result: Result = json.loads(done.stdout.splitlines()[-1])
        return result


@contextmanager
def running_bench() -> Iterator[Bench]:
    """A scratch folder, and a Prefect server for the contestant that needs one."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        env = {**own_homes(folder), "PREFECT_LOGGING_LEVEL": "ERROR"}
        with prefect_server(folder, env) as api_url:
            yield Bench(folder, {**env, "PREFECT_API_URL": api_url})


def rounds_of(
    bench: Bench,
    names: Sequence[str],
    server: OpenAIServer,
    counts: tuple[int, int],
    *rest: str,
    warm: int | None = None,
) -> dict[str, list[Result]]:
    """The figures of (cases, rounds): in each round, the contestants take turns."""
    count, rounds = counts
    found: dict[str, list[Result]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            found[name].append(bench.run(name, server, count, *rest, warm=warm))
    return found


def best(found: Mapping[str, Sequence[Result]], when: str, key: str) -> dict[str, Result]:
    """The best of several rounds, `when` cold or warm."""
    return {
        name: min((one[when] for one in results), key=lambda one: float(one[key]))
        for name, results in found.items()
    }


WARM_X = 4
"""The cases of a warm pass beside those of a cold one: what a run costs once, whatever it holds (its
plan, summary and report; 1 s of CPU), weighs on a case as it does in a run of some thousands."""

GOALS = {"nine": (0.6, 1.0), "one": (0.5, 0.8)}
"""The most CPU of the engine and of the flow, beside the bare litellm loop, by metrics."""


def new_file_us(folder: Path, count: int = 1000) -> float:
    """Microseconds of CPU that an empty file costs: the flow keeps each reply in a file of its own.

    Some 20, but up to 750 on an ext4 without a journal from which files were deleted in the last
    minutes: it passes over their inodes, one by one. So the files are left to the end of `folder`.
    """
    scratch = tempfile.mkdtemp(dir=folder)
    begun = time.process_time()
    for number in range(count):
        Path(scratch, str(number)).touch()
    return 1e6 * (time.process_time() - begun) / count


def cpu_bound(figures: Figures, bench: Bench, counts: tuple[int, int], metrics: str) -> None:
    """No latency: CPU of the judging process per case, cold and warm."""
    figures.add(f"{metrics}_new_file_us", new_file_us(bench.folder))
    names = ("floor", "litellm", "own", "engine", "flow")
    with running_openai_server("--reasons") as server:
        regime = ("--metrics", metrics)
        found = rounds_of(bench, names, server, counts, *regime, warm=WARM_X * counts[0])
    for name, results in found.items():
        figures.add(f"{metrics}_start_{name}_s", min(one["start_s"] for one in results))
    for when in ("cold", "warm"):
        chosen = best(found, when, "cpu_s")
        per_case = {name: 1000 * one["cpu_s"] / one["cases"] for name, one in chosen.items()}
        for name, value in per_case.items():
            figures.add(f"{metrics}_{when}_{name}_ms", value)
        goals = GOALS[metrics] if when == "warm" else (None, None)
        for name, most in zip(("engine", "flow"), goals, strict=True):
            ratio = per_case[name] / per_case["litellm"]
            figures.add(f"{metrics}_{when}_{name}_litellm_x", ratio, most=most)
    least = 9.0 if metrics == "nine" else 1.0
    scored = best(found, "warm", "cpu_s")["engine"]
    figures.add(f"{metrics}_scored_per_case", scored["scored"] / scored["cases"], least=least)


def latency_bound(figures: Figures, bench: Bench, counts: tuple[int, int]) -> None:
    """0.3 s a call, 64 in flight: throughput beside the bare loops and the ceiling."""
    latency_s, in_flight = 0.3, 64
    with running_openai_server("--reasons", "--latency", str(latency_s)) as server:
        found = rounds_of(bench, CONTESTANTS, server, counts)
    ceiling = in_flight / latency_s
    goals = {"engine": 0.95, "flow": 0.90}
    for when in ("cold", "warm"):
        for name, one in best(found, when, "wall_s").items():
            share = one["cases"] / one["wall_s"] / ceiling
            least = goals.get(name) if when == "warm" else None
            figures.add(f"latency_{when}_{name}_of_ceiling", share, least=least)
    peaks = [one["warm"]["peak_mib"] for one in found["flow"]]
    figures.add("flow_peak_mib", min(peaks))  # of two runs: see benchmarks.scale


def orchestration(figures: Figures, bench: Bench, counts: tuple[int, int]) -> None:
    """1 s a call: what Prefect adds to the wall clock and CPU of the same steps without it,
    and what reading, storing, summing up and reporting add to judging.
    """
    with running_openai_server("--reasons", "--latency", "1.0") as server:
        found = rounds_of(bench, ("engine", "steps", "flow"), server, counts)
    chosen = best(found, "warm", "wall_s")
    engine, steps, flow = chosen["engine"], chosen["steps"], chosen["flow"]
    count = counts[0]
    figures.add("prefect_wall_share", 1 - steps["wall_s"] / flow["wall_s"], most=0.02)
    figures.add("prefect_cpu_ms", 1000 * (flow["cpu_s"] - steps["cpu_s"]) / count, most=1.0)
    figures.add("rows_and_report_wall_share", 1 - engine["wall_s"] / steps["wall_s"])
    figures.add("rows_and_report_cpu_ms", 1000 * (steps["cpu_s"] - engine["cpu_s"]) / count)


def faults(figures: Figures, bench: Bench, count: int) -> None:
    """11 % faulty answers, then 20 % of everything that can go wrong."""
    with running_openai_server("--reasons", "--latency", "0.05") as server:
        clean = bench.run("flow", server, count)["warm"]
        server.reset()
        flaky = bench.run("flow", server, count, "--model", "openai/flaky11")
        calls = server.stats()["requests"] / (2 * count)  # of both passes
        figures.add("faults_11_scored", flaky["warm"]["scored"] / (9 * count), least=1.0)
        figures.add("faults_11_calls_per_case", calls, most=1.15)
        stormy = bench.run("flow", server, count, "--model", "openai/storm-transient")["warm"]
        figures.add("storm_transient_scored", stormy["scored"] / (9 * count), least=0.995)
        mixed = bench.run("flow", server, count, "--model", "openai/storm")["warm"]
        figures.add("storm_ended", mixed["cases"] / count, least=1.0)
        figures.add("storm_wall_x", mixed["wall_s"] / clean["wall_s"])


def tokens(figures: Figures) -> None:
    """Prompt tokens for nine metrics on an English transcript of 6.1 KB, by the model's tokenizer."""
    os.environ["OPENAI_API_KEY"] = "none"
    from benchmarks.tokens import english_record, prompt_tokens

    figures.add("prompt_tokens_nine_metrics", prompt_tokens(english_record()), most=1.15 * 2541)


def main() -> None:
    """Measure every regime; `--quick` for a look with a fifth of the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--only",
        choices=("tokens", "cpu", "one", "latency", "orchestration", "faults"),
        action="append",
        help="one regime, or several",
    )
    parser.add_argument("--rounds", type=int, default=3, help="in which the contestants take turns")
    given = parser.parse_args()
    scale, rounds = (5, 1) if given.quick else (1, given.rounds)
    figures = Figures()
    with running_bench() as bench:
        regimes = {
            "tokens": lambda: tokens(figures),
            "cpu": lambda: cpu_bound(figures, bench, (1000 // scale, rounds), "nine"),
            "one": lambda: cpu_bound(figures, bench, (1000 // scale, rounds), "one"),
            "latency": lambda: latency_bound(figures, bench, (2000 // scale, rounds)),
            "orchestration": lambda: orchestration(figures, bench, (2560 // scale, 2)),
            "faults": lambda: faults(figures, bench, 1000 // scale),
        }
        for name, regime in regimes.items():
            if not given.only or name in given.only:
                regime()
    figures.close()


if __name__ == "__main__":
    main()
