"""An assistant walks the demo over `assizes mcp`: which run regressed last, why, the worst case; tokens of each answer.

The table is that of docs/mcp.md. Tokens are the product's own estimate (`estimated_tokens`).

Usage: python -m benchmarks.agents [FOLDER]
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from assizes.judge.config.judging import estimated_tokens

STORE = "demo/demo.duckdb"
"""The store of `assizes demo --nights`, from the folder of the walk on."""


@dataclass(frozen=True)
class Step:
    """A call of a tool in the walk, and what it answered."""

    asks: str  # what the assistant wants to know
    call: str
    text: str
    is_error: bool = False

    @property
    def tokens(self) -> int:
        """Estimated tokens of the answer."""
        return estimated_tokens(self.text)


@asynccontextmanager
async def client(
    folder: Path, *options: str, log: TextIO = sys.stderr, env: Mapping[str, str] | None = None
) -> AsyncIterator[Client]:
    """A client of the official package that started `assizes mcp` in a folder."""
    command = ["-m", "assizes.deployments.cli", "mcp", "--store", STORE, *options]
    whole = {**os.environ, **(env or {})}
    server = StdioServerParameters(command=sys.executable, args=command, cwd=folder, env=whole)
    async with Client(stdio_client(server, errlog=log)) as connected:
        yield connected


async def answer(connected: Client, asks: str, tool: str, **arguments: Any) -> Step:
    """Call a tool."""
    result = await connected.call_tool(tool, arguments)
    (content,) = result.content
    shown = ", ".join(f"{name}={json.dumps(value)}" for name, value in arguments.items())
    return Step(asks, f"{tool}({shown})", content.text, bool(result.is_error))


def field(text: str, name: str) -> Any:
    """The first value that an answer has under a name."""
    found = re.search(rf'"{name}":("(?:[^"\\]|\\.)*"|[^,}}\]]+)', text)
    assert found, f"no {name} in {text}"
    return json.loads(found[1])


async def walk(connected: Client) -> list[Step]:
    """Which run regressed last, why, the worst case, why it failed, and its promotion where that is allowed."""
    tools = (await connected.list_tools()).tools
    listing = json.dumps(
        [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools]
    )
    steps = [Step("which tools there are", "tools/list", listing)]

    async def ask(asks: str, tool: str, **arguments: Any) -> str:
        steps.append(await answer(connected, asks, tool, **arguments))
        return steps[-1].text

    run = field(
        await ask("which run regressed last", "list_runs", verdict="regression", limit=1), "run_id"
    )
    await ask("what it concluded", "read_run", run=run)
    compared = await ask("why it is worse", "compare_runs", candidate=run)
    await ask("what its failures have in common", "list_causes", run=run)
    await ask("its cases, the worst first", "list_cases", run=run, limit=5)
    worst = field(compared, "case")
    await ask("the case that fell most", "open_case", run=run, case=worst)
    await ask(
        "why a score of it is low", "explain_score", run=run, case=worst, metric="task_completion"
    )
    await ask("how numbers moved", "read_trends", name="demo")
    if "promote_cases" in {tool.name for tool in tools}:
        await ask("keep the case", "promote_cases", run=run, suite="guarded", cases=[worst])
    return steps


def table(steps: Sequence[Step]) -> str:
    """The steps as a Markdown table."""
    rows = [
        f"| {step.asks} | `{re.sub(r'[(].*', '', step.call)}` | {len(step.text):,} | {step.tokens:,} |"
        for step in steps
    ]
    total = sum(step.tokens for step in steps)
    rows.append(f"| all | | {sum(len(step.text) for step in steps):,} | {total:,} |")
    return "\n".join(
        ["| question | tool | characters | tokens |", "| --- | --- | ---: | ---: |", *rows]
    )


async def _walked(folder: Path) -> list[Step]:
    async with client(folder, "--allow", "promote") as connected:
        return await walk(connected)


def _demo(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "assizes.deployments.cli",
        "demo",
        "--nights",
        "--folder",
        "demo",
    ]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Make the demo in a folder, walk it, print the table."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch)
        if not (folder / STORE).exists():
            _demo(folder)
        print(table(asyncio.run(_walked(folder))))


if __name__ == "__main__":
    main()
