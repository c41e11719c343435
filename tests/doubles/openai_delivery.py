"""How an answer goes over the wire: whole, in drops, in part, or not at all."""

from __future__ import annotations

import asyncio
import socket
import struct

from aiohttp import web

from tests.doubles.openai_answer import Answer

DRIP_S = 0.15
"""Between two bytes of an answer that drips."""
NO_LINGER = struct.pack("ii", 1, 0)


async def deliver(request: web.Request, answer: Answer) -> web.StreamResponse:
    """Send an answer the way it asks for.

    Raises:
        ConnectionError: the caller left.
    """
    if answer.delivery == "whole":
        return web.Response(
            body=answer.body,
            status=answer.status,
            headers=answer.headers,
            content_type=answer.content_type,
        )
    if answer.delivery == "reset":
        return _reset(request)
    if answer.delivery == "hang":
        await asyncio.sleep(answer.wait_s)
        return _closed(request)
    return await _in_part(request, answer)


async def _in_part(request: web.Request, answer: Answer) -> web.StreamResponse:
    """The headers promise the whole body."""
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    response.content_type = answer.content_type
    response.content_length = len(answer.body)
    await response.prepare(request)
    if answer.delivery == "drip":
        for at in range(len(answer.body)):
            await response.write(answer.body[at : at + 1])
            await asyncio.sleep(DRIP_S)
        return response
    await response.write(answer.body[: len(answer.body) // 2])
    if answer.delivery == "stall":
        await asyncio.sleep(answer.wait_s)
    _closed(request)
    return response


def _reset(request: web.Request) -> web.StreamResponse:
    """End the connection with a reset instead of a farewell."""
    transport = request.transport
    if transport is not None:
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        transport.abort()
    return web.Response()


def _closed(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.close()
    return web.Response()
