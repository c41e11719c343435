"""The findings of a stored run that are sent elsewhere, case by case, as `[publish] include` allows."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.config.gates import VERDICT
from assizes.judge.config.publishing import Published
from assizes.judge.privacy.secret_masking import mask
from assizes.judge.score import LABELS
from assizes.judge.verdicts.executions import collect_rows
from assizes.judge.verdicts.verdict import rationale
from assizes.tasks.publishing.entry import PREFIX, Annotator, PublishedFinding
from assizes.tasks.publishing.labels_there import is_pulled
from assizes.tasks.runs.calibrations import citations
from assizes.tasks.runs.labels.people_labels import labels_of_run
from assizes.tasks.runs.stored_causes import stored_causes
from assizes.tasks.store import RunRecord, Store

_SLICE: Final = 500  # cases whose rows are read at once
_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")  # as codes of failures are written
_MAX_TEXT: Final = 4_000
"""Characters of a reason that are sent, at most."""

_MAX_VALUE: Final = 250
"""Characters of a value of metadata, at most: what MLflow takes."""

_CASE: Final = ("case_id", "repetition")
_CASE_COLUMNS: Final = (*_CASE, "passed", "overall_score", "status", "error", "gate", "root_cause")
_SCORES: Final = (
    *(*_CASE, "judge", "metric", "part", "value", "raw", "label", "passed", "status", "reason"),
    *("failure_code", "judge_version", "rubric_hash", "details", "turns"),
)

CaseKey = tuple[str, int]


class FindingsOfCase(NamedTuple):
    """What is sent of one case."""

    case: dict[str, Any]  # some columns of table cases
    findings: list[PublishedFinding]


@dataclass(frozen=True)
class RunFindings:
    """Reads the findings of one run."""

    store: Store
    record: RunRecord
    include: Collection[Published]

    def cases(self) -> Iterator[FindingsOfCase]:
        """Yield every case of the run in order of its id, with its findings."""
        run_id = self.record.run_id
        columns = (*_CASE_COLUMNS, "tags", "turn_spans", "summary")
        cases = collect_rows(self.store.scan(run_id, "cases").select(columns)).sort(*_CASE)
        for start in range(0, cases.height, _SLICE):
            part = cases.slice(start, _SLICE)
            ids = part["case_id"].unique().to_list()
            scores = self._by_case(self._scores(ids))
            models = self._models(ids)
            for case in part.iter_rows(named=True):
                key = (case["case_id"], case["repetition"])
                findings = [self._score(row, models) for row in scores[key]]
                if "verdicts" in self.include:
                    findings.append(self._verdict(case, models))
                findings += [self._cause(row) for row in self._causes[key]]
                findings += [self._label(row) for row in self._labels[key]]
                yield FindingsOfCase(case, findings)

    def _scores(self, ids: Collection[str]) -> pl.DataFrame:
        if "scores" not in self.include:
            return pl.DataFrame(schema=dict.fromkeys(_SCORES, pl.String))
        rows = self.store.rows_of_cases(self.record.run_id, "scores", ids, _SCORES)
        # A skipped score says that a metric does not apply. A part belongs to its headline, but for
        # that of one turn, which is shown at the span of the turn.
        of_turn = pl.col("part").str.starts_with("turn:") & (pl.col("turns").list.len() == 1)
        is_sent = (pl.col("part") == "") | of_turn
        return rows.filter(is_sent & (pl.col("status") != "skipped")).sort(
            *_CASE, "judge", "metric", "part"
        )

    def _models(self, ids: Collection[str]) -> dict[tuple[str, int, str], str]:
        """The models that answered, by case, repetition and judge."""
        columns = (*_CASE, "judge", "answered_by")
        asks = self.store.rows_of_cases(self.record.run_id, "asks", ids, columns)
        models = asks.drop_nulls("answered_by").unique().sort(columns)
        found: dict[tuple[str, int, str], str] = {}
        for case_id, repetition, judge, model in models.rows():
            key = (case_id, repetition, judge)
            found[key] = f"{found[key]}, {model}" if key in found else model
        return found

    @staticmethod
    def _by_case(rows: pl.DataFrame) -> defaultdict[CaseKey, list[dict[str, Any]]]:
        by_case: defaultdict[CaseKey, list[dict[str, Any]]] = defaultdict(list)
        for row in rows.iter_rows(named=True):
            by_case[(row["case_id"], row["repetition"])].append(row)
        return by_case

    @cached_property
    def _calibrations(self) -> dict[str, str]:
        """The citation of each metric's calibration."""
        return {each.metric: each.sentence() for each in citations(self.store, self.record)}

    @cached_property
    def _shared_names(self) -> set[str]:
        """The metrics that more than one judge of the run scores."""
        pairs = self.store.scan(self.record.run_id, "scores").select("judge", "metric").unique()
        counts = Counter(collect_rows(pairs)["metric"].to_list())
        return {metric for metric, judges in counts.items() if judges > 1}

    @cached_property
    def _causes(self) -> defaultdict[CaseKey, list[dict[str, Any]]]:
        found = stored_causes(self.store, self.record.run_id) if "causes" in self.include else None
        if found is None:
            return defaultdict(list)
        names = found.causes.select("cause_id", "name").unique("cause_id")
        named = found.case_causes.join(names, on="cause_id", how="inner").sort("cause_id")
        once = named.unique((*_CASE, "metric"), keep="first").sort(*_CASE, "metric")
        return self._by_case(once)

    @cached_property
    def _labels(self) -> defaultdict[CaseKey, list[dict[str, Any]]]:
        if "labels" not in self.include:
            return defaultdict(list)
        rows = labels_of_run(self.store, self.record.run_id).drop_nulls("value")
        # A label that was read there does not go back.
        own = [not is_pulled(shown) for shown in rows["shown"]]
        return self._by_case(rows.filter(own).sort("at", "label_id"))

    @property
    def _at(self) -> datetime:
        return self.record.finished_at or self.record.started_at

    def _score(
        self, row: dict[str, Any], models: dict[tuple[str, int, str], str]
    ) -> PublishedFinding:
        judge, metric = row["judge"], row["metric"]
        model = models.get((row["case_id"], row["repetition"], judge), "")
        failed = row["status"] == "failed"
        name = f"{judge}/{metric}" if metric in self._shared_names else metric
        details = json.loads(row["details"] or "{}")
        more = {
            "judge": judge,
            "judge_version": row["judge_version"],
            "rubric_hash": row["rubric_hash"],
            "raw": None if row["raw"] is None else f"{row['raw']:g}",
            "calibration": self._calibrations.get(metric),
        }
        if not failed and row["failure_code"] and _CODE.fullmatch(row["failure_code"]):
            more["failure_code"] = row["failure_code"]
        return PublishedFinding(
            kind="score",
            name=f"{name}/turn" if row["part"] else name,
            part=row["part"],
            value=None if failed else _number(row),
            label=None if failed else self._shown_label(row),
            error=_error_code(details.get("error")) if failed else None,
            explanation=self._text(row["reason"] or rationale(details)),
            turns=tuple(row["turns"] or ()),
            **self._common(row, judge, model, more),
        )

    def _shown_label(self, row: dict[str, Any]) -> str | None:
        """The label of a score; one of a judge's own words only where reasons are sent, too."""
        label = row["label"]
        if label in LABELS or (label and "reasons" in self.include):
            return str(mask(label))[:100]
        return _passed_word(row["passed"])

    def _verdict(
        self, case: dict[str, Any], models: dict[tuple[str, int, str], str]
    ) -> PublishedFinding:
        of_case = (case["case_id"], case["repetition"])
        answering = sorted({model for key, model in models.items() if key[:2] == of_case})
        judged = case["status"] == "judged" and case["passed"] is not None
        overall = case["overall_score"]
        more = {
            "overall_score": None if overall is None else f"{overall:.2f}",
            "gate": case["gate"],
            "root_cause": case["root_cause"],
            "calibration": self._calibrations.get(VERDICT),
        }
        return PublishedFinding(
            kind="verdict",
            name=VERDICT,
            value=float(case["passed"]) if judged else None,
            label=_passed_word(case["passed"]) if judged else None,
            error=None if judged else _error_code((case["error"] or "").partition(":")[0]),
            explanation=self._text(case["summary"]),
            **self._common(case, "", ", ".join(answering), more),
        )

    def _cause(self, row: dict[str, Any]) -> PublishedFinding:
        common = self._common(row, "", "", {"cause_id": row["cause_id"], "metric": row["metric"]})
        return PublishedFinding(
            kind="cause",
            name=f"cause:{row['metric']}",
            label=str(mask(row["name"]))[:100],
            **{**common, "source": "assizes", "annotator": "CODE"},
        )

    def _label(self, row: dict[str, Any]) -> PublishedFinding:
        annotator: Annotator = "HUMAN"
        more = {"rater": row["rater"], "role": row["role"], "label_id": row["label_id"]}
        binary = row["metric"] == VERDICT and row["value"] in (0, 1)
        return PublishedFinding(
            kind="label",
            name=row["metric"],
            value=row["value"],
            label=_passed_word(bool(row["value"])) if binary else None,
            explanation=self._text(row["note"]),
            **{
                **self._common(row, "", "", more),
                "annotator": annotator,
                "source": row["rater"],
                "at": row["at"],
            },
        )

    def _text(self, text: str | None) -> str | None:
        if not text or "reasons" not in self.include:
            return None
        return str(mask(text))[:_MAX_TEXT]

    def _common(
        self, row: dict[str, Any], judge: str, model: str, more: dict[str, str | None]
    ) -> dict[str, Any]:
        """The fields that all kinds of finding share."""
        is_model = bool(model) and not model.startswith("offline/")
        run = {"run_id": self.record.run_id, "case_id": row["case_id"], "model": model or None}
        if row["repetition"]:
            run["repetition"] = str(row["repetition"])
        source = "/".join(part for part in (judge, model or self.record.judge_model) if part)
        return {
            "run_id": self.record.run_id,
            "case_id": row["case_id"],
            "repetition": row["repetition"],
            "annotator": "LLM" if is_model else "CODE",
            "source": source,
            "at": self._at,
            "metadata": {
                f"{PREFIX}{name}": str(mask(value))[:_MAX_VALUE]
                for name, value in {**run, **more}.items()
                if value
            },
        }


def _number(row: dict[str, Any]) -> float | None:
    """The value of a score, 0..1; of an amount, which has none, the number in its own unit."""
    number = row["raw"] if row["value"] is None else row["value"]
    return None if number is None else float(number)


def _passed_word(passed: bool | None) -> str | None:  # a value, not a switch
    return None if passed is None else "pass" if passed else "fail"


def _error_code(code: object) -> str:
    """The code of a failure; a text that is no code can quote what was judged."""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else "judge_failed"
