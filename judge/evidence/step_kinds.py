"""What a step does, read off what it takes and what it returns: it runs SQL, searches, makes a chart.

Where these say too little, words in the tool's name decide (`tool_names`). Every pattern runs in
linear time, because the texts are untrusted.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.evidence.steps import AgentStep, json_value
from assizes.judge.evidence.tool_names import (
    begins_with_chart,
    is_named_for_charts,
    is_named_for_lookup,
    is_named_for_search,
    name_words,
)

_DEEPEST: Final = 8  # a bound for hostile nesting
"""Levels of nested argument values that are searched for texts."""

_HEAD: Final = 2_000
"""Characters of a text, after leading comments, in which keywords are looked for."""


@dataclass(frozen=True, slots=True)
class SqlCall:
    """An SQL statement and the step that ran it."""

    statement: str
    step: AgentStep


# SQL

# Atomic groups keep the time linear: otherwise comments match in exponentially many ways.
_LEADING: Final = re.compile(r"(?:\s|```(?:sql\b)?|--[^\n]*+|(?>/\*.*?\*/)|\()*+", re.I | re.S)
_GRAMMAR: Final = re.compile(
    r"""
        select\s++(?:\*|\d|'|distinct\b|\w++\s*+\()
      | select\b(?=.*?\bfrom\s++(?!(?:the|an?|my|our|your|this|that|these|those)\b))
      | with\s++(?:recursive\s++)?[\w"`]++(?:\s*+\([^)]*+\))?\s*+as\s*+(?:not\s++)?
        (?:materialized\s*+)?\(
      | (?:insert|replace)\s++(?:or\s++\w++\s++)?into\s
      | update\s++[\w."`\[\]]++\s++(?:(?:as\s++)?\w++\s++)?set\s
      | delete\s++from\s | merge\s++into\s | truncate\s++(?:table\s++)?\w
      | (?:create|drop|alter)\s++(?:or\s++replace\s++)?(?:temp(?:orary)?\s++)?
        (?:unique\s++)?(?:table|view|index|schema|database|trigger)\s
      | explain\s++(?:query\s++plan\s++|analyze\s++)?(?:select|with|insert|update|delete)\s
      | (?:pragma\s++\w|show\s++(?:tables|columns|databases)\b)
      | copy\s++(?:[\w."`]++|\([^)]*+\))\s*+(?:\([^)]*+\)\s*+)?(?:to|from)\s++(?:'|std)
      | (?:grant|revoke)\s(?=[^;']*?\son\s[\w."`* ]{1,80}?\s(?:to|from)\s)
      | attach\s++(?:database\s++)?'[^']*+' | (?:call|exec(?:ute)?)\s++[\w."`]++\(
      | values\s*+\( | (?:begin|commit|rollback|start)(?:\s++\w++)?+\s*+;
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
SQL_ARGUMENTS: Final = ("sql", "query", "statement")
"""Names of arguments that may hold SQL."""
_KEYWORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "SELECT INSERT UPDATE DELETE MERGE REPLACE TRUNCATE CREATE ALTER DROP RENAME COPY GRANT "
        "REVOKE ATTACH DETACH CALL EXEC EXECUTE BEGIN START COMMIT ROLLBACK TRANSACTION SET RESET "
        "SHOW USE DESCRIBE EXPLAIN ANALYZE VACUUM REINDEX PRAGMA LOCK LOAD EXPORT IMPORT DECLARE "
        "PREPARE FROM WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT JOIN USING VALUES INTO TABLE "
        "VIEW INDEX SCHEMA DATABASE FUNCTION PROCEDURE TRIGGER ROLE PRIVILEGES DISTINCT RETURNING",
    )
)
_NEAR: Final = 0.83  # of difflib's ratio: one letter of six is missing, added or swapped
_QUOTED: Final = re.compile(r"'[^']*+'|\"[^\"]*+\"|`[^`]*+`|--[^\n]*+")
_WORD: Final = re.compile(r"[^\W\d]\w*+")
_PLAIN: Final = re.compile(
    r"\b(?:the|my|our|your|their|this|that|these|those|me|please|how|what|which|who|whose)\b"
    r"|\ban?\s(?!(?:from|join|on|set|to|using|where)\b)[a-z]{2}|\w\?\s*$",
    re.IGNORECASE,
)
"""Words of a sentence: a text with one of them, outside quotes, is a request in plain language."""
_SQL_ERROR: Final = re.compile(r"\b(?:syntax error|no such (?:table|column)|sqlstate)\b", re.I)


def is_sql(text: str) -> bool:
    """Whether a text is an SQL statement: by its grammar, a letter amiss in the verb, or keywords.

    Keywords are those that are written in capitals. `select a gift from my wish list` is none.
    """
    if _GRAMMAR.match(_LEADING.sub("", text, count=1)):
        return True
    bare = _bare(text)
    verb = _WORD.match(bare)
    if verb is None or _PLAIN.search(bare):
        return False
    near = difflib.get_close_matches(verb[0][:20].upper(), _KEYWORDS, 1, _NEAR)
    if near and _GRAMMAR.match(near[0] + bare[verb.end() :]):
        return True
    words = _WORD.findall(bare)
    keywords = [word for word in words if word in _KEYWORDS]
    # A heading in capitals may hold keywords, too, but then it has other words and no signs.
    is_heading = bare.isupper() and len(keywords) < len(words) and not re.search("[=*(;']", bare)
    is_ended = bare.endswith(";") or "=" in bare
    return verb[0].isupper() and not is_heading and len(keywords) + is_ended > 1


def sql_calls(
    steps: Iterable[AgentStep], tools: Sequence[str], arguments: Sequence[str]
) -> tuple[SqlCall, ...]:
    """Every SQL statement that the steps ran, in order, however it begins.

    A text is one where it reads as SQL or stands where SQL stands. With `tools`, only calls of
    these count, but every text in an argument named in `arguments`.
    """
    pairs = [
        (step, list(_argument_texts(step))) for step in steps if not tools or step.name in tools
    ]
    held = {(step.name, key) for step, texts in pairs for key, text in texts if is_sql(text)}
    calls: list[SqlCall] = []
    for step, texts in pairs:
        statements = [
            text
            for key, text in texts
            if is_sql(text)
            or (tools and (key in arguments or not key))
            or (_speaks_of_sql(key) and key.casefold().endswith(tuple(arguments)))
            or ((step.name, key) in held and not _PLAIN.search(_bare(text)))
            or (key in ("", *arguments) and _is_taken_as_sql(step, text))
        ]
        # Some tools write their SQL themselves, and report it in their result.
        calls += [
            SqlCall(text.strip(), step) for text in statements or _reported_sql(step, arguments)
        ]
    return tuple(calls)


def _is_taken_as_sql(step: AgentStep, text: str) -> bool:
    """Whether the tool's name, its answer or a first keyword in capitals speaks of SQL."""
    bare = _bare(text)
    begins = not bare.isupper() and not _KEYWORDS.isdisjoint(bare.split()[:1])
    return not _PLAIN.search(bare) and bool(
        begins or _speaks_of_sql(step.name) or _SQL_ERROR.search(step.result or "")
    )


def _bare(text: str) -> str:
    """The head of a text without leading comments, and with nothing in its quotes."""
    return _QUOTED.sub("''", _LEADING.sub("", text, count=1)[:_HEAD]).strip()


def _speaks_of_sql(name: str) -> bool:
    return any(word.endswith("sql") for word in name_words(name))


def _argument_texts(step: AgentStep) -> Iterator[tuple[str, str]]:
    """Yield the texts of a step's arguments that are not blank, each after its name."""
    whole = (("", step.raw),) if step.raw is not None and not step.arguments else ()
    yield from (pair for pair in whole or _texts(step.arguments) if pair[1].strip())


def _reported_sql(step: AgentStep, arguments: Sequence[str]) -> list[str]:
    result = json_value(step.result)
    if not isinstance(result, Mapping):
        return []
    values = [result.get(key) for key in arguments]
    return [text for text in values if isinstance(text, str) and is_sql(text)]


# Searches

_LISTS: Final = ("results", "items", "products", "documents", "hits", "matches", "data")
"""The keys under which a JSON object may hold the list of its results."""
_ITEM_KEYS: Final = frozenset(("id", "name", "title", "text", "content"))
"""Keys of an item itself: an object with one of them is a result, not a list of results."""
_NOTHING: Final = re.compile(
    r"(?:\[\]|\{\}|null|none|nothing(?: found)?|[^\n]{0,60}\bnot found"
    r"|(?:\w+ )?(?:could not|couldn't|did not|didn't|cannot|can't) find\b[^\n]{0,120}"
    r"|(?:no|0|zero)\s[^\n]{0,60}?\b(?:found|results?|match(?:es)?|hits?|products?|items?)"
    r"(?:\s(?:for|found|matching|match|in|with|on|that)\b[^\n]{0,120})?)[.!]?",
    re.IGNORECASE,
)
_ERROR: Final = re.compile(
    r"(?:\w+ ){0,2}\w*(?:error|exception)\b\s*(?:[:(]|(?:\d{3}\b\s*)?$)|traceback\b"
    r"|[^\n:]{0,40}\b(?:failed|timed out)\b[^\n]*\Z",  # alone in its line: else a title may say so
    re.IGNORECASE,
)
_QUERY_WORDS: Final = frozenset(("query", "q", "search", "keyword", "keywords"))
"""Words in the name of an argument that says what is looked for."""


def search_steps(steps: Sequence[AgentStep], tools: Sequence[str]) -> tuple[AgentStep, ...]:
    """The steps that search: calls of `tools`; without `tools`, of any tool that is seen to search.

    A tool is seen to search where a call of it takes words to look for, and is no SQL, no chart and
    no call of a sub-agent: by the argument's name, by the tool's name, or by words that the tool
    answers with a list.
    """
    others = {call.step.name for call in sql_calls(steps, (), SQL_ARGUMENTS)}
    others |= {name for step in steps for name in step.within}
    names = set(tools) or {step.name for step in steps if _is_search(step)} - others
    return tuple(step for step in steps if step.name in names)


def _is_search(step: AgentStep) -> bool:
    if _is_chart(step):
        return False
    texts, value = list(_argument_texts(step)), json_value(step.result)
    if isinstance(value, int | float):
        return False  # a number is an answer, no result of a search
    takes_query = any(not _QUERY_WORDS.isdisjoint(name_words(key)) for key, _ in texts)
    if takes_query or is_named_for_search(step.name):
        return True
    # Whoever has an identifier fetches what it stands for. Dates and numbers say nothing.
    worded = [(key, text.strip()) for key, text in texts if any(map(str.isalpha, text))]
    if not worded or any(
        name_words(key)[-1:] in (["id"], ["number"]) or re.fullmatch(r"\S*\d\S*", text)
        for key, text in worded
    ):
        return False
    if _list_in(value) is not None or _NOTHING.fullmatch((step.result or "").strip()):
        return True
    # A look-up may be answered in lines of text; one object is what was fetched.
    return is_named_for_lookup(step.name) and not isinstance(value, Mapping)


def found_items(step: AgentStep) -> tuple[Any, ...]:
    """The items that a search returned; none for an error, or for a text such as `no results`.

    The items are the members of a JSON list, or of a list in a JSON object, or the lines of a text.
    """
    text = (step.result or "").strip()
    # An error text lists no items, whether or not the transcript marks it as one.
    if step.failed or not text or _NOTHING.fullmatch(text) or _ERROR.match(text):
        return ()
    value = json_value(text)
    if isinstance(value, Mapping):
        members = _list_in(value)
        has_error = value.get("error") or value.get("status") in ("error", "failed")
        is_nothing = has_error or not any(value.values())  # such as `{"count": 0}`
        value = members if members is not None else [] if is_nothing else [value]
    if isinstance(value, list):
        return tuple(item for item in value if item not in (None, "", {}))
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _list_in(value: Any) -> list[Any] | None:
    """The list that a JSON value is, or that an object holds as its results; else `None`."""
    if isinstance(value, list):
        return value
    if not isinstance(value, Mapping):
        return None
    known = [value[key] for key in _LISTS if isinstance(value.get(key), list | Mapping)]
    if known and isinstance(known[0], list):
        return known[0]
    for holder in (*known[:1], value):  # one level down: `{"hits": {"hits": []}}`
        lists = [item for item in holder.values() if isinstance(item, list)]
        if len(lists) == 1 and _ITEM_KEYS.isdisjoint(holder):
            return lists[0]
    return None


# Charts

_TYPE_KEYS: Final = (
    *("chart_type", "visualization_type", "plot_type", "graph_type"),
    *("type", "kind", "chart", "mark"),
)
_KINDS: Final = re.compile("bar|line|pie|donut|scatter|area|histogram|heatmap|box")
_KIND_IN_WORDS: Final = re.compile(
    rf"\b({_KINDS.pattern}|column|doughnut)[\s_-]*+(?:chart|graph|plot|diagram)s?\b", re.IGNORECASE
)
_NETWORK: Final = frozenset(("nodes", "edges", "entities", "relations", "triples"))
"""Arguments of a graph of things and their relations, which is no chart."""
_IMAGE: Final = re.compile(r"data:image/|<svg\b|\.(?:png|svg|jpe?g|webp)\b", re.IGNORECASE)
_CHART_WORD: Final = re.compile(r"[\s_-]*(?:chart|graph|plot|diagram)s?")
_SAME_CHART: Final = {"column": "bar", "columns": "bar", "bars": "bar", "doughnut": "donut"}


def chart_steps(steps: Sequence[AgentStep], tools: Sequence[str]) -> tuple[AgentStep, ...]:
    """The steps that make charts: calls of `tools`; without `tools`, of any tool seen to make one.

    A tool is seen to make charts where a call of it takes a kind of chart or both axes, takes data
    and returns an image, or has a name that says so.
    """
    names = set(tools) or {step.name for step in steps if _is_chart(step)}
    return tuple(step for step in steps if step.name in names)


def _is_chart(step: AgentStep) -> bool:
    takes_data = any(isinstance(value, list | Mapping) for value in step.arguments.values())
    keys = {
        key
        for key, text in _keyed_texts(step.arguments)
        if key in _TYPE_KEYS[:4] or (key in _TYPE_KEYS and _KINDS.fullmatch(_chart(text)))
    }
    # The axes are columns or series; two numbers are a point on a screen.
    axes = {
        word
        for key, value in step.arguments.items()
        if isinstance(value, list) or (isinstance(value, str) and not value.isdecimal())
        for word in name_words(key)[:1]
    }
    if not keys.isdisjoint(_TYPE_KEYS[:4]) or {"x", "y"} <= axes:
        return True
    value = json_value(step.result)
    # A place may be of the type `bar`, too; whoever asks for places gets a list of them.
    if keys:
        return takes_data or _list_in(value) is None
    is_image = _IMAGE.search((step.result or "")[:_HEAD]) is not None
    if takes_data and is_image:
        return True
    is_named = is_named_for_charts(step.name)
    is_named = is_named or (begins_with_chart(step.name) and (takes_data or is_image))
    # Charts of music are read, and answered with a list.
    is_other = isinstance(value, int | float) or (isinstance(value, list) and not takes_data)
    return is_named and not is_other and _NETWORK.isdisjoint(step.arguments)


def chart_type(step: AgentStep) -> str | None:
    """The kind of chart that a step made, by its arguments or result; `None`: not stated.

    Where no key states it, it is the one kind that the arguments name: `a bar chart of sales`.
    """
    result = json_value(step.result)
    for holder in (step.arguments, result if isinstance(result, Mapping) else {}):
        kinds = [(key, text) for key, text in _keyed_texts(holder) if key in _TYPE_KEYS]
        if kinds:
            # The most telling key decides: a bare `type` may be that of an axis.
            return min(kinds, key=lambda pair: _TYPE_KEYS.index(pair[0]))[1]
    texts = [text[:_HEAD] for _, text in _argument_texts(step)]
    named = {kind.casefold() for text in texts for kind in _KIND_IN_WORDS.findall(text)}
    named |= {_chart(text) for text in texts if _KINDS.fullmatch(_chart(text))}
    return named.pop() if len(named) == 1 else None


def _keyed_texts(value: Any) -> Iterator[tuple[str, str]]:
    """`_texts`, with keys such as `chartType`, `chart-type` and `Chart_Type` as `chart_type`."""
    return (("_".join(name_words(key)), text) for key, text in _texts(value))


def is_same_chart(kind: str | None, other_kind: str | None) -> bool:
    """Whether two names mean one kind of chart, as `Bar Chart`, `bar_chart` and `column` do."""
    return kind is not None and other_kind is not None and _chart(kind) == _chart(other_kind)


def _chart(name: str) -> str:
    # The name of a chart is short; the cut keeps the pattern fast on long texts.
    name = name[:60]
    bare = _CHART_WORD.sub("", " ".join(name.casefold().split()))
    return _SAME_CHART.get(bare, bare)


def _texts(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the texts in an argument value, each after the name under which it stands."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping) and depth < _DEEPEST:
        for name, item in value.items():
            yield from _texts(item, str(name), depth + 1)
    elif isinstance(value, list | tuple) and depth < _DEEPEST:
        for item in value:
            yield from _texts(item, key, depth + 1)  # the members of a list share its name
