"""Selection and ground truth in a plan: every record is counted, none twice."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from assizes.judge.config.transcripts import GroundTruthConfig, PrivacyConfig, TranscriptsConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import native_line
from assizes.tasks.intake.plan import Plan, ScanPolicy
from assizes.tasks.intake.preprocessing import DEFAULT_PREPROCESSOR, CasePreprocessor, ground_truth
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.sources.spool import Spool
from tests.builders import agent, case, user


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sixty cases in two objects, two repetitions each; a twin, a broken line."""
    cases = [
        case(
            user("Hi"),
            agent("Hello"),
            case_id=f"c{n}",
            repetition=k,
            tags={"channel": "voice" if n % 3 == 0 else "chat"},
        )
        for n in range(60)
        for k in range(2)
    ]
    lines = [native_line(one) for one in cases]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines[:70]) + lines[3] + b"{broken\n")
    (tmp_path / "b.jsonl").write_bytes(b"".join(lines[70:]))
    return tmp_path


def planned(
    folder: Path, treatment: CasePreprocessor = DEFAULT_PREPROCESSOR, **selection
) -> tuple[Plan, list[tuple[str, int]]]:
    config = TranscriptsConfig(uri=str(folder), **selection)
    with Spool() as spool:
        plan = plan_intake(config, 7, spool, policy=ScanPolicy(preprocessor=treatment))
        records = [
            one for shard in plan.shards for one in read_shard(shard, config, spool, treatment)
        ]
    found = [(one.case.case_id, one.case.repetition) for one in records if one.case is not None]
    assert Plan.from_dict(plan.as_dict()) == plan
    assert len(found) == len(set(found)) == plan.due
    return plan, found


@pytest.mark.parametrize(
    ("selection", "due"),
    [
        ({}, 120),
        ({"filter": "tags.channel = 'voice'"}, 40),
        ({"filter": "repetition = 0 AND turn_count = 2"}, 60),
        ({"number": 10}, 20),
        ({"number": 10, "stratify_by": ("channel",)}, 20),
        ({"per_stratum": 4, "stratify_by": ("channel",)}, 16),
        ({"sample": 0.1, "stratify_by": ("channel",)}, 12),
        ({"number": 5, "always": ("c1", "c7")}, 14),
        ({"number": 10, "limit": 3}, 3),
    ],
)
def test_all_repetitions_of_a_case_are_drawn_together_and_the_counts_add_up(
    folder: Path, selection, due
):
    plan, found = planned(folder, **selection)
    assert (plan.read, plan.due, plan.rejected) == (122, due, 1)
    assert plan.read == plan.due + plan.duplicates + plan.rejected + plan.unselected
    ids = [case_id for case_id, _ in found]
    if "limit" not in selection and "filter" not in selection:
        assert all(ids.count(one) == 2 for one in ids)
    assert set(selection.get("always", ())) <= set(ids)


def test_the_plan_says_how_the_sample_was_drawn(folder: Path):
    plan, _ = planned(folder, number=15, stratify_by=("channel",), always=("c0",), limit=29)
    strata = [(one["name"], one["cases"], one["drawn"]) for one in plan.design["strata"]]
    assert strata == [
        ('{"channel":"chat"}', 40, 10),
        ('{"channel":"voice"}', 19, 5),
        ("always", 1, 1),
    ]
    assert plan.design["limited"] == 3
    assert planned(folder)[0].design == {}


def test_a_filter_that_fails_on_the_data_is_named(folder: Path):
    with pytest.raises(ConfigurationError, match=r"\[transcripts\] filter: 'CAST"):
        planned(folder, filter="CAST(tags.channel AS INT) > 3")


def truth_file(folder: Path, name: str, rows: list[dict]) -> GroundTruthConfig:
    path = folder / "truth" / name
    path.parent.mkdir(exist_ok=True)
    frame = pl.DataFrame(rows)
    if name.endswith(".parquet"):
        frame.write_parquet(path)
    elif name.endswith(".csv"):
        frame.write_csv(path)
    else:
        frame.write_ndjson(path)
    return GroundTruthConfig(uri=str(path))


