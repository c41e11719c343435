"""The durable reply cache, and the locks on its keys.

On a local disk a reply is paid for only once; in a bucket, two processes at once may pay twice.

Under any fsspec URI there is one file for each reply, named by the key of the ask, in folders named
by the first two characters of the key. It holds 32 hex digits of a hash of the key and the reply, a
blank, and the reply as JSON; until version 0.1 it held the JSON alone. Any reply to a key is valid,
so writers need no lock: the last write wins.

Two processes that share a local cache shall not pay for the same reply either. The first one to ask
locks a byte of one file, chosen by the key, until the reply has come; the others wait. The system
releases the lock of a process that dies, so nothing has to be cleaned up.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import itertools
import logging
import os
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from assizes.judge.engine.ledger import CachedReply, ReplyCache
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.runtime.process import Closing

log = logging.getLogger(__name__)

LOCK_FILE: Final = ".turns"  # in the folder of the reply cache; the file stays empty

_REPLY_ADAPTER: Final = TypeAdapter(CachedReply)

# They make the names of temporary files differ between the processes of all machines.
_WRITER: Final = uuid4().hex
_NUMBERS: Final = itertools.count()

_FIRST_WAIT_S: Final = 0.02
_LONGEST_WAIT_S: Final = 0.25
"""Seconds before another process's lock is tried again: doubled from the first to the longest."""

