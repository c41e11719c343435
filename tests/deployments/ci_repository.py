"""A scratch repository of git whose commits are days of the clerk, and the environment of CI jobs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command import Answer, assizes
from tests.tasks.suites.clerk import JUDGES, RUDE, write_day

TOML = """
name = "clerk"

[transcripts]
uri = "chats"

[judge]
judges = {judges}

[thresholds]
cases_pass_threshold = 50
metrics_pass_threshold = 50

[comparison]
mode = "{mode}"
"""
_GIT = (
    *("git", "-c", "user.name=Clerk", "-c", "user.email=clerk@example.com"),
    *("-c", "commit.gpgsign=false"),
)
NOBODY = dict.fromkeys(("GITHUB_ACTIONS", "GITLAB_CI", "GITHUB_STEP_SUMMARY"), "")


@dataclass(frozen=True)
class ScratchRepository:
    """A working copy with the store of `assizes ci` in it."""

    folder: Path

    @classmethod
    def begin(cls, folder: Path, *, mode: str = "rules") -> ScratchRepository:
        folder.mkdir()
        repository = cls(folder)
        repository.git("init", "--quiet", "--initial-branch", "main")
        text = TOML.format(judges=json.dumps(JUDGES), mode=mode)
        (folder / "assizes.toml").write_text(text)
        (folder / ".gitignore").write_text("assizes.duckdb*\n.assizes/\nreports/\n*.md\n*.json\n")
        return repository

    def git(self, *words: str) -> str:
        done = subprocess.run(
            [*_GIT, *words], cwd=self.folder, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit_day(
        self, version: str, *, rude: Collection[int] = (), words: str = RUDE, **more: Any
    ) -> str:
        """Commit the clerk's conversations of a day; returns the id of the commit."""
        write_day(self.folder / "chats" / "day.jsonl", version, rude=rude, words=words, **more)
        self.git("add", ".")
        self.git("commit", "--quiet", "--allow-empty", "--message", version)
        return self.git("rev-parse", "HEAD")

    def ci(self, *words: str, **environment: str) -> Answer:
        return assizes("ci", *words, cwd=self.folder, env={**NOBODY, **environment})

    def ci_json(self, *words: str, code: int = 0, **environment: str) -> dict[str, Any]:
        answer = self.ci(*words, "--json", **environment)
        assert answer.code == code, answer
        return dict(json.loads(answer.out))

    def pull_request(self, base: str, number: int = 7) -> dict[str, str]:
        """The environment of a GitHub job about a pull request, with its event in a file."""
        event = self.folder.parent / "event.json"
        event.write_text(json.dumps({"pull_request": {"number": number, "base": {"sha": base}}}))
        return {
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_BASE_REF": "main",
            "GITHUB_HEAD_REF": "change",
            "GITHUB_STEP_SUMMARY": str(self.folder.parent / "summary.md"),
            "GITHUB_OUTPUT": str(self.folder.parent / "output.txt"),
        }
