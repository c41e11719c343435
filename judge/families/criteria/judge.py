"""Answer criteria and answer completeness: how much of its criteria an answer covers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from pydantic import Field

from assizes.judge.case import Case
from assizes.judge.families.criteria.asks import (
    CRITERIA_WORDING,
    REFERENCE_WORDING,
    AnsweredTurn,
    Aspect,
    Wording,
    answered_turns,
    coverage_ask,
    criteria_text,
    decompose_ask,
)
from assizes.judge.families.criteria.coverage import (
    AspectCoverage,
    CriteriaCoverage,
    Strategy,
    coverage_counts,
    coverage_of,
    merge_coverages,
    numbered_aspects,
    signals,
)
from assizes.judge.families.entry import JudgeEntry, JudgeOptions
from assizes.judge.protocol import Ask, JudgeFailed, NoReply, Steps, T, ask, together
from assizes.judge.score import Metric, Scale, Score


class CoverageOptions(JudgeOptions):
    """Options of both judges."""

    threshold: float = Field(
        default=0.5, ge=0, le=1, description="The score from which a case passes."
    )
    scoring_strategy: Strategy = Field(
        default="concept", description="How aspects and concepts become a score."
    )
    check_for_contradictions: bool = Field(
        default=False,
        description="A concept that the answer contradicts counts as missing, and its aspect as not "
        "covered.",
    )
    weighted_concept_score_weight: float = Field(
        default=0.7,
        ge=0,
        le=1,
        description="The share of the concept score in the strategy `weighted`.",
    )
    multi_turn_strategy: Literal["last_turn", "all_turns"] = Field(
        default="last_turn",
        description="Which answers are checked: the last one, or those of all turns.",
    )
    multi_turn_aggregation: Literal["cumulative", "average"] = Field(
        default="cumulative",
        description="How the turns of `all_turns` are joined: `cumulative` takes their union, "
        "`average` the mean of their scores.",
    )


class AnswerCriteriaOptions(CoverageOptions):
    """The table [judge.options.answer_criteria]."""

    criteria_key: str = Field(
        default="Complete",
        min_length=1,
        description="The key of the criteria in `expected.additional_input` and `expected.rubrics`.",
    )


class AnswerCompletenessOptions(CoverageOptions):
    """The table [judge.options.answer_completeness]."""


@dataclass(frozen=True, slots=True)
class CoverageStandard:
    """The standard of a criteria judge: what an answer must hold, and where a case says so."""

    metric: Metric
    wording: Wording
    texts: Callable[[Case, Any], Iterator[tuple[str, object]]]  # (place, value), preferred first


def _criteria_places(case: Case, options: AnswerCriteriaOptions) -> Iterator[tuple[str, object]]:
    key, expected = options.criteria_key, case.expected
    if options.multi_turn_strategy == "all_turns":
        yield f"expected.rubrics[{key!r}]", expected.rubrics.get(key)
    yield "expected.acceptance_criteria", expected.acceptance_criteria
    yield f"expected.additional_input[{key!r}]", expected.additional_input.get(key)


def _reference_places(case: Case, _: CoverageOptions) -> Iterator[tuple[str, object]]:
    yield "expected.response", case.expected.response
    yield "expected.facts", case.expected.facts


class CoverageJudge:
    """Scores how much of a standard the answers of a conversation cover.

    The part `aspect:<id>` holds the share of an aspect's concepts that are covered. With `all_turns`
    there is also a part `turn:<i>` for each answered question, from 0; when turns are averaged, each
    has aspects of its own, in the parts `turn:<i>/aspect:<id>`.
    """

    version = "1"

    def __init__(self, standard: CoverageStandard, options: CoverageOptions) -> None:
        self.name = standard.metric.name
        self.metrics = (standard.metric,)
        self.standard = standard
        self.prompts = (standard.wording.decompose, standard.wording.check)
        self.options = options

    def missing(self, case: Case) -> str | None:
        """A case is skipped without a query, without an answer to it, or without criteria."""
        roles = {turn.role for turn in case.transcript.turns if (turn.text or "").strip()}
        if "user" not in roles:
            return "no query: the user says nothing"
        if "assistant" not in roles:
            return "no output: the agent says nothing"
        if not answered_turns(case.transcript):
            return "no output: the agent answers no message of the user"
        if self._criteria(case) is None:
            places = [place for place, _ in self.standard.texts(case, self.options)]
            heading = self.standard.wording.heading.lower()
            return f"no {heading}: no text or list of texts in {' or '.join(places)}"
        return None

    def judge(self, case: Case) -> Steps[list[Score]]:
        """Two rounds of asks: the aspects of the criteria, then the coverage of each answer."""
        criteria = self._criteria(case) or ""  # `missing` was asked before: never empty
        turns = answered_turns(case.transcript)
        if self.options.multi_turn_strategy == "last_turn":
            return self._cumulative_scores(criteria, turns[-1:])
        if self.options.multi_turn_aggregation == "cumulative":
            return self._cumulative_scores(criteria, turns)
        return self._average_scores(criteria, turns)

    def _criteria(self, case: Case) -> str | None:
        values = (value for _, value in self.standard.texts(case, self.options))
        return next((text for value in values if (text := criteria_text(value))), None)

    def _cumulative_scores(
        self, criteria: str, turns: Sequence[AnsweredTurn]
    ) -> Steps[list[Score]]:
        aspects = yield from self._aspects(turns[0].query, criteria)  # one set for all turns
        if not aspects:
            return [self._no_aspects()]
        results = yield from together([self._check_turn(criteria, aspects, turn) for turn in turns])
        parts = self._turn_scores(turns, results)
        coverages = [result for result in results if isinstance(result, CriteriaCoverage)]
        if len(coverages) < len(turns):
            return [self._failed_score(turns, results), *parts]
        union = merge_coverages(coverages)
        headline = self._coverage_score(union, turns)
        aspect_parts = [
            self._aspect_score(each, f"aspect:{each.aspect.id}") for each in union.aspect_coverages
        ]
        decomposition = [
            {"id": a.id, "aspect": a.name, "concepts": {c.id: c.text for c in a.concepts}}
            for a in aspects
        ]
        return [headline.with_details(decomposition=decomposition), *aspect_parts, *parts]

    def _average_scores(self, criteria: str, turns: Sequence[AnsweredTurn]) -> Steps[list[Score]]:
        """The mean of the turns, each with its own aspects; turns without aspects do not count."""
        results = yield from together([self._evaluate_turn(criteria, turn) for turn in turns])
        parts = self._turn_scores(turns, results)
        if any(isinstance(result, NoReply) for result in results):
            return [self._failed_score(turns, results), *parts]
        covered_turns = [
            (turn, result)
            for turn, result in zip(turns, results, strict=True)
            if isinstance(result, CriteriaCoverage)
        ]
        if not covered_turns:
            return [self._no_aspects(), *parts]
        values = [self._value(coverage.aspect_coverages) for _, coverage in covered_turns]
        pooled = CriteriaCoverage(
            tuple(each for _, coverage in covered_turns for each in coverage.aspect_coverages),
            tuple(text for _, coverage in covered_turns for text in coverage.warnings),
        )
        mean = round(math.fsum(values) / len(values), 9)
        headline = self._coverage_score(pooled, [turn for turn, _ in covered_turns], mean)
        aspect_parts = [
            self._aspect_score(each, f"turn:{each.turn.index}/aspect:{each.aspect.id}")
            for each in pooled.aspect_coverages
        ]
        return [headline.with_details(turn_scores=values), *aspect_parts, *parts]

    def _aspects(self, query: str, criteria: str) -> Steps[tuple[Aspect, ...]]:
        reply = yield from _ask_question(decompose_ask(self.standard.wording, query, criteria))
        return numbered_aspects(reply)

    def _check_turn(
        self, criteria: str, aspects: tuple[Aspect, ...], turn: AnsweredTurn
    ) -> Steps[CriteriaCoverage]:
        reply = yield from _ask_question(
            coverage_ask(self.standard.wording, criteria, aspects, turn)
        )
        contradictions = self.options.check_for_contradictions
        coverage = coverage_of(aspects, reply, turn, contradictions=contradictions)
        if coverage is None:  # not a 0 (decision 22)
            raise JudgeFailed(NoReply("no_coverage", "the reply speaks of none of the aspects"))
        return coverage

    def _evaluate_turn(self, criteria: str, turn: AnsweredTurn) -> Steps[CriteriaCoverage | None]:
        aspects = yield from self._aspects(turn.query, criteria)
        return (yield from self._check_turn(criteria, aspects, turn)) if aspects else None

    def _value(self, aspect_coverages: Sequence[AspectCoverage]) -> float:
        weight = self.options.weighted_concept_score_weight
        return coverage_counts(aspect_coverages).score(self.options.scoring_strategy, weight)

    def _coverage_score(
        self,
        coverage: CriteriaCoverage,
        turns: Sequence[AnsweredTurn],
        value: float | None = None,
        part: str = "",
    ) -> Score:
        options = self.options
        # `value` is given where turns are averaged: pooled counts would weigh them by concepts.
        score = self._value(coverage.aspect_coverages) if value is None else value
        details = signals(
            coverage.aspect_coverages,
            options.scoring_strategy,
            options.weighted_concept_score_weight,
            len(turns),
        )
        if coverage.warnings:
            details["warnings"] = list(coverage.warnings)
        return Score.of(
            self.standard.metric,
            score,
            part=part,
            passed=score >= round(options.threshold, 9),
            turns=tuple(turn.at for turn in turns),
            details=details,
        )

    def _turn_scores(
        self, turns: Sequence[AnsweredTurn], results: Sequence[CriteriaCoverage | NoReply | None]
    ) -> list[Score]:
        if self.options.multi_turn_strategy == "last_turn":
            return []
        scores = []
        for turn, result in zip(turns, results, strict=True):
            part = f"turn:{turn.index}"
            if isinstance(result, NoReply):
                scores.append(Score.failed(self.name, result.reason, result.code, part))
            elif result is None:
                scores.append(self._no_aspects(part))
            else:
                scores.append(self._coverage_score(result, [turn], part=part))
        return scores

    def _aspect_score(self, aspect_coverage: AspectCoverage, part: str) -> Score:
        return Score.of(
            self.standard.metric,
            aspect_coverage.concept_share,
            part=part,
            passed=aspect_coverage.is_covered,
            turns=(aspect_coverage.turn.at,),
            details=aspect_coverage.entry(),
        )

    def _failed_score(
        self, turns: Sequence[AnsweredTurn], results: Sequence[CriteriaCoverage | NoReply | None]
    ) -> Score:
        """The failed headline: a turn that could not be checked might have covered any concept."""
        pairs = zip(turns, results, strict=True)
        turn, first = next((turn, result) for turn, result in pairs if isinstance(result, NoReply))
        return Score.failed(self.name, f"turn {turn.index}: {first.reason}", first.code)

    def _no_aspects(self, part: str = "") -> Score:
        heading = self.standard.wording.heading.lower()
        return Score.skipped(self.name, f"no aspects were found in the {heading}", part)


def _ask_question(question: Ask[T]) -> Steps[T]:
    return ask(question.prompt, question.reply, question.evidence, question.doubts)


def _entry(
    metric: Metric,
    wording: Wording,
    texts: Callable[[Case, Any], Iterator[tuple[str, object]]],
    options: type[CoverageOptions],
    description: str,
) -> JudgeEntry:
    rubric = f"{wording.decompose}\n\n{wording.check}"  # a changed word shows in each row
    metric = replace(
        metric,
        scale=Scale.FRACTION,
        display_name=metric.name.replace("_", " ").title(),
        needs_ground_truth=True,
        rubric_hash=hashlib.sha256(rubric.encode()).hexdigest()[:16],
        gate="judges",
    )
    standard = CoverageStandard(metric, wording, texts)
    return JudgeEntry(
        description=description,
        needs=metric.needs,
        needs_ground_truth=True,
        create_judge=lambda validated_options, _: CoverageJudge(standard, validated_options),
        options=options,
    )


ENTRIES: Final[Mapping[str, JudgeEntry]] = {
    "answer_criteria": _entry(
        Metric(
            "answer_criteria",
            description="Share of the case's acceptance criteria that the answer covers.",
            needs=("expected.acceptance_criteria",),
        ),
        CRITERIA_WORDING,
        _criteria_places,
        AnswerCriteriaOptions,
        "Checks the answer against the case's acceptance criteria, concept by concept.",
    ),
    "answer_completeness": _entry(
        Metric(
            "answer_completeness",
            description="Share of the reference answer's points that the answer covers.",
            needs=("expected.response",),
        ),
        REFERENCE_WORDING,
        _reference_places,
        AnswerCompletenessOptions,
        "Checks the answer for the points of a reference answer, concept by concept.",
    ),
}
"""The catalogue entries of both judges, by name."""