_KEY_DIGITS: Final = 15  # hex digits of a key that choose the byte; 60 bits: an offset has 63


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
        self._is_local = "file" in self._files.protocol
        self._faults: tuple[type[Exception], ...] = (OSError,)  # what a place out of reach raises
        self._whole: dict[str, Any] = {}  # options with which a reply is read
        self._warned = False
        if "s3" in self._files.protocol:
            from botocore.exceptions import BotoCoreError

            self._faults = (OSError, BotoCoreError)  # s3fs converts only errors with a response
            # By default s3fs asks for the size first, to read large objects in parts: two requests.
            self._whole = {"max_concurrency": 1}

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
        # A look on the local disk, where most keys of a first run have no file, needs no thread.
        return self._is_local and not os.path.lexists(self._path(key))

    def _read_reply(self, key: str) -> CachedReply | None:
        try:
            return _decoded(key, self._files.cat_file(self._path(key), **self._whole))
        except (FileNotFoundError, ValidationError):
            pass  # no reply, or one that another version wrote
        except _Damaged:
            log.warning("[cache] %s is damaged; the question is asked again", self._path(key))
        except self._faults as error:
            self._warn("read", error)
        return None

    def _write_reply(self, key: str, reply: CachedReply) -> None:
        path, body = self._path(key), _encoded(key, reply)
        failpoint("replies.put.before")
        try:
            if self._is_local:
                _write_whole(path, body)
            else:
                self._files.pipe_file(path, body)
        except self._faults as error:
            self._warn("written", error)
        failpoint("replies.put.after")

    def _path(self, key: str) -> str:
        return f"{self._root}/{key[:2]}/{key}.json"

    def _warn(self, what: str, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            log.warning("[cache] %s cannot be %s: %s", self.uri, what, error)


class _Damaged(Exception):
    """The bytes of a stored reply are not those that were written under its key."""


def _encoded(key: str, reply: CachedReply) -> bytes:
    body = _REPLY_ADAPTER.dump_json(reply)
    return b"%b %b" % (_hash(key, body), body)


def _decoded(key: str, stored: bytes) -> CachedReply:
    if stored.startswith(b"{"):  # written by version 0.1
        return _REPLY_ADAPTER.validate_json(stored)
    written, _, body = stored.partition(b" ")
    if written != _hash(key, body):
        raise _Damaged
    return _REPLY_ADAPTER.validate_json(body)


def _hash(key: str, body: bytes) -> bytes:
    """32 hex digits; the key is hashed too, so that a reply under another key is told."""
    return hashlib.blake2b(body, key=key.encode()[:64], digest_size=16).hexdigest().encode()


@dataclass(frozen=True, slots=True)
class RunReplyCache:
    """The cache of a run that asks everything anew (`[cache] use = "refresh"`).

    The run reads only the replies that it has paid for itself; its replies overwrite older ones.
    """

    shared_cache: ReplyCache
    run_id: str

    async def get(self, key: str) -> CachedReply | None:
        """The reply under a key if this run has paid for it, else `None`."""
        reply = await self.shared_cache.get(key)
        return reply if reply is not None and reply.paid_by == self.run_id else None

    async def store(self, key: str, reply: CachedReply) -> None:
        """Store a reply, over an older one."""
        await self.shared_cache.store(key, reply)


def _write_whole(path: str, body: bytes) -> None:
    """Write a file under a temporary name and rename it, so that no reader sees half of it."""
    folder = path.rpartition("/")[0]  # texts: to take paths apart costs more than to write
    temporary = f"{folder}/.{_WRITER}-{os.getpid()}-{next(_NUMBERS)}.tmp"
    half = len(body) // 2  # in two halves, so that a test can kill the writer in between
    try:
        descriptor = _new_file(temporary)
        try:
            _write_all(descriptor, body[:half])
            failpoint("replies.put.half")
            _write_all(descriptor, body[half:])
        finally:
            os.close(descriptor)
        failpoint("replies.put.written")
        os.replace(temporary, path)  # noqa: PTH105
    except OSError:
        with suppress(OSError):
            Path(temporary).unlink()
        raise


def _new_file(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:  # the first reply in its folder
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o666)


def _write_all(descriptor: int, body: bytes) -> None:
    """Write bytes whole: a disk that is nearly full takes a part of them without an error."""
    while body:
        body = body[os.write(descriptor, body) :]


@dataclass
class _OpenLockFile:
    """A lock file as this process has it open."""

    descriptor: int
    users: int = 0  # instances of FileLocks
    locked_offsets: set[int] = field(default_factory=set)  # bytes that some user has locked


# A lock of `fcntl` belongs to the process, and is lost when the process closes the file anywhere.
# So all runs of one process share one open file, and the locked bytes are noted beside it.
_open_files: Final[dict[str, _OpenLockFile]] = {}  # by real path
_guard: Final = threading.Lock()  # of _open_files and what is noted in them


class FileLocks(Closing):
    """The locks of one local cache; implements `assizes.judge.engine.ledger.RequestLocks`.

    On a file system without locks every process asks: that may cost money, but loses no row.
    """

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / LOCK_FILE
        self._name = ""  # real path of the lock file, once it is open
        self._file: _OpenLockFile | None = None
        self._own_offsets: set[int] = set()  # bytes locked through this instance
        self._is_unlockable = False  # set once the file system turns out to have no locks

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of a key of 64 hex digits; waits until no other process holds it."""
        offset = int(key[:_KEY_DIGITS], 16)
        wait_s = _FIRST_WAIT_S
        while not self._try_lock(offset):  # polled: to wait in fcntl would block the event loop
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        try:
            yield
        finally:
            with _guard:
                self._unlock(offset)

    def close(self) -> None:
        """Release all locks; closing again does nothing."""
        with _guard:
            for offset in list(self._own_offsets):
                self._unlock(offset)
            file, self._file = self._file, None
            if file is None:
                return
            file.users -= 1
            if not file.users:  # closed before, it would lose the locks of other runs here
                del _open_files[self._name]
                os.close(file.descriptor)

    def _try_lock(self, offset: int) -> bool:
        """Whether the caller may ask now: the byte is locked, or the file system has no locks."""
        if self._is_unlockable:
            return True
        with _guard:
            try:
                file = self._file = self._file or self._open()
                if offset in file.locked_offsets:  # fcntl would grant it: this process holds it
                    return False
                fcntl.lockf(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
            except OSError as error:
                # Some systems answer "permission denied" for a lock that another process holds.
                if isinstance(error, BlockingIOError | PermissionError) and self._file is not None:
                    return False
                self._is_unlockable = True
                log.warning(
                    "[cache] %s cannot be locked: %s; another process at the same run may pay for the "
                    "same reply",
                    *(self._path, error),
                )
                return True
            file.locked_offsets.add(offset)
            self._own_offsets.add(offset)
        return True

    def _open(self) -> _OpenLockFile:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._name = os.path.realpath(self._path)
        if (file := _open_files.get(self._name)) is None:
            descriptor = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            file = _open_files[self._name] = _OpenLockFile(descriptor)
        file.users += 1
        return file

    def _unlock(self, offset: int) -> None:
        if self._file is None or offset not in self._own_offsets:
            return
        self._own_offsets.discard(offset)
        self._file.locked_offsets.discard(offset)
        fcntl.lockf(self._file.descriptor, fcntl.LOCK_UN, 1, offset)
