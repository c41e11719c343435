"""`python -m tests.local_model [--only TRIAL ...] [--model NAME ...]`: judges of every family, by a real model.

A model of 135 or 270 million parameters is worthless as a judge. As a client's other side it is real: it rambles
to the cap, copies ids badly and takes schemas its own way. What is checked holds with any model: every ask ends in
its time, tokens are those that the server counted, counts reconcile, nothing is scored without a reply, and a
server that dies leaves one clear line and a run that goes on. The last line is JSON; exit code 1: a check failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.local_model import cases
from tests.local_model.server import MODELS, LocalModel, ServerProcess, serving
from tests.local_model.tap import Call, Tap, tapped
from tests.local_model.trial import (
    Outcome,
    Trial,
    faults,
    outcome,
    prepared,
    run,
    started,
)
from tests.soak.calls import prefect

LATE_S = 60.0
"""Seconds in which a server gets through the calls that nobody waits for any more."""

ALL = tuple(judge for judge in cases.FAMILIES if judge != "run_criteria")
HEAD = (
    f"{'model':<22} {'trial':<12} {'exit':>4} {'asks':>5} {'usable':>6} {'calls':>5} {'turned away':>11} "
    f"{'at cap':>6} {'tokens in':>9} {'out':>6} {'of these at cap':>15} {'s':>6} {'s at cap':>8}  not usable"
)


@dataclass
class Report:
    """What the trials found."""

    figures: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    families: dict[str, list[int]] = field(default_factory=dict)  # [asks, usable]

    def add(self, model: str, done: Outcome, wrong: list[str]) -> None:
        """Print a line for a trial, and keep its figures."""
        figures = _figures(done)
        self.figures[f"{model}: {done.trial}"] = figures
        print(
            f"{model:<22} {done.trial:<12} {done.code:>4} {figures['asks']:>5} {figures['usable']:>6} "
            f"{figures['calls']:>5} {figures['turned_away']:>11} {figures['at_cap']:>6} "
            f"{figures['tokens_in']:>9} {figures['tokens_out']:>6} {figures['tokens_out_at_cap']:>15} "
            f"{figures['seconds']:>6} {figures['seconds_at_cap']:>8}  {figures['codes'] or ''}",
            flush=True,
        )
        for each in wrong:
            print(f"  FAULT {each}", flush=True)
        self.faults += [f"{model}: {done.trial}: {each}" for each in wrong]
        for row in done.asks:
            family = cases.FAMILIES.get(row["judge"], row["judge"])
            counts = self.families.setdefault(f"{model}: {family}", [0, 0])
            counts[0] += 1
            counts[1] += row["error"] is None

    def close(self) -> int:
        """Print the table of families and the last line; return the exit code."""
        print(f"\n{'usable replies by family':<50} {'asks':>5} {'usable':>6}")
        for name, (asks, usable) in sorted(self.families.items()):
            print(f"{name:<50} {asks:>5} {usable:>6}")
        families = {name: {"asks": a, "usable": u} for name, (a, u) in self.families.items()}
        told = {"figures": self.figures, "families": families, "faults": self.faults}
        print(json.dumps(told))
        return 1 if self.faults else 0


def _figures(done: Outcome) -> dict[str, Any]:
    cut = [call for call in done.calls if call.finish == "length"]
    return {
        "exit_code": done.code,
        "asks": len(done.asks),
        "usable": done.usable,
        "calls": len(done.calls),
        "turned_away": sum(call.status >= 400 for call in done.calls),
        "at_cap": len(cut),
        "tokens_in": sum(call.prompt_tokens for call in done.calls),
        "tokens_out": sum(call.completion_tokens for call in done.calls),
        "tokens_out_at_cap": sum(call.completion_tokens for call in cut),
        "seconds": round(sum(call.seconds for call in done.calls)),
        "seconds_at_cap": round(sum(call.seconds for call in cut)),
        "formats": _formats(done.calls),
        "codes": done.codes(),
    }


def _formats(calls: list[Call]) -> dict[str, int]:
    """The calls that were answered with 200, by response format."""
    answered = [call.format for call in calls if call.status == 200]
    return {name: answered.count(name) for name in sorted(set(answered))}


@dataclass
class Bench:
    """What the trials of one model share."""

    model: LocalModel
    work: Path
    api_url: str
    tap: Tap
    report: Report

    def folder(self, name: str) -> Path:
        """A new folder for a trial."""
        return self.work / f"{self.model.name}-{name}"

    def try_(self, trial: Trial, more: Callable[[Outcome], Iterator[str]] | None = None) -> Outcome:
        """Run a trial and hold it against everything that must be true."""
        done = run(trial, self.folder(trial.name), self.model.name, self.tap, self.api_url)
        wrong = list(faults(trial, done)) + (list(more(done)) if more else [])
        self.report.add(self.model.name, done, wrong)
        return done


def schema(bench: Bench) -> None:
    """Every family, the format of replies left to Assizes: this server takes schemas."""
    bench.try_(Trial("schema", [cases.whole()], ALL), lambda done: _only("json_schema", done))


def json_object(bench: Bench) -> None:
    """Every family, as JSON objects, through litellm's own function."""
    bench.try_(
        Trial("json_object", [cases.whole()], ALL, {"reply_format": "json_object"}, way="plain"),
        lambda done: _only("json_object", done),
    )


