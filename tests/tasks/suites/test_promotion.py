"""Cases of a run become cases of a suite: which ones, what they carry, and what is never written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import ConfigurationError, UnknownCase
from assizes.judge.formats import native_line
from assizes.judge.suites.content import Suite, with_promoted
from assizes.judge.suites.promoted import provenance_of
from assizes.tasks.store import open_store
from assizes.tasks.suites.promotion import CaseChoice, PromotableCases, promotable_cases
from assizes.tasks.suites.suite_folder import read_or_new_suite, read_suite, write_suite
from tests.tasks.suites.clerk import RUDE, conversation, judged, write_day

FAILED = CaseChoice(failed=True)
KEY = "sk-proj-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z"  # of nobody
MAIL = "ada@example.org"


@pytest.fixture(params=["duckdb:///{}/s.duckdb", "{}/lake"], ids=["duckdb", "lake"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(tmp_path)


def promoted(store: str, run_id: str, choice: CaseChoice) -> PromotableCases:
    with open_store(StoreConfig(uri=store)) as opened:
        return promotable_cases(opened, run_id, choice, "ann")


@pytest.fixture
def run(tmp_path: Path, where: str) -> tuple[str, str]:
    """A store, and a run in it: five cases show rudeness, four a wrong sum, one of them both."""
    transcripts = write_day(tmp_path / "in" / "a.jsonl", "v1", rude=range(5), wrong=range(4, 8))
    return where, judged(tmp_path, where, transcripts)


def ids(chosen: PromotableCases) -> list[str]:
    assert not chosen.refused
    return [case.case_id for case in chosen.cases]


def test_failed_cases_carry_what_they_failed_at_and_where_they_come_from(run, tmp_path: Path):
    chosen = promoted(*run, FAILED)
    assert ids(chosen) == [f"c{number:02}" for number in range(8)]
    case = chosen.cases[4]
    assert case.transcript.turns[1].text == RUDE
    assert case.expected.outcomes == ("The price was told.",)
    provenance = provenance_of(case)
    assert provenance is not None
    assert provenance.transcript_uri == f"{tmp_path}/in/a.jsonl"
    assert (provenance.position, provenance.run_id) == (4, run[1])
    assert (provenance.agent_version, provenance.promoted_by) == ("v1", "ann")
    reasons = {failure.metric: failure.reason for failure in provenance.failures}
    assert set(reasons) == {"manners", "sums"}
    assert "rude and impatient" in reasons["manners"]
    assert len(provenance.causes) == 2  # each failure shows one of them
    shown = {cause for failure in provenance.failures for cause in failure.causes}
    assert shown == {cause.cause_id for cause in provenance.causes}


def test_a_cause_is_named_by_its_id_the_beginning_of_it_or_its_name(run):
    with open_store(StoreConfig(uri=run[0])) as opened:
        promotable_cases(opened, run[1], FAILED, "")  # the causes are found
        causes = opened.causes.read(run[1])
    assert causes is not None
    rows = {row["cases"]: row for row in causes.causes.to_dicts()}
    rude = rows[5]
    for word in (rude["cause_id"], rude["cause_id"][:6], rude["name"].upper()):
        assert ids(promoted(*run, CaseChoice(causes=(word,)))) == [f"c{n:02}" for n in range(5)]
    both = CaseChoice(causes=(rows[4]["cause_id"],), case_ids=("c11",))
    assert ids(promoted(*run, both)) == ["c04", "c05", "c06", "c07", "c11"]
    with pytest.raises(ConfigurationError, match=rude["cause_id"]):
        promoted(*run, CaseChoice(causes=("no such cause",)))
    with pytest.raises(UnknownCase, match="c99"):
        promoted(*run, CaseChoice(case_ids=("c99",)))


def test_a_run_without_a_failed_case_has_nothing_to_promote(tmp_path: Path, where: str):
    run_id = judged(tmp_path, where, write_day(tmp_path / "in" / "a.jsonl", "v1"))
    with pytest.raises(UnknownCase, match="no failed case"):
        promoted(where, run_id, FAILED)


def test_a_conversation_that_changed_or_is_gone_is_left_out_by_name(run, tmp_path: Path):
    file = write_day(tmp_path / "in" / "a.jsonl", "v2", rude=range(5), wrong=range(4, 8))
    changed = promoted(*run, FAILED)
    assert changed.cases == []
    assert set(changed.refused) == {f"c{number:02}" for number in range(8)}
    assert changed.refused["c00"].startswith("changed: ")
    file.unlink()
    assert promoted(*run, FAILED).refused["c00"].startswith("vanished: ")


def run_over(folder: Path, where: str, said: str, privacy: dict[str, Any], **rest: Any) -> str:
    file = folder / "in" / "a.jsonl"
    file.parent.mkdir()
    lines = [native_line(conversation(n, f"{said} {RUDE}", "20.", "v1", **rest)) for n in range(3)]
    file.write_bytes(b"".join(lines))
    return judged(folder, where, file, privacy=privacy)


def test_secrets_are_hidden_also_where_the_run_hid_nothing(tmp_path: Path, where: str):
    run_id = run_over(tmp_path, where, f"My key is {KEY}, write to {MAIL}.", {"redact": []})
    chosen = promoted(where, run_id, FAILED)
    text = b"".join(map(native_line, chosen.cases)).decode()
    assert KEY not in text
    assert "[SECRET_1]" in text
    assert MAIL in text  # the run did not hide addresses
    reason = provenance_of(chosen.cases[0]).failures[0].reason  # type: ignore[union-attr]
    assert "[SECRET_1]" in reason


@pytest.mark.parametrize("send", ["raw", "redacted"])
def test_personal_data_are_hidden_where_the_run_hid_them(tmp_path: Path, where: str, send: str):
    privacy = {"redact": ["email"], "send": send}
    run_id = run_over(tmp_path, where, f"Write to {MAIL}.", privacy)
    chosen = promoted(where, run_id, FAILED)
    text = b"".join(map(native_line, chosen.cases)).decode()
    assert ids(chosen) == ["c00", "c01", "c02"]
    assert MAIL not in text
    assert "[EMAIL_1]" in text


def test_a_case_whose_id_must_not_be_written_is_left_out(tmp_path: Path, where: str):
    file = tmp_path / "in" / "a.jsonl"
    file.parent.mkdir()
    cases = [conversation(n, RUDE, "20.", "v1") for n in range(3)]
    cases[1] = cases[1].model_copy(update={"case_id": MAIL})
    file.write_bytes(b"".join(map(native_line, cases)))
    run_id = judged(tmp_path, where, file, privacy={"redact": ["email"]})
    chosen = promoted(where, run_id, FAILED)
    assert [case.case_id for case in chosen.cases] == ["c00", "c02"]
    assert chosen.refused == {MAIL: "its case_id holds what must not be written"}


def test_a_suite_is_written_once_and_reads_as_it_was_written(run, tmp_path: Path):
    folder = tmp_path / "suites" / "clerk"
    first = with_promoted(read_or_new_suite(folder), promoted(*run, FAILED).cases)
    write_suite(folder, first.suite)
    stored = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(stored) == {"suite.toml", "cases.jsonl"}
    assert stored["cases.jsonl"].count(b"\n") == 8
    assert read_suite(folder) == first.suite
    again = with_promoted(read_suite(folder), promoted(*run, FAILED).cases)
    assert (again.added, len(again.held)) == ((), 8)
    write_suite(folder, again.suite)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == stored


def test_what_is_no_suite_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "cases.jsonl").write_text("{}\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "suite.toml").write_text('[suite]\nname = "b"\n')
    (tmp_path / "broken" / "cases.jsonl").write_text('{"case_id": "c"}\n')
    for name, content in (("nameless", "[suite]\n"), ("no_toml", "[suite] or not\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "suite.toml").write_text(content)
    for name, message in (
        ("nameless", "has no name"),
        ("no_toml", "no TOML"),
        ("file", "is a file"),
        ("other", "it is no suite"),
        ("broken", "line 1: schema"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            read_or_new_suite(tmp_path / name)
    with pytest.raises(ConfigurationError, match="is no suite"):
        read_suite(tmp_path / "none")
    with pytest.raises(ConfigurationError, match="cannot be written to"):
        write_suite(tmp_path / "file" / "below", Suite("below", ()))


def test_a_suite_with_an_id_twice_is_refused(tmp_path: Path):
    write_suite(tmp_path, Suite("s", (conversation(1, RUDE, "20.", "v1"),)))
    file = tmp_path / "cases.jsonl"
    file.write_bytes(2 * file.read_bytes())
    with pytest.raises(ConfigurationError, match="'c01' is the id of several lines"):
        read_suite(tmp_path)
