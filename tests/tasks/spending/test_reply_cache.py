"""The durable reply cache, on disk and on a real S3 server."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import subprocess
import sys
from dataclasses import replace

import pytest

from assizes.judge.engine.ledger import CachedReply
from assizes.judge.models.model import Completion
from assizes.tasks.spending.reply_cache import FileReplyCache
from tests.doubles.s3 import S3

KEY = "ab" + "0" * 62
COMPLETION = CachedReply(
    Completion(
        text='{"why": "caf\u00e9 \U0001f600"}',
        answered_by="gpt-4.1-2025-04-14",
        input_tokens=2541,
        output_tokens=510,
        cost_usd=None,
        latency_ms=812.25,
    )
)


@pytest.fixture(params=["path", "file", "s3"])
def uri(request, tmp_path):
    if request.param == "path":
        return str(tmp_path / "replies"), {}
    if request.param == "file":
        return f"file://{tmp_path}/replies/", {}
    s3 = request.getfixturevalue("s3")
    return f"s3://{s3.bucket()}/replies", s3.storage_options


async def test_a_completion_is_kept_whole_for_later_processes(uri):
    await FileReplyCache(*uri).store(KEY, COMPLETION)

    assert await FileReplyCache(*uri).get(KEY) == COMPLETION


async def test_a_kept_reply_in_a_bucket_takes_one_request(s3: S3):
    cache = FileReplyCache(f"s3://{s3.bucket()}/replies", s3.storage_options)
    await cache.store(KEY, COMPLETION)
    with s3.recorded() as requests:
        assert await cache.get(KEY) == COMPLETION
    assert requests == ["GET"]


async def test_a_key_never_put_is_a_miss_until_another_cache_puts_it(uri):
    cache = FileReplyCache(*uri)
    assert await cache.get(KEY) is None

    await FileReplyCache(*uri).store(KEY, COMPLETION)

    assert await cache.get(KEY) == COMPLETION


async def test_the_last_writer_wins_and_leaves_one_whole_entry(uri):
    cache = FileReplyCache(*uri)
    texts = [str(number) * 5000 for number in range(20)]

    await asyncio.gather(*(cache.store(KEY, CachedReply(Completion(text, "m"))) for text in texts))

    kept = await cache.get(KEY)
    assert kept is not None
    assert kept.completion.text in texts


async def test_on_disk_an_entry_is_one_file_in_a_folder_of_two_characters(tmp_path):
    await FileReplyCache(str(tmp_path)).store(KEY, COMPLETION)

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [tmp_path / "ab" / f"{KEY}.json"]
    checksum, _, body = files[0].read_bytes().partition(b" ")
    assert len(checksum) == 32
    assert json.loads(body) == {
        "completion": {
            "text": '{"why": "caf\u00e9 \U0001f600"}',
            "answered_by": "gpt-4.1-2025-04-14",
            "input_tokens": 2541,
            "output_tokens": 510,
            "cost_usd": None,
            "latency_ms": 812.25,
            "reply_id": None,
            "fingerprint": "",
            "flags": [],
            "by_schema": False,
            "cached_tokens": None,
            "cache_write_tokens": None,
        },
        "attempts": 1,
        "paid_by": "",
    }


async def test_a_flipped_bit_in_any_byte_is_a_miss_that_names_the_file(tmp_path, caplog):
    cache = FileReplyCache(str(tmp_path))
    await cache.store(KEY, COMPLETION)
    place = tmp_path / "ab" / f"{KEY}.json"
    whole = place.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        place.write_bytes(damaged)
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="assizes.tasks.spending.reply_cache"):
            assert await cache.get(KEY) is None
        assert caplog.messages == [f"[cache] {place} is damaged; the question is asked again"]


async def test_a_reply_under_the_key_of_another_ask_is_a_miss(tmp_path):
    cache, other = FileReplyCache(str(tmp_path)), KEY[:-1] + ("0" if KEY[-1] != "0" else "1")
    await cache.store(KEY, COMPLETION)
    (tmp_path / "ab" / f"{KEY}.json").rename(tmp_path / "ab" / f"{other}.json")
    assert await cache.get(other) is None


async def test_an_entry_of_version_0_1_is_read(tmp_path):
    cache = FileReplyCache(str(tmp_path))
    await cache.store(KEY, COMPLETION)
    place = tmp_path / "ab" / f"{KEY}.json"
    place.write_bytes(place.read_bytes().partition(b" ")[2])
    assert await cache.get(KEY) == COMPLETION


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"text": 4}', b"\xff\xfe", b"[]", b'{"text": "a"}']
)
async def test_a_corrupt_entry_is_a_miss_and_can_be_written_again(tmp_path, content):
    cache = FileReplyCache(str(tmp_path))
    await cache.store(KEY, COMPLETION)
    (tmp_path / "ab" / f"{KEY}.json").write_bytes(content)

    assert await cache.get(KEY) is None

    await cache.store(KEY, COMPLETION)
    assert await cache.get(KEY) == COMPLETION


async def test_a_cache_that_cannot_be_written_says_so_once_and_fails_nothing(tmp_path, caplog):
    place = tmp_path / "taken"
    place.write_text("a file where the folder should be")
    cache = FileReplyCache(str(place))

    with caplog.at_level(logging.WARNING, logger="assizes.tasks.spending.reply_cache"):
        await cache.store(KEY, COMPLETION)
        await cache.store(KEY, COMPLETION)

    assert await cache.get(KEY) is None
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f"[cache] {place} cannot be written: ")
    assert place.read_text() == "a file where the folder should be"


async def test_a_disk_that_takes_a_part_of_a_reply_keeps_the_one_before_it(tmp_path, caplog):
    cache = FileReplyCache(str(tmp_path))
    await cache.store(KEY, COMPLETION)
    longer = CachedReply(replace(COMPLETION.completion, text="x" * 10_000))
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    # In the middle of the second half: the system writes what fits, and says no word of it.
    resource.setrlimit(resource.RLIMIT_FSIZE, (7_500, most[1]))
    try:
        await cache.store(KEY, longer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)

    assert await cache.get(KEY) == COMPLETION
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == [f"{KEY}.json"]
    (message,) = caplog.messages
    assert message.startswith(f"[cache] {tmp_path} cannot be written: ")


async def test_an_entry_that_cannot_be_read_is_a_miss_and_leaves_no_draft_behind(tmp_path, caplog):
    place = tmp_path / "ab" / f"{KEY}.json"
    place.mkdir(parents=True)
    cache = FileReplyCache(str(tmp_path))

    with caplog.at_level(logging.WARNING, logger="assizes.tasks.spending.reply_cache"):
        assert await cache.get(KEY) is None
        await cache.store(KEY, COMPLETION)

    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f"[cache] {tmp_path} cannot be read: ")
    assert list((tmp_path / "ab").iterdir()) == [place]


async def test_a_bucket_that_is_not_there_is_said_once_and_fails_nothing(s3, caplog):
    cache = FileReplyCache("s3://no-such-bucket/replies", s3.storage_options)

    with caplog.at_level(logging.WARNING, logger="assizes.tasks.spending.reply_cache"):
        await cache.store(KEY, COMPLETION)
        assert await cache.get(KEY) is None

    assert [message.split(":")[0] for message in caplog.messages] == ["[cache] s3"]


def test_importing_the_cache_imports_neither_file_systems_nor_models_nor_prefect():
    program = (
        "import sys; import assizes.tasks.spending.reply_cache;"
        "print(sorted({'fsspec', 's3fs', 'litellm', 'prefect'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"
