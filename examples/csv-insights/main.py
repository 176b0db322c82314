"""A table in, a report on its quality out. Python 3.9 or newer, standard library only.

Rows are counted from 1 under the header; empty rows do not count.
"""

import collections
import csv
import datetime
import io
import json
import re
import statistics
import sys

DELIMITERS = ",;\t|"
MISSING = {"", "-", "n/a", "na", "nan", "none", "null", "#n/a"}
BOOLEANS = {"true", "false", "yes", "no"}
# Tukey's outer fences: values more than this many interquartile ranges beyond the quartiles are outliers.
FENCE = 3
MIN_VALUES_FOR_FENCES = 5
# Share of the values that must have a type for the column to have it; the others are findings.
TYPE_SHARE = 0.8
MAX_COLUMNS = 1000
MAX_LISTED = 5
MAX_SHOWN_CHARACTERS = 60
# Larger numbers lose digits in a float, and long runs of digits are usually identifiers.
PLAIN_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?")
COMMA_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3}){1,4}(?:\.\d{1,15})?")
COMMA_DECIMALS = re.compile(r"[+-]?(?:0|[1-9]\d{0,14}|[1-9]\d{0,2}(?:\.\d{3}){1,4}),\d{1,15}")
ISO_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?")


class InputError(Exception):
    """What is wrong with the input, in words for the person who sent it."""


# Parsers: convert the text of a cell to a comparable value, or None if it has another format.


def read_number(text):
    if PLAIN_NUMBER.fullmatch(text):
        return float(text)
    return float(text.replace(",", "")) if COMMA_THOUSANDS.fullmatch(text) else None


def read_comma_number(text):
    if COMMA_DECIMALS.fullmatch(text):
        return float(text.replace(".", "").replace(",", "."))
    return float(text) if PLAIN_NUMBER.fullmatch(text) and text.lstrip("+-").isdigit() else None


def date_reader(pattern):
    form = re.compile(pattern)

    def read(text):
        match = form.fullmatch(text)
        if not match:
            return None
        parts = {name: int(digits) for name, digits in match.groupdict().items()}
        try:
            return datetime.date(**parts).isoformat()
        except ValueError:
            return None

    return read


read_iso_date = date_reader(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)")


def read_datetime(text):
    match = ISO_TIME.fullmatch(text)
    return f"{text[:10]}T{text[11:]}" if match and read_iso_date(match[1]) else None


def read_boolean(text):
    return text.lower() if text.lower() in BOOLEANS else None


# If two formats match equally many values of a column, the first is used.
FORMS = [
    ("number", "1,234.5", read_number),
    ("number", "1.234,5", read_comma_number),
    ("date", "YYYY-MM-DD", read_iso_date),
    ("date", "DD.MM.YYYY", date_reader(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})")),
    ("date", "DD/MM/YYYY", date_reader(r"(?P<day>\d{1,2})/(?P<month>\d{1,2})/(?P<year>\d{4})")),
    ("date", "MM/DD/YYYY", date_reader(r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})")),
    ("datetime", "YYYY-MM-DDThh:mm", read_datetime),
    ("boolean", "true, false, yes or no", read_boolean),
]


def tidy(value):
    """15 digits are what a float holds; whole numbers are written as such."""
    return int(value) if value.is_integer() else float(f"{value:.6g}" if abs(value) < 1 else f"{value:.4f}")


def shorten(text):
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 3] + "..."


def count(number, singular):
    return f"{number} {singular}" if number == 1 else f"{number} {singular}s"


def in_rows(rows):
    listed = ", ".join(str(row) for row in rows[:MAX_LISTED])
    return f"row{'' if len(rows) == 1 else 's'} {listed}{', ...' if len(rows) > MAX_LISTED else ''}"


def finding(kind, message, rows=(), column=None):
    found = {"kind": kind, "message": f"{shorten(column)}: {message}" if column else message}
    if column:
        found["column"] = column
    if rows:
        found.update(count=len(rows), rows=rows[:MAX_LISTED])
    return found


