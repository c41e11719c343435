"""Print licences and findings; exit 1 when there is a finding. `--sbom FILE` writes CycloneDX JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.supply import Installed, audit, installed


def sbom(found: list[Installed]) -> dict[str, Any]:
    """What is installed, as CycloneDX 1.6."""
    components = [
        {
            "type": "library",
            "bom-ref": f"{one.name}@{one.version}",
            "name": one.name,
            "version": one.version,
            "purl": f"pkg:pypi/{one.name}@{one.version}",
            "licenses": [{"license": {"name": one.licence}}],
        }
        for one in found
    ]
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}


def main() -> int:
    """A table of licences, then one line a check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sbom", type=Path, help="file to write")
    parser.add_argument("--all", action="store_true", help="list every distribution")
    given = parser.parse_args()
    found = installed()
    for one in found if given.all else ():
        sys.stdout.write(f"{one.name:40} {one.version:16} {one.licence}\n")
    licences = Counter(one.licence for one in found)
    sys.stdout.writelines(f"{count:4}  {licence}\n" for licence, count in licences.most_common())
    checks = audit()
    for what, findings in checks.items():
        sys.stdout.write(f"{'FAIL' if findings else 'ok  '}  {what}\n")
        sys.stdout.writelines(f"      {one}\n" for one in findings)
    if given.sbom:
        given.sbom.write_text(json.dumps(sbom(found), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(found)} distributions, {sum(map(len, checks.values()))} findings\n")
    return 1 if any(checks.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
