"""An index finds what pages show, forgets what is forgotten, and is completed after any kill."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from assizes.deployments.web.finding import CaseFinder
from assizes.deployments.web.schemas import CaseQuery
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreError
from assizes.tasks.finding.build_index import build_index
from assizes.tasks.finding.search_index import building_index, opened_index
from assizes.tasks.finding.search_query import parse_search
from assizes.tasks.store import existing_store
from assizes.tasks.store.search_files import index_path, search_folder
from assizes.tasks.store.upkeep import DataSubject, find_subject, forget_subject
from tests.tasks.finding.searchable import CONVERSATIONS, judged_run

STORES = ("duckdb:///{}/s.duckdb", "{}/lake")


@pytest.fixture(params=STORES, ids=["duckdb", "lake"])
def searched(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[StoreConfig, str]:
    monkeypatch.setenv("ASSIZES_HOME", str(tmp_path / "home"))
    privacy = {"redact": ["email"], "send": "raw"}
    return judged_run(tmp_path, request.param.format(tmp_path), privacy=privacy)


def found(searched: tuple[StoreConfig, str], text: str) -> list[str]:
    config, run_id = searched
    hits = CaseFinder(config).search(run_id, text, wait_s=600)
    assert hits.index.is_complete
    return sorted(hits.keys["case_id"])


def test_words_phrases_and_beginnings_find_cases_in_several_languages(
    searched: tuple[StoreConfig, str],
) -> None:
    assert found(searched, "refund LATE") == ["late"]
    assert found(searched, '"want a refund"') == ["late"]
    assert found(searched, '"a want refund"') == []
    assert found(searched, "parcel*") == ["late", "private"]
    assert found(searched, "arger ruckgabe") == ["Ärger"]
    assert found(searched, "退款") == ["退款"]
    assert found(searched, "hyperlink") == ["hostile"]
    assert found(searched, "shop") == sorted(CONVERSATIONS)
    assert found(searched, "channel refund") == ["late"]  # a tag, and a word of the conversation


def test_what_pages_redact_is_not_in_the_index(searched: tuple[StoreConfig, str]) -> None:
    config, run_id = searched
    assert found(searched, "wrote") == ["private"]
    assert found(searched, "ada") == []
    files = list(search_folder(config.uri).iterdir())
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * len(files)
    with opened_index(index_path(config.uri, run_id)) as index:
        assert index is not None
        texts = index.excerpts(index.keys()["n"], parse_search("wrote"))
    assert "ada@example.org" not in str(texts)
    assert "parcels" in str(texts)


def test_a_forgotten_case_takes_the_index_away_and_is_found_no_more(
    searched: tuple[StoreConfig, str],
) -> None:
    config, run_id = searched
    assert found(searched, "refund") == ["late"]
    with existing_store(config) as store:
        forget_subject(store, find_subject(store, DataSubject("late", {})))
    assert not index_path(config.uri, run_id).exists()
    assert found(searched, "refund") == []
    assert found(searched, "parcels") == ["private"]


def test_a_case_that_another_machine_forgot_is_not_found_in_an_old_index(
    searched: tuple[StoreConfig, str],
) -> None:
    config, run_id = searched
    assert found(searched, "refund") == ["late"]
    with existing_store(config) as store:
        store.forget(run_id, ["late"])  # the index stays
    assert found(searched, "refund") == []


def test_an_index_that_was_half_built_is_completed(searched: tuple[StoreConfig, str]) -> None:
    config, run_id = searched

    class Killed(Exception):
        pass

    def kill(done: int, _all: int) -> None:
        if done:
            raise Killed

    with pytest.raises(Killed):
        build_index(config, run_id, kill)
    with opened_index(index_path(config.uri, run_id)) as index:
        assert index is not None
        assert index.keys()["said"].to_list() == [0] * len(CONVERSATIONS)
    assert found(searched, "refund late") == ["late"]


def test_a_damaged_index_is_built_anew(searched: tuple[StoreConfig, str]) -> None:
    config, run_id = searched
    path = index_path(config.uri, run_id)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database" * 1000)
    assert found(searched, "refund") == ["late"]


def test_a_place_that_cannot_be_written_to_is_named(
    searched: tuple[StoreConfig, str],
) -> None:
    config, _ = searched
    search_folder(config.uri).parent.mkdir(parents=True, exist_ok=True)
    search_folder(config.uri).write_text("a file where the folder would be")
    with pytest.raises(
        StoreError, match="search index .*: File exists; it needs a folder to write to"
    ):
        found(searched, "refund")


def test_two_builders_do_not_index_a_run_twice(searched: tuple[StoreConfig, str]) -> None:
    config, run_id = searched
    with building_index(index_path(config.uri, run_id)) as first:
        assert first is not None
        assert not build_index(config, run_id)
    assert build_index(config, run_id)


def test_a_transcript_that_changed_is_counted_as_unreadable(
    searched: tuple[StoreConfig, str], tmp_path: Path
) -> None:
    file = tmp_path / "in" / "cases.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace("parcel", "packet"), encoding="utf-8")
    config, run_id = searched
    hits = CaseFinder(config).search(run_id, "packet", wait_s=600)
    assert hits.keys.is_empty()
    assert hits.index.unreadable == len(CONVERSATIONS)
    page = CaseFinder(config).cases(run_id, CaseQuery(q="shop"), wait_s=600)
    assert page.count == len(CONVERSATIONS)  # what was judged is found still
    assert page.excerpts is not None
    assert "\x02shop\x03" in page.excerpts[0]
