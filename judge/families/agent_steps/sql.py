"""The SQL judge: do the agent's statements return what the expected ones return?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from assizes.judge.case import Case, Expected
from assizes.judge.evidence.sql_results import BOTH_EMPTY, compare_results, result_text
from assizes.judge.evidence.step_kinds import SQL_ARGUMENTS, SqlCall, sql_calls
from assizes.judge.evidence.steps import AgentStep, requests, steps_of
from assizes.judge.families.agent_steps import step_scores
from assizes.judge.families.agent_steps.base_judge import EvaluationStrategy
from assizes.judge.families.agent_steps.step_scores import (
    StepFinding,
    StepJudge,
    StepOptions,
    StepReply,
    SubFinding,
)
from assizes.judge.prompts.prompt_texts import numbered_list
from assizes.judge.protocol import NoReply, Query, QueryResult, SqlTable, Steps

WEIGHTS: Final = {"result_match": 0.7, "efficiency": 0.3}
"""Shares of the sub-scores in the headline score."""

SYSTEM: Final = f"""\
You judge the SQL that an AI agent ran to answer its user. You see the user's requests, the expected statements, the agent's SQL tool calls, and how far their results agree.

# Rules
{step_scores.RULES}
- result_match: how far the agent's statements find what the expected ones find. Results count, not wording: aliases, the order of columns, joins instead of subqueries make no difference. A date written out and a date computed are the same when the results are. INSERT, UPDATE and DELETE are compared by their effect. With several expected statements each counts alike.
- The comparison of results was made by a program on the same data: take "equal" as a fact.
- efficiency: 1 when nothing was done in vain. Less for SELECT * where few columns are needed, needless joins or subqueries, rows filtered outside the database, statements that failed or were repeated.

{step_scores.reply_rule(*WEIGHTS)}"""


class SqlOptions(StepOptions):
    """Options of the SQL judge."""

    tools: tuple[str, ...] = Field(
        default=(),
        description="The tools that run SQL. Empty: they are recognised by their arguments.",
    )
    arguments: tuple[str, ...] = Field(
        default=SQL_ARGUMENTS,
        description="The arguments of those tools, and the members of their results, that hold SQL.",
    )
    permute_columns: bool = Field(
        default=True, description="Results with the same columns in another order are equal."
    )
    float_tolerance: float = Field(
        default=1e-06,
        ge=0,
        description="The largest difference by which two numbers are still equal.",
    )


class SqlReply(StepReply):
    """What the model replies."""

    result_match: SubFinding
    efficiency: SubFinding


@dataclass(frozen=True, slots=True)
class StatementMatch:
    """An expected statement, and the statement of the agent whose result agrees with it best."""

    expected: str
    actual: str | None  # `None`: there was none to compare
    equal: bool | None  # `None`: no results to compare
    score: float | None  # 0..1; `None` as above
    reason: str


@dataclass(frozen=True, slots=True)
class SqlEvidence:
    """The facts of the SQL judge's ask."""

    requests: tuple[str, ...]
    expected: tuple[str, ...]
    calls: tuple[SqlCall, ...]
    matches: tuple[StatementMatch, ...]
    failed: tuple[str, ...] = ()  # statements of the agent that did not run


