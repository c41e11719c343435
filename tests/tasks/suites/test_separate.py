"""A suite is not written where a run would read it as further transcripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.tasks.suites.separate import check_separate
from assizes.tasks.suites.suite_folder import CASES, MANIFEST


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs" / "day").mkdir(parents=True)
    (tmp_path / "logs" / "a.jsonl").write_text("")
    (tmp_path / "link").symlink_to("logs")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("uri", "folder"),
    [
        ("logs", "logs"),
        ("logs/", "logs/kept/deeper"),
        ("file://logs", "./logs/day/../kept"),
        ("logs", "link/kept"),
        ("link", "logs"),
        (".", "suites/kept"),
        ("logs/*.jsonl", "logs"),
        ("logs/*", "logs/kept"),
        ("logs/**/*.jsonl", "logs/kept/deeper"),
        ("**", "kept"),
        ("new", "new/kept"),
        ("logs/{date}/", "logs/2026-11-20"),
        ("logs/{date:%Y/%m}/part", "logs/2026/11/part/kept"),
    ],
)
def test_a_folder_that_a_run_would_read_is_refused(uri: str, folder: str):
    with pytest.raises(ConfigurationError) as caught:
        check_separate(Path(folder), uri, "run clerk-1 reads")
    assert str(caught.value) == (
        f"--to {str(Path(folder))!r} lies in {uri!r}, which run clerk-1 reads: the suite would be "
        "judged with the other transcripts, and its case ids would be there twice; name a folder "
        "outside of it"
    )


@pytest.mark.parametrize(
    ("uri", "folder"),
    [
        ("", "suites/kept"),
        ("logs", "suites/logs"),
        ("logs", "logs-kept"),
        ("logs", "logs/.kept"),
        ("logs/a.jsonl", "logs"),
        ("logs/*.csv", "logs"),
        ("logs/*.jsonl", "logs/kept"),
        ("logs/{date}/", "logs/suites/kept"),
        ("s3://logs/kept", "logs/kept"),
        ("langfuse://logs", "logs"),
    ],
)
def test_a_folder_beside_what_a_run_reads_is_accepted(uri: str, folder: str):
    check_separate(Path(folder), uri, "run clerk-1 reads")


@pytest.mark.parametrize("uri", ["suites/kept", "file://suites/kept/", f"suites/kept/{CASES}"])
def test_a_suite_that_a_run_is_over_may_grow(uri: str):
    folder = Path("suites/kept")
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text('[suite]\nname = "kept"\n')
    check_separate(folder, uri, "[transcripts] uri names")
    with pytest.raises(ConfigurationError):
        check_separate(folder, "suites", "[transcripts] uri names")
