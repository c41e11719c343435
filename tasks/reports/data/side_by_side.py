"""One case of two runs side by side: aligned turns, findings at their turns, what changed."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from assizes.judge.case import Case, ToolCall, Turn
from assizes.judge.comparison.turn_alignment import MAX_CELLS as MAX_TURN_CELLS
from assizes.judge.comparison.turn_alignment import TurnPair, align_turns, are_equal
from assizes.judge.comparison.turn_differences import (
    MAX_CELLS,
    ArgumentPair,
    CallPair,
    Spans,
    TextSpan,
    call_pairs,
    text_spans,
    whole_text,
)
from assizes.judge.errors import DataError
from assizes.judge.prompts.prompt_texts import prompt_diff
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import ACCEPTABLE
from assizes.tasks.reports.data.case_rows import (
    MAX_TURNS,
    TEXT_CHARS,
    TURN_CHARS,
    finding_of,
    reread_or_faults,
    statement_of,
)
from assizes.tasks.reports.data.comparison import prompt_changes, prompt_line
from assizes.tasks.reports.formatting import clean, clean_line, line_of, name_of
from assizes.tasks.reports.schema.side_by_side import (
    CaseSide,
    Flips,
    RowKind,
    ScoreChange,
    ScoreMove,
    SideBySide,
    SystemPrompts,
    TurnMark,
    TurnRow,
    TurnSide,
)
from assizes.tasks.runs.case_pairs import StoredPair, StoredSide

MAX_SCORES: Final = 300  # scores that are compared, at most
MAX_SYSTEM_CHARS: Final = 60_000  # characters of a system prompt that are compared, at most
MAX_LINES: Final = 2_000  # lines of a system prompt that are compared, at most
MAX_SYSTEM_LINES: Final = 200  # lines of the difference of two system prompts, at most

_WORD_CELLS: Final = 300_000  # pairs of words that are compared for a page, at most


def side_by_side(pair: StoredPair) -> SideBySide:
    """Compare a stored case of two runs; the transcripts are read again from where they lie."""
    sides = (pair.baseline, pair.candidate)
    before, after = (_conversation(side) for side in sides)
    scores = _score_changes(pair)
    diffs = prompt_diff(*(side.record.plan.get("prompts", {}) for side in sides))
    note = "The judges have the same prompts in both runs."
    if diffs is None:
        note = "A run kept no texts of its prompts, so they cannot be compared."
    elif diffs:
        note = "The judges were told different things."
    return SideBySide(
        case_id=pair.case_id,
        repetition=pair.baseline.repetition,
        baseline=_case_side(pair.baseline, before),
        candidate=_case_side(pair.candidate, after),
        notes=tuple(_notes(pair, before, after)),
        scores=tuple(scores[:MAX_SCORES]),
        more_scores=len(scores[MAX_SCORES:]),
        turns=tuple(_turn_rows(pair, before, after)),
        system=_system_prompts(before, after),
        prompts=tuple(prompt_changes(diffs or ())),
        prompts_note=note,
        flips=_flips(pair),
    )


def _conversation(side: StoredSide) -> Case | DataError | None:
    """The conversation of a side, why it cannot be read, or `None` where the run lacks the case."""
    if side.shown is None:
        return None
    (case,) = reread_or_faults(side.record, [side.shown.case])
    return case


def _case_side(side: StoredSide, case: Case | DataError | None) -> CaseSide:
    row = {} if side.shown is None else side.shown.case
    summary = row.get("summary") or row.get("error")
    turns = len(case.transcript.turns) if isinstance(case, Case) else 0
    return CaseSide(
        run_id=side.record.run_id,
        run_name=name_of(side.record.name),
        is_there=side.shown is not None,
        repetitions=tuple(each.case["repetition"] for each in side.executions),
        passes=sum(each.case["passed"] is True for each in side.executions),
        agent=_name_or_none(row.get("agent")),
        agent_version=_name_or_none(row.get("agent_version")),
        status=row.get("status"),
        passed=row.get("passed"),
        overall_score=row.get("overall_score"),
        summary=summary and clean_line(summary, TEXT_CHARS),
        root_cause=_name_or_none(row.get("root_cause")),
        fault=line_of(str(case)) if isinstance(case, DataError) else None,
        more_turns=max(0, turns - MAX_TURNS),
    )


def _name_or_none(text: str | None) -> str | None:
    return name_of(text) if text else None


def _notes(
    pair: StoredPair, before: Case | DataError | None, after: Case | DataError | None
) -> list[str]:
    """What a reader should know before reading, a line each."""
    notes = [*_missing_notes(pair), *_agent_notes(pair)]
    if isinstance(before, Case) and isinstance(after, Case):
        sizes = [min(MAX_TURNS, len(case.transcript.turns)) for case in (before, after)]
        if sizes[0] * sizes[1] > MAX_TURN_CELLS:
            notes.append(
                "The conversations are long: turns between their equal beginnings and ends may be "
                "paired by position."
            )
    return notes


def _missing_notes(pair: StoredPair) -> list[str]:
    notes = []
    for side, name in ((pair.baseline, "baseline"), (pair.candidate, "candidate")):
        if not side.executions:
            notes.append(f"The {name} has no such case: one conversation is all there is.")
        elif side.shown is None:
            notes.append(f"The {name} has no repetition {side.repetition} of this case.")
    return notes


def _agent_notes(pair: StoredPair) -> list[str]:
    shown = (pair.baseline.shown, pair.candidate.shown)
    rows = [execution.case for execution in shown if execution is not None]
    if len(rows) < len(shown):
        return []
    before, after = rows
    notes = []
    if before["agent"] != after["agent"]:
        agents = [name_of(row["agent"] or "unknown") for row in rows]
        notes.append(f"The agents differ: {agents[0]} before, {agents[1]} now.")
    if before["transcript_hash"] and before["transcript_hash"] == after["transcript_hash"]:
        notes.append("Both runs judged the same conversation: only the judging can differ.")
    return notes


def _flips(pair: StoredPair) -> Flips:
    ids = pair.flips
    if pair.case_id not in ids:
        return Flips(total=len(ids), place=None, previous=None, next=ids[0] if ids else None)
    place = ids.index(pair.case_id)
    return Flips(
        total=len(ids),
        place=place + 1,
        previous=ids[place - 1] if place else None,
        next=ids[place + 1] if place + 1 < len(ids) else None,
    )


def _score_changes(pair: StoredPair) -> list[ScoreChange]:
    """The scores of both runs by judge, metric and part: what moved first, then in order."""
    before, after = (_scores_by_key(side) for side in (pair.baseline, pair.candidate))
    changes = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        judge, metric, part = key
        known = new or old
        assert known is not None, "one of the runs has the score"
        changes.append(
            ScoreChange(
                judge=name_of(judge),
                metric=name_of(metric),
                part=name_of(part),
                statement=statement_of(known) if metric == OUTCOMES and part else None,
                move=_move(old, new),
                baseline=old and finding_of(old),
                candidate=new and finding_of(new),
            )
        )
    order = ("worse", "better", "other", "baseline_only", "candidate_only", "same")
    return sorted(changes, key=lambda change: (order.index(change.move), bool(change.part)))


def _scores_by_key(side: StoredSide) -> dict[tuple[str, str, str], dict[str, Any]]:
    rows = [] if side.shown is None else side.shown.scores
    return {(row["judge"], row["metric"], row["part"]): row for row in rows}


def _move(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> ScoreMove:
    if old is None or new is None:
        return "candidate_only" if old is None else "baseline_only"
    if old["value"] is not None and new["value"] is not None and old["value"] != new["value"]:
        return "worse" if new["value"] < old["value"] else "better"
    fields = ("status", "raw", "label", "passed", "value")
    return "same" if all(old[name] == new[name] for name in fields) else "other"


def _turn_rows(
    pair: StoredPair, before: Case | DataError | None, after: Case | DataError | None
) -> list[TurnRow]:
    turns = [
        case.transcript.turns[:MAX_TURNS] if isinstance(case, Case) else ()
        for case in (before, after)
    ]
    marks = [_marks_by_turn(side) for side in (pair.baseline, pair.candidate)]
    aligned = align_turns(*turns)
    changed = sum(
        places.baseline is not None
        and places.candidate is not None
        and not are_equal(turns[0][places.baseline], turns[1][places.candidate])
        for places in aligned
    )
    most_cells = min(MAX_CELLS, _WORD_CELLS // max(1, changed))
    return [_turn_row(places, turns, marks, most_cells) for places in aligned]


def _turn_row(
    places: TurnPair,
    turns: Sequence[Sequence[Turn]],
    marks: Sequence[Mapping[int, tuple[TurnMark, ...]]],
    most_cells: int,
) -> TurnRow:
    old = None if places.baseline is None else turns[0][places.baseline]
    new = None if places.candidate is None else turns[1][places.candidate]
    texts = ["" if turn is None else clean(turn.all_text(), TURN_CHARS) for turn in (old, new)]
    kind: RowKind
    if old is None or new is None:
        kind = "candidate_only" if old is None else "baseline_only"
        spans = whole_text(texts[0]), whole_text(texts[1])
    else:
        kind = "same" if are_equal(old, new) else "changed"
        spans = text_spans(texts[0], texts[1], most_cells)
    calls = call_pairs(_calls(old), _calls(new), most_cells)
    return TurnRow(
        kind=kind,
        baseline=_turn_side(old, places.baseline, spans[0], marks[0]),
        candidate=_turn_side(new, places.candidate, spans[1], marks[1]),
        calls=tuple(_shown_call(call) for call in calls),
    )


def _calls(turn: Turn | None) -> Sequence[ToolCall]:
    return () if turn is None else turn.tool_calls


def _turn_side(
    turn: Turn | None, place: int | None, text: Spans, marks: Mapping[int, tuple[TurnMark, ...]]
) -> TurnSide | None:
    if turn is None or place is None:
        return None
    result = turn.tool_result
    return TurnSide(
        number=place,
        role=turn.role,
        agent=_name_or_none(turn.agent),
        tool=name_of(result.name) if result and result.name else None,
        failed=bool(result and result.is_error),
        text=text,
        marks=marks.get(place, ()),
    )


def _shown_call(call: CallPair) -> CallPair:
    """A call with its names and values made fit for display."""
    arguments = tuple(
        ArgumentPair(
            name=name_of(argument.name),
            baseline=_shown_spans(argument.baseline),
            candidate=_shown_spans(argument.candidate),
        )
        for argument in call.arguments
    )
    return call.model_copy(update={"tool": name_of(call.tool), "arguments": arguments})


def _shown_spans(spans: Spans | None) -> Spans | None:
    if spans is None:
        return None
    return tuple(TextSpan(text=clean(s.text, TURN_CHARS), change=s.change) for s in spans)


def _marks_by_turn(side: StoredSide) -> dict[int, tuple[TurnMark, ...]]:
    marks: dict[int, list[TurnMark]] = defaultdict(list)
    for row in [] if side.shown is None else side.shown.scores:
        finding = finding_of(row)
        is_scored = finding.status == "scored" and finding.value is not None
        mark = TurnMark(
            metric=finding.metric,
            part=finding.part,
            shown=finding.shown,
            reason=finding.justification,
            failure_code=finding.failure_code,
            failing=is_scored and (finding.value or 0.0) < ACCEPTABLE / 5,
        )
        for place in finding.turns:
            marks[place].append(mark)
    return {place: tuple(of_turn) for place, of_turn in marks.items()}


def _system_prompts(
    before: Case | DataError | None, after: Case | DataError | None
) -> SystemPrompts:
    texts = [case.transcript.system if isinstance(case, Case) else None for case in (before, after)]
    if not any(texts):
        return _no_system_prompts("The transcripts carry no system prompt of the agent.")
    if not all(texts):
        name = "baseline" if texts[0] else "candidate"
        return _no_system_prompts(f"Only the transcript of the {name} carries a system prompt.")
    old, new = ((text or "")[:MAX_SYSTEM_CHARS] for text in texts)
    if texts[0] == texts[1]:
        return _no_system_prompts("The agent has the same system prompt in both runs.")
    lines = _diff_lines(old.split("\n")[:MAX_LINES], new.split("\n")[:MAX_LINES])
    note = "The system prompt of the agent differs."
    return SystemPrompts(
        note=note,
        lines=tuple(prompt_line(line) for line in lines[:MAX_SYSTEM_LINES]),
        more=len(lines[MAX_SYSTEM_LINES:]),
    )


def _diff_lines(old: Sequence[str], new: Sequence[str]) -> list[str]:
    # Two lines with the names of files come before the first hunk.
    diff: Iterable[str] = difflib.unified_diff(old, new, lineterm="")
    return list(diff)[2:]


def _no_system_prompts(note: str) -> SystemPrompts:
    return SystemPrompts(note=note, lines=(), more=0)
