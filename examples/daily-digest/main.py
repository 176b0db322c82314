"""Reports of a team in, a digest out that knows the blockers of the day before. Python and the SDK."""

import datetime
import json
import os
import sys

from agent_platform import StorageError, storage

NAMESPACE = "digests"


class InputError(Exception):
    """What is wrong with the input, in words for the person who sent it."""


def read_date(given):
    text = given.get("date")
    if text is None:
        return datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date().isoformat()
    except (TypeError, ValueError):
        raise InputError("date: must be a day such as 2026-11-17") from None


def read_reports(given):
    reports = given.get("reports")
    if not isinstance(reports, list) or not reports:
        raise InputError("reports: must have at least one report")
    for index, report in enumerate(reports):
        if not isinstance(report, dict):
            raise InputError(f"reports[{index}]: must be an object with who and done")
        for name in ("who", "done"):
            if not isinstance(report.get(name), str) or not report[name].strip():
                raise InputError(f"reports[{index}].{name}: must be a text")
        blockers = report.get("blockers", [])
        if not isinstance(blockers, list) or not all(isinstance(blocker, str) for blocker in blockers):
            raise InputError(f"reports[{index}].blockers: must be a list of texts")
    return reports


def one_line(text):
    return " ".join(text.split())


def last_digest(store, date):
    """The newest day before `date` with its blockers. A second run for a day thus gives the same answer."""
    earlier = max((key for key in store.list(NAMESPACE) if key < date), default=None)
    document = store.get(NAMESPACE, earlier) if earlier else None
    return (earlier, document["value"]["blockers"]) if document else (None, [])


def digest(given, store):
    """`store` is the storage of the SDK, or None outside of the platform: then there is no day before."""
    if not isinstance(given, dict):
        raise InputError("the input must be an object")
    date, reports = read_date(given), read_reports(given)
    named = [(one_line(report["who"]), one_line(blocker)) for report in reports for blocker in report.get("blockers", [])]
    blockers = list(dict.fromkeys(f"{who}: {blocker}" for who, blocker in named if blocker))
    compared_with, before = last_digest(store, date) if store else (None, [])
    parts = {
        "new": [blocker for blocker in blockers if blocker not in before],
        "still": [blocker for blocker in blockers if blocker in before],
        "solved": [blocker for blocker in before if blocker not in blockers],
    }
    if store:
        store.set(NAMESPACE, date, {"blockers": blockers})
    sections = [("Done", [f"{one_line(report['who'])}: {one_line(report['done'])}" for report in reports])]
    sections += [(f"Blockers: {name}", entries) for name, entries in parts.items()]
    shown = ["\n".join([f"### {title}", "", *(f"- {entry}" for entry in entries)]) for title, entries in sections if entries]
    return {"markdown": "\n\n".join([f"## {date}", *shown]), "compared_with": compared_with, **parts}


def main():
    try:
        store = storage if os.environ.get("PLATFORM_GATEWAY_URL") else None
        answer = digest(json.load(sys.stdin), store)
    except InputError as error:
        problem = str(error)
    except ValueError:
        problem = "the input must be JSON"
    except StorageError as error:
        problem = f"the storage of the workspace failed: {error}"
    else:
        print(json.dumps(answer, ensure_ascii=False))
        return 0
    print(json.dumps({"error": problem}))
    return 1


if __name__ == "__main__":
    sys.exit(main())
