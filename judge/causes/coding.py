"""From causes to failure codes: each cause that has no code yet becomes an entry of a codebook."""

from __future__ import annotations

import polars as pl

from assizes.judge.causes.naming import typical_failures
from assizes.judge.rubrics.codebook import (
    DEFINITION_CHARS,
    MAX_CODES,
    NAME_CHARS,
    Code,
    Codebook,
    code_name,
    quotable,
)


def new_codes(causes: pl.DataFrame, remembered: pl.DataFrame, book: Codebook) -> list[Code]:
    """Codes for the causes of a run that a codebook does not know, in the order of the causes.

    The definition is the sentence of the cause, if it can stand in a prompt, else its name. People
    are to write a better one. A codebook has `MAX_CODES` codes at the most.

    Args:
        causes: rows of table causes; causes that no case of the run shows are left out.
        remembered: the latest failures of these causes, with `cause_id` and the columns `FAILURES`.
        book: what people have so far.
    """
    own = causes.filter(pl.col("cases") > 0, ~pl.col("cause_id").is_in(list(book.known_causes)))
    taken, codes = [code.code for code in book.codes], list[Code]()
    room = MAX_CODES - len(book.codes)
    for row in own.head(max(0, room)).iter_rows(named=True):
        failures = remembered.filter(pl.col("cause_id") == row["cause_id"])
        code = code_name(row["name"], row["cause_id"], taken)
        taken.append(code)
        name = " ".join(quotable([row["name"]])) or code
        definition = " ".join(quotable([row["sentence"]])) or name
        codes.append(
            Code(
                code=code,
                name=name[:NAME_CHARS],
                definition=definition[:DEFINITION_CHARS],
                examples=quotable(typical_failures(failures)["reason"].to_list(), 3),
                causes=[row["cause_id"]],
            )
        )
    return codes
