"""Values of a query that Polars cannot hold, or Python cannot show, come back as text."""

from __future__ import annotations

from typing import Any

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import query_store
from tests.tasks.store.test_sql import fill

MOST = 2**127 - 1


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> StoreConfig:
    store = StoreConfig(uri=f"duckdb:///{tmp_path_factory.mktemp('types')}/s.duckdb")
    fill(store)
    return store


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("interval 1 day", "1 day"),
        ("'01:02:03+02'::timetz", "01:02:03+02"),
        ("time_ns '01:02:03.123456789'", "01:02:03.123456789"),
        ("time '24:00:00'", "24:00:00"),
        ("'1010'::bit", "1010"),
        ("9999999999999999999999999999999999999999::bignum", "9" * 40),
        ("union_value(n := 1)", "1"),
        ("1::variant", "1"),
        ("date 'infinity'", "infinity"),
        ("timestamp '-infinity'", "-infinity"),
        ("timestamptz '20000-01-01 00:00:00+00'", "20000-01-01 00:00:00+00"),
        ("date '0044-03-15 (BC)'", "0044-03-15 (BC)"),
        (f"{MOST}::hugeint", MOST),
        (f"{-MOST}::hugeint", -MOST),
        (f"{2**128 - 1}::uhugeint", 2**128 - 1),
        (f"[{MOST}::hugeint, 2]", [str(MOST), "2"]),
        ("[interval 1 day, null]", ["1 day", None]),
        ("[[interval 1 day]]", [["1 day"]]),
        ("[interval 1 day]::interval[1]", ["1 day"]),
        ("""{'a"b': interval 1 day, 'n': 2, 'x': null}""", {'a"b': "1 day", "n": 2, "x": None}),
        ("row(1, interval 1 day)", {"element1": 1, "element2": "1 day"}),
        ("[date 'infinity', date '2026-01-02']", ["infinity", "2026-01-02"]),
        ("map {'a': interval 1 day}", {"a": "1 day"}),
        ("map {[1]: 'x'}", {"[1]": "x"}),
        ("map {date '2026-01-02': 1}", {"2026-01-02": 1}),
    ],
)
def test_what_polars_cannot_hold_is_text_and_keeps_its_shape(
    filled: StoreConfig, expression: str, value: Any
):
    frame = query_store(filled, f"""select 1 as first, {expression} as "the ""C"" " """)
    assert frame.rows() == [(1, value)]
    assert frame.columns == ["first", 'the "C" ']


def test_other_types_stay_as_they_are(filled: StoreConfig):
    frame = query_store(
        filled,
        "select 1::utinyint a, 1.5 b, date '2026-01-02' c, [timestamp '2026-01-02'] d, sum(1) e, "
        "uuid() f, 'x'::enum('x') g, '\\xAA'::blob h, null i, {'a': [1]} j, time '01:02:03' k",
    )
    assert [str(dtype).partition("(")[0] for dtype in frame.dtypes] == [
        *("UInt8", "Decimal", "Date", "List", "Decimal", "String", "Categorical", "Binary"),
        *("Null", "Struct", "Time"),
    ]
