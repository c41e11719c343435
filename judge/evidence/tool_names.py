"""What the name of a tool says of it: that it searches, looks something up or makes charts.

A name is what its author hoped for. `step_kinds` weighs it against arguments and answer.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Final

_MANAGES: Final = frozenset(
    [
        "save",
        "share",
        "update",
        "delete",
        "remove",
        "clear",
        "cancel",
        "transfer",
        "hand",
        "handoff",
        "delegate",
    ]
)
"""First words of tools that keep searches or charts, or hand over to an agent for them."""

_BEFORE_OTHER_SEARCHES: Final = _MANAGES | {"create", "add", "set"}
_BEFORE_OTHER_CHARTS: Final = _MANAGES | {"get", "list", "read", "fetch", "load", "search", "find"}

_SEARCHES: Final = frozenset(("search", "searches", "similar"))
_LOOKUPS: Final = frozenset(("lookup", "retrieve", "retrieval", "retriever"))

_PICTURES: Final = frozenset(("visualization", "visualizations", "visualisation", "visualisations"))
_CHARTS: Final = _PICTURES | frozenset(["chart", "charts", "plot", "plots", "graph", "graphs"])
_MAKES: Final = (
    *("creat", "make", "making", "draw", "generat", "render", "build", "produc"),
    *("add", "insert", "show", "display", "plot"),
)
"""Beginnings of words for making a chart; a tool that only reads one has none of them."""
_KINDS: Final = frozenset(
    ["bar", "line", "pie", "donut", "scatter", "area", "histogram", "heatmap", "box", "column"]
)
_AFTER_CHARTS: Final = frozenset(
    [
        "tool",
        "agent",
        "image",
        "images",
        "png",
        "svg",
        "html",
        "url",
        "generator",
        "maker",
        "builder",
        "creator",
        "renderer",
    ]
)
_LINKS: Final = frozenset(("from", "with", "for", "by", "in", "into", "on", "to", "as"))


def name_words(name: str) -> list[str]:
    """The words of a name in lower case: `sqlQuery`, `sql_query` and `SQL-Query` are two words."""
    return [word.casefold() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name[:100])]


def is_named_for_search(tool: str) -> bool:
    """Whether a tool is named for a search: `product_search`, `similar_products`."""
    words = _own_words(tool)
    return _BEFORE_OTHER_SEARCHES.isdisjoint(words[:1]) and not _SEARCHES.isdisjoint(words)


def is_named_for_lookup(tool: str) -> bool:
    """Whether a tool is named for a look-up, which may also fetch one thing by its identifier."""
    words = _own_words(tool)
    is_lookup = not _LOOKUPS.isdisjoint(words) or {"look", "up"} <= set(words)
    return _BEFORE_OTHER_SEARCHES.isdisjoint(words[:1]) and is_lookup


def is_named_for_charts(tool: str) -> bool:
    """Whether a tool is named for making charts: `create_chart`, `bar_chart`, `visualize_sales`.

    `chart_of_accounts`, `plot_summary` and `knowledge_graph` are other things.
    """
    # What follows "from" or "for" says of what the chart is.
    words = list(takewhile(lambda word: word not in _LINKS, _own_words(tool)))
    bare = list(words)
    while bare and bare[-1] in _AFTER_CHARTS:
        bare.pop()
    if not bare or bare[0] in _BEFORE_OTHER_CHARTS or "knowledge" in bare:
        return False
    if bare[0] in ("visualize", "visualise") or bare[-1] in _PICTURES:
        return True
    others = words[: len(bare) - 1] + words[len(bare) :]  # all but the word for the chart
    makes = any(word.startswith(_MAKES) or word in _KINDS for word in others)
    return bare[-1] in _CHARTS and (makes or bare in (["chart"], ["plot"]))


def begins_with_chart(tool: str) -> bool:
    """Whether the first word may be the verb for making charts: `plot_sales`, and `plot_summary`."""
    return bool({"chart", "plot", "graph"} & set(_own_words(tool)[:1]))


def _own_words(tool: str) -> list[str]:
    """The words of a tool's name without its server: `mcp__shop__search` is `search`."""
    return name_words(tool.rpartition("__")[2])
