"""Personal data planted in transcripts is in no byte that a run writes or sends."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import logging
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prefect.settings import get_current_settings

from assizes.flows.evaluate import evaluate
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.formats import native_line
from assizes.tasks.store import open_store
from tests.builders import agent, call, case, result, user

pytestmark = pytest.mark.usefixtures("prefect_server")

TABLES = ("scores", "asks", "cases", "rejects", "run_metrics")


class Words(NamedTuple):
    """The planted texts, others in each test, as the tests share Prefect's database."""

    key: str
    mail: str


@pytest.fixture
def words(tmp_path: Path) -> Words:
    own = hashlib.sha256(str(tmp_path).encode()).hexdigest()
    return Words(f"sk-proj-{own[:40]}", f"ada.{own[40:52]}@example.com")


def planted(words: Words) -> bytes:
    """A case with the planted texts in every field, and unreadable records that begin with them."""
    key, mail = words
    whole = case(
        user(f"Hi, {mail}, my key is {key}."),
        agent(f"Use {key}", calls=[call("login", api_key=key, mail=mail)]),
        result(f'{{"token": "{key}", "mail": "{mail}"}}'),
        agent(f"A mail went to {mail}. {key}"),
        tags={"trace": key},
        agent=f"bot {key}",
        metadata={"provider": {"key": key}, key: "x"},
    )
    broken = f'{{"{key}": "{mail}", "case_id": \n'.encode()
    foreign = f'{{"case_id": "x", "{key}": 1, "transcript": {{}}}}\n'.encode()
    return native_line(whole) + broken + foreign


def config(folder: Path, base: str, words: Words, **privacy: Any) -> RunConfig:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "t.jsonl").write_bytes(planted(words))
    return RunConfig.model_validate(
        {
            "transcripts": {"uri": f"{folder}/in"},
            "privacy": privacy,
            "judge": {
                "judges": ("conversation", "safety"),
                "api_base": base,
                "options": {"safety": {"model": "openai/strict"}},
            },
            "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
            "cache": {"uri": f"{folder}/replies"},
            "report": {"uri": f"{folder}/reports"},
            "limits": {"ledger": f"{folder}/ledger.db"},
            "thresholds": {"min_coverage": 0},
        }
    )


def decoded(data: bytes) -> bytes:
    """Some bytes, and the bytes that are compressed in them."""
    if data.startswith(b"\x1f\x8b"):
        return data + gzip.decompress(data)
    # A DuckDB file begins with a checksum, which may begin like a compressed reply.
    with contextlib.suppress(zlib.error):
        return data + zlib.decompressobj().decompress(data)
    return data


def bytes_of(folder: Path) -> bytes:
    files = [path for path in folder.rglob("*") if path.is_file() and "in" not in path.parts]
    assert files
    return b"\n".join(decoded(path.read_bytes()) for path in files)


def rows_of(store: StoreConfig) -> str:
    """The rows of a DuckDB file as text, since columns are compressed in the file."""
    with open_store(store) as opened:
        runs = opened.runs()["run_id"]
        tables = [opened.table(run_id, name) for run_id in runs for name in TABLES]
        plans = [str(opened.run(run_id)) for run_id in runs]
    return f"{plans}{[table.rows() for table in tables]}"


def prefects_own() -> bytes:
    """The database of the Prefect server with its write-ahead log."""
    home = get_current_settings().home
    return b"".join(path.read_bytes() for path in home.rglob("*.db*") if path.is_file())


async def written(folder: Path, wanted: RunConfig, caplog: pytest.LogCaptureFixture) -> str:
    """Every byte that a run wrote, with its logs and Prefect's own files."""
    caplog.set_level(logging.DEBUG)
    await evaluate(wanted, return_state=True)
    rows = rows_of(wanted.store)
    assert rows.count("c1") > 3
    return rows + caplog.text + (bytes_of(folder) + prefects_own()).decode("latin-1")


@pytest.mark.row("004-96")
@pytest.mark.parametrize("send", ["redacted", "raw"])
async def test_a_planted_key_is_in_no_byte_written_or_sent(
    tmp_path: Path,
    judge_server,
    caplog: pytest.LogCaptureFixture,
    send: str,
    monkeypatch,
    words: Words,
):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    wanted = config(tmp_path, judge_server.api_base, words, send=send)
    assert words.key not in await written(tmp_path, wanted, caplog)
    sent = str(judge_server.requests())
    assert "[SECRET_1]" in sent
    assert words.key not in sent


async def test_addresses_are_in_no_byte_written_where_they_are_to_be_hidden(
    tmp_path: Path, judge_server, caplog: pytest.LogCaptureFixture, monkeypatch, words: Words
):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    wanted = config(tmp_path, judge_server.api_base, words, redact=["secret", "email"])
    assert words.mail not in await written(tmp_path, wanted, caplog)
    assert words.mail not in str(judge_server.requests())


async def test_sent_raw_a_model_sees_addresses_and_the_rows_do_not(
    tmp_path: Path, judge_server, caplog: pytest.LogCaptureFixture, monkeypatch, words: Words
):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    wanted = config(tmp_path, judge_server.api_base, words, redact=["secret", "email"], send="raw")
    await written(tmp_path, wanted, caplog)
    assert words.mail in str(judge_server.requests())
    rows = rows_of(wanted.store)
    assert words.mail not in rows
    reports = tmp_path / "reports"
    assert words.mail.encode() not in bytes_of(reports)


@pytest.mark.full
async def test_the_scan_would_have_found_it(
    tmp_path: Path, judge_server, caplog: pytest.LogCaptureFixture, monkeypatch, words: Words
):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    wanted = config(tmp_path, judge_server.api_base, words, redact=[])
    assert words.key in await written(tmp_path, wanted, caplog)
    assert words.key in str(judge_server.requests())
