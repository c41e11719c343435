"""A cause is crossed with versions, prompts, tags and tools; chance alone rarely names one."""

from __future__ import annotations

import json
import random
from typing import Any

import polars as pl
import pytest

from assizes.judge.causes.origins import circumstances, origin_line, related
from assizes.judge.causes.presence import JudgedCases

SCHEMA = {
    **dict.fromkeys(("case_id", "agent", "agent_version", "system_prompt_hash"), pl.String),
    **{
        "tags": pl.String,
        "cluster": pl.String,
        "tools": pl.List(pl.String),
        "repetition": pl.Int64,
    },
}


def cases_of(count: int, **columns: Any) -> pl.DataFrame:
    """Cases c000 and so on; a column is a function of the number of the case."""
    rows = [
        {"case_id": f"c{n:03d}", "repetition": 0, "tags": "{}"}
        | {name: value(n) for name, value in columns.items()}
        for n in range(count)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def shown(numbers: Any, cause_id: str = "x") -> pl.DataFrame:
    ids = [f"c{n:03d}" for n in numbers]
    rows = {"case_id": ids, "repetition": [0] * len(ids), "cause_id": [cause_id] * len(ids)}
    kinds = {"case_id": pl.String, "repetition": pl.Int64, "cause_id": pl.String}
    return pl.DataFrame(rows, schema=kinds)


def crossed(cases: pl.DataFrame, failures: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    judged = JudgedCases(cases.select("case_id", "repetition", "cluster"))
    return related(judged, failures, circumstances(cases, judged.ids), 0.05)


@pytest.mark.parametrize(
    ("column", "value", "field"),
    [
        ("agent_version", lambda n: "14" if n < 40 else "13", "agent_version 14"),
        ("system_prompt_hash", lambda n: "ab" if n < 40 else None, None),
        ("system_prompt_hash", lambda n: "ab" if n < 40 else "cd", "system_prompt_hash ab"),
        ("tags", lambda n: json.dumps({"lang": "de" if n < 40 else "en"}), "tags.lang de"),
        ("tools", lambda n: ["find", "pay"] if n < 40 else ["find"], "tool pay"),
        ("agent_version", lambda n: f"own {n}", None),
    ],
)
def test_a_cause_names_what_its_cases_share(column: str, value: Any, field: str | None):
    origins = crossed(cases_of(200, **{column: value}), shown(range(0, 36, 4)))
    if field is None:
        assert origins == {}
        return
    (row,) = origins["x"]
    assert origin_line(row) == f"{field}: 9 of 40 cases of it, 0 of 160 others"
    assert row["q_value"] < 0.05


def test_cases_of_one_cluster_count_as_one():
    labels = {"agent_version": lambda n: "14" if n < 100 else "13"}
    failures = shown(range(10))
    assert crossed(cases_of(200, **labels), failures)
    clustered = cases_of(200, **labels, cluster=lambda n: f"g{n // 10}")
    assert crossed(clustered, failures) == {}


def test_what_makes_a_cause_rarer_is_not_named():
    versions = cases_of(200, agent_version=lambda n: "14" if n < 40 else "13")
    origins = crossed(versions, shown(range(40, 200, 2)))
    assert [row["value"] for row in origins["x"]] == ["13"]


@pytest.mark.full
@pytest.mark.promised
@pytest.mark.parametrize("size", [1, 5])
def test_without_a_relation_one_run_in_twenty_names_one(size: int):
    draw, named = random.Random(11), 0
    for _ in range(80):
        clusters = [draw.choice(["12", "13", "14"]) for _ in range(200)]
        cases = cases_of(
            200,
            agent_version=lambda n, versions=clusters: versions[n // size],
            tags=lambda n: json.dumps({"lang": draw.choice(["de", "en", "fr"])}),
            tools=lambda n: draw.sample(["find", "pay", "send", "list"], 2),
            cluster=lambda n: f"g{n // size}",
        )
        failures = []
        for cause in range(8):
            hit = {g for g in range(200) if draw.random() < 0.06}
            failures.append(shown([n for n in range(200) if n // size in hit], f"x{cause}"))
        named += bool(crossed(cases, pl.concat(failures)))
    assert named <= 10  # of 80 at 5 %, binomial at 99.5 %


def test_a_planted_relation_is_found():
    draw, found = random.Random(12), 0
    for _ in range(50):
        cases = cases_of(200, agent_version=lambda n: "14" if n % 5 == 0 else "13")
        hits = [n for n in range(200) if draw.random() < (0.3 if n % 5 == 0 else 0.02)]
        origins = crossed(cases, pl.concat([shown(hits), shown(range(0, 200, 9), "y")]))
        found += [row["value"] for row in origins.get("x", [])] == ["14"]
    assert found >= 45
