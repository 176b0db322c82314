"""python3 -m unittest, in this folder."""

import json
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).parent


def run(text):
    done = subprocess.run([sys.executable, "main.py"], cwd=HERE, input=text.encode(), capture_output=True)
    return done.returncode, json.loads(done.stdout), done.stderr.decode()


def report(csv, **more):
    code, answer, errors = run(json.dumps({"csv": csv, **more}))
    assert (code, errors) == (0, ""), (code, answer, errors)
    return answer


def column(*values):
    return report("\n".join(["value", *values]))["columns"][0]


def kinds(csv):
    return [found["kind"] for found in report(csv)["findings"]]


class Types(unittest.TestCase):
    def test_types(self):
        for values, kind in [
            (("1", "-2"), "integer"),
            (("1.5", "1e3"), "number"),
            (("1,234.50", "3"), "number"),
            (("2026-02-28", "2026-03-01"), "date"),
            (("28.2.2026", "1.3.2026"), "date"),
            (("2026-02-28 10:00", "2026-03-01T09:30:00Z"), "datetime"),
            (("yes", "No"), "boolean"),
            (("00123", "00124"), "text"),
            (("12345678901234567890", "1"), "text"),
            (("2026-02-30", "2026-02-31"), "text"),
            (("n/a", "-"), "empty"),
        ]:
            with self.subTest(values):
                self.assertEqual(column(*(f'"{value}"' for value in values))["type"], kind)

    def test_decimal_commas(self):
        found = report("a;b\n1.234,5;x\n0,5;y")["columns"][0]
        self.assertEqual((found["min"], found["max"], found["format"]), (0.5, 1234.5, "1.234,5"))

    def test_dates_are_compared_as_dates(self):
        found = column("31.01.2026", "01.02.2026")
        self.assertEqual((found["min"], found["max"]), ("2026-01-31", "2026-02-01"))

    def test_statistics(self):
        found = column("1", "2", "3", "6")
        self.assertEqual([found[name] for name in ("min", "max", "mean", "median", "deviation")], [1, 6, 3, 2.5, 1.8708])


class Findings(unittest.TestCase):
    def test_each_kind(self):
        for csv, kind in [
            ("a,a\n1,2", "repeated_column"),
            ("a,b\n1,2\n3", "ragged_rows"),
            ("a,b\n1,2\n1,2", "repeated_rows"),
            ("a,b\n,2\n,3", "empty"),
            ("a,b\n1,2\n,3", "missing"),
            ("a,b\n1,x\n2,x", "constant"),
            ("a\n1\n2\n3\n4\nfive", "mixed_types"),
            ("a\n01/02/2026\n03/04/2026", "ambiguous_dates"),
            ("a\n10\n11\n12\n13\n99", "outliers"),
            ("a\nBerlin\nberlin\nParis", "spelling_variants"),
        ]:
            with self.subTest(kind):
                self.assertIn(kind, kinds(csv))

    def test_a_day_above_12_settles_the_order(self):
        self.assertEqual(kinds("a\n01/02/2026\n03/14/2026"), [])
        self.assertEqual(column("01/02/2026", "03/14/2026")["format"], "MM/DD/YYYY")

    def test_mostly_equal_values_have_no_outliers(self):
        self.assertEqual(kinds("a\n" + "0\n" * 9 + "5"), ["repeated_rows"])

    def test_rows_are_listed_up_to_five(self):
        found = report("a,b\n" + "1,2\n" * 9)["findings"][0]
        self.assertEqual((found["kind"], found["count"], found["rows"]), ("repeated_rows", 8, [2, 3, 4, 5, 6]))


class Tables(unittest.TestCase):
    def test_delimiters(self):
        for delimiter in ",;\t|":
            with self.subTest(delimiter):
                table = report(f"a{delimiter}b\n1{delimiter}x\n")
                self.assertEqual([found["name"] for found in table["columns"]], ["a", "b"])

    def test_odd_but_readable(self):
        for name, csv in [
            ("byte order mark", "\ufeffvalue\n1\n2"),
            ("carriage returns", "value\r1\r2\r"),
            ("empty lines", "value\n\n1\n\n2\n\n"),
            ("a quoted line break", 'value\n"1\n"\n2'),
        ]:
            with self.subTest(name):
                table = report(csv)
                self.assertEqual((table["rows"], table["columns"][0]["name"]), (2, "value"))

    def test_a_huge_cell(self):
        self.assertEqual(column("x" * 300_000)["longest"], 300_000)

    def test_rows_in_place_of_text(self):
        code, answer, _ = run('{"rows": [{"a": 1, "b": null}, {"a": 2.5, "c": [1]}]}')
        self.assertEqual(code, 0)
        self.assertEqual([found["type"] for found in answer["columns"]], ["number", "empty", "text"])


class Refusals(unittest.TestCase):
    def test_bad_input(self):
        for text, message in [
            ("", "cannot be read as JSON"),
            ("{", "cannot be read as JSON"),
            ("[" * 100_000, "nested too deeply"),
            ("[]", "must be an object"),
            ("{}", "give one of csv"),
            ('{"csv": "a\\n1", "rows": []}', "give one of csv"),
            ('{"csv": 5}', "csv: must be the text"),
            ('{"csv": "\\n"}', "csv: holds nothing"),
            ('{"csv": "only,a,header"}', "no rows"),
            ('{"csv": "a\\n1", "delimiter": "::"}', "delimiter: must be"),
            ('{"rows": [1]}', "rows: must be a list"),
            ('{"rows": [{}]}', "0 columns"),
            (json.dumps({"csv": "a," * 2000 + "\n1"}), "2001 columns"),
        ]:
            with self.subTest(text[:40]):
                code, answer, errors = run(text)
                self.assertEqual((code, errors), (1, ""))
                self.assertIn(message, answer["error"])


if __name__ == "__main__":
    unittest.main()
