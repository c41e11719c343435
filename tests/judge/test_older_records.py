"""Lines about stored records of earlier versions: runs, incidents, anchors, prompts."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.config.transcripts import PrivacyConfig
from assizes.judge.engine.ask_records import replay_hearing
from assizes.judge.engine.hearings import Engine
from assizes.judge.errors import SchemaVersion, UnknownRun
from assizes.judge.heuristic.answers import HeuristicModel
from assizes.judge.history.anchors import Attribution, Change
from assizes.judge.history.trends import SHOWN_SERIES, Incident
from assizes.judge.models.model import ScriptedModel
from assizes.judge.protocol import QueryResult, SqlTable
from assizes.judge.redaction.redaction import secrets_only
from assizes.judge.rows import KEYS, LATER_COLUMNS, TABLES, add_later_columns, missing_columns
from tests.builders import agent, case, user
from tests.judge.engine.levels import CASE, Asking, engine, priced
from tests.judge.forecast.test_forecast import Looking

CHANGE = Change(mean=-3.25, se=1.0, p=0.004, cases=40, paired=True)


@pytest.mark.parametrize(
    ("cause", "anchors", "data", "sentence"),
    [
        ("unknown", None, None, "anchors: there is nothing to compare with yet"),
        ("judge", CHANGE, None, "the JUDGE CHANGED: anchors -3.2 points (p 0.004, 40 cases); no base"),
        ("both", CHANGE, CHANGE, "the JUDGE CHANGED on the anchors, but this run changed in"),
        ("agent", CHANGE, CHANGE, "the judge did not change on the anchors, so the agent changed: "
         "anchors -3.2 points (p 0.004, 40 cases); this run -3.2"),
        ("none", CHANGE, None, "neither the judge nor the agent changed: anchors -3.2"),
    ],
)  # fmt: skip
def test_whose_change_it_is_is_one_sentence(cause, anchors, data, sentence):
    attribution = Attribution(cause=cause, anchors=anchors, data=data, against=None)
    assert attribution.sentence().startswith(sentence)
    assert attribution.judge_moved is (cause in ("judge", "both"))


def incident(**rest) -> str:
    fields = {
        "incident": "i1",
        "side": "worse",
        "state": "new",
        "series": ("pass_rate",),
        "opened_run": "r1",
        "opened_at": datetime(2026, 3, 9, tzinfo=UTC),
        "runs": 4,
        "exploratory": False,
    }
    return Incident(**fields | rest).line()


def test_an_incident_is_one_line():
    assert incident() == "NEW worse [i1]: pass_rate; since 2026-03-09 (run r1), 4 runs"
    many = tuple(f"s{n}" for n in range(SHOWN_SERIES + 2))
    assert f"s{SHOWN_SERIES - 1} and 2 more;" in incident(series=many)
    over = incident(
        side="better",
        state="resolved",
        resolved_at=datetime(2026, 3, 12, tzinfo=UTC),
        exploratory=True,
    )
    assert over.startswith("resolved better [i1]")
    assert over.endswith("4 runs, resolved 2026-03-12; in slices only, exploratory")


def test_a_run_that_is_not_there_is_answered_with_some_that_are():
    assert str(UnknownRun.in_store("x", "s3://b", [f"r{n}" for n in range(9)])) == (
        "no run 'x' in s3://b; it holds r0, r1, r2, r3, r4 and 4 more (`assizes runs` lists them)"
    )
    assert str(UnknownRun.in_store("x", "here", [])) == "no run 'x' in here; it holds no run at all"
    assert "schema version 9, this assizes reads version 1" in str(
        SchemaVersion.mismatch("s", 9, 1)
    )


@pytest.mark.parametrize("table", sorted(TABLES))
def test_rows_of_an_older_store_have_the_later_columns_and_null_in_them(table):
    later = LATER_COLUMNS.get(table, ())
    older = [name for name in TABLES[table] if name not in later]
    rows = pl.DataFrame(schema={name: TABLES[table][name] for name in older})
    assert set(missing_columns(table, older)) == set(later)
    assert add_later_columns(table, rows).schema == {
        **rows.schema,
        **{n: TABLES[table][n] for n in later},
    }
    assert set(KEYS[table]) <= set(older)


def test_what_is_sent_raw_still_hides_keys():
    key = "sk-proj-" + "a1B2" * 10
    assert secrets_only(PrivacyConfig()).redact_text(f"ada@example.com {key}") == (
        "ada@example.com [SECRET_1]"
    )
    assert key in secrets_only(PrivacyConfig(redact=())).redact_text(key)


async def rows_of(judge, model, asked_case=CASE):
    hearing = await model.hear(judge, asked_case)
    return [{name: getattr(ask, name) for name in ask.__dataclass_fields__} for ask in hearing.asks]


async def test_a_reply_that_repeats_the_id_of_an_earlier_version_is_read():
    judge = Asking()
    (row,) = await rows_of(judge, engine(ScriptedModel([priced(4)])))
    (bare,) = await replay_hearing(judge, CASE, [row])
    assert bare.attempt.reply is None
    digest = row["prompt_hash"]
    for reply_id in (digest[-12:], f"{int(digest, 16):039d}", bare.ask.reply_id):
        reply = f'{{"reply_id": "{reply_id}", "score": 4}}'
        (replayed,) = await replay_hearing(judge, CASE, [{**row, "reply": reply}])
        assert replayed.attempt.reply.score == 4


class Clerk:
    def __init__(self):
        self.asked = []

    async def look_up(self, query):
        self.asked.append(query)
        return QueryResult((SqlTable("SELECT 1", ("n",), ((1,),), 1),))


class LookingThenAsking(Looking):
    """A judge that sends a database query first and an ask afterwards."""

    def judge(self, case):
        scores = yield from super().judge(case)
        if scores[0].status == "failed":
            return scores
        return (yield from Asking().judge(case))


async def test_what_was_looked_up_is_looked_up_again_before_the_questions_behind_it():
    (row,) = await rows_of(Asking(), engine(ScriptedModel([priced(4)])))
    clerk = Clerk()
    (replayed,) = await replay_hearing(LookingThenAsking(), CASE, [{**row, "round": 1}], clerk)
    assert replayed.exact
    assert len(clerk.asked) == 1
    assert await replay_hearing(LookingThenAsking(), CASE, [{**row, "round": 1}]) == []


async def test_an_offline_reply_repeats_no_id():
    (judge,) = resolve_judges(JudgeConfig()).judges
    talk = case(user("Book a table."), agent("Done."))
    rows = await rows_of(judge, Engine(HeuristicModel(), LimitsConfig()), talk)
    (replayed,) = await replay_hearing(judge, talk, rows)
    assert replayed.attempt.reply is not None
