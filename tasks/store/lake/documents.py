"""The JSON documents of a lake: each is written whole and carries the schema version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from assizes.judge.errors import SchemaVersion, StoreError
from assizes.judge.rows import SCHEMA_VERSION, as_json
from assizes.tasks.store.objects.protocol import Objects


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """The content of a document, and the SHA-256 of its bytes."""

    content: Mapping[str, Any]
    sha256: str


class Documents:
    """Reads the documents of one lake.

    Lasting documents are created once and never change, so they are cached once they were read.
    """

    def __init__(self, uri: str, objects: Objects) -> None:
        self._uri = uri
        self._objects = objects
        self._lasting: dict[str, StoredDocument] = {}

    def read_content(self, name: str) -> Mapping[str, Any] | None:
        """The content of a document; None where there is no such document."""
        document = self.read_documents([name]).get(name)
        return None if document is None else document.content

    def read_documents(self, names: Iterable[str]) -> dict[str, StoredDocument]:
        """The named documents that exist, by object name in the order given.

        Raises:
            SchemaVersion: when a document has another schema version.
            StoreError: when a document is not a JSON object.
        """
        return {
            name: self._checked_document(name, data)
            for name, data in self._objects.read(list(names)).items()
        }

    def read_lasting(self, names: Iterable[str]) -> dict[str, StoredDocument]:
        """The same as `read_documents` for lasting documents, each fetched once."""
        all_names = list(names)
        self._lasting.update(
            self.read_documents(name for name in all_names if name not in self._lasting)
        )
        return {name: self._lasting[name] for name in all_names if name in self._lasting}

    def read_folder(self, folder: str) -> dict[str, StoredDocument]:
        """All lasting documents that lie directly below a folder now, by object name."""
        return self.read_lasting(f"{folder}/{name}" for name in self._objects.names(folder))

    def _checked_document(self, name: str, data: bytes) -> StoredDocument:
        content = parse_document(self._objects.where, name, data)
        version = content.get("schema_version")
        if version != SCHEMA_VERSION:
            raise SchemaVersion.mismatch(self._uri, version, SCHEMA_VERSION)
        return StoredDocument(content, hashlib.sha256(data).hexdigest())


def parse_document(where: str, name: str, data: bytes) -> dict[str, Any]:
    """The JSON object in some bytes.

    Args:
        where: the root of the objects, for the message.
        name: of the object that the bytes are from, for the message.
        data: the bytes.

    Raises:
        StoreError: when the bytes are not a JSON object.
    """
    try:
        document = json.loads(data)
    except ValueError as error:
        raise StoreError(f"{where}: {name} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise StoreError(f"{where}: {name} is not a JSON object")
    return document


def encode_document(**content: Any) -> bytes:
    """The bytes of a document with this schema version; the same content gives the same bytes."""
    return as_json({"schema_version": SCHEMA_VERSION, **content}).encode()
