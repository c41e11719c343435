"""The Model Context Protocol over stdin and stdout: lists the tools, calls them, words errors."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from assizes.deployments.agents.answers import shortened
from assizes.deployments.agents.parameters import parameters_schema
from assizes.deployments.agents.tools import INSTRUCTIONS, Tool, offered_tools, tool_named
from assizes.deployments.agents.workspace import Workspace
from assizes.deployments.terminal import tell_user
from assizes.judge.errors import AssizesError, ConfigurationError

if TYPE_CHECKING:
    import mcp_types
    from mcp.server.lowlevel import Server

ERROR_CHARS = 1000
"""Characters of an error, at most; some name everything that is known."""

WORKERS = 4
"""Calls of tools that are answered at the same time; others wait."""


def serve_agents(workspace: Workspace) -> None:
    """Answer one client on stdin and stdout until it closes them.

    Nothing but the protocol is written to stdout: the package points it at stderr meanwhile.

    Raises:
        ConfigurationError: the package `mcp` is not installed.
    """
    if find_spec("mcp") is None:
        raise ConfigurationError("assizes mcp: needs the extra mcp: pip install 'assizes[mcp]'")
    allowed = ", ".join(sorted(workspace.allowed)) or "nothing that writes"
    tell_user(
        f"MCP server over {workspace.config.store.uri} on stdin and stdout; allowed: {allowed}"
    )
    asyncio.run(_serve(workspace))


async def _serve(workspace: Workspace) -> None:
    from mcp.server.stdio import stdio_server

    server = protocol_server(workspace)
    async with stdio_server() as (requests, answers):
        await server.run(requests, answers, server.create_initialization_options())


def protocol_server(workspace: Workspace) -> Server[Any]:
    """The server of the official package with the tools of a workspace."""
    import anyio
    import mcp_types
    from mcp.server.lowlevel import Server

    slots = anyio.Semaphore(WORKERS)

    async def list_tools(_: Any, __: Any) -> mcp_types.ListToolsResult:
        tools = [_described(tool) for tool in offered_tools(workspace)]
        return mcp_types.ListToolsResult(tools=tools)

    async def call_tool(
        _: Any, params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        async with slots:  # in a thread: a slow store holds up no other message
            return await anyio.to_thread.run_sync(_result, workspace, params)

    return Server(
        "assizes",
        title="Assizes",
        version=version("assizes"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _described(tool: Tool) -> mcp_types.Tool:
    import mcp_types

    hints = mcp_types.ToolAnnotations(
        title=tool.title,
        read_only_hint=not tool.writes,
        destructive_hint=False,
        idempotent_hint=tool.permission != "label",
        open_world_hint=tool.permission == "run",
    )
    return mcp_types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=parameters_schema(tool.parameters),
        annotations=hints,
    )


def _result(
    workspace: Workspace, params: mcp_types.CallToolRequestParams
) -> mcp_types.CallToolResult:
    """What a tool answers, or one line that says what is wrong."""
    import mcp_types

    is_error = False
    try:
        text = tool_named(workspace, params.name).call(workspace, params.arguments or {})
    except AssizesError as error:  # its secrets are masked
        text, is_error = shortened(" ".join(str(error).split()), ERROR_CHARS), True
    content = mcp_types.TextContent(type="text", text=text)
    return mcp_types.CallToolResult(content=[content], is_error=is_error)
