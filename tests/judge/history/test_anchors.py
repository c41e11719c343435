"""Judge or agent: the change of two runs and of their anchors, over many seeds."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from assizes.judge.config.gates import AnchorsConfig
from assizes.judge.formats import NAMES
from assizes.judge.history.anchors import attribute_change, change


def scored(random, level: float, cases: int, *, base=None):
    """Cases of their own difficulty, judged with noise."""
    own = random.normal(0, 15, cases) if base is None else base
    noise = random.normal(0, 4, cases)
    return {(f"c{n}", 0): (f"c{n}", float(level + own[n] + noise[n])) for n in range(cases)}


def scenario(seed: int, *, judge: float, agent: float):
    """Anchors and data before and after; the judge moves both, the agent only the data."""
    random = np.random.default_rng(seed)
    golden, data = random.normal(0, 15, 40), random.normal(0, 15, 150)
    anchors = change(
        scored(random, 70, 40, base=golden), scored(random, 70 + judge, 40, base=golden)
    )
    moved = change(
        scored(random, 70, 150, base=data), scored(random, 70 + judge + agent, 150, base=data)
    )
    return attribute_change(anchors, moved, 0.01).cause


@pytest.mark.promised
@pytest.mark.parametrize(
    ("judge", "agent", "cause"),
    [(0, 0, "none"), (0, -6, "agent"), (-6, 0, "judge"), (-6, -8, "both"), (-6, 6, "both")],
)
def test_the_cause_is_right_nineteen_times_in_twenty(judge: float, agent: float, cause: str):
    found = [scenario(seed, judge=judge, agent=agent) for seed in range(60)]
    assert found.count(cause) >= 57


def test_matching_cases_are_compared_one_by_one_by_sign_flips():
    random = np.random.default_rng(1)
    base = random.normal(0, 15, 12)
    before = scored(random, 70, 12, base=base)
    after = scored(random, 68, 12, base=base)
    found = change(before, after)
    differences = np.array([after[key][1] - before[key][1] for key in sorted(before)])
    flips = np.array(list(product((-1, 1), repeat=12))) @ differences
    exact = (np.abs(flips) >= abs(differences.sum()) - 1e-9).mean()
    assert found.paired
    assert found.mean == pytest.approx(differences.mean(), abs=1e-9)
    assert found.se == pytest.approx(stats.sem(differences), abs=1e-9)
    assert found.p == pytest.approx(exact, abs=0.02)


def test_repetitions_and_clusters_flip_together():
    before = {(f"c{n}", r): (f"s{n // 2}", 50.0) for n in range(20) for r in range(2)}
    after = {key: (cluster, 51.0 + key[1]) for key, (cluster, _) in before.items()}
    found = change(before, after)
    assert found.cases == 40
    assert found.p == pytest.approx(2 / 2**10, abs=0.002)


def test_other_cases_are_compared_as_two_samples():
    random = np.random.default_rng(2)
    before = scored(random, 70, 60)
    after = {(f"other{key[0]}", 0): (f"o{c}", s - 9) for key, (c, s) in before.items()}
    found = change(before, after)
    spread = stats.sem([score for _, score in before.values()])
    assert not found.paired
    assert found.se == pytest.approx(math.hypot(spread, spread), abs=1e-9)
    assert found.p == pytest.approx(2 * stats.norm.sf(9 / found.se), abs=1e-9)


def test_too_few_clusters_say_nothing():
    random = np.random.default_rng(3)
    assert change(scored(random, 70, 9), scored(random, 10, 9)) is None
    assert change({}, {}) is None


def test_without_anchors_before_or_a_baseline_it_is_said_so():
    random = np.random.default_rng(4)
    base = random.normal(0, 15, 40)
    still = change(scored(random, 70, 40, base=base), scored(random, 70, 40, base=base))
    moved = change(scored(random, 70, 40, base=base), scored(random, 60, 40, base=base))
    assert attribute_change(None, moved, 0.01).cause == "unknown"
    assert "nothing to compare with yet" in attribute_change(None, moved, 0.01).sentence()
    assert attribute_change(still, None, 0.01).cause == "unknown"
    alone = attribute_change(moved, None, 0.01)
    assert alone.cause == "judge"
    assert alone.sentence().startswith("the JUDGE CHANGED: anchors -")
    assert attribute_change(moved, still, 0.01).judge_moved
    assert not attribute_change(still, moved, 0.01).judge_moved


@pytest.mark.parametrize("name", ["auto", *NAMES])
def test_anchors_may_be_of_any_format_that_transcripts_may(name: str):
    assert AnchorsConfig.model_validate({"uri": "golden.jsonl", "format": name}).format == name
