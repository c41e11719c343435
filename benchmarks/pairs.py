"""What both orders are worth: recorded evaluators, and judges with a planted position bias.

    python -m benchmarks.pairs [--seed 7] [--sets 200]

First the 20 recorded evaluators of LLMBar go through the pair judge in both orders; their flip rates
and eleven other figures are held against those of the set. Then judges are simulated that choose the
side shown first too often: by `lean`, which shifts every decision a little, and by `lapse`, which
names the first side without reading it in a share of the asks. Last, strengths of five runs are
planted and estimated. Nothing is asked and nothing is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assizes.judge.families.pairwise.verdict import Choice, PairVerdict
from assizes.judge.pairs.ranking import rank_runs
from assizes.judge.pairs.win_rate import win_rate
from benchmarks.figures import Figures
from benchmarks.pairs_recorded import (
    heard,
    offline,
    published,
    recorded_choices,
    recorded_pairs,
    table_row,
)

Floats = NDArray[np.float64]
SIZES = ((0.0, 300), (0.05, 2000), (0.15, 300), (0.30, 300))
"""Planted biases, and the pairs of each simulated set."""

CLOSE = 0.3  # share of the pairs in which neither side is clearly better

STRENGTHS = {"run-a": 0.9, "run-b": 0.4, "run-c": 0.0, "run-d": -0.4, "run-e": -0.9}  # logits


def recorded(figures: Figures) -> None:
    """The recorded evaluators, and the offline rule as the floor."""
    pairs, choices, wanted = recorded_pairs(), recorded_choices(), published()
    equal = total = 0
    seen = 0
    for evaluator, own in choices.items():
        verdicts = [heard(pair, own[place]) for place, pair in enumerate(pairs)]
        row, result = table_row(pairs, own, verdicts), win_rate(verdicts)
        for name, value in wanted[evaluator].items():
            total += 1
            equal += int(abs(row[name] - value) < 1e-9)
            if abs(row[name] - value) >= 1e-9:
                print(f"{evaluator} {name}: {row[name]}, published {value}")
        bias, flips = result.position_bias, result.flip_rate
        assert bias is not None
        assert flips is not None
        seen += int(bias.excludes(0.0))
        print(
            f"{evaluator:<24} flips {result.flips:>2}/{result.pairs:<3} "
            f"[{flips.low:.3f}, {flips.high:.3f}]  position bias {bias.value:+.3f} "
            f"[{bias.low:+.3f}, {bias.high:+.3f}]  right: one order "
            f"{row['accuracy_average']:.3f}, both {row['correct_both']:.0f}/{len(pairs)}"
        )
    figures.add("llmbar_evaluators", len(choices), least=20)
    figures.add("llmbar_figures", total, least=240)
    figures.add("llmbar_figures_equal", equal, least=total)
    figures.add("llmbar_position_bias_seen", seen)
    for rubric in ("overall",):
        verdicts = [offline(pair, rubric) for pair in pairs]
        right = sum(v.winner == pair.label for v, pair in zip(verdicts, pairs, strict=True))
        ties = sum(verdict.winner == "tie" for verdict in verdicts)
        figures.add(f"offline_{rubric}_flips", sum(v.is_flip for v in verdicts), most=0)
        figures.add(f"offline_{rubric}_right", right / len(pairs))
        figures.add(f"offline_{rubric}_ties", ties / len(pairs))


class Simulated(NamedTuple):
    """A set of simulated pairs: the candidate's true chance in each, and both orders' choices."""

    truth: float
    verdicts: list[PairVerdict]


def simulate(
    kind: str, bias: float, pairs: int, better: float, rng: np.random.Generator
) -> Simulated:
    """A judge with a planted bias over so many pairs, of which some are close and most are clear.

    `bias` is how much more often the first side is chosen than the second, over both orders. The
    candidate is better in a share `better` of the clear pairs.
    """
    # A lean of half the bias must leave each chance within 0..1.
    high = min(0.9, 1 - bias / 2) if kind == "lean" else 0.9
    clear = np.where(rng.random(pairs) < better, high, 1 - high)
    chances = np.where(rng.random(pairs) < CLOSE, rng.uniform(0.3, 0.7, pairs), clear)
    truth = CLOSE / 2 + (1 - CLOSE) * (better * high + (1 - better) * (1 - high))
    if kind == "lean":  # the chance of the first side goes up by half of the bias
        candidate = (rng.random(pairs) < chances - bias / 2, rng.random(pairs) < chances + bias / 2)
    else:  # in a share of the asks the first side is named without reading
        lapses = rng.random((2, pairs)) < bias
        reads = rng.random((2, pairs)) < chances
        candidate = (reads[0] & ~lapses[0], reads[1] | lapses[1])
    return Simulated(truth, _verdicts(*candidate))


def _verdicts(as_given: Sequence[bool], swapped: Sequence[bool]) -> list[PairVerdict]:
    """The verdicts where the candidate is chosen as these say; as given it is shown second."""
    given: dict[bool, Choice] = {True: "second", False: "first"}
    turned: dict[bool, Choice] = {True: "first", False: "second"}
    return [
        PairVerdict.model_construct(
            case_id=str(place), as_given=given[bool(one)], swapped=turned[bool(other)]
        )
        for place, (one, other) in enumerate(zip(as_given, swapped, strict=True))
    ]


def biases(figures: Figures, sets: int, rng: np.random.Generator) -> None:
    """How often a planted bias is found out, and what it does to the win rate."""
    for kind in ("lean", "lapse"):
        for bias, pairs in SIZES:
            seen, both, single, covered = [], [], [], []
            estimates = []
            for _ in range(sets):
                truth, verdicts = simulate(kind, bias, pairs, 0.65, rng)
                result = win_rate(verdicts)
                assert result.position_bias is not None
                assert result.win_rate is not None
                assert result.one_order is not None
                seen.append(result.position_bias.excludes(0.0))
                estimates.append(result.position_bias.value)
                # A lapse names each side equally often over both orders: it draws to one half.
                wanted = truth if kind == "lean" else 0.5 + (1 - bias) * (truth - 0.5)
                both.append(result.win_rate.value - wanted)
                single.append(result.one_order - wanted)
                covered.append(not result.win_rate.excludes(wanted))
            name = f"{kind}_{round(100 * bias):02d}"
            found = {"most": 0.08} if bias == 0 else {"least": 0.95}
            figures.add(f"{name}_n{pairs}_seen", float(np.mean(seen)), **found)
            figures.add(f"{name}_bias_error", abs(float(np.mean(estimates)) - bias), most=0.01)
            figures.add(f"{name}_win_rate_error", abs(float(np.mean(both))), most=0.005)
            figures.add(f"{name}_one_order_error", abs(float(np.mean(single))))
            figures.add(f"{name}_coverage", float(np.mean(covered)), least=0.92)


def strengths(figures: Figures, sets: int, rng: np.random.Generator) -> None:
    """Planted strengths of five runs over 60 cases in 20 clusters that judge alike."""
    names, true = list(STRENGTHS), np.array(list(STRENGTHS.values()))
    inside, first, errors = [], [], []
    for _ in range(sets):
        moved = rng.normal(0, 0.5, (20, len(names)))  # a cluster suits some runs more than others
        verdicts: dict[tuple[str, str], list[PairVerdict]] = {}
        for i, baseline in enumerate(names):
            for j in range(i + 1, len(names)):
                clusters = np.repeat(np.arange(20), 3)
                apart = true[j] - true[i] + moved[clusters, j] - moved[clusters, i]
                chances = 1 / (1 + np.exp(-apart))
                wins = rng.random(clusters.size) < chances
                own = _verdicts(wins, wins)
                verdicts[baseline, names[j]] = [
                    each.model_copy(update={"cluster": str(cluster)})
                    for each, cluster in zip(own, clusters.tolist(), strict=True)
                ]
        ranking = rank_runs(names, verdicts)
        first.append(ranking.runs[0].run == "run-a")
        for run in ranking.runs:
            assert run.strength is not None
            inside.append(not run.strength.excludes(STRENGTHS[run.run]))
            errors.append(run.strength.value - STRENGTHS[run.run])
    figures.add("strength_coverage", float(np.mean(inside)), least=0.9)
    figures.add("strength_error_mean", abs(float(np.mean(np.abs(errors)))))
    figures.add("strongest_is_first", float(np.mean(first)), least=0.9)


def main() -> None:
    """Print all figures, and the line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--sets", type=int, default=200)
    wanted = parser.parse_args()
    figures, rng = Figures(), np.random.default_rng(wanted.seed)
    recorded(figures)
    biases(figures, wanted.sets, rng)
    strengths(figures, max(1, wanted.sets // 4), rng)
    figures.close()


if __name__ == "__main__":
    main()
