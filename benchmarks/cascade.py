"""Does a cascade keep what it promises? Thresholds set on one half of recorded judgements, tried on
the other half.

    python -m benchmarks.cascade [--splits 100] [--seed 7]

Each set is split in two halves by whole clusters, at random and 100 times. The first half sets the
threshold (`assizes.judge.calibration.cascade`) for each agreement that is asked for, or refuses.
There are two questions, and each has its delta.

Does the second half agree as often as was promised? It is a sample too, as large as the first. For
its observed share to be under the promise in at most 5 of 100 splits, the bound must leave room for
the chance in both halves: 1.645 x sqrt(2) standard errors, which is delta = 0.01.
- `promised`: splits of 100 in which a threshold was set; `refused` are the others. A refusal
  promises nothing: it is counted by itself, neither as kept nor as broken.
- `broken`: splits in which a threshold was set and the observed agreement of all decisions on the
  second half, kept and escalated together, is under what was asked. Goal: at most 5 of 100.
- `escalated`, `agreement`: means over the second halves of promised splits.

Is the promise true of the whole recorded set, from which the first half is drawn? This is what delta
says without any allowance for a second sample; here delta = 0.05.
- `whole_promised`, `whole_broken`: likewise, over all cases of the set. Goal: at most 5 of 100.

The agreements asked for are a grid that is the same for all sets, and no item is looked at.

The recorded sets hold no cascade, so roles are given out by what was published before:
- `llmjudge_votes`: five runs of smaller or older judges vote; the run with the best published kappa
  is the stronger model. `llmjudge_margin`: one 8B judge, by the margin of its grade. Clusters are
  queries.
- `devai`: one judge is recorded, which is the stronger model. Three rules stand in for a small one:
  its verdict on the other agent for the same requirement, the majority of its verdicts on other
  tasks for requirements of the same category, and the same for those that share the longest word.
  They know no label of people. Clusters are tasks.
- `xstest`: string match and GPT-4 vote; the stronger one is the first human annotator, so the
  escalated share is what a person would have to read. Clusters are prompts.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from assizes.judge.calibration.cascade import (
    CascadeLabels,
    LabelledDecision,
    set_threshold,
)
from assizes.judge.engine.cascade import confidences
from assizes.judge.engine.ensemble import Vote, is_good, reduce_votes
from assizes.judge.errors import ConfigurationError
from assizes.judge.score import Metric, Score
from benchmarks.figures import DATA, Figures

ASKED = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
HALF_DELTA = 0.01  # room for the chance in the second half, see above
WHOLE_DELTA = 0.05
MOST_BROKEN = 0.05

SMALL = (
    "RMITIR-llama38b",
    "TREMA-4prompts",
    "TREMA-CoT",
    "TREMA-all",
    "NISTRetrieval-instruct0",
)
STRONG = "willia-umbrela1"
METRIC = Metric(name="good")


class Item(NamedTuple):
    """A recorded case: what the small judges said, what the stronger one says, and what people say."""

    cluster: str
    first: Sequence[Score]  # a vote each
    senior: bool
    people: bool


def _vote(passed: bool) -> Score:
    return Score(METRIC.name, value=float(passed), passed=passed)


def _decision(item: Item) -> LabelledDecision:
    """The case as the engine would decide it: the votes reduced, and their confidence."""
    votes = [Vote(str(place), 0, (score,)) for place, score in enumerate(item.first)]
    scores = reduce_votes(votes)
    confidence = confidences(scores, votes, [METRIC])[METRIC.name]
    return LabelledDecision(
        item.cluster, confidence, is_good(scores[0]) == item.people, item.senior == item.people
    )


def _grades(text: str) -> dict[tuple[str, str], int]:
    rows = (line.split() for line in text.splitlines() if line.strip())
    return {(query, doc): min(3, max(0, int(grade))) for query, _, doc, grade in rows}


def _llmjudge(*, by_margin: bool) -> Iterator[Item]:
    folder = DATA / "llmjudge_dl23"
    people = _grades((folder / "llmjudge_test_qrel_idx.txt").read_text(encoding="utf-8"))

    def run(name: str) -> dict[tuple[str, str], int]:
        with gzip.open(folder / "runs" / f"{name}.txt.gz", "rt", encoding="utf-8") as lines:
            return _grades(lines.read())

    small, strong = [run(name) for name in SMALL], run(STRONG)
    for key in sorted(people.keys() & strong.keys()):
        if not all(key in votes for votes in small):
            continue
        if by_margin:
            first = [Score(METRIC.name, value=small[0][key] / 3)]
        else:
            first = [_vote(votes[key] >= 2) for votes in small]
        yield Item(key[0], first, strong[key] >= 2, people[key] >= 2)


def _devai() -> Iterator[Item]:
    folder = DATA / "devai"
    needs = {}  # (task, requirement) -> category, criteria
    for task in map(json.loads, (folder / "tasks.jsonl").open(encoding="utf-8")):
        for one in task["requirements"]:
            key = task["task"], str(one["requirement_id"])
            longest = max(one["criteria"].lower().split(), key=len, default="")
            needs[key] = one["category"], longest
    with (folder / "verdicts.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    judged = {(row["agent"], row["task"], row["requirement_id"]): row["judge"] for row in rows}
    agents = sorted({row["agent"] for row in rows})
    for row in rows:
        key = row["task"], row["requirement_id"]
        (other,) = (agent for agent in agents if agent != row["agent"])
        elsewhere = [one for one in rows if one["agent"] == row["agent"] and one["task"] != key[0]]
        first = [_vote(judged[other, *key] == "true")]
        for place in (0, 1):  # category, longest word
            alike = [
                judged[one["agent"], one["task"], one["requirement_id"]] == "true"
                for one in elsewhere
                if needs[one["task"], one["requirement_id"]][place] == needs[key][place]
            ]
            first.append(_vote(2 * sum(alike) > len(alike)))
        yield Item(row["task"], first, row["judge"] == "true", row["human"] == "true")


def _xstest() -> Iterator[Item]:
    yes = "1_full_compliance"
    with gzip.open(DATA / "xstest" / "completions.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            votes = [_vote(row[name] == yes) for name in ("strmatch_label", "gpt4_label")]
            yield Item(row["id"], votes, row["annotation_1"] == yes, row["final_label"] == yes)


def _halves(
    decisions: Sequence[LabelledDecision], rng: np.random.Generator
) -> tuple[list[LabelledDecision], list[LabelledDecision]]:
    names = sorted({one.cluster for one in decisions})
    first = set(rng.permutation(names)[: len(names) // 2])
    return (
        [one for one in decisions if one.cluster in first],
        [one for one in decisions if one.cluster not in first],
    )


class Tried(NamedTuple):
    """What decisions show of a threshold that was set on others."""

    agreement: float
    escalated: float


def _try(
    first: Sequence[LabelledDecision],
    others: Sequence[LabelledDecision],
    asked: float,
    delta: float,
) -> Tried | None:
    """Set a threshold on `first` and apply it to `others`; `None`: it was refused."""
    judged = [(one.cluster, one.confidence) for one in first]
    labels = CascadeLabels("judge", {METRIC.name: first}, judged, {})
    try:
        least = set_threshold(labels, asked, delta).confidence
    except ConfigurationError:
        return None
    kept = np.array([one.confidence >= least for one in others])
    right = np.array([[one.first_agrees, one.senior_agrees] for one in others])
    return Tried(float(np.where(kept, right[:, 0], right[:, 1]).mean()), 1 - float(kept.mean()))


def _set(figures: Figures, name: str, items: Sequence[Item], arguments: Any) -> None:
    decisions = [_decision(item) for item in items]
    rng = np.random.default_rng(arguments.seed)
    first = np.mean([one.first_agrees for one in decisions])
    senior = np.mean([one.senior_agrees for one in decisions])
    print(f"{name}: {len(decisions)} cases, first {first:.3f}, stronger {senior:.3f}", flush=True)
    on_half, on_whole = (defaultdict[float, list[Tried]](list) for _ in range(2))
    for _ in range(arguments.splits):
        one, other = _halves(decisions, rng)
        for asked in ASKED:
            if (tried := _try(one, other, asked, HALF_DELTA)) is not None:
                on_half[asked].append(tried)
            if (tried := _try(one, decisions, asked, WHOLE_DELTA)) is not None:
                on_whole[asked].append(tried)
    most = MOST_BROKEN * arguments.splits
    for asked in ASKED:
        found, place = on_half[asked], f"{name}_{round(asked * 100)}"
        figures.add(f"{place}_promised", len(found))
        figures.add(f"{place}_refused", arguments.splits - len(found))
        figures.add(f"{place}_broken", sum(one.agreement < asked for one in found), most=most)
        if found:
            figures.add(f"{place}_escalated", float(np.mean([one.escalated for one in found])))
            figures.add(f"{place}_agreement", float(np.mean([one.agreement for one in found])))
        whole = on_whole[asked]
        figures.add(f"{place}_whole_promised", len(whole))
        figures.add(f"{place}_whole_broken", sum(one.agreement < asked for one in whole), most=most)


def main() -> None:
    """Run every set and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    figures = Figures()
    if not (DATA / "devai").is_dir():
        figures.missing("llmjudge", "devai", "xstest")
        figures.close()
        return
    _set(figures, "llmjudge_votes", list(_llmjudge(by_margin=False)), arguments)
    _set(figures, "llmjudge_margin", list(_llmjudge(by_margin=True)), arguments)
    _set(figures, "devai", list(_devai()), arguments)
    _set(figures, "xstest", list(_xstest()), arguments)
    figures.close()


if __name__ == "__main__":
    main()
