"""The judge that checks criteria against a long run and its state, and looks for the evidence."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import Field

from assizes.judge.case import Case
from assizes.judge.evidence.failure_signs import quote_of
from assizes.judge.excerpts.spans import readable_spans
from assizes.judge.families.entry import JudgeEntry, JudgeOptions
from assizes.judge.families.run_criteria.looks import (
    SYSTEM_LAST,
    SYSTEM_LOOK,
    CriteriaLook,
    CriteriaReply,
    CriterionFinding,
    Knowledge,
    LastCriteriaLook,
    ProbeRequest,
    RunCriteriaEvidence,
    digest_room,
    frame_tokens,
    look_prompt,
    prompt_tokens,
    whole_prompt,
)
from assizes.judge.families.run_criteria.requests import (
    MOST_SEARCHES,
    ProbeResult,
    excerpts_text,
    probe_queries,
    probe_result,
)
from assizes.judge.prompts.prompt_texts import rendered_turns
from assizes.judge.protocol import (
    JudgeFailed,
    NoReply,
    Prompt,
    Steps,
    ask,
    look_up_each,
)
from assizes.judge.quotes.sources import QuoteSources, quote_place
from assizes.judge.score import Metric, Scale, Score

MOST_CRITERIA: Final = 20
"""The most criteria of a case."""
_QUOTES: Final = 5
"""Quotes of a finding that are looked for."""
_SHORTEST_QUOTE: Final = 3
"""Characters of the shortest quote that can be evidence."""
_FIRST_SHARE: Final = 2
"""How many times as much as a later look the first may take: it alone shows the whole digest."""
_LEAST_ROOM: Final = 500
"""Tokens beside its frame without which a look is not worth its price."""
UNSUPPORTED_QUOTE: Final = "unsupported_quote"
"""The code of a criterion that is said to hold by a quote that stands nowhere."""


class RunCriteriaOptions(JudgeOptions):
    """Options of the judge `run_criteria`."""

    threshold: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="The share of criteria that must hold for the case to pass.",
    )
    looks: int = Field(
        default=3, ge=1, le=8, description="The most prompts for a case that is not shown whole."
    )
    max_tokens: int = Field(
        default=7_500,
        ge=5_000,
        le=1_000_000,
        description="The most tokens (estimated) of all prompts of a case. A run that fits is shown "
        "whole in one prompt; a longer one is read in looks.",
    )


METRIC: Final = Metric(
    name="run_criteria",
    scale=Scale.FRACTION,
    display_name="Run Criteria",
    description="Share of the case's criteria that the evidence of the run and its state shows.",
    needs=("expected.acceptance_criteria",),
    needs_ground_truth=True,
    rubric=f"{SYSTEM_LOOK}\n\n{SYSTEM_LAST}",
    rubric_hash=hashlib.sha256(f"{SYSTEM_LOOK}\n\n{SYSTEM_LAST}".encode()).hexdigest()[:16],
    gate="judges",
)
"""What the judge scores."""


@dataclass(slots=True)
class _LookRecord:
    """What a hearing read and looked at, for the details of its score."""

    turns: Sequence[QuoteSources]  # the run, in which quotes are looked up
    looks: int = 0
    tokens: int = 0  # of the prompts so far, estimated
    read: list[list[int]] = field(default_factory=list)
    searches: list[str] = field(default_factory=list)
    probes: list[ProbeResult] = field(default_factory=list)

    def details(self) -> dict[str, Any]:
        probes = [
            {"probe": each.name, "argument": each.argument[:200], "failed": each.failed}
            for each in self.probes
        ]
        facts = {"looks": self.looks, "read": self.read, "searches": self.searches}
        return {**facts, "probes": probes, "prompt_tokens": self.tokens}


class RunCriteriaJudge:
    """Scores the share of criteria that hold; the part `criterion:<i>` (from 0) says which.

    A criterion holds only by a quote that stands in the run or in the result of a probe.
    """

    name = METRIC.name
    version = "2"  # goes up with the rules
    prompts = (SYSTEM_LOOK, SYSTEM_LAST)
    metrics = (METRIC,)

    def __init__(self, options: RunCriteriaOptions | None = None) -> None:
        self.options = options or RunCriteriaOptions()

    def missing(self, case: Case) -> str | None:
        """A case is skipped without turns, and without criteria or with too many of them."""
        if not case.transcript.turns:
            return "the run has no turns"
        count = len(criteria_of(case))
        if not count:
            return "no criteria: no text or list of texts in expected.acceptance_criteria"
        if count > MOST_CRITERIA:
            return f"{count} criteria in expected.acceptance_criteria; at most {MOST_CRITERIA}"
        return None

    def judge(self, case: Case) -> Steps[list[Score]]:
        """Looks at the run until every criterion is settled or the budget is used up."""
        blocks = rendered_turns(case.transcript)
        journal = _LookRecord([QuoteSources([block]) for block in blocks])
        knowledge = Knowledge(criteria_of(case))
        for look in range(self.options.looks):
            prompt, is_last = self._prompt(case, knowledge, blocks, journal)
            journal.looks, journal.tokens = look + 1, journal.tokens + prompt_tokens(prompt)
            reply = yield from _ask(case, prompt, knowledge, blocks, journal, is_last=is_last)
            knowledge = _with_findings(knowledge, reply, _Grounds(journal))
            if not isinstance(reply, CriteriaLook) or not knowledge.open_criteria():
                break
            if not reply.asks_for_more():
                break
            knowledge = yield from self._look_further(case, knowledge, blocks, reply, journal)
        return _scores(case, knowledge, reply, journal, self.options.threshold)

    def _prompt(
        self, case: Case, knowledge: Knowledge, blocks: Sequence[str], journal: _LookRecord
    ) -> tuple[Prompt, bool]:
        """The prompt of the next look, and whether it is the last."""
        budget = self.options.max_tokens
        if not journal.looks and not case.expected.probes:
            whole = whole_prompt(case, knowledge, blocks)
            if prompt_tokens(whole) <= budget:
                return whole, True
        left, most = self._look_budget(case, knowledge, journal)
        is_last = left <= 1
        return look_prompt(case, knowledge, blocks, most, is_last=is_last), is_last

    def _look_budget(
        self, case: Case, knowledge: Knowledge, journal: _LookRecord
    ) -> tuple[int, int]:
        """How many looks are left, at least one, and the most tokens of the next one."""
        tokens = self.options.max_tokens - journal.tokens
        affordable = tokens // (frame_tokens(case, knowledge) + _LEAST_ROOM)
        left = max(1, min(self.options.looks - journal.looks, affordable))
        if not journal.looks and left > 1:
            return left, tokens * _FIRST_SHARE // (left + _FIRST_SHARE - 1)
        return left, tokens // left

    def _look_further(
        self,
        case: Case,
        knowledge: Knowledge,
        blocks: Sequence[str],
        reply: CriteriaLook,
        journal: _LookRecord,
    ) -> Steps[Knowledge]:
        """What is known after the requests of a look are answered."""
        results = yield from _probe(case, reply.probes)
        journal.probes.extend(results)
        journal.searches.extend(text[:200] for text in reply.search[:MOST_SEARCHES])
        spans = readable_spans(reply.read, len(blocks))
        journal.read.extend([span.start, span.stop - 1] for span in spans)
        known = replace(knowledge, notes=reply.reasoning)
        _, most = self._look_budget(case, known, journal)
        digest = digest_room(case, known, most, has_excerpts=True)
        room = most - frame_tokens(case, known) - digest
        return replace(known, excerpts=excerpts_text(case, blocks, reply, results, room))


class _Grounds:
    """The texts that a quote can come from: turns of the run, and results of probes."""

    def __init__(self, journal: _LookRecord) -> None:
        self._probes = [result for result in journal.probes if not result.failed]
        self._first_probe = len(journal.turns)
        self._sources = [
            *journal.turns,
            *(QuoteSources([result.text]) for result in self._probes),
        ]

    def founded(self, quotes: Sequence[str]) -> list[dict[str, Any]]:
        """The quotes that stand in one of the texts, each with its turn or its probe."""
        places = []
        for quote in quotes[:_QUOTES]:
            if len(quote.strip()) < _SHORTEST_QUOTE:
                continue
            place = quote_place(quote, self._sources)
            if place is None:
                continue
            probe = place - self._first_probe
            where = {"turn": place} if probe < 0 else {"probe": self._probes[probe].name}
            places.append({**where, "text": quote_of(0, quote).text})
        return places

    def is_supported(self, finding: CriterionFinding) -> bool:
        """Whether a finding may count: one that says yes needs a quote that stands somewhere."""
        return finding.holds != "yes" or bool(self.founded(finding.quotes))


def criteria_of(case: Case) -> tuple[str, ...]:
    """The criteria of a case, one a line or one an entry, without blank ones and list marks."""
    value = case.expected.acceptance_criteria or ()
    lines = value.splitlines() if isinstance(value, str) else value
    return tuple(line.strip().removeprefix("- ") for line in lines if line.strip())


def _ask(
    case: Case,
    prompt: Prompt,
    knowledge: Knowledge,
    blocks: Sequence[str],
    journal: _LookRecord,
    *,
    is_last: bool,
) -> Steps[CriteriaReply]:
    """Put one look to the model.

    Raises:
        JudgeFailed: when no usable reply came.
    """
    reply: type[CriteriaReply] = LastCriteriaLook if is_last else CriteriaLook
    evidence = RunCriteriaEvidence(knowledge.open_criteria(), tuple(blocks), is_last)
    doubts = _doubts(knowledge, _Grounds(journal))
    return (yield from ask(prompt, reply, evidence, doubts))


def _doubts(knowledge: Knowledge, grounds: _Grounds) -> Callable[[CriteriaReply], str | None]:
    """The check of a reply: known criteria, each once; quotes that stand; nothing left open."""
    open_numbers = [number for number, _ in knowledge.open_criteria()]

    def faults(reply: CriteriaReply) -> Iterator[str]:
        numbers = [finding.criterion for finding in reply.findings]
        if unknown := sorted({n for n in numbers if not 1 <= n <= len(knowledge.criteria)}):
            yield f"there is no criterion {', '.join(map(str, unknown))}"
        if doubled := sorted({n for n in numbers if numbers.count(n) > 1}):
            yield f"more than one finding for criterion {', '.join(map(str, doubled))}"
        may_wait = isinstance(reply, CriteriaLook) and reply.asks_for_more()
        missing = [n for n in open_numbers if n not in numbers]
        if missing and not may_wait:
            yield f"no finding for criterion {', '.join(map(str, missing))}"
        for finding in reply.findings:
            if not grounds.is_supported(finding):
                yield (
                    f"criterion {finding.criterion} is said to hold, but none of its quotes stands "
                    "in the run or in the result of a probe"
                )

    return lambda reply: "; ".join(faults(reply)) or None


def _with_findings(knowledge: Knowledge, reply: CriteriaReply, grounds: _Grounds) -> Knowledge:
    """What is known after a reply; `not_shown` settles a criterion only in a last look."""
    open_numbers = dict(knowledge.open_criteria())
    is_final = not (isinstance(reply, CriteriaLook) and reply.asks_for_more())
    settled: dict[int, CriterionFinding] = {}
    for finding in reply.findings:
        number = finding.criterion
        counts = grounds.is_supported(finding) and (is_final or finding.holds != "not_shown")
        if number in open_numbers and counts:
            settled.setdefault(number, finding)
    return replace(knowledge, settled={**knowledge.settled, **settled})


def _probe(case: Case, requests: Sequence[ProbeRequest]) -> Steps[list[ProbeResult]]:
    """Put the probes of a look.

    Raises:
        JudgeFailed: when a database or a snapshot that the case declares could not be read.
    """
    asked = probe_queries(case.expected.probes, requests)
    queries = [query for _, query in asked if not isinstance(query, ProbeResult)]
    answers = iter((yield from look_up_each(queries)) if queries else ())
    results = []
    for request, query in asked:
        result = query if isinstance(query, ProbeResult) else probe_result(request, next(answers))
        if isinstance(result, NoReply):
            raise JudgeFailed(result)  # the state is not known: that is no finding about the run
        results.append(result)
    return results


def _scores(
    case: Case,
    knowledge: Knowledge,
    last: CriteriaReply,
    journal: _LookRecord,
    threshold: float,
) -> list[Score]:
    """The headline and a part for each criterion; failed where a criterion is not settled."""
    grounds = _Grounds(journal)
    parts = [
        _part(number, text, knowledge.settled.get(number), last, grounds)
        for number, text in enumerate(knowledge.criteria, 1)
    ]
    facts = {**journal.details(), "rationale": last.reasoning}
    failed = next((part for part in parts if part.status == "failed"), None)
    if failed is not None:
        reason = f"{failed.part}: {failed.reason}"
        return [Score.failed(METRIC.name, reason, failed.details["error"], **facts), *parts]
    share = round(math.fsum(part.raw or 0.0 for part in parts) / len(parts), 9)
    turns = tuple(sorted({turn for part in parts for turn in part.turns}))
    not_shown = sum(part.details["holds"] == "not_shown" for part in parts)
    details = {"not_shown": not_shown, **facts}
    passed = share >= round(threshold, 9)
    return [Score.of(METRIC, share, passed=passed, turns=turns, details=details), *parts]


def _part(
    number: int, text: str, finding: CriterionFinding | None, last: CriteriaReply, grounds: _Grounds
) -> Score:
    part = f"criterion:{number - 1}"
    if finding is None:
        unsupported = any(each.criterion == number for each in last.findings)
        if unsupported:
            reason = "it is said to hold, but no quote stands in the run or in a probe's result"
            return Score.failed(METRIC.name, reason, UNSUPPORTED_QUOTE, part, criterion=text)
        reason = "the judge found nothing about it"
        return Score.failed(METRIC.name, reason, "missing_criterion", part, criterion=text)
    quotes = grounds.founded(finding.quotes)
    details = {
        "criterion": text,
        "holds": finding.holds,
        "quotes": quotes,
        "unfounded_quotes": len(finding.quotes) - len(quotes),
        "rationale": finding.reason,
    }
    turns = tuple(sorted({quote["turn"] for quote in quotes if "turn" in quote}))
    holds = finding.holds == "yes"
    return Score.of(METRIC, float(holds), part=part, passed=holds, turns=turns, details=details)


ENTRIES: Final[Mapping[str, JudgeEntry]] = {
    RunCriteriaJudge.name: JudgeEntry(
        description="Checks acceptance criteria against a long run and the state that it left, and "
        "looks for the evidence itself.",
        needs=METRIC.needs,
        needs_ground_truth=True,
        create_judge=lambda options, _rubrics: RunCriteriaJudge(options),
        options=RunCriteriaOptions,
    ),
}
"""The catalogue entry of the judge."""
