"""The table of built-in judges and metrics, and the choice that a configuration makes from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from assizes.judge.case import Case
from assizes.judge.config.judging import OFFLINE_MODEL, FlaggedPasses, JudgeConfig, MetricSelection
from assizes.judge.engine.cascade import with_cascade
from assizes.judge.engine.ensemble import Ensemble, ensemble_for
from assizes.judge.engine.second_look import with_second_look
from assizes.judge.errors import ConfigurationError
from assizes.judge.families.agent_steps.conversations import ENTRIES as AGENT_STEPS
from assizes.judge.families.conversation import ConversationJudge
from assizes.judge.families.conversation_parts import ReadingOptions
from assizes.judge.families.criteria.judge import ENTRIES as CRITERIA
from assizes.judge.families.custom import toml_judges
from assizes.judge.families.custom.python_judges import load_judge
from assizes.judge.families.deterministic import RecordedJudge
from assizes.judge.families.diagnosis.judge import ENTRIES as DIAGNOSIS
from assizes.judge.families.entry import JudgeEntry, JudgeOptions
from assizes.judge.families.rag import ENTRIES as RAG
from assizes.judge.families.run_criteria.judge import ENTRIES as RUN_CRITERIA
from assizes.judge.protocol import Judge
from assizes.judge.rubrics.rubric import BUILT_IN, OUTCOMES, metric_of, rubrics
from assizes.judge.score import Metric

_HEAVIEST: Final = 1e9
"""The largest weight that a selection may give."""

CONVERSATION: Final = ConversationJudge.name

JUDGES: Final[Mapping[str, JudgeEntry]] = {  # by hand: nothing registers itself on import
    CONVERSATION: JudgeEntry(
        description="Scores the conversation metrics and the expected outcomes with one ask.",
        needs=("transcript",),
        needs_ground_truth=False,
        create_judge=lambda options, chosen: ConversationJudge(chosen, options),
        options=ReadingOptions,
    ),
    **AGENT_STEPS,
    **CRITERIA,
    **RAG,
    **DIAGNOSIS,
    **RUN_CRITERIA,
    RecordedJudge.name: JudgeEntry(
        description="Repeats the verdicts recorded in the data; asks no model.",
        needs=("labels",),
        needs_ground_truth=True,
        create_judge=lambda _options, _chosen: RecordedJudge(),
        asks=False,
    ),
}


@dataclass(frozen=True)
class JudgePanel:
    """The judges of a run: a configuration resolved before any model is asked."""

    judges: tuple[Judge, ...]
    weights: Mapping[str, float]  # conversation metric -> share; the sum is 1
    metrics: tuple[Metric, ...]  # all that the judges promise to score
    pass_threshold: float  # overall score that passes, 0..100, inclusive
    ensembles: Mapping[str, Ensemble] = field(default_factory=dict)  # judge that asks -> models
    model_ids: tuple[str, ...] = (OFFLINE_MODEL,)  # those that answer, the shared ones first
    flagged_passes: FlaggedPasses = "apart"  # passes of cases that address their judges
    floors: Mapping[str, float] = field(default_factory=dict)  # metric -> least raw score
    second_look: bool = False  # whether such a case (prompt injection) is judged twice

    def judges_for(self, case: Case) -> tuple[Judge, ...]:
        """The judges for this case, which ask once more where it calls for a second look."""
        return with_second_look(self.judges, case) if self.second_look else self.judges


def available_metrics(rubric_folders: Sequence[str] = ()) -> list[Metric]:
    """The conversation metrics to choose from: the built-in ones in their order, then custom ones.

    Raises:
        ConfigurationError: for a rubric that cannot be used.
    """
    return [metric_of(rubric) for rubric in rubrics(rubric_folders)]


def metrics_listing(rubric_folders: Sequence[str] = ()) -> dict[str, Any]:
    """The document under `/config/available-metrics`."""
    names = ("name", "display_name", "description", "tier", "default_weight")  # keys of seed 000
    data = [
        {name: getattr(metric, name) for name in names}
        | {
            "score_type": metric.scale.value,
            "rubric": metric.rubric,
            "include_in_defaults": metric.include_in_defaults,
        }
        for metric in available_metrics(rubric_folders)
    ]
    return {"data": data, "count": len(data)}


def judges_listing(config: JudgeConfig | None = None) -> list[dict[str, Any]]:
    """The judges to choose from as JSON objects: first the built-in table in its order, then the
    judges that a configuration adds, by rubric folders and `module:attribute` references.

    Raises:
        ConfigurationError: for a judge that cannot be created.
    """
    settings = config or JudgeConfig()
    known = known_judges(settings.rubrics)
    known |= dict(_resolve_judge(name, known) for name in settings.judges if ":" in name)
    return [_listing_row(settings, name, entry) for name, entry in known.items()]


def _listing_row(config: JudgeConfig, name: str, entry: JudgeEntry) -> dict[str, Any]:
    judge = entry.create_judge(_options(config, name, entry), rubrics(config.rubrics))
    defaults = {
        option: None if field.is_required() else field.get_default(call_default_factory=True)
        for option, field in entry.options.model_fields.items()
    }
    # The names of seed 004 begin with what a judge looks at: `retrieval/llm_judged/...`.
    steps = (name.partition("/")[0] for metric in judge.metrics for name in metric.run_names)
    return {
        "name": name,
        "description": entry.description,
        "metrics": [metric.name for metric in judge.metrics],
        "needs": list(entry.needs),
        "needs_ground_truth": entry.needs_ground_truth,
        "step": next((step for step in steps if step in ("response", "retrieval")), None),
        "scale": list(dict.fromkeys(metric.scale.value for metric in judge.metrics)),
        "gate": next((metric.gate for metric in judge.metrics if metric.gate), None),
        "offline": entry.offline,
        "options": to_jsonable_python(defaults, fallback=str),  # a user's may be of any type
    }


def resolve_judges(config: JudgeConfig) -> JudgePanel:
    """Resolve a configuration into its judges, their models and the normalised weights.

    Raises:
        ConfigurationError: for a name that is unknown or given twice, weights that cannot be
            normalised, and whatever the offline model has no rule for.
    """
    chosen = _chosen_entries(config)
    known = rubrics(config.rubrics)
    weights: dict[str, float] = {}
    if CONVERSATION in config.judges:
        weights = resolved_weights(config.metrics or (), [metric_of(rubric) for rubric in known])
    options = {name: _options(config, name, entry) for name, entry in chosen.items()}
    ensembles = {
        name: ensemble_for(config, options[name].model, options[name].temperature)
        for name, entry in chosen.items()
        if entry.asks
    }
    # Before any judge is made: the offline model refuses what it cannot judge (decision 14).
    for name, entry in chosen.items():
        for member in ensembles[name].members if name in ensembles else (config,):
            _check_offline(member, name, entry, weights)
            _check_codebook(member, options[name])
    # A metric with the explicit weight 0 is among them: it is judged all the same (seed 000).
    chosen_rubrics = [rubric for rubric in known if rubric.name in weights]
    judges = tuple(
        entry.create_judge(options[name], chosen_rubrics) for name, entry in chosen.items()
    )
    promised = _promised_metrics(judges)
    for name in config.floors:  # a typo would guard nothing
        if name not in (names := [metric.name for metric in promised]):
            raise ConfigurationError.unknown("metric", name, names, "[judge.floors]")
    shared = [member.model_id for member in ensemble_for(config).members]
    answering = {member.model_id for each in ensembles.values() for member in each.members}
    # Where no judge asks a model, the shared models stand for all.
    asked = [model_id for model_id in shared if model_id in answering or not answering]
    return JudgePanel(
        judges,
        weights,
        promised,
        config.pass_threshold,
        with_cascade(config.cascade, ensembles, judges),
        (*asked, *sorted(answering.difference(shared))),
        config.flagged_passes,
        config.floors,
        config.second_look,
    )


def resolved_weights(
    selection: Sequence[MetricSelection], known: Sequence[Metric]
) -> dict[str, float]:
    """The weights of the chosen metrics, normalised to the sum 1, in the order of the catalogue.

    An empty selection means the default metrics. An explicit 0 is kept: the metric is judged and
    contributes nothing to the score.

    Raises:
        ConfigurationError: for unknown or doubled metrics, and weights that cannot be normalised.
    """
    defaults = {metric.name: metric.default_weight for metric in known}
    weights: dict[str, float] = {}
    for choice in selection:
        if choice.metric not in defaults:
            raise ConfigurationError.unknown("metric", choice.metric, defaults, "[judge] metrics")
        if choice.metric in weights:
            raise ConfigurationError(f"[judge] metrics: {choice.metric!r} is selected twice")
        weights[choice.metric] = _weight(choice, defaults[choice.metric])
    if not selection:
        weights = {m.name: m.default_weight for m in known if m.include_in_defaults}
    total = math.fsum(weights.values())  # exact: the order of the selection does not matter
    if total <= 0:
        raise ConfigurationError(
            f"[judge] metrics: the weights of {', '.join(sorted(weights))} sum to 0; "
            "give at least one a weight above 0"
        )
    return {name: weights[name] / total for name in defaults if name in weights}


def _weight(selection: MetricSelection, default: float) -> float:
    weight = selection.weight
    if weight is None and default == 0:
        raise ConfigurationError(
            f"[judge] metrics: {selection.metric!r} has no default weight; "
            f'give one, e.g. {{ metric = "{selection.metric}", weight = 0.5 }}'
        )
    if weight is None:
        return default
    if not 0 <= weight <= _HEAVIEST:  # NaN is in no range
        raise ConfigurationError(
            f"[judge] metrics: weight {weight!r} of {selection.metric!r}; wanted 0 to {_HEAVIEST:g}"
        )
    return weight


def known_judges(rubric_folders: Sequence[str] = ()) -> dict[str, JudgeEntry]:
    """The judges that can be chosen by name: the built-in table, then the files of rubric folders.

    Raises:
        ConfigurationError: for a judge file that cannot be used, and for a name that two share.
    """
    taken = dict.fromkeys((*BUILT_IN, OUTCOMES), "a built-in metric")
    taken |= dict.fromkeys(JUDGES, "a built-in judge")
    if rubric_folders:
        taken = {rubric.name: "a metric" for rubric in rubrics(rubric_folders)} | taken
    return {**JUDGES, **toml_judges.entries(rubric_folders, taken)}


def _chosen_entries(config: JudgeConfig) -> dict[str, JudgeEntry]:
    """The entries of the chosen judges by the names that rows carry, in the configured order."""
    known = known_judges(config.rubrics)
    if not config.judges:
        raise ConfigurationError(f"[judge] judges: none is chosen; known: {', '.join(known)}")
    chosen: dict[str, JudgeEntry] = {}
    for reference in config.judges:
        name, entry = _resolve_judge(reference, known)
        if name in chosen:
            raise ConfigurationError(f"[judge] judges: {name!r} is chosen twice")
        chosen[name] = entry
    for name in config.options:  # a typo would leave the defaults in force
        if name not in chosen:
            raise ConfigurationError(
                f"[judge.options.{name}]: {name!r} is not among judges {list(chosen)!r}; add it to "
                "[judge] judges"
            )
    if config.metrics and CONVERSATION not in chosen:
        raise ConfigurationError(
            f"[judge] metrics: chosen without the judge that scores them; "
            f"add {CONVERSATION!r} to judges {list(config.judges)!r}"
        )
    return chosen


def _resolve_judge(reference: str, known: Mapping[str, JudgeEntry]) -> tuple[str, JudgeEntry]:
    if ":" not in reference:  # it names no Python code
        if reference not in known:
            raise ConfigurationError.unknown("judge", reference, known, "[judge] judges")
        return reference, known[reference]
    named_entry = load_judge(reference)
    if named_entry.name in known:
        raise ConfigurationError(
            f"[judge] judges: {reference!r} is named {named_entry.name!r}, which is a judge already; "
            "choose another name"
        )
    return named_entry.name, named_entry.entry


def _options(config: JudgeConfig, name: str, entry: JudgeEntry) -> JudgeOptions:
    """The validated options of one judge."""
    try:
        return entry.options.model_validate(config.options.get(name, {}))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        option = ".".join(str(part) for part in fault["loc"])
        known = ", ".join(entry.options.model_fields)
        raise ConfigurationError(
            f"[judge.options.{name}] {option}: {fault['msg']} (given {fault['input']!r}); "
            f"options: {known}"
        ) from None


def _promised_metrics(judges: Sequence[Judge]) -> tuple[Metric, ...]:
    promised = [(judge.name, metric) for judge in judges for metric in judge.metrics]
    # Weights, gates and numbers of a run know a metric by its name alone, without its judge.
    scorers: dict[str, str] = {}  # metric -> judge
    for name, metric in promised:
        if metric.name in scorers:
            raise ConfigurationError(
                f"[judge] judges: {scorers[metric.name]!r} and {name!r} both score "
                f"{metric.name!r}; leave one out, or rename the metric"
            )
        scorers[metric.name] = name
    return tuple(metric for _, metric in promised)


def _check_offline(
    config: JudgeConfig, name: str, entry: JudgeEntry, weights: Mapping[str, float]
) -> None:
    if config.model_id != OFFLINE_MODEL:
        return
    custom_metrics = [metric for metric in weights if metric not in BUILT_IN]
    if name == CONVERSATION and custom_metrics:
        raise ConfigurationError(
            "[judge] metrics: the offline judge has no rule for "
            f"{', '.join(map(repr, custom_metrics))}; "
            "set [judge] model to a language model, or choose built-in metrics only"
        )
    if not entry.offline:
        raise ConfigurationError(
            f"[judge] judges: the offline judge has no rule for {name!r}; set [judge] model, or "
            f"model in [judge.options.{name}], to a language model"
        )


def _check_codebook(config: JudgeConfig, options: JudgeOptions) -> None:
    book = options.codebook if isinstance(options, ReadingOptions) else None
    if book is not None and config.model_id == OFFLINE_MODEL:
        raise ConfigurationError(
            f"[judge.options.{CONVERSATION}] codebook {book!r}: the offline judge reads no codes; "
            "set [judge] model to a language model, or leave the codebook out"
        )


def fingerprints(panel: JudgePanel) -> dict[str, str]:
    """What scores depend on: versions by `judge:<name>`, rubric hashes by `metric:<name>`."""
    judges = {f"judge:{judge.name}": judge.version for judge in panel.judges}
    hashes = {f"metric:{m.name}": m.rubric_hash for m in panel.metrics if m.rubric_hash}
    return dict(sorted({**judges, **hashes}.items()))