class Column:
    def __init__(self, name, cells):
        self.name = name
        self.findings = []
        self.present = [(row, text) for row, text in enumerate(cells, 1) if text.lower() not in MISSING]
        self.distinct = collections.Counter(text for _, text in self.present)
        self.report = {
            "name": name,
            "type": "text",
            "missing": len(cells) - len(self.present),
            "distinct": len(self.distinct),
        }
        self.inspect([row for row, text in enumerate(cells, 1) if text.lower() in MISSING], len(cells))

    def note(self, kind, message, rows=()):
        self.findings.append(finding(kind, message, rows, self.name))

    def inspect(self, missing, total):
        if not self.present:
            self.report["type"] = "empty"
            self.note("empty", "there is no value in any row")
            return
        if missing:
            self.note("missing", f"{len(missing)} of {total} missing, in {in_rows(missing)}", missing)
        if len(self.distinct) == 1 and len(self.present) > 1:
            self.note("constant", f"every value is {shorten(self.present[0][1])!r}")
        form = self.find_form()
        if form is None:
            self.inspect_text()
        else:
            self.inspect_form(*form)

    def find_form(self):
        """The form that most values have, with the value of each text; None when none fits well enough."""
        best, most, equally_good = None, 0, []
        for kind, shape, read in FORMS:
            values = {text: value for text, value in ((text, read(text)) for text in self.distinct) if value is not None}
            fits = sum(self.distinct[text] for text in values)
            if fits > most:
                best, most, equally_good = (kind, shape, values), fits, [values]
            elif fits and fits == most and best[0] == kind == "date" and values != best[2]:
                equally_good.append(values)
        if most < TYPE_SHARE * len(self.present):
            return None
        if len(equally_good) > 1:
            self.note("ambiguous_dates", "every date can be read as day/month and as month/day; day/month is assumed")
        return best

    def inspect_form(self, kind, shape, values):
        odd = [(row, text) for row, text in self.present if text not in values]
        if odd:
            shown = shorten(odd[0][1])
            self.note("mixed_types", f"{shown!r} in {in_rows([row for row, _ in odd])} is not a {kind}", [row for row, _ in odd])
        read = [(row, values[text]) for row, text in self.present if text in values]
        plain = [value for _, value in read]
        if kind == "number":
            self.inspect_numbers(read, plain)
        else:
            self.report["type"] = kind
        if kind in ("date", "datetime"):
            self.report.update(min=min(plain), max=max(plain))
        if kind == "boolean":
            self.report["true"] = sum(1 for value in plain if value in ("true", "yes"))
        if kind == "date" or shape == "1.234,5":
            self.report["format"] = shape

    def inspect_numbers(self, read, plain):
        low, middle, high = statistics.quantiles(plain, n=4, method="inclusive") if len(plain) > 1 else plain * 3
        self.report.update(
            type="integer" if all(value.is_integer() for value in plain) else "number",
            min=tidy(min(plain)),
            max=tidy(max(plain)),
            mean=tidy(statistics.fmean(plain)),
            median=tidy(middle),
            deviation=tidy(statistics.pstdev(plain)),
        )
        reach = FENCE * (high - low)
        # If half of the values are equal, every other value would be an outlier.
        if len(plain) < MIN_VALUES_FOR_FENCES or reach == 0:
            return
        far = [(row, value) for row, value in read if not low - reach <= value <= high + reach]
        if far:
            shown = ", ".join(str(tidy(value)) for _, value in far[:MAX_LISTED])
            rows = [row for row, _ in far]
            self.note("outliers", f"{shown} in {in_rows(rows)}, far from the middle half, {tidy(low)} to {tidy(high)}", rows)

    def inspect_text(self):
        lengths = [len(text) for text in self.distinct]
        self.report.update(shortest=min(lengths), longest=max(lengths))
        common = [(text, times) for text, times in self.distinct.most_common(3) if times > 1]
        if common:
            self.report["most_common"] = [{"value": shorten(text), "count": times} for text, times in common]
        spellings = collections.defaultdict(list)
        for text in self.distinct:
            spellings[" ".join(text.casefold().split())].append(text)
        for variants in [texts for texts in spellings.values() if len(texts) > 1][:MAX_LISTED]:
            rows = [row for row, text in self.present if text in variants]
            shown = ", ".join(repr(shorten(text)) for text in variants[:MAX_LISTED])
            self.note("spelling_variants", f"{shown} differ only in case or spaces", rows)


