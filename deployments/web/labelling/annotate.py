"""What people say on the page of a case and in the list of runs, beside what the judge said."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from assizes.deployments.web.forms import Fields, parse_form
from assizes.deployments.web.label_routes import WritableDep
from assizes.deployments.web.pages import site
from assizes.deployments.web.people_schemas import AnnotationBody
from assizes.deployments.web.sessions import set_name

router = APIRouter(include_in_schema=False)

_NUMBERS: Final = ("repetition", "turn", "value")
_INTEGER: Final = re.compile(r"[0-9]{1,10}")


@router.post("/view/annotate")
def annotate(reader: WritableDep, fields: Fields) -> Response:
    """Store what a form of the page of a case or of the list of runs says, and show the page."""
    # A browser sends the empty fields of a form too.
    given: dict[str, Any] = {
        name: int(text) if name in _NUMBERS and _INTEGER.fullmatch(text) else text
        for name, text in fields.items()
        if text or name in ("text", "seen")
    }
    body = parse_form(AnnotationBody, given)
    row, _ = reader.people.add_annotation(body)
    if row["case_id"]:
        place = f"#turn-{row['repetition']}-{row['turn']}" if row["turn"] is not None else "#people"
        url = f"{site('', row['run_id']).case_url(row['case_id'])}{place}"
    else:
        url = "/"
    response = RedirectResponse(url, 303)
    set_name(response, body.author)
    return response
