"""Asks web addresses in turns for ever. Tells people when one stops answering, and when it is back.

A worker: it listens on no port. What it knows of each address is a document in the platform's storage, so a restart
forgets nothing and tells nothing twice.
"""

import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

from agent_platform import PlatformError, message, storage

NAMESPACE, KEY = "site-watch", "sites"
MAX_SITES = 50
AT_ONCE = 10
TIMEOUT_SECONDS = 10
# A single late or lost response is not reported.
FAILURES_BEFORE_DOWN = 2


class SettingsError(Exception):
    """What is wrong with the environment, in words for the person who set it."""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer: the site that it names is another one, to be watched under its own address."""

    def redirect_request(self, *_):
        return None


OPENER = urllib.request.build_opener(NoRedirect)


def settings(environment):
    """The addresses, and the seconds between two looks."""
    sites = list(dict.fromkeys(environment.get("SITES", "").replace(",", " ").split()))
    if not 1 <= len(sites) <= MAX_SITES:
        raise SettingsError(f"SITES must have 1 to {MAX_SITES} addresses, separated by spaces or commas; it has {len(sites)}")
    for site in sites:
        parts = urllib.parse.urlsplit(site)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(f'SITES: "{site}" must begin with https:// or http:// and have a host')
        if parts.username is not None:
            raise SettingsError("SITES: an address must not have a user or a password, which messages would show")
    seconds = environment.get("INTERVAL_SECONDS", "60")
    if not seconds.isdecimal() or not 1 <= int(seconds) <= 86_400:
        raise SettingsError(f'INTERVAL_SECONDS must be 1 to 86400, and is "{seconds}"')
    if not environment.get("SITE_WATCH_KEY"):
        raise SettingsError("SITE_WATCH_KEY is missing: a service key of this agent, see README.md")
    return sites, int(seconds)


def look(site):
    """Why the address is down, or None."""
    request = urllib.request.Request(site, headers={"User-Agent": "site-watch"})
    try:
        with OPENER.open(request, timeout=TIMEOUT_SECONDS) as answer:
            answer.read(1)
        return None
    except urllib.error.HTTPError as error:
        return None if error.code < 400 else f"it answers {error.code}"
    except OSError as error:
        return f"it does not answer: {getattr(error, 'reason', error)}"
    except Exception as error:  # What is not HTTP. One bad site must not end the watch of the others.
        return f"its answer makes no sense: {type(error).__name__}"


def follow(known, site, problem, now):
    """The new record of a site, and the news of it: "down", "up" or None.

    A record is ``state`` (up, down), ``since`` (when that began), ``failures`` (looks in a row that failed) and
    ``problem``.
    """
    record = dict(known or {"state": "up", "since": now, "failures": 0, "problem": None})
    record["failures"] = 0 if problem is None else record["failures"] + 1
    record["problem"] = problem
    if problem is None and record["state"] == "down":
        return {**record, "state": "up", "since": now}, "up"
    if record["state"] == "up" and record["failures"] >= FAILURES_BEFORE_DOWN:
        return {**record, "state": "down", "since": now}, "down"
    return record, None


def tell(site, record, before, news):
    """A message to the people of the workspace, and a line in the log."""
    host = urllib.parse.urlsplit(site).hostname
    if news == "down":
        print(f"WARNING {site} is down: {record['problem']}")
        message.send(f"{host} is down", f"{site}: {record['problem']}.", level="error", metadata={"site": site})
        return
    print(f"INFO {site} is up again")
    body = f"{site} answers again. It was down since {before['since']}."
    message.send(f"{host} is up again", body, level="success", metadata={"site": site})


def watch_once(sites, known, now=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds")):
    """Looks at every site, tells the news and returns the new records. What cannot be told stays news for the next look."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        problems = list(pool.map(look, sites))
    records = {}
    for site, problem in zip(sites, problems):
        before = known.get(site)
        record, news = follow(before, site, problem, now())
        try:
            if news:
                tell(site, record, before, news)
            records[site] = record
        except PlatformError as error:
            print(f"ERROR the message about {site} was not sent: {error}")
            if before:
                records[site] = before
    return records


def main():
    try:
        sites, seconds = settings(os.environ)
    except SettingsError as error:
        print(f"CRITICAL {error}", file=sys.stderr)
        return 1
    # The SDK reads this variable. The secret has a different name, so that each service can have its own key.
    os.environ["PLATFORM_API_KEY"] = os.environ["SITE_WATCH_KEY"]
    try:
        document = storage.get(NAMESPACE, KEY)
    except PlatformError as error:
        print(f"CRITICAL the storage cannot be read: {error}", file=sys.stderr)
        return 1
    known = document["value"] if document else {}
    print(f"INFO watches {len(sites)} addresses, every {seconds} seconds")
    while True:
        records = watch_once(sites, known)
        if records != known:
            try:
                storage.set(NAMESPACE, KEY, records)
            except PlatformError as error:
                print(f"ERROR the state was not kept: {error}")
        known = records
        time.sleep(seconds)


if __name__ == "__main__":
    sys.exit(main())
