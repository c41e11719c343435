"""The durable reply cache: what a model was paid for is kept, and paid for once.

One JSON file per reply under any fsspec URI, named by its key, in folders of the key's first two
characters. Entries never change their meaning, so writers need no lock: the last one wins.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from judge.llm import Completion
from tasks.failpoints import failpoint

log = logging.getLogger(__name__)

_COMPLETION: Final = TypeAdapter(Completion)


class FileReplies:
    """Keeps completions at a URI: a local path, `s3://bucket/prefix`, whatever fsspec opens.

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

    async def get(self, key: str) -> Completion | None:
        """The completion kept under a key; null where there is none that can be read."""
        return await asyncio.to_thread(self._get, key)

    async def put(self, key: str, completion: Completion) -> None:
        """Keep a completion: whole or not at all."""
        await asyncio.to_thread(self._put, key, completion)

    def _get(self, key: str) -> Completion | None:
        try:
            return _COMPLETION.validate_json(self._files.cat_file(self._path(key)))
        except (FileNotFoundError, ValidationError):
            return None
        except self._faults as error:
            self._warn("read", error)
            return None

    def _put(self, key: str, completion: Completion) -> None:
        path, body = self._path(key), _COMPLETION.dump_json(completion)
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


def _write_whole(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        half = len(body) // 2
        with os.fdopen(handle, "wb") as file:
            file.write(body[:half])
            failpoint("replies.put.half", before=file.flush)
            file.write(body[half:])
        failpoint("replies.put.written")
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
