"""Parquet files and inspect_ai archives, spread out as lines of JSON: what every reader reads.

Foreign Parquet is read in a process of its own, so that a file made to crash its reader costs one
object; rows are streamed, never held as a whole.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from judge.errors import DataError
from judge.formats.intake import strict_json

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import zipfile

_COPY_BYTES: Final = 1 << 20
_SAID_CHARS: Final = 200
_TIME_S: Final = 3600
_MAGIC: Final = 4

_TO_LINES: Final = """
import resource, sys
most = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import orjson
import polars as pl

def stated(value):
    if isinstance(value, dict):
        return {name: stated(one) for name, one in value.items() if one is not None}
    return [stated(one) for one in value] if isinstance(value, list) else value

raw = sys.argv[2] + ".raw"
pl.scan_parquet(sys.argv[1], glob=False, hive_partitioning=False).sink_ndjson(raw)
with open(raw, "rb") as lines, open(sys.argv[2], "wb") as out:
    for line in lines:
        out.write(orjson.dumps(stated(orjson.loads(line))) + b"\\n")
"""
# Columns are there in every row: what is null in one was not said.


def is_archive(path: Path) -> bool:
    """Whether a file is Parquet, or a zip archive."""
    with path.open("rb") as stream:
        return stream.read(_MAGIC) in _SPREADERS


def spread(path: Path, target: Path, cap_bytes: int) -> None:
    """Write the records of an archive as lines.

    Raises:
        DataError: `parquet` or `archive` for one that cannot be read, `bomb` for too much.
    """
    with path.open("rb") as stream:
        spreader = _SPREADERS[stream.read(_MAGIC)]
    spreader(path, target, cap_bytes)


def spread_parquet(path: Path, target: Path, cap_bytes: int) -> None:
    """Write the rows of a Parquet file as lines; a file that crashes its reader crashes a child.

    Raises:
        DataError: `parquet` for one that cannot be read, `bomb` for too much.
    """
    raw = target.with_name(f"{target.name}.raw")
    done = subprocess.run(
        [sys.executable, "-I", "-c", _TO_LINES, str(path), str(target), str(cap_bytes)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=_TIME_S,
        check=False,
    )
    too_much = any(one.exists() and one.stat().st_size >= cap_bytes for one in (raw, target))
    raw.unlink(missing_ok=True)
    if done.returncode == 0:
        return
    if too_much:
        raise _too_much(cap_bytes)
    said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    why = said[:_SAID_CHARS] or f"the reader ended with code {done.returncode}"
    raise DataError("parquet", f"cannot be read as Parquet: {why}")


def _inspect(path: Path, target: Path, cap_bytes: int) -> None:
    """Each sample of an `.eval` log as a line with the facts of the log."""
    try:
        with zipfile.ZipFile(path) as archive, target.open("wb") as out:
            names = archive.namelist()
            if "header.json" not in names:
                raise DataError("archive", "a zip archive without header.json; no inspect_ai log")
            header = strict_json(_member(archive, "header.json", cap_bytes))
            log = json.dumps(header.get("eval") if isinstance(header, dict) else None).encode()
            left = cap_bytes
            for name in names:
                if name.startswith("samples/") and name.endswith(".json"):
                    line = _line(log, _member(archive, name, left))
                    left -= out.write(line)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, RuntimeError) as error:
        said = str(error)[:_SAID_CHARS]
        raise DataError("archive", f"cannot be read as an inspect_ai log: {said}") from error


def _line(log: bytes, sample: bytes) -> bytes:
    # JSON may be broken over lines where white space stands, and holds line ends nowhere else.
    flat = sample.replace(b"\r", b" ").replace(b"\n", b" ")
    return b'{"eval":' + log + b',"sample":' + flat + b"}\n"


def _member(archive: zipfile.ZipFile, name: str, cap_bytes: int) -> bytes:
    with archive.open(name) as stream:
        return _bounded(stream, cap_bytes)


def _bounded(stream: IO[bytes], cap_bytes: int) -> bytes:
    found = bytearray()
    while block := stream.read(_COPY_BYTES):
        found += block
        if len(found) > cap_bytes:
            raise _too_much(cap_bytes)
    return bytes(found)


def _too_much(cap_bytes: int) -> DataError:
    return DataError("bomb", f"unpacks to more than {cap_bytes} bytes; raise max_object_mb")


_SPREADERS: Final[dict[bytes, Callable[[Path, Path, int], None]]] = {
    b"PAR1": spread_parquet,
    b"PK\x03\x04": _inspect,
}
