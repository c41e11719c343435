from __future__ import annotations

import numpy as np
import pytest

from assizes.judge.calibration.measures import MIN_CLUSTERS, accuracy, confusions, estimate, kappa

LEVELS = (0.0, 1.0)


def noisy(random, clusters: int, size: int, agree: float):
    """Pairs whose agreement is decided once a cluster, or once an item where clusters have one."""
    pairs = []
    for cluster in range(clusters):
        same = random.random() < agree
        for _ in range(size):
            truth = float(random.random() < 0.6)
            pairs.append((str(cluster), truth, truth if same else 1 - truth))
    return pairs


def test_the_same_labels_give_the_same_interval_in_any_order():
    pairs = noisy(np.random.default_rng(1), 60, 2, 0.8)
    first = estimate(confusions(pairs, LEVELS), kappa)
    again = estimate(confusions(pairs[::-1], LEVELS), kappa)
    assert first == again
    assert first.low < first.value < first.high


def test_items_of_one_cluster_widen_the_interval():
    pairs = noisy(np.random.default_rng(2), 50, 8, 0.7)
    clustered = estimate(confusions(pairs, LEVELS), accuracy)
    alone = [(str(n), one, other) for n, (_, one, other) in enumerate(pairs)]
    naive = estimate(confusions(alone, LEVELS), accuracy)
    assert clustered.value == naive.value
    assert clustered.high - clustered.low > 2 * (naive.high - naive.low)


def test_nine_times_in_ten_and_more_the_interval_holds_the_true_kappa():
    random, held, trials = np.random.default_rng(3), 0, 400
    agree, yes = 0.85, 0.6
    judged_yes = agree * yes + (1 - agree) * (1 - yes)
    chance = yes * judged_yes + (1 - yes) * (1 - judged_yes)
    truth = (agree - chance) / (1 - chance)
    for _ in range(trials):
        found = estimate(confusions(noisy(random, 240, 1, agree), LEVELS), kappa, draws=800)
        held += found.low <= truth <= found.high
    assert 0.92 <= held / trials <= 0.98


def test_under_ten_clusters_there_is_no_interval():
    few = noisy(np.random.default_rng(4), MIN_CLUSTERS - 1, 30, 0.8)
    found = estimate(confusions(few, LEVELS), accuracy)
    assert found.value is not None
    assert (found.low, found.high) == (None, None)


def test_nothing_gives_no_number():
    assert estimate(confusions([], LEVELS), kappa).value is None
    all_yes = [(str(n), 1.0, 1.0) for n in range(20)]
    assert str(estimate(confusions(all_yes, LEVELS), kappa)) == "not defined"


@pytest.mark.parametrize(
    ("agree", "text"), [(1.0, "1.00 [1.00, 1.00]"), (0.0, "0.00 [0.00, 0.00]")]
)
def test_it_reads_as_a_number_with_bounds(agree: float, text: str):
    pairs = noisy(np.random.default_rng(5), 40, 1, agree)
    assert str(estimate(confusions(pairs, LEVELS), accuracy)) == text
