"""Which groups of a run are causes that earlier runs had.

A cause is known by failures of earlier runs. The mean vectors of groups and of known causes are
matched one to one so that the sum of their cosines is largest (the Hungarian method, Kuhn, 1955). A
group that is left over and near to a known cause is a part of it: one run's reasons may fall apart
where those of many runs hold together.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]
from sklearn.preprocessing import normalize  # type: ignore[import-untyped]

from assizes.judge.causes.grouping import ALONE, GroupedReasons
from assizes.judge.causes.reason_space import mean_vectors, plain_reason

SAME_CAUSE: Final = 0.3
"""The cosine of the mean vectors from which a group is a known cause.

It was chosen with the development modes of `make bench-causes`; other modes measure it.
"""

REMEMBERED: Final = 40
"""The most failures by which a cause is known, the latest ones."""

LEAST_CASES: Final = 2
"""The fewest cases of a new cause."""


def causes_of(failures: pl.DataFrame, known: pl.DataFrame, origin: str) -> pl.DataFrame:
    """The failures with a column `cause_id`, in the order in which they came.

    Args:
        failures: of one run, with the columns `FAILURES`.
        known: failures of earlier runs, with the columns `FAILURES` and `cause_id`.
        origin: what, beside the failures themselves, makes the ids of new causes: a run id.

    Returns:
        The failures; `cause_id` is None where a failure has no cause in common with another.
    """
    grouped = GroupedReasons(failures, known)
    groups = grouped.of_rows()
    ids: dict[int, str] = _known_groups(grouped, known)
    for number in sorted(set(range(grouped.count)) - ids.keys()):
        members = failures.filter(pl.Series(groups == number))
        if members["case_id"].n_unique() >= LEAST_CASES:
            ids[number] = _new_id(members, origin)
    names = [ids.get(number) if number != ALONE else None for number in groups.tolist()]
    return failures.with_columns(pl.Series("cause_id", names, dtype=pl.String))


def _known_groups(grouped: GroupedReasons, known: pl.DataFrame) -> dict[int, str]:
    """The id of the known cause of each group that is one."""
    if grouped.means is None or not known.height:
        return {}
    causes = known["cause_id"].unique().sort().to_list()
    places = {cause: number for number, cause in enumerate(causes)}
    vectors = grouped.vectors(known.select(plain_reason().alias("text"), "code"))
    own = np.array([places[cause] for cause in known["cause_id"].to_list()])
    means = normalize(mean_vectors(vectors, own, len(causes)))
    cosines = np.asarray((normalize(grouped.means) @ means.T).todense())
    rows, columns = linear_sum_assignment(cosines, maximize=True)
    nearest = cosines.argmax(axis=1)
    nearest[rows] = np.where(cosines[rows, columns] >= SAME_CAUSE, columns, nearest[rows])
    near = cosines[np.arange(len(nearest)), nearest] >= SAME_CAUSE
    return {int(group): causes[nearest[group]] for group in np.flatnonzero(near)}


def _new_id(members: pl.DataFrame, origin: str) -> str:
    keys = members.select("case_id", "repetition", "metric").sort(pl.all())
    content = "\n".join([origin, *("\t".join(map(str, row)) for row in keys.iter_rows())])
    return hashlib.blake2b(content.encode(), digest_size=5).hexdigest()
