"""Five hundred random corpora with planted faults: everything is accounted for, in every one."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.judge.errors import Unreconciled
from assizes.judge.summary.summary import reconcile
from tests.soak.corpora import held

CORPORA = 500


@pytest.mark.full
def test_every_record_of_five_hundred_corpora_is_accounted_for(tmp_path: Path):
    found = [held(tmp_path / str(seed), seed) for seed in range(CORPORA)]

    assert {seed: one.wrong for seed, one in enumerate(found) if one.wrong} == {}
    assert sum(one.judged for one in found) > CORPORA
    assert sum(one.quarantined for one in found) > CORPORA


@pytest.mark.parametrize(
    ("total", "parts"), [(3, {"judged": 2}), (1, {"judged": 2, "lost": -1}), (1, {})]
)
def test_an_equation_that_does_not_hold_is_said(total: int, parts: dict[str, int]):
    with pytest.raises(Unreconciled) as raised:
        reconcile("records read", total, parts)

    assert str(raised.value).startswith(f"counts do not reconcile: {total} records read, but ")
    assert raised.value.exit_code == 4
