"""Blobs of Azure over real HTTP: what the documented interface says of containers and blobs.

Properties, downloads by range, and lists with `prefix`, `delimiter` and pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import count
from xml.sax.saxutils import escape

from aiohttp import web

from tests.doubles.cloud_storage import running_app

ACCOUNT = "accountofthetests"
KEY = "a2V5LW9mLXRoZS10ZXN0cw=="
MOST_PAGE = 5000
_TAGS = count(0x8DD000000000001)


@dataclass
class Blob:
    """One version of a blob."""

    content: bytes
    etag: str = field(default_factory=lambda: f"0x{next(_TAGS):X}")
    modified: datetime = field(default_factory=lambda: datetime.now(UTC))

    def headers(self) -> dict[str, str]:
        return {
            **{"ETag": f'"{self.etag}"', "Last-Modified": _date(self.modified)},
            **{"x-ms-blob-type": "BlockBlob", "x-ms-creation-time": _date(self.modified)},
            **{"Content-Type": "application/octet-stream", "x-ms-version": "2025-01-05"},
        }


class AzureBlobs:
    """The containers of one account."""

    def __init__(self) -> None:
        self.containers: dict[str, dict[str, Blob]] = {}
        self.reads: list[str] = []  # names of the blobs whose content was asked for
        self.unsigned: list[str] = []  # requests without a signature of the account

    def put(self, container: str, name: str, content: bytes) -> None:
        """Write a blob."""
        self.containers.setdefault(container, {})[name] = Blob(content)

    def add_routes(self, app: web.Application) -> None:
        """Add the routes to a server."""
        app.router.add_route("*", f"/{ACCOUNT}/{{container}}", self._container)
        app.router.add_route("*", f"/{ACCOUNT}/{{container}}/{{name:.+}}", self._blob)

    def connection_string(self, url: str) -> str:
        """What the client of Azure takes as the place and the key of the account."""
        parts = {"DefaultEndpointsProtocol": "http", "AccountName": ACCOUNT, "AccountKey": KEY}
        parts["BlobEndpoint"] = f"{url}/{ACCOUNT}"
        return ";".join(f"{name}={value}" for name, value in parts.items())

    def _note(self, request: web.Request) -> None:
        if not request.headers.get("Authorization", "").startswith(f"SharedKey {ACCOUNT}:"):
            self.unsigned.append(f"{request.method} {request.path}")

    async def _container(self, request: web.Request) -> web.StreamResponse:
        self._note(request)
        blobs = self.containers.get(request.match_info["container"])
        if blobs is None:
            return _refused("ContainerNotFound", "The specified container does not exist.")
        if request.query.get("comp") != "list":
            moment = _date(datetime.now(UTC))
            return web.Response(headers={"ETag": '"0x1"', "Last-Modified": moment})
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter", "")
        names: list[str] = []
        folders: set[str] = set()
        for name in sorted(blobs):
            if name.startswith(prefix):
                head, cut, _ = name[len(prefix) :].partition(delimiter or "\0")
                if cut:
                    folders.add(f"{prefix}{head}{delimiter}")
                else:
                    names.append(name)
        entries = sorted([*names, *folders])
        start = int(request.query.get("marker") or 0)
        end = start + min(int(request.query.get("maxresults", MOST_PAGE)), MOST_PAGE)
        rows = [
            f"<BlobPrefix><Name>{escape(each)}</Name></BlobPrefix>"
            if each in folders
            else _row(each, blobs[each])
            for each in entries[start:end]
        ]
        following = str(end) if end < len(entries) else ""
        body = (
            '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://x/" '
            f'ContainerName="{request.match_info["container"]}"><Prefix>{escape(prefix)}</Prefix>'
            f"<Blobs>{''.join(rows)}</Blobs><NextMarker>{following}</NextMarker>"
            "</EnumerationResults>"
        )
        return web.Response(text=body, content_type="application/xml")

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        self._note(request)
        name = request.match_info["name"]
        blob = self.containers.get(request.match_info["container"], {}).get(name)
        if blob is None:
            return _refused("BlobNotFound", "The specified blob does not exist.")
        if request.method == "HEAD":
            headers = {**blob.headers(), "Content-Length": str(len(blob.content))}
            return web.Response(headers=headers)
        wanted = request.headers.get("If-Match", "").strip('"')
        if wanted and wanted != blob.etag:
            return _refused("ConditionNotMet", "The condition was not met.", status=412)
        self.reads.append(name)
        said = request.headers.get("x-ms-range") or request.headers.get("Range")
        if not said:
            return web.Response(body=blob.content, headers=blob.headers())
        first, _, last = said.removeprefix("bytes=").partition("-")
        start, size = int(first), len(blob.content)
        end = min(int(last) if last else size - 1, size - 1)
        if start >= size:
            return _refused("InvalidRange", "The range is invalid.", status=416)
        headers = {**blob.headers(), "Content-Range": f"bytes {start}-{end}/{size}"}
        return web.Response(status=206, body=blob.content[start : end + 1], headers=headers)


@contextmanager
def running_blobs() -> Iterator[tuple[AzureBlobs, str]]:
    """Blobs in a thread of their own, with the address."""
    blobs, app = AzureBlobs(), web.Application()
    blobs.add_routes(app)
    with running_app(app) as url:
        yield blobs, url


def _row(name: str, blob: Blob) -> str:
    moment = _date(blob.modified)
    return (
        f"<Blob><Name>{escape(name)}</Name><Properties><Creation-Time>{moment}</Creation-Time>"
        f"<Last-Modified>{moment}</Last-Modified><Etag>{blob.etag}</Etag>"
        f"<Content-Length>{len(blob.content)}</Content-Length><BlobType>BlockBlob</BlobType>"
        "<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
    )


def _refused(code: str, message: str, status: int = 404) -> web.Response:
    body = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
    headers = {"x-ms-error-code": code}
    return web.Response(status=status, text=body, content_type="application/xml", headers=headers)


def _date(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)
