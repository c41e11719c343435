"""What the comparison of one case says where runs, transcripts or agents are not the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import assizes
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import UnknownCase
from assizes.tasks.reports.data.side_by_side import side_by_side
from assizes.tasks.reports.schema.side_by_side import SideBySide
from assizes.tasks.runs.case_pairs import stored_pair
from assizes.tasks.store import Store, open_store
from tests.tasks.reports.sample import Said, run
from tests.tasks.stored_runs import put


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(StoreConfig(uri=f"duckdb:///{tmp_path}/s.duckdb"), writing=True) as store:
        put(store, run([Said("a", (5, 5)), Said("b", (5, 5)), Said("c", (5, 5))], run_id="old"))
        worse = [Said("a", (0, 1), done=False, agent="hotel"), Said("b", (5, 5))]
        put(store, run([*worse, Said("d", (1, 1), done=False)], run_id="new"))
        yield store


def shown(store: Store, case_id: str, runs: tuple[str, str] = ("old", "new")) -> SideBySide:
    return side_by_side(stored_pair(store, *runs, case_id, 0))


def test_scores_that_moved_come_first_with_both_findings(store: Store):
    pair = shown(store, "a")
    assert pair.scores[0].move == "worse"
    moves = {one.metric: one.move for one in pair.scores if not one.part}
    assert moves["tool_routing"] == "worse"
    (routing,) = (one for one in pair.scores if one.metric == "tool_routing" and not one.part)
    assert routing.baseline.shown == "excellent (5 of 5)"
    assert routing.candidate.shown == "critical fail (0 of 5)"


def test_a_case_that_did_not_change_has_no_score_that_moved(store: Store):
    assert {one.move for one in shown(store, "b").scores} == {"same"}


def test_a_case_of_one_run_only_says_so(store: Store):
    before, after = shown(store, "c"), shown(store, "d")
    assert before.notes == ("The candidate has no such case: one conversation is all there is.",)
    assert after.notes == ("The baseline has no such case: one conversation is all there is.",)
    assert not before.candidate.is_there
    assert {one.move for one in before.scores} == {"baseline_only"}
    assert {one.move for one in after.scores} == {"candidate_only"}


def test_other_agents_and_lost_transcripts_have_a_line_each(store: Store):
    pair = shown(store, "a")
    assert "The agents differ: airline before, hotel now." in pair.notes
    for side in (pair.baseline, pair.candidate):
        assert side.fault is not None
        assert "\n" not in side.fault
    assert pair.turns == ()


def test_flips_are_in_the_order_of_the_comparison_and_lead_on_from_any_case(store: Store):
    flip, other = shown(store, "a").flips, shown(store, "b").flips
    assert (flip.total, flip.place, flip.previous, flip.next) == (1, 1, None, None)
    assert (other.place, other.next) == (None, "a")


def test_runs_that_kept_no_prompts_say_so(store: Store):
    pair = shown(store, "b")
    assert pair.prompts == ()
    assert pair.prompts_note == "A run kept no texts of its prompts, so they cannot be compared."


def test_a_case_that_neither_run_has_is_unknown(store: Store):
    with pytest.raises(UnknownCase, match="neither run 'old' nor run 'new' has a case 'z'"):
        shown(store, "z")
    with pytest.raises(UnknownCase, match="no repetition 4"):
        stored_pair(store, "old", "new", "a", 4)


def test_repetitions_of_both_runs_are_counted(tmp_path: Path):
    with open_store(StoreConfig(uri=f"duckdb:///{tmp_path}/r.duckdb"), writing=True) as store:
        twice = [replace(Said("a", (5, 5)), repetition=number) for number in range(2)]
        put(store, run(twice, run_id="old"))
        put(store, run([twice[0], replace(twice[1], done=False, levels=(0, 0))], run_id="new"))
        pair = side_by_side(stored_pair(store, "old", "new", "a", 1))
        assert (pair.baseline.passes, pair.candidate.passes) == (2, 1)
        assert pair.candidate.repetitions == (0, 1)
        assert pair.flips.place == 1


def test_a_turn_has_the_agent_that_spoke_on_the_page_too(tmp_path: Path):
    def chat(last: str) -> dict[str, Any]:
        messages = [
            {"role": "user", "content": "Where is order 77?"},
            {"role": "assistant", "name": "planner<b>", "content": "Ask the clerk."},
            {"role": "assistant", "name": last, "content": "It is late."},
        ]
        return {"id": "c-1", "messages": messages}

    uri = tmp_path / "s.duckdb"
    runs = []
    for last in ("clerk", "manager"):
        file = tmp_path / f"{last}.jsonl"
        file.write_text(json.dumps(chat(last)) + "\n")
        runs.append(assizes.evaluate(file, store=uri, name="chats").run_id)
    with open_store(str(uri)) as store:
        pair = side_by_side(stored_pair(store, *runs, "c-1", 0))
    agents = [
        [row.baseline and row.baseline.agent, row.candidate and row.candidate.agent]
        for row in pair.turns
    ]
    assert agents[:2] == [[None, None], ["planner<b>", "planner<b>"]]
    assert {agent for row in agents[2:] for agent in row} >= {"clerk", "manager"}
    assert "same" not in {row.kind for row in pair.turns[2:]}  # the text is, the speaker is not