def find_delimiter(text):
    """The one that cuts the first rows into the most equally many cells."""

    def score(delimiter):
        reader = csv.reader(io.StringIO(text[:65536], newline=""), delimiter=delimiter)
        widths = [len(row) for row, _ in zip((row for row in reader if row), range(50))]
        same = sum(1 for width in widths if width == widths[0])
        return (widths[0] > 1, same / len(widths), widths[0]) if widths else (False, 0, 0)

    return max(DELIMITERS, key=score)


def read_csv(text, delimiter):
    csv.field_size_limit(min(len(text) + 1, 2**31 - 1))
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(map(str.strip, row))]
    if not rows:
        raise InputError("csv: holds nothing; it needs a header and at least one row")
    return rows[0], rows[1:]


def read_objects(objects):
    header = list(dict.fromkeys(name for row in objects for name in row))
    return header, [[as_text(row.get(name)) for name in header] for row in objects]


def as_text(value):
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def name_columns(header, findings):
    names = []
    for index, given in enumerate(header, 1):
        name = given.strip() or f"column {index}"
        if name in names:
            findings.append(finding("repeated_column", f"the header has {shorten(name)!r} more than once"))
            name = f"{name} ({index})"
        names.append(name)
    return names


def inspect(header, rows):
    if not rows:
        raise InputError("the table has a header, but no rows")
    if not 0 < len(header) <= MAX_COLUMNS:
        raise InputError(f"the table has {len(header)} columns; 1 to {MAX_COLUMNS} can be read")
    findings = []
    names = name_columns(header, findings)
    ragged = [number for number, row in enumerate(rows, 1) if len(row) != len(header)]
    if ragged:
        first = count(len(rows[ragged[0] - 1]), "cell")
        findings.append(finding("ragged_rows", f"row {ragged[0]} has {first}, the header {len(header)}", ragged))
    rows = [[cell.strip() for cell in row] for row in rows]
    seen, repeated = set(), []
    for number, row in enumerate(rows, 1):
        if tuple(row) in seen:
            repeated.append(number)
        seen.add(tuple(row))
    if repeated:
        verb = "repeats" if len(repeated) == 1 else "repeat"
        findings.append(finding("repeated_rows", f"{in_rows(repeated)} {verb} an earlier row", repeated))
    columns = [Column(name, [row[at] if at < len(row) else "" for row in rows]) for at, name in enumerate(names)]
    for column in columns:
        findings += column.findings
    size = f"{count(len(rows), 'row')}, {count(len(columns), 'column')}"
    stands_out = "; ".join(found["message"] for found in findings[:MAX_LISTED])
    more = f"; and {len(findings) - MAX_LISTED} more" if len(findings) > MAX_LISTED else ""
    return {
        "summary": f"{size}: {stands_out or 'nothing stands out'}{more}.",
        "rows": len(rows),
        "columns": [column.report for column in columns],
        "findings": findings,
    }


def answer(given):
    if not isinstance(given, dict):
        raise InputError("the input must be an object with csv or rows")
    if ("csv" in given) == ("rows" in given):
        raise InputError("give one of csv (the text of a table) and rows (a list of objects)")
    delimiter = given.get("delimiter")
    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter not in DELIMITERS):
        raise InputError("delimiter: must be a comma, a semicolon, a tab or |")
    if "rows" in given:
        rows = given["rows"]
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise InputError("rows: must be a list of at least one object")
        return inspect(*read_objects(rows))
    if not isinstance(given["csv"], str):
        raise InputError("csv: must be the text of a table")
    text = given["csv"].lstrip("\ufeff")
    try:
        return inspect(*read_csv(text, delimiter or find_delimiter(text)))
    except csv.Error as error:
        raise InputError(f"csv: cannot be read as a table ({error})") from error


def main():
    try:
        try:
            given = json.loads(sys.stdin.buffer.read())
        except ValueError as error:
            raise InputError(f"the input cannot be read as JSON ({error})") from error
        print(json.dumps(answer(given), allow_nan=False))
    except (InputError, RecursionError) as error:
        message = str(error) if isinstance(error, InputError) else "the input is nested too deeply"
        print(json.dumps({"error": message}))
        sys.exit(1)


if __name__ == "__main__":
    main()