def words(bench: Bench) -> None:
    """Every family, asked in words alone."""
    bench.try_(
        Trial("words", [cases.whole()], ALL, {"reply_format": "words"}),
        lambda done: _only("words", done),
    )


def _only(name: str, done: Outcome) -> Iterator[str]:
    if others := {call.format for call in done.calls} - {name}:
        yield f"asked by {sorted(others)} too"


def looks(bench: Bench) -> None:
    """A run that does not fit: the judge looks for itself, and knows no end but its own."""
    judge = {"reply_format": "json_object", "options": {"run_criteria": {"max_tokens": 5000}}}
    bench.try_(Trial("looks", [cases.long_run()], ["run_criteria"], judge))


def cap(bench: Bench) -> None:
    """A cap that no answer keeps: what that costs."""

    def more(done: Outcome) -> Iterator[str]:
        for row in done.asks:
            if row["error"] and row["attempts"] > 3:
                yield f"{row['attempts']} calls for one ask that was cut off"

    judge = {"reply_format": "words", "max_output_tokens": 8}
    bench.try_(Trial("cap", cases.short_ones(3), ["safety"], judge), more)


def timeout(bench: Bench) -> None:
    """Less time than any answer takes: a model that never answered cannot be had, and one line says so."""
    limits = {"timeout_s": 0.3, "deadline_s": 2.0}
    judge = {"reply_format": "words"}
    trial = Trial("timeout", cases.short_ones(2), ["safety"], judge, limits)
    folder = bench.folder("timeout")
    done = run(trial, folder, bench.model.name, bench.tap, bench.api_url)
    # The server works on: calls that nobody waits for any more end one after the other.
    time.sleep(LATE_S)
    done.calls += bench.tap.taken()
    bench.report.add(bench.model.name, done, list(_timeout_faults(done)))


def _timeout_faults(done: Outcome) -> Iterator[str]:
    lines = [line for line in done.err.splitlines() if line.strip()]
    if done.code != 4 or done.asks:
        yield f"exit code {done.code}, {len(done.asks)} asks stored"
    if len(lines) != 1 or "deadline: no reply within 2 s" not in lines[0]:
        yield f"{len(lines)} lines on stderr: {lines[:3]}"
    if any(call.delivered for call in done.calls):
        yield "an answer came in time"


def window(bench: Bench) -> None:
    """A context window that the prompt does not fit: one call each, and the reason says so."""

    def more(done: Outcome) -> Iterator[str]:
        for row in done.asks:
            if not str(row["error"]).startswith("context_overflow") or row["attempts"] > 1:
                yield f"{row['attempts']} calls, {row['error']}"

    upstream = bench.tap.upstream
    with serving(bench.model, bench.work, 512) as server:
        bench.tap.upstream = server.url
        trial = Trial("window", [cases.whole()], ["conversation"], {"reply_format": "words"})
        bench.try_(trial, more)
    bench.tap.upstream = upstream


def free(bench: Bench) -> None:
    """A price of 0: the run costs nothing, and says so."""

    def more(done: Outcome) -> Iterator[str]:
        if {(row["cost_usd"], row["cost_source"]) for row in done.asks} != {(0.0, "free")}:
            yield f"cost {[(row['cost_usd'], row['cost_source']) for row in done.asks]}"

    price = {"input_usd_per_million": 0, "output_usd_per_million": 0}
    limits = {"budget_usd": 0.01, "prices": {f"openai/{bench.model.name}": price}}
    judge = {"reply_format": "json_object"}
    bench.try_(Trial("free", cases.short_ones(2), ["safety"], judge, limits), more)


