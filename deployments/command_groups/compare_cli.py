"""`assizes compare` and `assizes rank`: two runs by their scores and pair by pair, several by rank."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer import Argument, Option

from assizes.deployments import commands, options

app = typer.Typer()

PassRateDrop = Annotated[
    str | None, Option(help="How far the pass rate may fall, e.g. 0.02 or 2%.")
]
ScoreDrop = Annotated[
    float | None, Option(help="How far the mean score may fall, in points of 100.")
]
LatencyIncrease = Annotated[
    str | None, Option(help="How far the latency may rise, e.g. 0.2 or 20%.")
]
Mode = Annotated[
    str | None, Option(help="What decides: rules, statistics, or both (the rules decide).")
]
Verdict = Annotated[
    str | None, Option(help="Whose pass rate decides: raw (the judge's) or corrected by labels.")
]
Margin = Annotated[float | None, Option(help="Smallest drop that matters, in points of 100.")]
Alpha = Annotated[float | None, Option(help="Accepted share of false alarms, e.g. 0.05.")]
Allow = Annotated[bool, Option("--allow", help="Compare runs that were judged differently.")]

Pairwise = Annotated[
    bool,
    Option("--pairwise", help="Also judge both conversations of each case side by side."),
]
Rubric = Annotated[
    str | None,
    Option(help="Question for pairs: overall, a metric, a judge of answers, or a TOML file."),
]
Model = Annotated[str | None, Option(help="Model that compares [default: that of the last run].")]
Budget = Annotated[float | None, Option(help="Most US dollars for pairs [default: as configured].")]
Pairs = Annotated[
    int | None, Option("--pairs", min=1, help="Most pairs of each two runs [default: all].")
]
Plan = Annotated[
    bool, Option("--dry-run", help="Only say what pairs would be asked and what it may cost.")
]
Runs = Annotated[
    list[str],
    Argument(
        metavar="RUN",
        help=f"Two to twelve runs: {options.RUN_NAMES}.",
        autocompletion=options.complete_run,
    ),
]


@app.command()
def compare(
    baseline: options.Baseline,
    candidate: options.Candidate,
    max_pass_rate_drop: PassRateDrop = None,
    max_avg_score_drop: ScoreDrop = None,
    max_latency_increase_pct: LatencyIncrease = None,
    mode: Mode = None,
    verdict: Verdict = None,
    margin: Margin = None,
    alpha: Alpha = None,
    allow: Allow = False,
    pairwise: Pairwise = False,
    rubric: Rubric = None,
    model: Model = None,
    budget: Budget = None,
    pairs: Pairs = None,
    replay_only: options.ReplayOnly = False,
    dry_run: Plan = False,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Compare two runs; the exit code is 1 when the second is a regression.

    With --pairwise a win rate stands beside the scores; it does not change the exit code.
    """
    limits = {
        "max_pass_rate_drop": max_pass_rate_drop,
        "max_avg_score_drop": max_avg_score_drop,
        "max_latency_increase_pct": max_latency_increase_pct,
        "mode": mode,
        "verdict": verdict,
        "margin": margin,
        "alpha": alpha,
        "allow": allow or None,  # without the flag the configuration decides
    }
    thresholds = {name: value for name, value in limits.items() if value is not None}
    sides = (baseline, candidate)
    asked = _pair_options(rubric, model, budget, pairs, replay_only=replay_only)
    if not pairwise:
        _check_no_pair_options(asked, dry_run=dry_run)
        print_sides = commands.show.compare_and_print
        raise typer.Exit(print_sides(sides, thresholds, config, store, as_json=as_json))
    from assizes.deployments.commands.pairs import compare as pair_commands

    output = pair_commands.PairOutput(is_dry=dry_run, as_json=as_json, verbose=verbose)
    print_pairs = pair_commands.compare_pairs_and_print
    raise typer.Exit(print_pairs(sides, asked, thresholds, config, store, output))


@app.command()
def rank(
    runs: Runs,
    rubric: Rubric = None,
    model: Model = None,
    budget: Budget = None,
    pairs: Pairs = None,
    replay_only: options.ReplayOnly = False,
    dry_run: Plan = False,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Rank runs by judging their conversations pair by pair, with intervals and ranks.

    Every two runs are compared on the cases that both hold, in both orders. The exit code is 0.
    """
    asked = _pair_options(rubric, model, budget, pairs, replay_only=replay_only)
    from assizes.deployments.commands.pairs import compare as pair_commands

    output = pair_commands.PairOutput(is_dry=dry_run, as_json=as_json, verbose=verbose)
    raise typer.Exit(pair_commands.rank_and_print(tuple(runs), asked, config, store, output))


def _pair_options(
    rubric: str | None,
    model: str | None,
    budget: float | None,
    pairs: int | None,
    *,
    replay_only: bool,
) -> dict[str, Any]:
    """The options about pairs that were given, by field of `PairwiseRequest`."""
    fields = {
        "rubric": rubric,
        "model": model,
        "budget_usd": budget,
        "limit": pairs,
        "replay_only": replay_only or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _check_no_pair_options(asked: dict[str, Any], *, dry_run: bool) -> None:
    names = {"budget_usd": "budget", "limit": "pairs", "replay_only": "replay-only"}
    given = [names.get(field, field) for field in asked] + ["dry-run"] * dry_run
    if given:
        from assizes.judge.errors import ConfigurationError

        raise ConfigurationError(f"--{given[0]} is about pairs; give --pairwise with it")
