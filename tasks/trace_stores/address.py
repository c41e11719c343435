"""The URI of a place in a trace store: `langfuse://project`, `mlflow://experiment`, `phoenix://project`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args
from urllib.parse import quote, unquote

from assizes.judge.errors import ConfigurationError

StoreKind = Literal["langfuse", "mlflow", "phoenix"]

KINDS: Final[tuple[StoreKind, ...]] = get_args(StoreKind)
"""The kinds of trace stores, which are also the schemes of their URIs."""

_EXAMPLES: Final = "langfuse://project, mlflow://experiment or phoenix://project"
_MOST_CHARACTERS: Final = 500  # of the name of a project or an experiment


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A project or an experiment of a trace store. Which server it is on, the environment says."""

    kind: StoreKind
    name: str  # of the project or experiment, decoded; an id is accepted too

    @property
    def uri(self) -> str:
        """The URI of the address, with the name encoded."""
        return f"{self.kind}://{quote(self.name, safe='')}"


def is_trace_store(uri: str) -> bool:
    """Whether a URI names a place in a trace store."""
    return uri.partition("://")[0] in KINDS and "://" in uri


def parse_address(uri: str, where: str = "[transcripts] uri") -> StoreAddress:
    """The address that a URI names; `where` is the setting that holds the URI.

    Characters that a URI cannot hold are percent-encoded: `mlflow://my%20experiment`.

    Raises:
        ConfigurationError: the scheme is no trace store, or the name is missing, too long, or
            followed by a path or a query.
    """
    scheme, _, rest = uri.partition("://")
    kind = next((known for known in KINDS if known == scheme), None)
    if kind is None:
        raise ConfigurationError.unknown(
            "scheme", f"{scheme}://", [f"{k}://" for k in KINDS], where
        )
    written = rest.removesuffix("/")
    name = unquote(written).strip()
    if not name or not name.isprintable() or len(name) > _MOST_CHARACTERS:
        raise ConfigurationError(
            f"{where}: {uri!r} names no project or experiment; write {_EXAMPLES}"
        )
    if {"/", "?", "#", "@"} & set(written):
        raise ConfigurationError(
            f"{where}: {uri!r} holds more than a name; write {_EXAMPLES}, and percent-encode a "
            "slash in a name as %2F. The server and the keys are read from the environment"
        )
    return StoreAddress(kind, name)