def pairs(bench: Bench) -> None:
    """Two runs, compared pair by pair in both orders."""
    base = Trial("pairs", cases.short_ones(3), ["safety"], {"reply_format": "json_object"})
    folder = bench.folder("pairs")
    first = run(base, folder, bench.model.name, bench.tap, bench.api_url)
    other = cases.native_lines(cases.short_ones(3, other=True))
    (folder / "t2.jsonl").write_bytes(other)
    changed = ("--set", "transcripts.uri=t2.jsonl")
    second = started(folder, bench.api_url, "run", "--run-id", "r2", *changed)
    outcome(base, folder, second, bench.tap, "r2")
    compare = started(folder, bench.api_url, "compare", "r", "r2", "--pairwise", "--json")
    out, err = compare.communicate(timeout=600)
    calls = bench.tap.taken()
    wrong = list(_pair_faults(compare.returncode, out, err, len(calls)))
    bench.report.add(bench.model.name, replace(first, code=compare.returncode, calls=calls), wrong)


def _pair_faults(code: int, out: str, err: str, calls: int) -> Iterator[str]:
    if code not in (0, 1, 3, 4) or "Traceback" in err:
        yield f"compare --pairwise: exit code {code}: {err[-300:]}"
        return
    told = json.loads(out)
    print(f"  pairs: {json.dumps(told.get('pairwise'))[:300]}")
    if not 6 <= calls <= 18:
        yield f"{calls} calls for 3 pairs in two orders"


def killed(bench: Bench) -> None:
    """The server is killed in mid-run: one clear line, and the same command goes on where it was."""
    trial = Trial("killed", cases.short_ones(8), ["safety"], {"reply_format": "json_object"})
    folder, model = bench.folder("killed"), bench.model
    server = ServerProcess(model, bench.work)
    tap = Tap(server.url)
    begun = time.monotonic()
    with tapped(tap):
        prepared(trial, folder, model.name, tap.api_base)
        process = started(folder, bench.api_url, "run", "--run-id", "r")
        while len(tap.calls) < 3 and process.poll() is None:
            time.sleep(0.05)
        server.end()
    done = outcome(trial, folder, process, tap)  # the tap is closed too: connections are refused
    done.seconds = time.monotonic() - begun
    wrong = list(_killed_faults(done))
    bench.report.add(model.name, done, wrong)
    with serving(model, bench.work) as again, tapped(replace(tap, upstream=again.url)) as later:
        process = started(folder, bench.api_url, "run", "--run-id", "r")
        rest = outcome(replace(trial, name="resumed"), folder, process, later)
    wrong = list(_resumed_faults(trial, done, rest))
    bench.report.add(model.name, rest, wrong)


def _killed_faults(done: Outcome) -> Iterator[str]:
    lines = [line for line in done.err.splitlines() if line.strip()]
    print(f"  stderr ({len(lines)} lines, {done.seconds:.0f} s): {lines[-3:]}", flush=True)
    if done.code != 4:
        yield f"exit code {done.code} with the server gone: {done.err[-300:]}"
    if "Traceback" in done.err or len(lines) > 8:
        yield f"{len(lines)} lines on stderr: {done.err[-600:]}"


def _resumed_faults(trial: Trial, done: Outcome, rest: Outcome) -> Iterator[str]:
    if rest.code not in (0, 1, 4):
        yield f"resumed: exit code {rest.code}: {rest.err[-300:]}"
    if len({row["case_id"] for row in rest.asks}) != len(trial.cases):
        yield f"resumed: {len(rest.asks)} asks for {len(trial.cases)} cases"
    had = sum(row["error"] is None for row in done.asks)
    if rest.usable < had:
        yield f"resumed: {had} usable replies before, {rest.usable} after"
    if any(str(row["error"]).startswith(("unavailable", "circuit")) for row in rest.asks):
        yield "resumed: asks are still without the server"


TRIALS: Mapping[str, Callable[[Bench], None]] = {
    each.__name__: each
    for each in (schema, json_object, words, looks, cap, timeout, window, free, pairs, killed)
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.local_model")
    parser.add_argument("--only", nargs="+", choices=TRIALS, default=list(TRIALS))
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    report = Report()
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        work = (given.work or Path(temporary)).absolute()
        work.mkdir(parents=True, exist_ok=True)
        with prefect(work) as api_url:
            for name in given.model:
                with serving(MODELS[name], work) as server, tapped(Tap(server.url)) as tap:
                    bench = Bench(MODELS[name], work, api_url, tap, report)
                    for trial in given.only:
                        TRIALS[trial](bench)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
