"""What people decide about causes: names, sentences, owners, silence, and which failures are one.

Rows of table `cause_edits` are append-only. An edit is undone by a row of kind `withdrawn` that names
it in `supersedes`. Of two edits that contradict each other the newer one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import polars as pl

EditKind = Literal["rename", "describe", "merge", "split", "mute", "unmute", "assign", "withdrawn"]
"""What an edit does; `withdrawn` undoes another edit.

The column `value` holds the name for `rename`, the sentence for `describe` (empty: what a judge said),
the owner for `assign` (empty: nobody), the id of the other cause for `merge`, and the id of the new
cause for `split`.
"""

WITHDRAWN: Final = "withdrawn"

MODEL_AUTHOR: Final = "model "
"""How the author of an edit begins that a model made; the name of the model follows."""


@dataclass(frozen=True, slots=True)
class CauseEdit:
    """What a person wants to change about a cause of a run."""

    cause: str  # its id, the beginning of it, or its name
    kind: EditKind
    value: str = ""  # a name, a sentence, an owner, or the cause into which this one is merged
    case_ids: Sequence[str] = ()  # that a split takes out of the cause
    author: str = ""
    note: str = ""
    edit_id: str = ""  # 32 hex digits; the same id again writes nothing


class Description(NamedTuple):
    """The sentence that somebody wrote about a cause."""

    text: str
    author: str  # `MODEL_AUTHOR` and its name for a model; may be empty


class CauseSplit(NamedTuple):
    """Cases of one run that a person took out of a cause."""

    cause_id: str
    part: str  # the id of the new cause
    run_id: str
    case_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class CauseEdits:
    """The edits that count."""

    names: Mapping[str, str] = field(default_factory=dict)  # by cause id, as all of these
    owners: Mapping[str, str] = field(default_factory=dict)
    muted: frozenset[str] = frozenset()
    merges: Mapping[str, str] = field(default_factory=dict)  # the cause that another one now is
    splits: tuple[CauseSplit, ...] = ()  # the oldest first
    sentences: Mapping[str, Description] = field(default_factory=dict)

    def current(self, cause_id: str) -> str:
        """The cause that a cause now is: itself, unless it was merged into another one."""
        return _last(self.merges, cause_id)

    @property
    def kept(self) -> frozenset[str]:
        """The causes that were merged or split by a person; the program merges none of them."""
        split = (name for each in self.splits for name in (each.cause_id, each.part))
        return frozenset([*self.merges, *self.merges.values(), *split])

    def current_ids(self, column: str = "cause_id") -> pl.Expr:
        """The causes that those of a column now are."""
        return pl.col(column).replace({name: self.current(name) for name in self.merges})

    def labelled(self, causes: pl.DataFrame) -> pl.DataFrame:
        """Rows of table causes with the names, sentences, owners and silence of edits."""
        key, owners = pl.col("cause_id"), dict(self.owners)
        texts = {cause: written.text for cause, written in self.sentences.items()}
        authors = {cause: written.author for cause, written in self.sentences.items()}
        return self.named(causes).with_columns(
            sentence=key.replace_strict(texts, default=pl.col("sentence"), return_dtype=pl.String),
            described_by=key.replace_strict(authors, default=None, return_dtype=pl.String),
            owner=key.replace_strict(owners, default=None, return_dtype=pl.String),
            muted=key.is_in(list(self.muted)),
        )

    def named(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the columns `cause_id` and `name`, with the names that people gave."""
        names, key = dict(self.names), pl.col("cause_id")
        given = key.replace_strict(names, default=pl.col("name"), return_dtype=pl.String)
        return rows.with_columns(name=given)


def current_edits(rows: pl.DataFrame) -> CauseEdits:
    """The edits that count, from all rows of table `cause_edits`.

    A merge that would lead in a circle is passed over. A split that was undone counts as a merge of
    the part into its cause, so that failures which runs have found as the part go back.
    """
    undone = pl.col("edit_id").is_in(rows["supersedes"].drop_nulls().implode())
    edits = rows.with_columns(undone=undone).sort("at", "edit_id", "case_id")
    count = edits.filter(~pl.col("undone"))
    owners = _last_values(count, "assign")
    silence = _last_values(count.with_columns(value="kind"), "mute", "unmute")
    return CauseEdits(
        _last_values(count, "rename"),
        {cause: owner for cause, owner in owners.items() if owner},
        frozenset(cause for cause, kind in silence.items() if kind == "mute"),
        _merges(edits),
        _splits(count),
        _sentences(count),
    )


def _last_values(edits: pl.DataFrame, *kinds: EditKind) -> dict[str, str]:
    """The value of the newest edit of these kinds, by cause."""
    rows = edits.filter(pl.col("kind").is_in(kinds)).select("cause_id", "value")
    return dict(rows.iter_rows())


def _sentences(edits: pl.DataFrame) -> dict[str, Description]:
    """The newest sentence of each cause; an empty one is none."""
    rows = edits.filter(pl.col("kind") == "describe").select("cause_id", "value", "author")
    newest = {cause: Description(text, author or "") for cause, text, author in rows.iter_rows()}
    return {cause: written for cause, written in newest.items() if written.text}


def _merges(edits: pl.DataFrame) -> dict[str, str]:
    merges: dict[str, str] = {}
    columns = edits.unique("edit_id", maintain_order=True)
    for kind, cause, value, undone in columns.select(
        "kind", "cause_id", "value", "undone"
    ).iter_rows():
        if kind == "split" and undone:
            merges[value] = cause
        elif kind == "merge" and not undone and not _leads_back(merges, cause, value):
            merges[cause] = value
    return merges


def _splits(edits: pl.DataFrame) -> tuple[CauseSplit, ...]:
    of_part = edits.filter(pl.col("kind") == "split").group_by("value", maintain_order=True)
    rows = of_part.agg(pl.first("cause_id", "run_id"), "case_id")
    return tuple(
        CauseSplit(cause, part, run_id, frozenset(case_ids))
        for part, cause, run_id, case_ids in rows.iter_rows()
    )


def is_circle(edits: CauseEdits, cause_id: str, into: str) -> bool:
    """Whether a merge of a cause into another one would lead back to the cause."""
    return _leads_back(edits.merges, cause_id, into)


def edits_of(rows: pl.DataFrame, cause_ids: Iterable[str]) -> list[dict[str, Any]]:
    """The edits of some causes in order of time, one entry for each, with the ids of its cases.

    The entry of an edit has `case_ids` in place of `case_id`, and `undone`: whether it no longer
    counts.
    """
    undone = rows["supersedes"].drop_nulls().implode()
    ids = list(cause_ids)
    is_about = pl.col("cause_id").is_in(ids) | (
        pl.col("kind").is_in(["merge", "split"]) & pl.col("value").is_in(ids)
    )
    grouped = rows.filter(is_about).group_by("edit_id", maintain_order=True)
    entries = grouped.agg(
        pl.exclude("case_id", "edit_id").first(),
        pl.col("case_id").filter(pl.col("case_id") != "").sort().alias("case_ids"),
    )
    return entries.with_columns(undone=pl.col("edit_id").is_in(undone)).to_dicts()


def _last(merges: Mapping[str, str], cause_id: str) -> str:
    seen = {cause_id}
    while (following := merges.get(cause_id)) is not None and following not in seen:
        seen.add(following)
        cause_id = following
    return cause_id


def _leads_back(merges: Mapping[str, str], cause_id: str, into: str) -> bool:
    others = {name: target for name, target in merges.items() if name != cause_id}
    return _last(others, into) == cause_id