class SqlJudge(StepJudge):
    """Compares the agent's SQL with the expected statements by their results."""

    name = "sql"
    version = "2"  # goes up with the rules
    strategy = EvaluationStrategy.SINGLE_STEP
    needs = ("expected.sql",)
    description = "0.7 x result match + 0.3 x efficiency of the agent's SQL."
    prompts = (SYSTEM,)
    reply = SqlReply
    weights = WEIGHTS
    options: SqlOptions

    def missing_expectation(self, expected: Expected) -> str | None:
        """The reason to skip a case whose `expected.sql` has no statement; else `None`."""
        return None if _statements(expected) else "no expected.sql"

    def evaluate(self, case: Case) -> Steps[StepFinding]:
        """The results of both sides, then one ask; negative cases and missing SQL take no ask."""
        expected = _statements(case.expected)
        calls = sql_calls(steps_of(case.transcript), self.options.tools, self.options.arguments)
        user_requests = requests(case.transcript)
        details: dict[str, Any] = {
            "question": user_requests[-1] if user_requests else "",
            "expected_sql": step_scores.short_texts(expected),
            "extracted_sql": step_scores.short_texts([call.statement for call in calls]),
        }
        if any(map(step_scores.is_null, expected)):
            return step_scores.negative_case_finding(
                _steps(calls),
                details["extracted_sql"],
                details,
                fault="Should not run SQL but did",
                merit="Rightly ran no SQL",
            )
        if not calls:
            reason = "no SQL: expected statements, but the agent ran none"
            return StepFinding(0.0, reason, details)
        return (yield from self._compare_and_ask(case, expected, calls, details))

    def _compare_and_ask(
        self,
        case: Case,
        expected: tuple[str, ...],
        calls: tuple[SqlCall, ...],
        details: dict[str, Any],
    ) -> Steps[StepFinding]:
        agent_statements = tuple(call.statement for call in calls)[: step_scores.MAX_CALLS]
        # Both sides run on the database of the case; the model reads what code compares as a fact.
        tables = yield from _tables(case.expected.database, expected, agent_statements)
        failed: tuple[str, ...] = ()
        if isinstance(tables, NoReply):
            results = f"not executed: {tables.reason}"
            matches = [_unknown(statement, results) for statement in expected]
        else:
            expected_tables, agent_tables = tables
            matches = self._matches(expected, expected_tables, agent_tables)
            failed = tuple(table.statement for table in agent_tables if table.error is not None)
            results = "\n\n".join(
                f"{side} {number}:\n{result_text(table)}"
                for side, shown in (("Expected", expected_tables), ("Agent's", agent_tables))
                for number, table in enumerate(shown, 1)
            )
        evidence = SqlEvidence(requests(case.transcript), expected, calls, tuple(matches), failed)
        steps, match_lines = _steps(calls), [_match_line(match) for match in matches]
        sections = (
            ("User requests", numbered_list(evidence.requests)),
            ("Expected SQL, in order", numbered_list(expected)),
            ("Agent's SQL tool calls", step_scores.shown_steps(steps)),
            ("Results on the same data", results),
            ("Comparison of results", "\n".join(match_lines)),
        )
        details["result_evidence"] = match_lines
        shares = [match.score or 0.0 for match in matches if _is_telling(match)]
        counted = {"result_match": round(math.fsum(shares) / len(shares), 9)} if shares else {}
        return (yield from self._ask_model(evidence, sections, details, steps, counted))

    def _matches(
        self,
        expected: Sequence[str],
        expected_tables: Sequence[SqlTable],
        agent_tables: Sequence[SqlTable],
    ) -> list[StatementMatch]:
        """For each expected statement the best match; no statement of the agent serves twice."""
        matches: dict[int, StatementMatch] = {}  # place among the expected -> match
        free = dict(enumerate(agent_tables))
        # Equal results first, so that no weaker match takes a statement from an equal one.
        for exact in (True, False):
            for place, table in enumerate(expected_tables):
                if place in matches:
                    continue
                best_place, match = self._best(expected[place], table, free)
                if match.equal or not exact:
                    matches[place] = match
                    free.pop(best_place, None)  # -1: nothing was used up
        return [matches[place] for place in range(len(expected))]

    def _best(
        self, statement: str, expected_table: SqlTable, free: dict[int, SqlTable]
    ) -> tuple[int, StatementMatch]:
        if expected_table.error is not None:
            return -1, _unknown(statement, f"the expected statement failed: {expected_table.error}")
        if not free:
            return -1, StatementMatch(statement, None, False, 0.0, "no statement left to compare")
        permute, tolerance = self.options.permute_columns, self.options.float_tolerance
        results = {
            place: compare_results(
                expected_table, table, permute_columns=permute, float_tolerance=tolerance
            )
            for place, table in free.items()
        }
        # The rows in a wrong order have score 1.0, too.
        place, best = max(results.items(), key=lambda item: (item[1].equal is True, item[1].score))
        score = None if best.equal is None else best.score
        return place, StatementMatch(
            statement, free[place].statement, best.equal, score, best.reason
        )


def _statements(expected: Expected) -> tuple[str, ...]:
    texts = (expected.sql,) if isinstance(expected.sql, str) else expected.sql or ()
    return tuple(text.strip() for text in texts if text.strip())


_Tables = tuple[SqlTable, ...]


def _tables(
    database: str | None, expected: tuple[str, ...], agent_statements: tuple[str, ...]
) -> Steps[tuple[_Tables, _Tables] | NoReply]:
    """The expected results and the agent's, or the failure of the first side that has none."""
    if database is None:
        return NoReply("no_database", "the case names no database")
    # Two queries are two copies: a write of one side must not change what the other side reads.
    answers: Sequence[QueryResult | NoReply] = yield [
        Query(database, expected),
        Query(database, agent_statements),
    ]
    expected_result, agent_result = answers
    if isinstance(expected_result, NoReply):
        return expected_result
    if isinstance(agent_result, NoReply):
        return agent_result
    return expected_result.tables, agent_result.tables


def _match_line(match: StatementMatch) -> str:
    words = {True: "equal", False: "different", None: "not compared"}[match.equal]
    score = "" if match.score is None else f", score {match.score:.2f}"
    reason = " ".join(match.reason.split())
    return f"{words}{score}: {step_scores.shorten_text(reason, step_scores.MAX_DETAIL_CHARS)}"


def _is_telling(match: StatementMatch) -> bool:
    """Whether the comparison of two query results can cast doubt on a model's score.

    It cannot where there is no score, nor where both results are empty, as many wrong statements
    return no rows either. It also cannot where all compared rows are equal but the results are not
    known to be: only the first rows were compared, or the rows come in another order.
    """
    is_weak = match.reason == BOTH_EMPTY or (match.score == 1 and not match.equal)
    return match.score is not None and not is_weak


def _unknown(statement: str, reason: str) -> StatementMatch:
    return StatementMatch(statement, None, None, None, reason)


def _steps(calls: Sequence[SqlCall]) -> tuple[AgentStep, ...]:
    """The steps that ran the statements, each once: one call may run several statements."""
    return tuple({id(call.step): call.step for call in calls}.values())
