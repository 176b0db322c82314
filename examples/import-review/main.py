"""Two versions of a table in, a decision on the import out: two agents judge the new version at the same time."""

import asyncio
import json
import pathlib
import sys

from agent_platform import AgentClient, PlatformError

CALL_SECONDS = 60
MAX_SHOWN_KEYS = 5


class InputError(Exception):
    """What is wrong with the input, in words for the person who sent it."""


def dependencies():
    """Name -> the pinned reference. The versions are in agent.json only."""
    manifest = json.loads((pathlib.Path(__file__).parent / "agent.json").read_text(encoding="utf-8"))["manifest"]
    return {pin["id"].split("/")[1]: f"{pin['id']}@{pin['version']}" for pin in manifest["dependencies"]}


def check(given):
    if not isinstance(given, dict):
        raise InputError("the input must be an object")
    for name in ("before", "after", "key"):
        if not isinstance(given.get(name), str) or not given[name]:
            raise InputError(f"{name}: must be a text")
    max_removed = given.get("max_removed", 0)
    if not isinstance(max_removed, int) or isinstance(max_removed, bool) or max_removed < 0:
        raise InputError("max_removed: must be a whole number, 0 or more")
    allowed = given.get("allowed_findings", [])
    if not isinstance(allowed, list) or not all(isinstance(kind, str) for kind in allowed):
        raise InputError("allowed_findings: must be a list of texts, such as outliers")
    return max_removed, allowed


def decide(changes, quality, max_removed, allowed):
    removed = changes["removed"]
    reasons = [finding["message"] for finding in quality["findings"] if finding["kind"] not in allowed]
    reasons += [f"the column {column} is gone" for column in changes["columns_removed"]]
    if len(removed) > max_removed:
        more = "" if len(removed) <= MAX_SHOWN_KEYS else ", ..."
        shown = ", ".join(removed[:MAX_SHOWN_KEYS]) + more
        reasons.append(f"rows removed: {len(removed)} (max {max_removed}), with the keys {shown}")
    return {"approved": not reasons, "reasons": reasons, "changes": changes["summary"], "quality": quality["summary"]}


async def review(given, client):
    max_removed, allowed = check(given)
    pins = dependencies()
    tables = {name: given[name] for name in ("before", "after", "key")}
    # A decision needs both answers: unlike a digest, a review with half of them would be worth nothing.
    changes, quality = await asyncio.gather(
        client.call(pins["compare-tables"], tables, timeout=CALL_SECONDS),
        client.call(pins["csv-insights"], {"csv": given["after"]}, timeout=CALL_SECONDS),
    )
    return decide(changes, quality, max_removed, allowed)


def main():
    try:
        answer = asyncio.run(review(json.load(sys.stdin), AgentClient()))
    except InputError as error:
        problem = str(error)
    except ValueError:
        problem = "the input must be JSON"
    except PlatformError as error:
        problem = f"an agent could not judge the table: {error}"
    else:
        print(json.dumps(answer, ensure_ascii=False))
        return 0
    print(json.dumps({"error": problem}))
    return 1


if __name__ == "__main__":
    sys.exit(main())
