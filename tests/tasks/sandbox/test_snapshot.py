"""Files of a snapshot: what is read, and what no path reaches."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from assizes.judge.config.transcripts import PrivacyConfig
from assizes.judge.protocol import FileQuery, FileText, NoReply, Query, QueryResult
from assizes.tasks.sandbox.redacted_answers import AnswerRedactor
from assizes.tasks.sandbox.snapshot import MAX_FILE_BYTES, MAX_NAMES, read_snapshot
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner
from tests.tasks.sandbox.databases import CANARY, sqlite_file


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(CANARY)
    folder = tmp_path / "base" / "shot"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").write_text("print('hello')\n")
    (folder / ".env").write_text(CANARY)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text(CANARY)
    (folder / "out").symlink_to(tmp_path)
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "base" / "other.txt").write_text(CANARY)
    return tmp_path / "base"


def read(base: Path, path: str, folder: str = "shot") -> FileText | NoReply:
    return read_snapshot(FileQuery(folder, path), base)


def test_a_file_and_the_list_of_files(base):
    assert read(base, "src/main.py") == FileText("src/main.py", "print('hello')\n", 15)
    assert read(base, "").text == "src/main.py"
    assert read(base, "src").text == "src/main.py"


@pytest.mark.parametrize(
    "path",
    ["../other.txt", "/etc/passwd", "link.txt", "out/secret.txt", ".env", ".git/config", "none.txt",
     "src/../../other.txt", "a\0b", "\ud800", "x" * 5000, "~/x"],
)  # fmt: skip
def test_no_path_leads_out_of_the_snapshot(base, path):
    assert read(base, path) == FileText(path, error="no such file in the snapshot")


@pytest.mark.parametrize("folder", ["..", "../..", "/etc", "none", "shot/src/main.py", "a\0b"])
def test_a_snapshot_elsewhere_is_not_opened(base, folder):
    answer = read(base, "", folder)
    assert isinstance(answer, NoReply)
    assert answer.code == "no_snapshot"


def test_a_long_file_is_cut_and_other_files_are_refused(base):
    (base / "shot" / "long.txt").write_text("x" * (MAX_FILE_BYTES + 1))
    (base / "shot" / "image.bin").write_bytes(b"\x89\0\0")
    os.mkfifo(base / "shot" / "pipe")
    long = read(base, "long.txt")
    assert (len(long.text), long.size_bytes, long.truncated) == (200_000, 200_001, True)
    assert read(base, "image.bin").error == "is no text file"
    assert read(base, "pipe").error == "is no plain file"


def test_a_list_has_a_bound(base):
    for number in range(MAX_NAMES + 5):
        (base / "shot" / f"f{number}.txt").touch()
    listing = read(base, ".")
    assert len(listing.text.splitlines()) == MAX_NAMES
    assert listing.truncated


def test_a_query_that_reads_only_writes_nothing_even_where_a_run_may_write(base):
    sqlite_file(base / "guests.sqlite")
    write = "INSERT INTO guest VALUES (4, 'Dan', 1.0)"

    async def look_up() -> list[object]:
        runner = SandboxSqlRunner(base, writes_allowed=True)
        try:
            queries = (
                Query("guests.sqlite", (write, "SELECT count(*) FROM guest"), read_only=True),
                Query("guests.sqlite", (write, "SELECT count(*) FROM guest")),
                FileQuery("shot", "src/main.py"),
            )
            return [await runner.look_up(query) for query in queries]
        finally:
            await runner.aclose()

    only_read, written, text = asyncio.run(look_up())
    assert isinstance(only_read, QueryResult)
    assert isinstance(written, QueryResult)
    assert only_read.tables[0].error
    assert only_read.tables[1].rows == ((3,),)
    assert written.tables[1].rows == ((4,),)
    assert isinstance(text, FileText)


def test_what_probes_show_is_redacted_like_the_case(base):
    (base / "shot" / "mail.txt").write_text("to ada@example.org")
    statement = "INSERT INTO guest VALUES (4, 'ada@example.org', NULL)"
    sqlite_file(base / "guests.sqlite", "CREATE TABLE guest (id, name, paid)", statement)
    names = ("SELECT name, id FROM guest",)

    async def look_up() -> list[object]:
        redactor = AnswerRedactor(PrivacyConfig(redact=("email",)))
        runner = SandboxSqlRunner(base, redactor=redactor)
        try:
            queries = (
                FileQuery("shot", "mail.txt"),
                Query("guests.sqlite", names, read_only=True),
                Query("guests.sqlite", names),  # SQL that is compared is never shown as it is
            )
            return [await runner.look_up(query) for query in queries]
        finally:
            await runner.aclose()

    text, shown, compared = asyncio.run(look_up())
    assert isinstance(text, FileText)
    assert isinstance(shown, QueryResult)
    assert isinstance(compared, QueryResult)
    assert text.text == "to [EMAIL_1]"
    assert shown.tables[0].rows == (("[EMAIL_1]", 4),)
    assert compared.tables[0].rows == (("ada@example.org", 4),)
