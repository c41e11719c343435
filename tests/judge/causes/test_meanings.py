"""Reasons that share no word are one cause where an encoder says that they mean the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from assizes.judge.causes.edited_identity import find_edited_causes
from assizes.judge.causes.edits import CauseEdits
from assizes.judge.causes.grouping import near_pairs
from assizes.judge.causes.identity import find_causes
from assizes.judge.causes.meanings import BACKGROUND, Meanings
from tests.judge.causes.meaning_of_topics import encode_topics
from tests.judge.causes.test_causes import NOTHING_KNOWN, REFUND, TONE, TOTAL, failed, ids

OTHER_WORDS = (
    "Es gibt keine Erstattung.",
    "Das Geld wird nicht bezahlt, obwohl zugesagt.",
    "They reimburse nothing.",
    "Money back cannot happen here.",
)


def cases_of(found: pl.DataFrame) -> list[set[str]]:
    causes = found.drop_nulls("cause_id").partition_by("cause_id")
    return sorted((set(cause["case_id"]) for cause in causes), key=min)


def test_reasons_with_other_words_are_one_cause_by_their_meaning_alone():
    rows = pl.concat([failed(OTHER_WORDS), failed(TONE, 4), failed(TOTAL, 8)])
    by_words = find_causes(rows, NOTHING_KNOWN, "run-1").failures
    assert cases_of(by_words) == [ids(4, 4), ids(8, 4)]
    by_meaning = find_causes(rows, NOTHING_KNOWN, "run-1", encode_topics).failures
    assert cases_of(by_meaning) == [ids(0, 4), ids(4, 4), ids(8, 4)]


def test_a_cause_known_by_words_is_found_again_by_meaning_and_the_other_way():
    encoders = (None, encode_topics)
    for before, after in (encoders, encoders[::-1]):
        first = find_causes(failed(REFUND), NOTHING_KNOWN, "run-1", before).failures
        known = first.select(NOTHING_KNOWN.columns)
        rows = pl.concat([failed(REFUND[:3], 20), failed(TONE, 30)])
        found = find_causes(rows, known, "run-2", after).failures
        assert set(found.head(3)["cause_id"]) == set(first["cause_id"])
        assert found.tail(4)["cause_id"].n_unique() == 1
        assert found["cause_id"][0] != found["cause_id"][-1]


def test_edits_see_the_causes_that_meaning_finds():
    rows = pl.concat([failed(OTHER_WORDS), failed(TONE, 4)])
    found = find_edited_causes(rows, NOTHING_KNOWN, "run-1", CauseEdits(), encode_topics).failures
    assert cases_of(found) == [ids(0, 4), ids(4, 4)]


def test_reasons_without_letters_mean_nothing():
    rows = failed(["...", "!!!", "12", "34", "56"])
    assert cases_of(find_causes(rows, NOTHING_KNOWN, "run-1", encode_topics).failures) == []


def test_pairs_that_are_one_group_by_meaning_are_not_asked_about():
    same = pl.concat(
        [
            failed(OTHER_WORDS).with_columns(cause_id=pl.lit("german")),
            failed(REFUND, 4).with_columns(cause_id=pl.lit("english")),
            failed(TONE, 8).with_columns(cause_id=pl.lit("tone")),
        ]
    )
    by_words = near_pairs(same, least=-1.0)
    by_meaning = near_pairs(same, least=-1.0, encoder=encode_topics)
    assert ("german", "english") in by_words
    assert ("german", "english") not in by_meaning


def encode_alike(texts: Sequence[str], /) -> np.ndarray:
    """Vectors that all point nearly the same way, as those of real encoders do for reasons."""
    vectors = encode_topics(texts) + 3
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_vectors_have_length_1_and_lack_what_all_have_in_common():
    texts = [*REFUND, *TONE]
    raw, vectors = encode_alike(texts), Meanings(encode_alike).vectors(texts)
    assert raw[0] @ raw[4] > 0.9
    assert (vectors**2).sum(axis=1) == pytest.approx(1, abs=1e-4)
    assert vectors[0] @ vectors[1] > 0.8
    assert vectors[0] @ vectors[4] < 0.5


def test_vectors_of_one_reason_and_of_none_are_vectors_too():
    meanings = Meanings(encode_topics)
    (alone,) = meanings.vectors(REFUND[:1])
    assert (alone**2).sum() == pytest.approx(
        1, abs=1e-4
    )  # the background keeps it from being its own mean
    assert meanings.vectors([]).shape == (0, alone.size)
    assert len(set(BACKGROUND)) == len(BACKGROUND)
