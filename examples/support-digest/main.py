"""An export of support tickets in, a digest out: one agent judges the table, another one every ticket, all at once.

What fails is part of the digest. The call as a whole fails only when nothing came of any ticket.
"""

import asyncio
import collections
import csv
import io
import json
import pathlib
import sys

from agent_platform import AgentClient, PlatformError

MAX_TICKETS = 25
# Providers limit the number of concurrent requests per key.
AT_ONCE = 8
CALL_SECONDS = 60
RETRY_AFTER_SECONDS = 2
COLUMNS = ("id", "subject", "message")


class InputError(Exception):
    """What is wrong with the input, in words for the person who sent it."""


def dependencies():
    """Name -> the pinned reference: agent.json is the one place where versions stand."""
    manifest = json.loads((pathlib.Path(__file__).parent / "agent.json").read_text(encoding="utf-8"))["manifest"]
    return {pin["id"].split("/")[1]: f"{pin['id']}@{pin['version']}" for pin in manifest["dependencies"]}


def read_tickets(text):
    table = csv.DictReader(io.StringIO(text))
    missing = [name for name in COLUMNS if name not in (table.fieldnames or [])]
    if missing:
        raise InputError(f"csv must have the columns {', '.join(COLUMNS)}, but {', '.join(missing)} is not among them")
    tickets = [{name: (row[name] or "").strip() for name in COLUMNS} for row in table]
    if not 1 <= len(tickets) <= MAX_TICKETS:
        raise InputError(f"csv must have 1 to {MAX_TICKETS} tickets, but has {len(tickets)}")
    return tickets


def failure(error):
    return {"code": error.code, "message": str(error)[:300]}


async def call(client, agent, input):
    """One dependency call, repeated once when the platform says that it may go well later."""
    try:
        return await client.call(agent, input, timeout=CALL_SECONDS)
    except PlatformError as error:
        if not error.is_retryable:
            raise
        await asyncio.sleep(min(error.suggested_wait_time or RETRY_AFTER_SECONDS, 10))
        return await client.call(agent, input, timeout=CALL_SECONDS)


async def judge_table(client, agent, text):
    try:
        report = await call(client, agent, {"csv": text})
    except PlatformError as error:
        return {"error": failure(error)}
    return {"summary": report["summary"], "findings": [found["message"] for found in report["findings"]]}


async def judge_ticket(client, agent, ticket, given, gate):
    about = {"id": ticket["id"], "subject": ticket["subject"]}
    if not (ticket["subject"] and ticket["message"]):
        return {**about, "error": {"code": "EMPTY", "message": "the ticket has no subject or no message"}}
    async with gate:
        try:
            answer = await call(
                client,
                agent,
                {
                    "product": given["product"],
                    "teams": given["teams"],
                    "subject": ticket["subject"],
                    "message": ticket["message"],
                },
            )
        except PlatformError as error:
            return {**about, "error": failure(error)}
    if not isinstance(answer, dict) or not isinstance(answer.get("urgency"), int):
        return {**about, "error": {"code": "UNUSABLE", "message": "the answer is not what ticket-triage promises"}}
    # A model may invent a team; the ticket must not get lost because of it.
    team = answer.get("team") if answer.get("team") in given["teams"] else None
    kept = {name: answer.get(name) for name in ("category", "urgency", "summary", "suspicious", "reply")}
    return {**about, "team": team, **kept}


async def digest(given, client):
    pins = dependencies()
    tickets = read_tickets(given["csv"])
    gate = asyncio.Semaphore(AT_ONCE)
    table, *judged = await asyncio.gather(
        judge_table(client, pins["csv-insights"], given["csv"]),
        *(judge_ticket(client, pins["ticket-triage"], ticket, given, gate) for ticket in tickets),
    )
    sorted_out = sorted((ticket for ticket in judged if "error" not in ticket), key=lambda ticket: ticket["urgency"])
    failed = [ticket for ticket in judged if "error" in ticket]
    if not sorted_out:
        reasons = collections.Counter(f"{each['error']['code']}: {each['error']['message']}" for each in failed)
        raise InputError(f"none of the {len(failed)} tickets could be sorted; {reasons.most_common(1)[0][0]}")
    teams = collections.Counter(ticket["team"] or "nobody" for ticket in sorted_out)
    urgent = sum(ticket["urgency"] == 1 for ticket in sorted_out)
    return {
        "summary": f"{len(sorted_out)} of {len(tickets)} tickets sorted, {urgent} of them urgent: "
        + ", ".join(f"{team} {number}" for team, number in teams.most_common()),
        "complete": not failed and "error" not in table,
        "tickets": sorted_out,
        "failed": failed,
        "export": table,
    }


def main():
    try:
        answer = asyncio.run(digest(json.load(sys.stdin), AgentClient()))
    except InputError as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps(answer, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
