"""The durable reply cache: a reply is stored, so that it is paid for only once.

One JSON file for each reply under any fsspec URI, named by the key of the ask, in folders named by
the first two characters of the key. Any reply to a key is valid, so writers need no lock: the last
write wins.
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
"""Makes the names of temporary files differ between the processes of all machines."""

_NUMBERS: Final = itertools.count()


class FileReplyCache:
    """Stores replies at a URI: a local path, `s3://bucket/prefix`, or any URI that fsspec opens.

    A fault of the cache never fails a hearing: an entry that cannot be read is a miss, a reply that
    cannot be stored is used all the same. The log says so once.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, Any] | None = None) -> None:
        from fsspec.core import url_to_fs

        # A cached listing would hide the replies that other processes have stored.
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
        """Locks that keep two processes from asking for the same reply; `None` unless local."""
        return FileLocks(self._root) if self._is_local else None

    async def get(self, key: str) -> CachedReply | None:
        """The reply under a key; `None` where there is none that can be read."""
        if self._is_surely_missing(key):
            return None
        return await asyncio.to_thread(self._read_reply, key)

    async def store(self, key: str, reply: CachedReply) -> None:
        """Store a reply, whole or not at all."""
        if self._is_local:  # writing to a local disk is cheaper than switching threads
            self._write_reply(key, reply)
        else:
            await asyncio.to_thread(self._write_reply, key, reply)

    def _is_surely_missing(self, key: str) -> bool:
        """Whether a look on the local disk shows no file; so it is for most keys of a first run."""
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
    """The cache of a run that asks everything anew (`[cache] use = "refresh"`).

    The run reads only the replies that it has paid for itself; its replies overwrite older ones.
    """

    def __init__(self, shared_cache: ReplyCache, run_id: str) -> None:
        self._shared_cache = shared_cache
        self._run_id = run_id

    async def get(self, key: str) -> CachedReply | None:
        """The reply under a key if this run has paid for it, else `None`."""
        reply = await self._shared_cache.get(key)
        return reply if reply is not None and reply.paid_by == self._run_id else None

    async def store(self, key: str, reply: CachedReply) -> None:
        """Store a reply, over an older one."""
        await self._shared_cache.store(key, reply)


def _write_whole(path: Path, body: bytes) -> None:
    """Write a file under a temporary name and rename it, so that no reader sees half of it."""
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
