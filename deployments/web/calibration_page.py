"""The page of calibrations: agreement with people over time, and the cases that are told apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field

from assizes.deployments.commands.people.calibration import (
    ceiling_rows,
    ceiling_sentence,
    measure_rows,
)
from assizes.deployments.web.forms import parse_form
from assizes.deployments.web.pages import FormFields, page_response, site
from assizes.deployments.web.people_schemas import MetricName, RunName
from assizes.deployments.web.read_routes import StoreReaderDep
from assizes.judge.calibration.disagreements import Disagreement, MetricDisagreements, level_word
from assizes.judge.calibration.record import Calibration
from assizes.judge.config.gates import CASES_PREFIX, STORE_LABELS, CalibrationConfig
from assizes.judge.errors import ConfigurationError, UnknownRun
from assizes.tasks.reports.formatting import clean_line, name_of
from assizes.tasks.runs.calibrations import dated_calibrations, labels_of, run_disagreements
from assizes.tasks.store import Store

router = APIRouter(include_in_schema=False)

MAX_EARLIER: Final = 50  # calibrations of a metric that are listed, the newest ones
MAX_SHOWN: Final = 200  # disagreements that are listed, at most
MAX_LEVELS: Final = 12  # grades of a confusion matrix that is shown, at most
_TEXT_CHARS: Final = 600


class CalibrationQuery(BaseModel):
    """Which calibration, and which of its disagreements."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: RunName | None = None
    metric: MetricName | None = None
    people: str = Field(default="", max_length=64, description="what people say, in words")
    judge: str = Field(default="", max_length=64, description="what the judge says, in words")
    code: str = Field(default="", max_length=200, description="failure code")
    search: str = Field(default="", max_length=200, description="in ids, reasons and notes")


@router.get("/view/calibration")
def calibration(request: Request, reader: StoreReaderDep, form: FormFields) -> HTMLResponse:
    """How far the judge agrees with people, over time, and where they disagree."""
    from assizes.tasks.reports.render.calibration_chart import calibration_chart  # altair is slow

    wanted = parse_form(CalibrationQuery, form)
    config: CalibrationConfig = request.app.state.calibration

    def read(store: Store) -> dict[str, Any]:
        times, calibrations = dated_calibrations(store)
        run_id = None if wanted.run is None else store.run(wanted.run).run_id
        metrics = sorted({each.metric for each in calibrations})
        metric = wanted.metric or _newest(calibrations, run_id)
        dated = [
            (at, each)
            for at, each in zip(times, calibrations, strict=True)
            if each.metric == metric
        ]
        # Calibrations of one run have its time: the one with the most labels is the last of them.
        dated.sort(key=lambda pair: (pair[0], pair[1].labelled))
        own = [each for _, each in dated if run_id in (None, each.run_id)]
        chosen = own[-1] if own else None
        apart, note = _apart(store, chosen, config)
        return {
            "metrics": metrics,
            "metric": metric,
            "dated": dated,
            "chosen": chosen,
            "apart": apart,
            "note": note,
            "run_id": run_id or (chosen and chosen.run_id),
        }

    found = reader.read_store(read)
    dated, chosen = found.pop("dated"), found["chosen"]
    data = {
        **found,
        "wanted": wanted,
        "labelling": reader.labelling,
        "chart": calibration_chart(found["metric"], dated) if dated else None,
        "earlier": [_earlier_line(at, each, chosen) for at, each in dated[: -MAX_EARLIER - 1 : -1]],
        **({} if chosen is None else _chosen_data(chosen, found["apart"], wanted)),
    }
    return page_response("calibration", data, "/view/calibration", found["run_id"])


def _newest(calibrations: Sequence[Calibration], run_id: str | None) -> str | None:
    """The metric of the newest calibration, of a run where one is named."""
    own = [each.metric for each in calibrations if run_id in (None, each.run_id)]
    return own[-1] if own else None


