"""CSV text in, a report on its columns out. Standard library only."""

import csv
import io
import json
import math
import statistics
import sys
from datetime import date

BOOLEANS = {"true", "false", "yes", "no"}
MISSING = {"", "na", "n/a", "null", "none", "-"}
# Tukey's fences: what lies further from the quartiles is worth a look.
FENCE = 1.5
MAX_LISTED = 5


def fail(message):
    print(json.dumps({"error": message}))
    sys.exit(1)


def as_number(text):
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def is_date(text):
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def column_type(values):
    if not values:
        return "empty"
    if all(as_number(value) is not None for value in values):
        return "integer" if all(float(value).is_integer() for value in values) else "number"
    if all(is_date(value) for value in values):
        return "date"
    if all(value.lower() in BOOLEANS for value in values):
        return "boolean"
    return "text"


def tidy(value):
    return int(value) if float(value).is_integer() else round(value, 4)


def numbers_of(cells):
    """Statistics, and the rows (from 1) whose value lies outside the fences."""
    values = [value for _, value in cells]
    report = {"min": tidy(min(values)), "max": tidy(max(values)), "mean": tidy(statistics.fmean(values)), "median": tidy(statistics.median(values))}
    outliers = []
    if len(values) >= 4:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        reach = FENCE * (high - low)
        outliers = [(row, value) for row, value in cells if not low - reach <= value <= high + reach]
    return report, outliers


def inspect_column(name, cells):
    """`cells` are (row, text) pairs. Answers the column's report and sentences about what stands out."""
    present = [(row, text) for row, text in cells if text.lower() not in MISSING]
    values = [text for _, text in present]
    report = {"name": name, "type": column_type(values), "missing": len(cells) - len(present), "distinct": len(set(values))}
    findings = []
    if report["missing"]:
        findings.append(f'{name}: {report["missing"]} of {len(cells)} values are missing')
    if report["type"] in ("integer", "number"):
        statistics_of, outliers = numbers_of([(row, float(text)) for row, text in present])
        report.update(statistics_of)
        for row, value in outliers[:MAX_LISTED]:
            findings.append(f"{name}: {tidy(value)} in row {row} is far from the rest")
    elif report["type"] == "date":
        report.update(min=min(values), max=max(values))
    elif report["type"] == "text":
        odd = [row for row, text in present if as_number(text) is not None]
        if 0 < len(odd) <= len(present) * 0.2:
            findings.append(f"{name}: text, but a number in row {odd[0]}")
        wordy = [row for row, text in present if as_number(text) is None]
        if 0 < len(wordy) <= len(present) * 0.2:
            findings.append(f"{name}: numbers, but text in row {wordy[0]}")
    if len(values) > 1 and report["distinct"] == 1:
        findings.append(f"{name}: every value is the same")
    return report, findings


def find_delimiter(text):
    try:
        return csv.Sniffer().sniff(text[:4096], delimiters=",;\t|").delimiter
    except csv.Error:
        return ","


def inspect(text, delimiter):
    text = text.lstrip("\ufeff")
    csv.field_size_limit(len(text) + 1)
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter or find_delimiter(text)) if row]
    if len(rows) < 2:
        fail("csv: needs a header and at least one row")
    header = [name.strip() or f"column {index}" for index, name in enumerate(rows[0], 1)]
    body = [[cell.strip() for cell in row] for row in rows[1:]]
    findings = []
    ragged = [index for index, row in enumerate(body, 1) if len(row) != len(header)]
    if ragged:
        findings.append(f"row {ragged[0]} has {len(body[ragged[0] - 1])} cells, the header has {len(header)}")
    columns = []
    for at, name in enumerate(header):
        cells = [(index, row[at] if at < len(row) else "") for index, row in enumerate(body, 1)]
        report, more = inspect_column(name, cells)
        columns.append(report)
        findings += more
    seen, duplicates = set(), []
    for index, row in enumerate(body, 1):
        if tuple(row) in seen:
            duplicates.append(index)
        seen.add(tuple(row))
    if duplicates:
        findings.append(f"row {duplicates[0]} repeats an earlier row")
    return {"rows": len(body), "columns": columns, "duplicate_rows": duplicates, "findings": findings}


def main():
    try:
        given = json.load(sys.stdin)
    except ValueError:
        fail("the input is not JSON")
    if not isinstance(given, dict) or not isinstance(given.get("csv"), str):
        fail("csv: must be the text of a table")
    try:
        print(json.dumps(inspect(given["csv"], given.get("delimiter"))))
    except csv.Error as error:
        fail(f"csv: {error}")


if __name__ == "__main__":
    main()
