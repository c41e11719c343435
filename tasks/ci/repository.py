"""What git says about the working copy: commits, branches, and paths relative to its root."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TIMEOUT_S: Final = 30
"""Seconds after which a call of git is given up."""

MAX_ANCESTORS: Final = 200
"""The most commits before a commit among which its run is sought."""

_DEFAULT_BRANCHES: Final = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""Where the branch is sought that others are merged into, in this order."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A working copy of git."""

    root: Path  # resolved

    @classmethod
    def around(cls, folder: Path) -> Repository | None:
        """The working copy that a folder belongs to; `None`: there is none, or no git."""
        top = _git(folder, "rev-parse", "--show-toplevel")
        return cls(Path(top).resolve()) if top else None

    def commit(self, ref: str = "HEAD") -> str | None:
        """The full id of the commit that a name stands for; `None` where it is not at hand."""
        # `--end-of-options`: a name that comes from outside is never taken for an option.
        return self._git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
        )

    def branch(self) -> str | None:
        """The branch that is checked out; `None`: none is."""
        return self._git("symbolic-ref", "--quiet", "--short", "HEAD")

    def is_dirty(self) -> bool:
        """Whether a file that git tracks differs from the commit."""
        return bool(self._git("status", "--porcelain", "--untracked-files=no"))

    def merge_base(self, commit: str, other: str) -> str | None:
        """The last commit that both have in their history; `None` where it is not at hand."""
        return self._git("merge-base", "--end-of-options", commit, other)

    def ancestors(self, commit: str) -> list[str]:
        """A commit and those before it on its branch, the newest first."""
        words = ("rev-list", "--first-parent", f"--max-count={MAX_ANCESTORS}")
        return (self._git(*words, "--end-of-options", commit) or "").split()

    def base_of_head(self) -> str | None:
        """The commit that the work checked out here began from.

        That is the last commit of the default branch in the history; on the default branch itself
        it is the commit before. `None` where neither is at hand.
        """
        head = self.commit()
        for name in _DEFAULT_BRANCHES:
            tip = self.commit(name)
            if head is None or tip is None:
                continue
            base = self.merge_base(head, tip)
            if base is not None and base != head:
                return base
            break
        return self.commit("HEAD^1")

    def relative(self, path: Path) -> str | None:
        """A path relative to the root, with `/`; `None` for one that lies outside."""
        resolved = path.resolve()
        return resolved.relative_to(self.root).as_posix() if self.holds(resolved) else None

    def holds(self, resolved: Path) -> bool:
        """Whether a resolved path lies in the working copy."""
        return resolved.is_relative_to(self.root)

    def _git(self, *words: str) -> str | None:
        return _git(self.root, *words)


def _git(folder: Path, *words: str) -> str | None:
    """What git answers, without the line end; `None` where it fails or is not installed."""
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
