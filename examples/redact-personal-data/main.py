"""Text files in, the same texts without personal data out. Python 3.9 or newer, standard library only.

A value has the same placeholder everywhere, so that a reader or a model can still follow who is who. The values
themselves are in no answer and in no log.
"""

import collections
import ipaddress
import json
import pathlib
import re
import sys

MAX_BYTES = 2_000_000


class InputError(Exception):
    """What is wrong with the input, in words for the person who sent it."""


def is_card(text):
    digits = [int(digit) for digit in text if digit.isdigit()]
    doubled = [digit if index % 2 == 0 else sum(divmod(digit * 2, 10)) for index, digit in enumerate(reversed(digits))]
    return 13 <= len(digits) <= 19 and len(set(digits)) > 1 and sum(doubled) % 10 == 0


def is_iban(text):
    compact = text.replace(" ", "")
    moved = compact[4:] + compact[:4]
    return 15 <= len(compact) <= 34 and int("".join(str(int(character, 36)) for character in moved)) % 97 == 1


def is_ip(text):
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def is_phone(text):
    return 8 <= sum(character.isdigit() for character in text) <= 15


# Every repetition has a bound, so that no text makes the search slow. The first kind that matches wins.
KINDS = [
    ("EMAIL", r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}", None),
    ("IBAN", r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b", is_iban),
    ("CARD", r"(?<![\d.-])\d(?:[ -]?\d){12,18}(?![\d-])", is_card),
    ("IP", r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.]*\d)", is_ip),
    ("PHONE", r"(?<![\w+])(?:\+|00)[1-9](?:[ ()/.-]{0,2}\d){7,14}(?!\d)", is_phone),
]
PATTERN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern, _ in KINDS), re.ASCII)
CHECKS = {kind: check for kind, _, check in KINDS}


class Redaction:
    """Placeholders for all files of a call."""

    def __init__(self):
        self.numbers = collections.defaultdict(dict)

    def redact(self, text):
        counts = collections.Counter()

        def placeholder(match):
            kind, found = match.lastgroup, match[0]
            if CHECKS[kind] and not CHECKS[kind](found):
                return found
            counts[kind] += 1
            same = found.lower() if kind == "EMAIL" else re.sub(r"[^\w.+]", "", found)
            number = self.numbers[kind].setdefault(same, len(self.numbers[kind]) + 1)
            return f"[{kind}-{number}]"

        return PATTERN.sub(placeholder, text), dict(sorted(counts.items()))


def redact_file(redaction, file, index):
    if not isinstance(file, dict) or not isinstance(file.get("path"), str):
        raise InputError(f"files[{index}]: must be an object with a path")
    path = pathlib.Path(file["path"])
    about = {"name": str(file.get("original_name") or path.name)}
    try:
        content = path.read_bytes()
        if len(content) > MAX_BYTES:
            return {**about, "error": f"must have at most {MAX_BYTES} bytes, but has {len(content)}"}
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError):
        return {**about, "error": "must be a text file in UTF-8"}
    redacted, counts = redaction.redact(text)
    return {**about, "text": redacted, "replaced": counts}


def redact(given):
    files = given.get("files") if isinstance(given, dict) else None
    if not isinstance(files, list) or not files:
        raise InputError("files: upload at least one text file")
    redaction = Redaction()
    answers = [redact_file(redaction, file, index) for index, file in enumerate(files)]
    total = sum(sum(answer.get("replaced", {}).values()) for answer in answers)
    failed = sum("error" in answer for answer in answers)
    summary = f"{total} replaced in {len(answers) - failed} of {len(answers)} files"
    return {"summary": summary, "files": answers}


def main():
    try:
        answer = redact(json.load(sys.stdin))
    except (InputError, ValueError) as error:
        message = str(error) if isinstance(error, InputError) else "the input must be JSON"
        print(json.dumps({"error": message}))
        return 1
    print(json.dumps(answer, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
