"""A search in a run: which turns it finds, and what it shows of them."""

from __future__ import annotations

import pytest

from assizes.judge.config.judging import estimated_tokens
from assizes.judge.excerpts.run_search import MOST_HITS, search_hits, search_text, word_share

BLOCKS = [
    "[0] user: Send the parcel to Lisbon.",
    "[1] assistant: I ask for the parcel.",
    "[2] tool track: " + "nothing here. " * 300 + "Lisbon parcel lost. " + "nothing there. " * 300,
    "[3] assistant: The parcels of others arrived.",
]


def test_rare_words_weigh_more_than_frequent_ones():
    blocks = [*(f"[{n}] user: parcel" for n in range(9)), "[9] user: Lisbon"]
    assert search_hits(blocks, "parcel Lisbon")[0].turn == 9


def test_a_turn_with_the_very_words_comes_first():
    blocks = ["[0] user: lost parcel, lost", "[1] user: a parcel lost"]
    assert [hit.turn for hit in search_hits(blocks, "Parcel  LOST")] == [1, 0]


def test_a_word_is_found_in_its_other_forms():
    assert search_hits(["[0] user: it was refunded"], "the refund")[0].turn == 0


def test_an_excerpt_shows_the_words_in_the_middle_of_a_long_turn():
    shown = search_text(BLOCKS, "Lisbon lost", 300)
    assert "Lisbon parcel lost." in shown
    assert "[2] tool track: ... " in shown
    assert estimated_tokens(shown) <= 300


def test_a_search_without_hits_says_so():
    assert (
        search_text(BLOCKS, "unicorn", 300) == 'search "unicorn": no turn holds any of these words'
    )


@pytest.mark.parametrize("query", ["", " ", ".*(((", "a" * 100_000, "\x00", "parcel " * 5000])
def test_whatever_is_searched_the_answer_is_bounded(query):
    assert estimated_tokens(search_text(BLOCKS, query, 200)) <= 200


def test_only_the_best_turns_are_shown_in_the_order_of_the_run():
    blocks = [f"[{n}] user: parcel" for n in range(30)]
    lines = search_text(blocks, "parcel", 4000).splitlines()
    assert lines[0] == f'search "parcel": 30 turns, the best {MOST_HITS} shown'
    assert lines[1:] == blocks[:MOST_HITS]


def test_the_share_of_words():
    assert word_share("a parcel to Lisbon", "the parcel to Lisbon") == pytest.approx(3 / 4)
    assert word_share("anything", "") == 0
