"""The hearing engine beside a bare HTTP loop and a bare litellm loop, in one run on one machine.

Every contestant is a process of its own and asks a model server that is a process of its own. What
counts are ratios: `litellm_x` is a figure over that of the bare litellm loop of the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.contest import WARM_UP
from benchmarks.figures import ROOT, Figures
from benchmarks.server import own_homes, prefect_server
from tests.doubles.fixtures import OpenAIServer, running_openai_server

TRANSCRIPT_CHARS = 6_100
"""Length of the transcripts that the targets speak of."""

Result = dict[str, float]


class Bench:
    """A scratch folder with cases, and the environment contestants run in."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.env = {**os.environ, **env, "OPENAI_API_KEY": "none", "LITELLM_LOG": "ERROR"}

    def cases(self, count: int) -> Path:
        """A file of that many transcripts of one length, each with words of its own."""
        file = self.folder / f"{count}.jsonl"
        if not file.exists():
            file.write_text("".join(f"{json.dumps(_case(n))}\n" for n in range(count)))
        return file

    def run(self, name: str, server: OpenAIServer, count: int, *rest: str) -> Result:
        """The figures of one contestant."""
        given = ["--url", server.url, "--cases", str(self.cases(count)), *rest]
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


def _case(number: int) -> dict[str, object]:
    said = (
        "I would like to change the return flight of my booking to the next morning, keep the seat "
        "that I paid for, and know what the difference in fare comes to before anything is charged."
    )
    turns: list[dict[str, str]] = []
    length = 0
    while length < TRANSCRIPT_CHARS:
        role = ("user", "assistant")[len(turns) % 2]
        text = f"({number}.{len(turns)}) {said}"
        turns.append({"role": role, "text": text})
        length += len(text) + len(role) + 7
    return {"case_id": f"case-{number}", "transcript": {"turns": turns}}


@contextmanager
def running_bench() -> Iterator[Bench]:
    """A scratch folder, and a Prefect server for the contestant that needs one."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        env = {**own_homes(folder), "PREFECT_LOGGING_LEVEL": "ERROR"}
        with prefect_server(folder, env) as api_url:
            yield Bench(folder, {**env, "PREFECT_API_URL": api_url})


def best(
    bench: Bench, names: Sequence[str], server: OpenAIServer, count: int, key: str, rounds: int
) -> dict[str, Result]:
    """The best of several rounds in which the contestants take turns."""
    found: dict[str, list[Result]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            found[name].append(bench.run(name, server, count))
    return {name: min(results, key=lambda one: one[key]) for name, results in found.items()}


def cpu_bound(figures: Figures, bench: Bench, count: int, rounds: int) -> None:
    """No latency: CPU of the judging process per case."""
    with running_openai_server() as server:
        found = best(bench, ("floor", "litellm", "engine", "flow"), server, count, "cpu_s", rounds)
    per_case = {name: 1000 * one["cpu_s"] / one["cases"] for name, one in found.items()}
    figures.add("cpu_floor_ms", per_case["floor"])
    figures.add("cpu_litellm_ms", per_case["litellm"])
    figures.add("cpu_engine_ms", per_case["engine"], most=6.0)
    figures.add("cpu_engine_litellm_x", per_case["engine"] / per_case["litellm"], most=1.25)
    figures.add("cpu_flow_ms", per_case["flow"])
    figures.add("cpu_flow_litellm_x", per_case["flow"] / per_case["litellm"])
    figures.add("scored_per_case", found["engine"]["scored"] / count, least=8.0)


def latency_bound(figures: Figures, bench: Bench, count: int, rounds: int) -> None:
    """0.3 s a call, 64 in flight: throughput beside the bare loops and the ceiling."""
    latency_s, in_flight = 0.3, 64
    with running_openai_server("--latency", str(latency_s)) as server:
        found = best(bench, ("floor", "litellm", "engine", "flow"), server, count, "wall_s", rounds)
    rate = {name: one["cases"] / one["wall_s"] for name, one in found.items()}
    ceiling = in_flight / latency_s
    for name, value in rate.items():
        figures.add(f"latency_{name}_of_ceiling", value / ceiling)
    figures.add("latency_engine_litellm_x", rate["engine"] / rate["litellm"], least=0.95)
    figures.add("latency_flow_litellm_x", rate["flow"] / rate["litellm"], least=0.95)
    figures.add("flow_peak_mib", found["flow"]["peak_mib"])  # of two runs: see benchmarks.scale


def orchestration(figures: Figures, bench: Bench, count: int) -> None:
    """1 s a call: what Prefect adds to the wall clock and CPU of the same steps without it,
    and what reading, storing, summing up and reporting add to judging.
    """
    with running_openai_server("--latency", "1.0") as server:
        found = best(bench, ("engine", "steps", "flow"), server, count, "wall_s", 2)
    engine, steps, flow = found["engine"], found["steps"], found["flow"]
    figures.add("prefect_wall_share", 1 - steps["wall_s"] / flow["wall_s"], most=0.02)
    figures.add("prefect_cpu_ms", 1000 * (flow["cpu_s"] - steps["cpu_s"]) / count, most=1.0)
    figures.add("rows_and_report_wall_share", 1 - engine["wall_s"] / steps["wall_s"])
    figures.add("rows_and_report_cpu_ms", 1000 * (steps["cpu_s"] - engine["cpu_s"]) / count)


def faults(figures: Figures, bench: Bench, count: int) -> None:
    """11 % faulty answers, then 20 % of everything that can go wrong."""
    with running_openai_server("--latency", "0.05") as server:
        clean = bench.run("flow", server, count)
        server.reset()
        flaky = bench.run("flow", server, count, "--model", "openai/flaky11")
        stats = server.stats()  # the warm-up asks as well
        calls = stats["requests"] / (count + WARM_UP)
        figures.add("faults_11_scored", flaky["scored"] / (8 * count), least=1.0)
        figures.add("faults_11_calls_per_case", calls, most=1.15)
        stormy = bench.run("flow", server, count, "--model", "openai/storm-transient")
        figures.add("storm_transient_scored", stormy["scored"] / (8 * count), least=0.995)
        mixed = bench.run("flow", server, count, "--model", "openai/storm")
        figures.add("storm_ended", mixed["cases"] / count, least=1.0)
        figures.add("storm_wall_x", mixed["wall_s"] / clean["wall_s"])


def tokens(figures: Figures, bench: Bench) -> None:
    """Prompt tokens for nine metrics on a transcript of 6.1 KB, by the model's tokenizer."""
    os.environ["OPENAI_API_KEY"] = "none"
    from benchmarks.tokens import prompt_tokens

    figures.add("prompt_tokens_nine_metrics", prompt_tokens(_case(0)), most=1.15 * 2541)


def main() -> None:
    """Measure every regime; `--quick` for a look with a fifth of the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--only", choices=("tokens", "cpu", "latency", "orchestration", "faults"), default=None
    )
    given = parser.parse_args()
    scale, rounds = (5, 1) if given.quick else (1, 3)
    figures = Figures()
    with running_bench() as bench:
        regimes = {
            "tokens": lambda: tokens(figures, bench),
            "cpu": lambda: cpu_bound(figures, bench, 1000 // scale, rounds),
            "latency": lambda: latency_bound(figures, bench, 2000 // scale, rounds),
            "orchestration": lambda: orchestration(figures, bench, 2560 // scale),
            "faults": lambda: faults(figures, bench, 1000 // scale),
        }
        for name, regime in regimes.items():
            if given.only in (None, name):
                regime()
    figures.close()


if __name__ == "__main__":
    main()