@pytest.mark.parametrize("name", ["truth.jsonl", "truth.csv", "truth.parquet"])
def test_truth_is_joined_by_case_id_and_counted_both_ways(folder: Path, name: str):
    rows = [
        {
            "case_id": f"c{n}",
            "outcomes": f"Refund {n}",
            "tool_calls": f'[{{"name": "refund", "arguments": {{"n": {n}}}}}]',
            "has_chart": "false",
        }
        for n in (0, 1, 999)
    ]
    wanted = truth_file(folder, name, rows)
    found = ground_truth(wanted)
    treatment = CasePreprocessor(PrivacyConfig(), found)
    plan, _ = planned(folder, treatment, filter="true")
    assert plan.truth == {
        "rows": 3,
        "joined": 2,
        "rows_without_case": 1,
        "cases_without_row": 58,
    }
    one = treatment.prepared_case(case(user("Hi"), case_id="c1", expected=None))
    assert one.expected.outcomes == ("Refund 1",)
    assert one.expected.tool_calls[0].arguments == {"n": 1}
    assert one.expected.has_chart is False
    other = wanted.model_copy(update={"unmatched": "refuse"})
    with pytest.raises(ConfigurationError, match="1 rows name no case that was read: 'c999'"):
        planned(folder, CasePreprocessor(PrivacyConfig(), ground_truth(other)))


def test_cases_of_an_object_that_goes_while_it_is_read_are_not_counted_against_the_truth(
    tmp_path: Path,
):
    kept, gone = (
        native_line(case(user("Hi"), agent("Hello"), case_id=name)) for name in ("a", "b")
    )
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(kept)
    (folder / "b.jsonl").write_bytes(gone * 1000)  # progress is told in the midst of it
    rows = [{"case_id": name, "outcomes": "Refund"} for name in ("a", "b")]
    truth = ground_truth(truth_file(tmp_path, "truth.jsonl", rows))
    policy = ScanPolicy(preprocessor=CasePreprocessor(PrivacyConfig(), truth))

    def remove(read: int) -> None:
        if read == 1000:
            (folder / "b.jsonl").unlink()

    with Spool() as spool:
        config = TranscriptsConfig(uri=str(folder))
        plan = plan_intake(config, 7, spool, on_progress=remove, policy=policy)

    assert (plan.due, plan.reasons) == (1, {"vanished": 1})
    assert plan.truth == {"rows": 2, "joined": 1, "rows_without_case": 1, "cases_without_row": 0}


def test_other_truth_makes_another_input(folder: Path):
    hashes = set()
    for text in ("yes", "no"):
        found = ground_truth(truth_file(folder, "t.jsonl", [{"case_id": "c1", "response": text}]))
        hashes.add(planned(folder, CasePreprocessor(PrivacyConfig(), found))[0].content_hash)
    hashes.add(planned(folder)[0].content_hash)
    assert len(hashes) == 3


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.jsonl", '{"case_id": "a", "response": "x"}\n{"case_id": "a", "response": "y"}', "line 2: 'a' stands in line 1 already"),
        ("t.jsonl", '{"case_id": "a", "outcomes": 3}', "line 1: outcomes: Input should be"),
        ("t.jsonl", '{"case_id": "a", "outcomes": [3]}', "line 1: outcomes.0: Input should be"),
        ("t.jsonl", '{"case_id": "a", "outcomes": "[3"}', "line 1: column 'outcomes': not JSON"),
        ("t.jsonl", '{"case_id": null, "outcomes": []}', "line 1: column 'case_id' holds no case id"),
        ("t.jsonl", '{"case_id": "a", "outcomes": []', "line 1: not JSON"),
        ("t.jsonl", "[]", "line 1: wanted a JSON object"),
        ("t.jsonl", "", "no column 'case_id'; there are none: the file holds no row"),
        ("t.jsonl", '{"id": "a", "outcomes": []}', "no column 'case_id'; there are id, outcomes"),
        ("t.jsonl", '{"case_id": "a", "outcome": []}', "no column that is called as an expected value"),
        ("t.csv", "case_id,response\na,x\nb,y\na,z\n", "row 3: 'a' stands in row 1 already"),
        ("t.csv", "case_id,response\na,x,y,z\n", "no csv file"),
        ("t.parquet", "nonsense", "no parquet file"),
        ("t.xls", "", "of no known kind; wanted .jsonl, .csv or .parquet"),
    ],
)  # fmt: skip
def test_truth_that_cannot_be_is_refused_with_its_place(tmp_path: Path, name, text, said):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        ground_truth(GroundTruthConfig(uri=str(path)))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_truth_that_is_not_there_and_names_that_mean_nothing_are_refused(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="no such file"):
        ground_truth(GroundTruthConfig(uri=str(tmp_path / "none.jsonl")))
    with pytest.raises(ValueError, match="'outcome' is no expected value; there are outcomes"):
        GroundTruthConfig(columns={"outcome": "x"})


def test_columns_have_the_names_that_are_configured(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("id,answer,note\n7,Paris,x\n8,,y\n")
    wanted = GroundTruthConfig(uri=str(path), key="id", columns={"facts": "answer"})
    found = ground_truth(wanted)
    known = case(user("Hi"), case_id="7").model_copy()
    assert found.case(known).expected.facts == ("Paris",)
    empty = case(user("Hi"), case_id="8")
    assert found.case(empty) == empty
