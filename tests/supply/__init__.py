"""What is installed beside what was locked: `python -m tests.supply`, without a network.

A finding is a sentence; none means that the installation is the one that `requirements.lock` says,
without a release that is known as bad and without code that runs unasked.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sysconfig
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
KNOWN = Path(__file__).with_name("known_bad.toml")
LAYERS = ("judge", "tasks", "flows", "deployments")

OWN = "assizes"
TOOLS = frozenset({"setuptools"})
"""They come with the environment itself, before anything is locked."""

_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Installed:
    """One distribution; its licence as its makers write it."""

    name: str
    version: str
    licence: str


@dataclass(frozen=True)
class Locked:
    """One pin of the lock, and how many files it may be installed from."""

    requirement: Requirement
    hashes: int

    @property
    def version(self) -> str:
        return str(self.requirement.specifier).removeprefix("==")


def installed() -> list[Installed]:
    """Every distribution of this environment, by name."""
    found = {canonicalize_name(one.metadata["Name"]): one for one in distributions()}
    return [Installed(name, one.version, _licence(one)) for name, one in sorted(found.items())]


def locked(lock: Path = LOCK) -> dict[str, list[Locked]]:
    """The pins of the lock by name; a name has several where platforms differ."""
    found: dict[str, list[Locked]] = {}
    for entry in re.split(r"\n(?=[A-Za-z0-9])", lock.read_text(encoding="utf-8").strip()):
        requirement = Requirement(entry.partition(" \\\n")[0].strip())
        pin = Locked(requirement, len(_HASH.findall(entry)))
        found.setdefault(canonicalize_name(requirement.name), []).append(pin)
    return found


def _licence(one: Distribution) -> str:
    told = one.metadata
    classed = [
        line.rpartition(" :: ")[2]
        for line in told.get_all("Classifier") or ()
        if line.startswith("License ::")
    ]
    said = told.get("License-Expression") or " / ".join(classed) or told.get("License") or ""
    return (said.strip().splitlines() or ["not said"])[0][:60]


def unlocked(found: Sequence[Installed], pins: dict[str, list[Locked]]) -> Iterator[str]:
    """Distributions that the lock does not name, or names in another version; pins without a hash."""
    for one in found:
        wanted = {pin.version for pin in pins.get(one.name, ())}
        if one.name in TOOLS or one.name == OWN or one.version in wanted:
            continue
        said = f"the lock says {', '.join(sorted(wanted))}" if wanted else "not in the lock"
        yield f"{one.name} {one.version}: {said}"
    for name, given in pins.items():
        yield from (f"{name} {pin.version}: no hash in the lock" for pin in given if not pin.hashes)


def known_bad(found: Sequence[Installed], known: dict[str, Any]) -> Iterator[str]:
    """Releases that are known as bad, by our own list."""
    for bad in known["bad"]:
        refused = SpecifierSet(bad["versions"], prereleases=True)
        for one in found:
            if one.name == bad["package"] and one.version in refused:
                yield f"{one.name} {one.version}: {bad['why']}"


def unknown_starts(folder: Path, known: dict[str, Any]) -> Iterator[str]:
    """Files that Python runs at every start and that nobody has looked at.

    A line of a `.pth` file that begins with `import` is run; others are folders.
    """
    allowed = {one["name"]: one["sha256"] for one in known["pth"]}
    for path in sorted(folder.glob("*.pth")):
        data = path.read_bytes()
        if allowed.get(path.name) == hashlib.sha256(data).hexdigest():
            continue
        if path.name in {f"_{OWN}.pth", f"_editable_impl_{OWN}.pth"} and not _runs(data):
            continue
        what = "holds something else than it did" if path.name in allowed else "unknown"
        yield f"{path.name}: {what}; its code runs at every start of Python"
    for name in ("sitecustomize", "usercustomize"):
        yield from (f"{path.name}: runs at every start" for path in folder.glob(f"{name}*"))


def _runs(data: bytes) -> bool:
    return any(line.lstrip().startswith((b"import", b"exec")) for line in data.splitlines())


def proxy_imports(root: Path = ROOT) -> Iterator[str]:
    """Our modules that import litellm's proxy, which has had the worst of its faults."""
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if any(name.startswith("litellm.proxy") for name in imported(node)):
                    yield f"{path.relative_to(root)}: imports litellm.proxy"


def imported(node: ast.AST) -> list[str]:
    """Full names that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def audit() -> dict[str, list[str]]:
    """Every check with what it found."""
    found, known = installed(), tomllib.loads(KNOWN.read_text(encoding="utf-8"))
    pins = locked()
    pinned = [Installed(name, pin.version, "") for name, given in pins.items() for pin in given]
    return {
        "installed as locked, with hashes": list(unlocked(found, pins)),
        "no known bad release installed": list(known_bad(found, known)),
        "no known bad release locked": list(known_bad(pinned, known)),
        "no unknown code at the start of Python": list(
            unknown_starts(Path(sysconfig.get_path("purelib")), known)
        ),
        "litellm's proxy is not imported": list(proxy_imports()),
        "every licence is named": [
            f"{one.name} {one.version}: its licence is not said"
            for one in found
            if one.licence == "not said" and one.name not in known["licences"]
        ],
    }