def _apart(
    store: Store, chosen: Calibration | None, config: CalibrationConfig
) -> tuple[MetricDisagreements | None, str | None]:
    """The disagreements behind a calibration by the labels of today, or why there are none."""
    if chosen is None:
        return None, None
    if chosen.run_id is None:
        return None, "The grades came from a file of judgements, which has no cases to show."
    is_stored = chosen.labels == STORE_LABELS or chosen.labels.startswith(CASES_PREFIX)
    if not is_stored and chosen.labels != config.labels:
        # A row of the store must not make the server read any file that it names.
        return None, (
            f"The labels lie in {name_of(chosen.labels)}; `assizes calibrate` lists the "
            "disagreements, and so does this page of a server whose [calibration] labels name it."
        )
    scale = "ordinal" if chosen.ordered else "nominal"
    own = config.model_copy(
        update={"labels": chosen.labels, "judgements": None, "scale": scale}
        | ({"metric": chosen.metric} if not is_stored or chosen.labels != STORE_LABELS else {})
    )
    try:
        record = store.run(chosen.run_id)
        source = labels_of(own, store, record)
        apart = run_disagreements(store, record, chosen.metric, source, own)
    except (ConfigurationError, UnknownRun) as error:
        return None, f"The disagreements cannot be listed: {clean_line(str(error), _TEXT_CHARS)}"
    note = None
    if source.digest != chosen.labels_hash:
        note = "Labels have changed since: the list below goes by the labels of now."
    return apart, note


def _earlier_line(at: Any, each: Calibration, chosen: Calibration | None) -> dict[str, Any]:
    query = {"metric": each.metric} | ({"run": each.run_id} if each.run_id else {})
    return {
        "at": at,
        "kappa": str(each.cited_kappa),
        "label_count": each.agreement.items,
        "judge": name_of(each.judge),
        "labels": name_of(each.labels),
        "run_id": each.run_id,
        "here": each is chosen,
        "url": f"/view/calibration?{urlencode(query)}",
    }


def _chosen_data(
    chosen: Calibration, apart: MetricDisagreements | None, wanted: CalibrationQuery
) -> dict[str, Any]:
    """What the page shows of one calibration."""
    words = [level_word(level, chosen.levels) for level in chosen.levels]
    listed = [] if apart is None else apart.listed
    matches = [item for item in listed if _matches(item, wanted, chosen)]
    return {
        "citation": chosen.citation(),
        "judge_name": name_of(chosen.judge),
        "measures": measure_rows(chosen),
        "words": words,
        "confusion": (
            list(zip(words, chosen.confusion, strict=True)) if len(words) <= MAX_LEVELS else []
        ),
        "ceiling": chosen.ceiling and ceiling_rows(chosen.ceiling),
        "ceiling_line": chosen.ceiling and ceiling_sentence(chosen.ceiling),
        "codes": sorted({item.failure_code for item in listed if item.failure_code}),
        "matches": len(matches),
        "lines": [_line(item, chosen) for item in matches[:MAX_SHOWN]],
    }


def _matches(item: Disagreement, wanted: CalibrationQuery, chosen: Calibration) -> bool:
    """Whether a disagreement matches every filter."""
    people, judge = (level_word(grade, chosen.levels) for grade in (item.people, item.judge))
    same = (
        (wanted.people, people),
        (wanted.judge, judge),
        (wanted.code, item.failure_code),
    )
    if any(asked and asked != value for asked, value in same):
        return False
    texts: Iterable[str] = (item.case_id, item.reason, *item.notes.values())
    needle = wanted.search.casefold()
    return any(needle in text.casefold() for text in texts)


def _line(item: Disagreement, chosen: Calibration) -> dict[str, Any]:
    pages = site("", chosen.run_id)
    desk: dict[str, Any] = {"run": chosen.run_id, "metric": chosen.metric, "case": item.case_id}
    desk |= {"repetition": item.repetition or 0, "blind": "false"}
    return {
        "case_id": clean_line(item.case_id, 512),
        "repetition": item.repetition or 0,
        "url": pages.case_url(item.case_id),
        "desk_url": f"/view/label?{urlencode(desk)}",
        "people": level_word(item.people, chosen.levels),
        "judge": level_word(item.judge, chosen.levels),
        "raters": [
            {
                "name": name_of(rater),
                "word": level_word(grade, chosen.levels),
                "note": clean_line(item.notes.get(rater, ""), _TEXT_CHARS),
            }
            for rater, grade in item.raters.items()
        ],
        "reason": clean_line(item.reason, _TEXT_CHARS),
        "code": item.failure_code and name_of(item.failure_code),
    }
