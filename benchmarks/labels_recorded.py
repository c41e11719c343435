"""Corrected numbers over recorded judgements: coverage, and width beside Rogan and Gladen.

The recorded cases are the population: a run is drawn from their clusters with replacement, and a
part of its cases is labelled at random. ExpertQA holds no recorded judge, so the share of a claim's
words that occur in its evidence stands for one; it is near chance.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from assizes.judge.calibration.measures import (
    JudgeErrors,
    ObservedPasses,
    corrected_rate,
    design_effect,
)
from assizes.judge.statistics.intervals import (
    Codes,
    Floats,
    Sample,
    mean_interval,
    rate_interval,
)
from assizes.judge.statistics.labelled_cases import LabelledCases
from assizes.judge.statistics.prediction_powered import (
    corrected_difference,
    corrected_mean,
)
from benchmarks.figures import DATA, Figures

Rng = np.random.Generator

LABELS = 100
LLMJUDGE = DATA / "llmjudge_dl23"
GPT_4O = LLMJUDGE / "runs" / "Olz-gpt4o.txt.gz"


class Recorded(NamedTuple):
    """Judgements beside the labels of people."""

    judge: Floats
    people: Floats
    codes: Codes  # cluster
    passed: Floats | None = None  # the judge's yes or no, where `judge` is a number


def recorded(figures: Figures, rng: Rng, times: int) -> None:
    """Every recorded set: rates, and means and differences where the set has them."""
    if not (DATA / "devai").is_dir():
        figures.missing("recorded_judgements")
        return
    devai, xstest = _devai(), _xstest()
    sets = {
        "devai": _joined(list(devai.values())),
        "xstest": _joined(list(xstest.values())),
        "expertqa": _expertqa(),
    }
    for name, cases in sets.items():
        _add_rate(figures, name, _rate(rng, cases, times))
    _llmjudges(figures, rng, max(5, times // 5))
    _mean(figures, rng, "llmjudge", _llmjudge(GPT_4O, passes=False), times)
    _difference(figures, rng, "devai", list(devai.values()), times)
    _difference(figures, rng, "xstest", [xstest["llama2new"], xstest["gpt4"]], times)


def _codes(names: Sequence[Any]) -> Codes:
    return np.unique(np.asarray(names), return_inverse=True)[1].astype(np.int64)


def _devai() -> dict[str, Recorded]:
    """Requirements by agent, in the same order; clusters are tasks."""
    rows = defaultdict[str, list[dict[str, str]]](list)
    with (DATA / "devai" / "verdicts.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            rows[row["agent"]].append(row)
    for own in rows.values():
        own.sort(key=lambda row: (row["task"], int(row["requirement_id"])))
    return {
        agent: Recorded(
            np.array([row["judge"] == "true" for row in own], dtype=float),
            np.array([row["human"] == "true" for row in own], dtype=float),
            _codes([row["task"] for row in own]),
        )
        for agent, own in rows.items()
    }


def _xstest() -> dict[str, Recorded]:
    """Full compliance or not by model, in the order of the prompts; clusters are prompts."""
    rows = defaultdict[str, list[dict[str, str]]](list)
    with gzip.open(DATA / "xstest" / "completions.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            rows[row["model"]].append(row)
    yes = "1_full_compliance"
    for own in rows.values():
        own.sort(key=lambda row: row["id"])
    return {
        model: Recorded(
            np.array([row["gpt4_label"] == yes for row in own], dtype=float),
            np.array([row["final_label"] == yes for row in own], dtype=float),
            _codes([row["id"] for row in own]),
        )
        for model, own in rows.items()
    }


def _joined(parts: Sequence[Recorded]) -> Recorded:
    return Recorded(*(np.concatenate([part[place] for part in parts]) for place in range(3)))


def _expertqa() -> Recorded:
    """Claims with evidence: completely supported or not; clusters are questions."""
    shares, people, questions = [], [], []
    with gzip.open(DATA / "expertqa" / "claims.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["evidence_has_text"] and row["support"] in ("Complete", "Partial", "Incomplete"):
                words = set(re.findall(r"[a-z0-9]+", row["claim"].lower()))
                held = set(re.findall(r"[a-z0-9]+", " ".join(row["evidence"]).lower()))
                shares.append(len(words & held) / max(1, len(words)))
                people.append(float(row["support"] == "Complete"))
                questions.append(row["question_id"])
    judge = np.array(shares)
    passed = (judge >= np.quantile(judge, 0.28)).astype(float)  # 72 % are complete
    return Recorded(judge, np.array(people), _codes(questions), passed)


def _llmjudge(path: Path, *, passes: bool) -> Recorded:
    """Relevance of passages, grades 0 to 3, or whether it is at least 2; clusters are queries."""
    people = dict(_grades((LLMJUDGE / "llmjudge_test_qrel_idx.txt").read_text(encoding="utf-8")))
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        judge = dict(_grades(lines.read()))
    keys = sorted(people.keys() & judge.keys())
    values = [np.array([side[key] for key in keys]) for side in (judge, people)]
    if passes:
        values = [(side >= 2).astype(float) for side in values]
    return Recorded(values[0], values[1], _codes([query for query, _ in keys]))


def _grades(text: str) -> list[tuple[tuple[str, str], float]]:
    rows = (line.split() for line in text.splitlines() if line.strip())
    return [((row[0], row[2]), min(3.0, max(0.0, float(row[3])))) for row in rows]


def _resampled(rng: Rng, codes: Codes) -> tuple[Codes, Codes]:
    """Cases of clusters drawn with replacement: their places, and the numbers of their clusters."""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    chosen = rng.integers(0, counts.size, counts.size)
    places = np.concatenate([order[starts[c] : starts[c] + counts[c]] for c in chosen])
    return places, np.repeat(np.arange(counts.size), counts[chosen])


def _drawn(rng: Rng, cases: Recorded) -> tuple[Recorded, Codes, LabelledCases]:
    """A run, the places of its labelled cases, and both as the product sees them."""
    places, codes = _resampled(rng, cases.codes)
    run = Recorded(
        cases.judge[places],
        cases.people[places],
        codes,
        None if cases.passed is None else cases.passed[places],
    )
    known = np.sort(rng.choice(places.size, LABELS, replace=False))
    return run, known, _labelled(run, known)


def _labelled(run: Recorded, known: Codes) -> LabelledCases:
    labels = np.full(run.people.size, np.nan)
    labels[known] = run.people[known]
    chances = np.full(labels.size, known.size / labels.size)
    return LabelledCases.of(run.judge, labels, chances, run.codes)


class _Rates(NamedTuple):
    """What the runs drawn from one recorded set came to; shares are 0..1."""

    coverage: float
    to_labels: float  # width / width of labels alone
    usable: float  # share of runs in which Rogan and Gladen have an interval
    narrower: float  # 1 - width / their width, where they have one


def _rate(rng: Rng, cases: Recorded, times: int) -> _Rates:
    held = own = alone = beside = other = usable = 0.0
    true = float(cases.people.mean())
    for _ in range(times):
        run, known, labelled = _drawn(rng, cases)
        estimate = corrected_mean(labelled, share=True)
        plain = rate_interval(Sample(run.people[known], run.codes[known]))
        assert estimate is not None
        assert plain is not None
        held += estimate.low <= true <= estimate.high
        own, alone = own + estimate.high - estimate.low, alone + plain.high - plain.low
        width = _rogan_gladen(run, known)
        if width is not None:
            usable, other = usable + 1, other + width
            beside += estimate.high - estimate.low
    narrower = 1 - beside / other if other else float("nan")
    return _Rates(held / times, own / alone, usable / times, narrower)


def _add_rate(figures: Figures, name: str, rates: _Rates) -> None:
    _add(figures, f"{name}_rate", rates.coverage, rates.to_labels)
    figures.add(f"{name}_rogan_gladen_usable", rates.usable)
    # A judge near chance has no interval by Rogan and Gladen; what is compared is in the others.
    figures.add(f"{name}_narrower_than_rogan_gladen", rates.narrower, least=0.05)


def _llmjudges(figures: Figures, rng: Rng, times: int) -> None:
    """All recorded judges of LLMJudge: coverage of all together, the widest and the least narrow."""
    paths = sorted((LLMJUDGE / "runs").glob("*.txt.gz"))
    found = [_rate(rng, _llmjudge(path, passes=True), times) for path in paths]
    coverage, to_labels, usable, narrower = np.array(found).T
    figures.add("llmjudge_judges", len(found), least=2)
    _add(figures, "llmjudge_rate", float(coverage.mean()), float(to_labels.max()))
    figures.add("llmjudge_rate_coverage_lowest", float(coverage.min()))
    figures.add("llmjudge_rogan_gladen_usable", float(usable.min()))
    figures.add("llmjudge_narrower_than_rogan_gladen", float(narrower.min()), least=0.05)
    for word, share in (("median", 0.5), ("most", 1.0)):
        figures.add(f"llmjudge_narrower_{word}", float(np.quantile(narrower, share)))


def _add(figures: Figures, name: str, held: float, width: float) -> None:
    figures.add(f"{name}_coverage", held, least=0.92)
    figures.add(f"{name}_width_to_labels_alone", width, most=1.02)


def _rogan_gladen(run: Recorded, known: Codes) -> float | None:
    judge = run.judge if run.passed is None else run.passed
    said, right = judge[known] > 0, run.people[known] > 0
    errors = JudgeErrors(
        passes=int(right.sum()),
        passes_right=int((said & right).sum()),
        fails=int((~right).sum()),
        fails_right=int((~said & ~right).sum()),
    )
    names = run.codes.astype(str).tolist()
    effect = design_effect(list(zip(names, (judge > 0).tolist(), strict=True)))
    span = corrected_rate(ObservedPasses(int(judge.sum()), judge.size, effect), errors)
    return None if span.low is None or span.high is None else span.high - span.low


def _mean(figures: Figures, rng: Rng, name: str, cases: Recorded, times: int) -> None:
    held = own = alone = 0.0
    true = float(cases.people.mean())
    for _ in range(times):
        run, known, labelled = _drawn(rng, cases)
        estimate = corrected_mean(labelled, share=False)
        plain = mean_interval(Sample(run.people[known], run.codes[known]))
        assert estimate is not None
        assert plain is not None
        held += estimate.low <= true <= estimate.high
        own, alone = own + estimate.high - estimate.low, alone + plain.high - plain.low
    _add(figures, f"{name}_mean", held / times, own / alone)


def _difference(
    figures: Figures, rng: Rng, name: str, sides: Sequence[Recorded], times: int
) -> None:
    """The difference of two agents on the same cases, labelled in both runs."""
    true = float(sides[1].people.mean() - sides[0].people.mean())
    held = own = alone = 0.0
    for _ in range(times):
        places, codes = _resampled(rng, sides[0].codes)
        known = np.sort(rng.choice(places.size, LABELS, replace=False))
        runs = [Recorded(side.judge[places], side.people[places], codes) for side in sides]
        estimate = corrected_difference(*(_labelled(run, known) for run in runs), share=True)
        blind = [run._replace(judge=np.zeros(places.size)) for run in runs]
        plain = corrected_difference(*(_labelled(run, known) for run in blind), share=True)
        assert estimate is not None
        assert plain is not None
        held += estimate.low <= true <= estimate.high
        own, alone = own + estimate.high - estimate.low, alone + plain.high - plain.low
    _add(figures, f"{name}_difference", held / times, own / alone)
