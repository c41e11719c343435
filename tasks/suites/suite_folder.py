"""A suite on disk: a folder with `suite.toml`, `cases.jsonl` and, once a case retired, `retired.txt`.

A case is a line, and the lines are sorted by case id, so that a diff shows which cases came and
went. The retired cases are lines too; the ending of their file keeps a run from reading it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple

from assizes.judge.case import Case
from assizes.judge.config.run import SUITE, RunConfig
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats import FORMATS, native_line
from assizes.judge.suites.content import Suite, duplicate_ids
from assizes.judge.suites.promoted import provenance_of
from assizes.tasks.runtime.places import replace_file

MANIFEST: Final = "suite.toml"
"""The file by which a folder is known as a suite."""
CASES: Final = "cases.jsonl"
RETIRED: Final = "retired.txt"

_TABLE: Final = b"[suite]"

_MANIFEST_TEXT: Final = """\
# A suite of cases that failed once: docs/suites.md. Runs know the suite by its name.
[suite]
name = {name}
"""


def is_suite(folder: Path) -> bool:
    """Whether a folder is a suite."""
    manifest = folder / MANIFEST
    # Somebody may have called a configuration of runs so.
    return manifest.is_file() and _TABLE in manifest.read_bytes().split()


def read_suite(folder: Path) -> Suite:
    """Read a suite.

    Raises:
        ConfigurationError: the folder is no suite, or a file of it cannot be read.
    """
    if not is_suite(folder):
        raise ConfigurationError(
            f"{str(folder)!r} is no suite: it has no {MANIFEST}; `assizes promote RUN --failed --to "
            "FOLDER` makes one"
        )
    try:
        body = tomllib.loads((folder / MANIFEST).read_text("utf-8"))
        name = body.get("suite", {}).get("name", "")
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(
                f"{str(folder / MANIFEST)!r}: [suite] has no name, such as name = 'refunds'"
            )
        return Suite(name, _read_cases(folder / CASES), _read_cases(folder / RETIRED))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{str(folder / MANIFEST)!r}: no TOML: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"{str(error.filename)!r}: {error.strerror}") from None


def read_or_new_suite(folder: Path) -> Suite:
    """Read the suite in a folder, or make an empty one with the folder's name.

    Raises:
        ConfigurationError: as `read_suite`; or the place is a file, or a folder with a file that
            the suite would overwrite.
    """
    if is_suite(folder):
        return read_suite(folder)
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"--to {str(folder)!r} is a file; a suite is a folder")
    if taken := [name for name in (CASES, RETIRED) if (folder / name).exists()]:
        raise ConfigurationError(
            f"--to {str(folder)!r} has {taken[0]} and no {MANIFEST}: it is no suite; name another "
            "folder"
        )
    return Suite(folder.resolve().name, ())


def write_suite(folder: Path, suite: Suite) -> None:
    """Write a suite; files whose content stays the same are not touched.

    Raises:
        ConfigurationError: the folder cannot be written to.
    """
    manifest = _MANIFEST_TEXT.format(name=json.dumps(suite.name))  # a JSON text is one of TOML
    files = {CASES: _lines(suite.cases), RETIRED: _lines(suite.retired)}
    if not is_suite(folder):
        files[MANIFEST] = manifest.encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = folder / name
            stored = path.read_bytes() if path.exists() else b""
            if content != stored or (name == CASES and not path.exists()):
                replace_file(path, content, is_public=True)
    except OSError as error:
        raise ConfigurationError(
            f"{str(folder)!r} cannot be written to ({error.strerror}); name another folder"
        ) from None


class SuiteInUse(NamedTuple):
    """The suite of a run."""

    folder: Path
    conversations: Literal["new", "stored"]  # those that the run judges


def suite_in_use(config: RunConfig) -> SuiteInUse | None:
    """The suite whose lines are the ground truth of new conversations, or are judged themselves.

    `None`: the run is over no suite, or over one that is not on this machine's disk.
    """
    places: tuple[tuple[str, Literal["new", "stored"]], ...] = (
        (config.transcripts.uri, "stored"),
        (config.ground_truth.uri or "", "new"),
    )
    for uri, conversations in places:
        plain = uri.removeprefix("file://")
        path = Path(plain)
        folder = path.parent if path.name == CASES else path
        if plain and "://" not in plain and is_suite(folder):
            return SuiteInUse(folder, conversations)
    return None


def suite_snapshot(config: RunConfig) -> dict[str, dict[str, str]]:
    """What the snapshot of a run's configuration says of its suite; empty: the run is over none.

    Raises:
        ConfigurationError: the suite cannot be read.
    """
    if (used := suite_in_use(config)) is None:
        return {}
    suite = read_suite(used.folder)
    values = {"name": suite.name, "version": suite.version, "conversations": used.conversations}
    return {SUITE: values}


def _read_cases(path: Path) -> tuple[Case, ...]:
    if not path.exists():
        return ()
    cases = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            case = FORMATS["native"].case(line)
            provenance_of(case)
        except DataError as error:
            raise ConfigurationError(f"{str(path)!r} line {number}: {error}") from None
        cases.append(case)
    if double := duplicate_ids(cases):
        raise ConfigurationError(
            f"{str(path)!r}: {double[0]!r} is the id of several lines; leave one of them"
        )
    return tuple(sorted(cases, key=lambda case: case.case_id))


def _lines(cases: Iterable[Case]) -> bytes:
    return b"".join(native_line(case) for case in cases)
