"""Names of causes: by a failure code where one is clear, else by words."""

from __future__ import annotations

import polars as pl
import pytest

from assizes.judge.causes.naming import cause_name, name_of_code


def codes(**counts: int) -> pl.Series:
    names = [None if code == "none" else code for code, n in counts.items() for _ in range(n)]
    return pl.Series("code", names, dtype=pl.String)


@pytest.mark.parametrize(
    ("members", "others", "name"),
    [
        (codes(wrong_parameter=6, none=4), codes(verbose=5), "wrong parameter"),
        (codes(wrong_parameter=4, none=6), codes(), None),  # fewer than half have it
        (codes(wrong_parameter=6), codes(wrong_parameter=7), None),  # more of it are elsewhere
        (codes(unspecified_failure=6), codes(), None),  # says nothing
        (codes(none=6), codes(), None),
        (codes(taken_name=6), codes(), None),
    ],
)
def test_a_code_names_a_cause_where_it_is_clear(
    members: pl.Series, others: pl.Series, name: str | None
):
    assert name_of_code(members, others, {"taken name"}) == name


def test_a_name_of_words_does_not_end_with_a_negation():
    own = ["the calls made are not the expected ones", "the calls made are not the usual ones"]
    assert cause_name(own, ["the expected ones failed"]).split()[-1] not in {"not", "no", "never"}
    kept = ["the customer was not asked", "the customer was not asked twice"]
    assert "not asked" in cause_name(kept, ["something else failed"])
