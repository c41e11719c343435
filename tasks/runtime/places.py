"""Writing to places: a probe of folders and fsspec URIs, errors explained, files replaced."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tenacity import retry, retry_if_exception_type, stop_after_attempt

from assizes.judge.errors import ConfigurationError
from assizes.judge.privacy.secret_masking import mask_credentials
from assizes.tasks.runtime.failpoints import failpoint

_PROBE: Final = ".assizes-probe-"  # and a random id
_STEM_CHARS: Final = 64  # of a file's name, in that of its draft: a name has 255 bytes


def write_probe(uri: str, storage_options: Mapping[str, Any], where: str) -> None:
    """Write a small object at a URI and take it away again; folders made for it go as well.

    The URI is a folder, or any that fsspec opens. `where` names the setting, e.g. `[report] uri`.

    Raises:
        ConfigurationError: it cannot be written or removed, or its scheme cannot be used.
    """
    from fsspec.core import url_to_fs

    with explain_write_errors(uri, where):
        files, root = url_to_fs(uri, **storage_options)
        folders = (Path(root), *Path(root).parents) if "file" in files.protocol else ()
        new_folders = [path for path in folders if not path.exists()]  # the deepest first
        try:
            _probe(files, root)
        finally:
            for folder in new_folders:
                with contextlib.suppress(OSError):
                    folder.rmdir()  # fails, as it should, where somebody has put something in


@retry(
    retry=retry_if_exception_type((FileNotFoundError, FileExistsError)),
    stop=stop_after_attempt(10),
    reraise=True,
)
def _probe(files: Any, root: str) -> None:
    """Write and remove an object, again where another probe removes the folder in between."""
    path = f"{root.rstrip('/')}/{_PROBE}{uuid.uuid4().hex}"
    if "file" in files.protocol:  # elsewhere it would make the bucket, and objects need no folder
        files.makedirs(root, exist_ok=True)
    files.pipe_file(path, b"assizes")
    files.rm_file(path)


@contextlib.contextmanager
def explain_write_errors(uri: str, where: str) -> Iterator[None]:
    """Says which place cannot be written to, and why, whatever its file system raises."""
    try:
        yield
    except file_system_errors(uri) as error:
        why = mask_credentials(" ".join(str(error).split())) or type(error).__name__  # hides keys
        raise ConfigurationError(
            f"{where} {mask_credentials(uri)!r} cannot be written: {why}; give a folder or a URI "
            "that can, such as s3://bucket/prefix"
        ) from error


def file_system_errors(uri: str) -> tuple[type[Exception], ...]:
    """What the file system behind a URI raises, also for options that it does not know."""
    faults: list[type[Exception]] = [OSError, ValueError, ImportError, RuntimeError, TypeError]
    schemes = uri.rpartition("://")[0]  # several, where one goes through another
    if "s3" in schemes:
        from botocore.exceptions import BotoCoreError, ClientError

        faults += [BotoCoreError, ClientError]
    if "http" in schemes:
        from aiohttp import ClientError as HttpError

        faults += [HttpError]
    return tuple(faults)


def replace_file(target: Path, content: bytes, *, is_public: bool = False) -> None:
    """Replace a file at once: readers see either the old file or the new one, never a part.

    Everybody may read a public file, whatever the mode mask of the process is.
    """
    # In the same folder: a rename is atomic within one file system only.
    fresh = target.with_name(f".{target.name[:_STEM_CHARS]}.{uuid.uuid4().hex}")
    try:
        half = len(content) // 2
        with fresh.open("xb") as file:
            file.write(content[:half])
            failpoint("report.half", before=file.flush)
            file.write(content[half:])
        if is_public:
            fresh.chmod(0o644)
        failpoint("report.written")
        fresh.replace(target)
        failpoint("report.replaced")
    finally:
        fresh.unlink(missing_ok=True)  # after a fault; a renamed file is missing
