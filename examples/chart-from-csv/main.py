"""A CSV file in, a bar chart as SVG out. Python 3.9 or newer, standard library only."""

import csv
import html
import io
import json
import math
import pathlib
import sys

MAX_BYTES = 10_000_000
MAX_BARS = 20
MAX_LABEL_CHARACTERS = 24
WIDTH, LABELS, VALUES, ROW, BAR = 640, 180, 90, 28, 20


class InputError(Exception):
    """What is wrong with the input, in words for the person who sent it."""


def read_file(given):
    files = given.get("files") if isinstance(given, dict) else None
    if not isinstance(files, list) or len(files) != 1 or not isinstance(files[0], dict):
        raise InputError("files: upload exactly one CSV file")
    try:
        content = pathlib.Path(str(files[0].get("path"))).read_bytes()
    except (OSError, ValueError):
        raise InputError("files[0]: cannot be read") from None
    if len(content) > MAX_BYTES:
        raise InputError(f"files[0]: must have at most {MAX_BYTES} bytes, but has {len(content)}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("files[0]: must be text in UTF-8") from None


def number(text):
    try:
        value = float(text.strip())
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read_table(text):
    first_line = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first_line.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise InputError(f"files[0]: cannot be read as CSV: {error}") from None
    if len(rows) < 2 or len(rows[0]) < 2:
        raise InputError("files[0]: must have a header, at least two columns and at least one row")
    header, *body = rows
    return [name.strip() for name in header], [row + [""] * (len(header) - len(row)) for row in body]


def value_column(header, rows):
    for index in range(1, len(header)):
        cells = [row[index] for row in rows if row[index].strip()]
        if cells and all(number(cell) is not None for cell in cells):
            return index
    raise InputError(f"files[0]: no column after {header[0]!r} has only numbers, such as 12.5")


def totals(rows, column):
    sums = {}
    for row in rows:
        value = number(row[column])
        if value is not None:
            label = row[0].strip() or "(empty)"
            sums[label] = sums.get(label, 0.0) + value
    if not all(math.isfinite(total) for total in sums.values()):
        raise InputError("files[0]: the numbers are too large to add up")
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    if len(ordered) > MAX_BARS:
        ordered = ordered[: MAX_BARS - 1] + [("(others)", sum(total for _, total in ordered[MAX_BARS - 1 :]))]
    return [{"label": label, "total": plain(total)} for label, total in ordered]


def plain(value):
    rounded = round(value, 2)
    return int(rounded) if rounded.is_integer() else rounded


def draw(title, bars):
    """Every text is escaped: the file may come from anybody."""
    longest = max(abs(bar["total"]) for bar in bars) or 1
    parts = [f'<text x="8" y="20" font-weight="bold">{html.escape(title)}</text>']
    for index, bar in enumerate(bars):
        y = 36 + index * ROW
        width = round(abs(bar["total"]) / longest * (WIDTH - LABELS - VALUES), 1)
        label = bar["label"]
        if len(label) > MAX_LABEL_CHARACTERS:
            label = label[: MAX_LABEL_CHARACTERS - 1] + "…"
        color = "#2563eb" if bar["total"] >= 0 else "#dc2626"
        parts.append(f'<text x="{LABELS - 8}" y="{y + 15}" text-anchor="end">{html.escape(label)}</text>')
        parts.append(f'<rect x="{LABELS}" y="{y}" width="{width}" height="{BAR}" fill="{color}"/>')
        parts.append(f'<text x="{LABELS + width + 6}" y="{y + 15}">{bar["total"]:,}</text>')
    height = 44 + len(bars) * ROW
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">'
    return "\n".join([opening, *parts, "</svg>"])


def chart(given):
    header, rows = read_table(read_file(given))
    column = value_column(header, rows)
    bars = totals(rows, column)
    return {
        "label": header[0],
        "value": header[column],
        "rows": len(rows),
        "skipped": sum(not row[column].strip() for row in rows),
        "bars": bars,
        "svg": draw(f"{header[column]} by {header[0]}", bars),
    }


def main():
    try:
        answer = chart(json.load(sys.stdin))
    except (InputError, ValueError) as error:
        message = str(error) if isinstance(error, InputError) else "the input must be JSON"
        print(json.dumps({"error": message}))
        return 1
    print(json.dumps(answer, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
