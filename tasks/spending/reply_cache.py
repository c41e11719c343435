"""The durable reply cache: what a model was paid for is kept, and paid for once.

One JSON file per reply under any fsspec URI, named by its key, in folders of the key's first two
characters. Entries never change their meaning, so writers need no lock: the last one wins.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from assizes.judge.engine.reply_cache import CachedReply, ReplyCache
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.spending.request_locks import FileLocks

log = logging.getLogger(__name__)

_REPLY_ADAPTER: Final = TypeAdapter(CachedReply)

_WRITER: Final = uuid4().hex
"""Tells apart the processes that share a folder, from whatever machine."""

_NUMBERS: Final = itertools.count()


class FileReplyCache:
    """Keeps replies at a URI: a local path, `s3://bucket/prefix`, whatever fsspec opens.

    A judgement never fails for the cache's sake: an entry that cannot be read is a miss, a reply
    that cannot be kept is used all the same, and the log says so once.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, Any] | None = None) -> None:
        from fsspec.core import url_to_fs

        # A cached listing would hide what other processes have put.
        options = {**(storage_options or {}), "use_listings_cache": False}
        self.uri = uri
        self._files, root = url_to_fs(uri, **options)
        self._root = root.rstrip("/")
        self._faults: tuple[type[Exception], ...] = (OSError,)
        self._warned = False
        if "s3" in self._files.protocol:
            from botocore.exceptions import BotoCoreError

            self._faults = (OSError, BotoCoreError)

    def request_locks(self) -> FileLocks | None:
        """Who asks for a reply that is not kept yet; null where the cache is not on a local disk."""
        return FileLocks(self._root) if self._is_local else None

    async def get(self, key: str) -> CachedReply | None:
        """What is kept under a key; null where there is nothing that can be read."""
        if self._is_surely_missing(key):
            return None
        return await asyncio.to_thread(self._read_reply, key)

    async def store(self, key: str, reply: CachedReply) -> None:
        """Keep a reply: whole or not at all."""
        if self._is_local:  # a write to disk is cheaper than a change of threads
            self._write_reply(key, reply)
        else:
            await asyncio.to_thread(self._write_reply, key, reply)

    def _is_surely_missing(self, key: str) -> bool:
        """Most keys of a first run are, and a look on disk is cheap."""
        return self._is_local and not os.path.lexists(self._path(key))

    def _read_reply(self, key: str) -> CachedReply | None:
        try:
            return _REPLY_ADAPTER.validate_json(self._files.cat_file(self._path(key)))
        except (FileNotFoundError, ValidationError):
            return None
        except self._faults as error:
            self._warn("read", error)
            return None

    def _write_reply(self, key: str, reply: CachedReply) -> None:
        path, body = self._path(key), _REPLY_ADAPTER.dump_json(reply)
        failpoint("replies.put.before")
        try:
            if self._is_local:
                _write_whole(Path(path), body)
            else:
                self._files.pipe_file(path, body)
        except self._faults as error:
            self._warn("written", error)
        failpoint("replies.put.after")

    @property
    def _is_local(self) -> bool:
        return "file" in self._files.protocol

    def _path(self, key: str) -> str:
        return f"{self._root}/{key[:2]}/{key}.json"

    def _warn(self, what: str, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            log.warning("[cache] %s cannot be %s: %s", self.uri, what, error)


class RunReplyCache:
    """Replies as a run sees them that asks anew (`[cache] use = "refresh"`): those it paid for
    itself. What it asks takes the place of what is kept.
    """

    def __init__(self, shared_cache: ReplyCache, run_id: str) -> None:
        self._shared_cache = shared_cache
        self._run_id = run_id

    async def get(self, key: str) -> CachedReply | None:
        """What this run has paid for; null for what others have."""
        reply = await self._shared_cache.get(key)
        return reply if reply is not None and reply.paid_by == self._run_id else None

    async def store(self, key: str, reply: CachedReply) -> None:
        """Keep a reply in the place of an older one."""
        await self._shared_cache.store(key, reply)


def _write_whole(path: Path, body: bytes) -> None:
    temporary = path.with_name(f".{_WRITER}-{os.getpid()}-{next(_NUMBERS)}.tmp")
    try:
        try:
            file = temporary.open("xb", buffering=0)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = temporary.open("xb", buffering=0)
        half = len(body) // 2
        with file:
            file.write(body[:half])
            failpoint("replies.put.half")
            file.write(body[half:])
        failpoint("replies.put.written")
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
