"""Nine metrics in one ask or in nine: calls, tokens and US dollars, with and without prompt caches.

    python -m benchmarks.together [--cases 200]

The prompts are those that runs send, for the recorded tau-bench transcripts; tokens are estimated as
`assizes plan` does, and replies have the length that their schemas suggest. Prices are those of
litellm's list. `apart_as_together` is the cost of nine asks divided by that of one.

- `claude`: the texts of the judge are marked for the provider's cache where they are long enough. The
  text for one metric is shorter than what the provider caches, so nine asks find nothing there.
- `prefix`: a provider that caches the longest beginning of a prompt by itself (OpenAI and others),
  counted at its best: each system message is read from the cache after its first use. The transcript
  stands after the text of its metric, so it is in no common beginning, and nine asks pay for it nine
  times.
- `transcript_first`: what nine asks would cost at best if the transcript stood before the texts of
  the metrics and were read from the cache eight times. Runs do not send such prompts. It is a lower
  bound for asking apart.

Outcomes: no recorded set holds the same judge asked both ways, so what a real model does differently
is not measured here. What can be: the rule-based judge scores each metric the same way together and
apart (`same_scores`), so the two ways differ by what a model does with the prompt and by nothing else;
and with a model of which one reply in ten stays unusable, how many cases lack at least one of their
nine scores (`lost_cases_*`, by arithmetic; the share of lost scores is a tenth both ways).
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from assizes.judge.case import Case
from assizes.judge.catalog import JudgePanel, available_metrics, resolve_judges
from assizes.judge.config.judging import JudgeConfig, MetricSelection, estimated_tokens
from assizes.judge.config.run import RunConfig
from assizes.judge.forecast.ask_forecast import Forecaster
from assizes.judge.forecast.cost_options import Volume, apart_configs, volumes
from assizes.judge.hearing import Hearing
from assizes.judge.heuristic.answers import plain_reply
from assizes.judge.model_assignment import ModelAssignment, assign_models
from assizes.judge.models.model import Model
from assizes.judge.protocol import Ask
from assizes.tasks.context.hearing import hear_all
from benchmarks.corpus import base_cases
from benchmarks.figures import DATA, Figures

METRICS = 9
UNUSABLE = 0.1  # share of replies that stay unusable after the second try


def _config(model: str | None) -> JudgeConfig:
    names = [metric.name for metric in available_metrics()][:METRICS]
    chosen = tuple(MetricSelection(metric=name, weight=1.0) for name in names)
    return JudgeConfig(model=model, metrics=chosen)


def _panels(config: JudgeConfig) -> tuple[JudgePanel, list[JudgePanel]]:
    names = [metric.metric for metric in config.metrics or ()]
    return resolve_judges(config), [resolve_judges(one) for one in apart_configs(config, names)]


async def _volume(
    assignment: ModelAssignment, panels: Sequence[JudgePanel], cases: Sequence[Case]
) -> Volume:
    forecaster = Forecaster(assignment, None)
    for case in cases:
        for panel in panels:
            await hear_all(forecaster, panel, case)
    (volume,) = volumes(forecaster.tallies, len(cases), len(cases)).values()
    return volume


def _system_tokens(panels: Sequence[JudgePanel], case: Case) -> float:
    """The estimated tokens of the system messages of one case, over all panels."""
    hearings = [Hearing(judge, case) for panel in panels for judge in panel.judges]
    asks = [ask for hearing in hearings for ask in hearing.asks if isinstance(ask, Ask)]
    return sum(estimated_tokens(ask.prompt.system) for ask in asks)


def _cached(volume: Volume, tokens: float) -> Volume:
    return Volume(volume.calls, volume.input_tokens, tokens, 0.0, volume.output_tokens)


def _usd(volume: Volume, model: Model) -> float:
    usd = volume.usd(model, batch=False)
    assert usd is not None, f"no price of {model.name}"
    return usd


def _scores(panel: JudgePanel, case: Case) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for judge in panel.judges:
        hearing = Hearing(judge, case)
        while hearing.asks:
            hearing.answer([plain_reply(ask)[1] for ask in hearing.asks if isinstance(ask, Ask)])
        found |= {score.metric: score.raw for score in hearing.scores if not score.part}
    return found


async def _money(figures: Figures, cases: Sequence[Case]) -> None:
    for name, model_id in (("claude", "anthropic/claude-sonnet-4-5"), ("prefix", "openai/gpt-4.1")):
        config = _config(model_id)
        together, apart = _panels(config)
        settings = RunConfig.model_validate({"transcripts": {"uri": "-"}, "judge": config})
        assignment = assign_models(settings, together)
        one = await _volume(assignment, [together], cases)
        nine = await _volume(assignment, apart, cases)
        model = assignment.shared
        if name == "claude":
            for key, volume in (("together", one), ("apart", nine)):
                figures.add(f"{key}_calls_per_case", volume.calls / len(cases))
                figures.add(f"{key}_input_tokens_per_case", volume.input_tokens / len(cases))
                figures.add(f"{key}_output_tokens_per_case", volume.output_tokens / len(cases))
        plain = [_cached(volume, 0.0) for volume in (one, nine)]
        ratio = _usd(plain[1], model) / _usd(plain[0], model)
        figures.add(f"{name}_uncached_apart_as_together", ratio)
        if name == "prefix":
            systems = [_system_tokens(panels, cases[0]) for panels in ([together], apart)]
            one, nine = (
                _cached(volume, own * (len(cases) - 1))
                for volume, own in zip((one, nine), systems, strict=True)
            )
            shared = (nine.input_tokens - systems[1] * len(cases)) * (METRICS - 1) / METRICS
            best = _usd(_cached(nine, shared), model)
            figures.add("transcript_first_apart_as_together", best / _usd(one, model))
        for key, volume in (("together", one), ("apart", nine)):
            figures.add(f"{name}_{key}_cached_share", volume.cached_tokens / volume.input_tokens)
            figures.add(f"{name}_{key}_usd_per_1000", 1000 * _usd(volume, model) / len(cases))
        figures.add(f"{name}_apart_as_together", _usd(nine, model) / _usd(one, model))


def _outcomes(figures: Figures, cases: Sequence[Case]) -> None:
    together, apart = _panels(_config(None))
    same = 0
    for case in cases:
        single = {name: raw for panel in apart for name, raw in _scores(panel, case).items()}
        same += single == _scores(together, case)
    figures.add("same_scores", same / len(cases), least=1.0)
    figures.add("lost_cases_together", UNUSABLE)
    figures.add("lost_cases_apart", 1 - (1 - UNUSABLE) ** METRICS)


def main() -> None:
    """Count both ways and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    arguments = parser.parse_args()
    figures = Figures()
    if not (DATA / "tau_bench_airline").is_dir():
        figures.missing("tau_bench_airline")
        figures.close()
        return
    cases = base_cases()[: arguments.cases]  # those of tau-bench are the first 200
    asyncio.run(_money(figures, cases))
    _outcomes(figures, cases)
    figures.close()


if __name__ == "__main__":
    main()
