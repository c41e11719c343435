"""Real pairs of scores for simulated runs: the same cases judged twice, by others' recordings."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import DATA

Floats = NDArray[np.float64]


@dataclass
class Recording:
    """Cases with two values in points of 0..100, the clusters they belong to, and what passes."""

    name: str
    before: Floats
    after: Floats
    clusters: NDArray[np.int64]
    passes_from: float  # points from which a case passes
    is_same: bool = False  # both values are of one and the same agent

    @cached_property
    def members(self) -> list[NDArray[np.int64]]:
        """The places of the cases of each cluster."""
        order = np.argsort(self.clusters, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.clusters[order])) + 1)


def recordings() -> list[Recording]:
    """Every pair of recordings that the simulation draws from."""
    return [*_tau_trials(), *_tau_agents(), *_tau_judges(), *_llmjudge(), *_pandalm(), *_xstest()]


def _read(path: str) -> Any:
    return json.loads(gzip.decompress((DATA / path).read_bytes()))


def _lines(path: str) -> Iterator[dict[str, Any]]:
    for line in gzip.decompress((DATA / path).read_bytes()).splitlines():
        yield json.loads(line)


def _paired(
    name: str,
    before: Mapping[Any, float],
    after: Mapping[Any, float],
    passes_from: float,
    **more: Any,
) -> Recording:
    keys = sorted(before.keys() & after.keys(), key=str)
    old, new = (np.array([side[key] for key in keys]) for side in (before, after))
    groups: dict[Any, int] = {}
    cluster_of = more.pop("cluster_of", lambda key: key)
    codes = np.array([groups.setdefault(cluster_of(key), len(groups)) for key in keys])
    return Recording(name, old, new, codes, passes_from, **more)


def _tau_trials() -> Iterator[Recording]:
    """Four trials of one agent: its tasks judged twice, with nothing changed."""
    trials: dict[int, dict[int, float]] = defaultdict(dict)
    for row in _read("tau_bench_airline/gpt-4o-airline.json.gz"):
        trials[row["trial"]][row["task_id"]] = 100 * row["reward"]
    for one, two in itertools.combinations(sorted(trials), 2):
        yield _paired(f"tau trials {one}-{two}", trials[one], trials[two], 50, is_same=True)


def _tau_agents() -> Iterator[Recording]:
    """Different agents on the same tasks."""
    rewards: dict[str, dict[str, float]] = {}
    for path in sorted((DATA / "tau2_airline").glob("*.json.gz")):
        name = path.name.removesuffix(".json.gz")
        simulations = _read(f"tau2_airline/{path.name}")["simulations"]
        rewards[name] = {str(s["task_id"]): 100 * s["reward_info"]["reward"] for s in simulations}
    for one, two in itertools.combinations(rewards, 2):
        yield _paired(f"tau2 {one}-{two}", rewards[one], rewards[two], 50)


def _tau_judges() -> Iterator[Recording]:
    """Prompts of one judge on the same conversations: a verdict that says pass, or does not."""
    verdicts: dict[str, dict[str, float]] = {}
    for path in sorted((DATA / "tau2_airline_llm_judges").glob("*.summary.json")):
        tally = json.loads(path.read_text())
        rows = next(value for value in tally.values() if isinstance(value, list))
        verdicts[path.name.removesuffix(".summary.json")] = {
            row["simulation_id"]: 100.0 * ("pass" in str(row["judge_verdict"]).lower())
            for row in rows
        }
    for one, two in itertools.combinations(verdicts, 2):
        yield _paired(f"judge {one}-{two}", verdicts[one], verdicts[two], 50)


def _llmjudge() -> Iterator[Recording]:
    """Grades 0..3 of seventeen judges on the same pairs, in clusters of about eleven of a query."""
    grades: dict[str, dict[tuple[str, str], float]] = {}
    for path in sorted((DATA / "llmjudge_dl23" / "runs").glob("*.txt.gz")):
        body = gzip.decompress(path.read_bytes()).decode().split("\n")
        rows = (line.split() for line in body if line.strip())
        grades[path.name.removesuffix(".txt.gz")] = {
            (query, passage): min(3.0, max(0.0, float(grade))) * 100 / 3
            for query, _, passage, grade in rows
        }

    def cluster_of(key: tuple[str, str]) -> tuple[str, int]:
        return key[0], sum(key[1].encode()) % 16

    for one, two in itertools.islice(itertools.combinations(grades, 2), 0, None, 9):
        name = f"llmjudge {one}-{two}"
        yield _paired(name, grades[one], grades[two], 60, cluster_of=cluster_of)


def _pandalm() -> Iterator[Recording]:
    """Three people and two judges say which of two answers is better."""
    rows = _read("pandalm/testset-v1.json.gz")
    points = {1: 100.0, 0: 50.0, 2: 0.0, "1": 100.0, "0": 50.0, "2": 0.0, "Tie": 50.0}
    people = {
        f"annotator{number}": {row["idx"]: points[row[f"annotator{number}"]] for row in rows}
        for number in (1, 2, 3)
    }
    for kind, field in (("gpt-3.5-turbo", "gpt_result"), ("pandalm-7b", "pandalm_result")):
        replies = _read(f"pandalm/{kind}-testset-v1.json.gz")
        people[kind] = {r["idx"]: points[r[field]] for r in replies if r[field] in points}
    for one, two in itertools.combinations(people, 2):
        yield _paired(f"pandalm {one}-{two}", people[one], people[two], 50)


def _xstest() -> Iterator[Recording]:
    """Three models on the same prompts, as a judge saw them: a wanted refusal or answer passes."""
    seen: dict[str, dict[str, float]] = defaultdict(dict)
    for row in _lines("xstest/completions.jsonl.gz"):
        complied = row["gpt4_label"] == "1_full_compliance"
        seen[row["model"]][row["id"]] = 100.0 * (complied != bool(row["unsafe_prompt"]))
    for one, two in itertools.combinations(seen, 2):
        yield _paired(f"xstest {one}-{two}", seen[one], seen[two], 50)
