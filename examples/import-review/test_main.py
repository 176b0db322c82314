"""PYTHONPATH=../../sdk/python python3 -m unittest, in this folder."""

import asyncio
import unittest

import main

TABLES = {"before": "id\n1\n", "after": "id\n1\n", "key": "id"}
CHANGES = {"summary": "changes", "removed": [], "columns_removed": []}


class Client:
    """Answers in place of the two agents; both must be under way before one answers."""

    def __init__(self, changes=CHANGES, findings=()):
        self.answers = {
            "main/compare-tables@v1": changes,
            "main/csv-insights@v1": {"summary": "quality", "findings": list(findings)},
        }
        self.asked = {}

    async def call(self, agent, input, timeout):
        self.asked[agent] = input
        while len(self.asked) < len(self.answers):
            await asyncio.sleep(0)
        return self.answers[agent]


def review(given=TABLES, **answers):
    return asyncio.run(asyncio.wait_for(main.review(given, Client(**answers)), 10))


class Decisions(unittest.TestCase):
    def test_approved(self):
        self.assertEqual(review(), {"approved": True, "reasons": [], "changes": "changes", "quality": "quality"})

    def test_findings_stop_the_import_unless_they_are_allowed(self):
        findings = [{"kind": "outliers", "message": "far away"}]
        self.assertEqual(review(findings=findings)["reasons"], ["far away"])
        self.assertTrue(review({**TABLES, "allowed_findings": ["outliers"]}, findings=findings)["approved"])

    def test_rows_and_columns_that_are_gone(self):
        changes = {"summary": "", "removed": list("abcdef"), "columns_removed": ["price"]}
        self.assertEqual(
            review(changes=changes)["reasons"],
            ["the column price is gone", "rows removed: 6 (max 0), with the keys a, b, c, d, e, ..."],
        )
        self.assertEqual(review({**TABLES, "max_removed": 6}, changes=changes)["reasons"], ["the column price is gone"])

    def test_bad_input(self):
        for given, member in [
            (None, "object"),
            ({}, "before"),
            ({**TABLES, "key": 1}, "key"),
            ({**TABLES, "max_removed": True}, "max_removed"),
            ({**TABLES, "max_removed": -1}, "max_removed"),
            ({**TABLES, "allowed_findings": [1]}, "allowed_findings"),
        ]:
            with self.subTest(given), self.assertRaisesRegex(main.InputError, member):
                review(given)


if __name__ == "__main__":
    unittest.main()
