"""PYTHONPATH=../../sdk/python python3 -m unittest, in this folder."""

import unittest

import main


class Store:
    """The functions of the SDK's storage that the digest uses, in memory."""

    def __init__(self):
        self.documents = {}

    def list(self, namespace):
        return sorted(self.documents)

    def get(self, namespace, key):
        return {"value": self.documents[key]} if key in self.documents else None

    def set(self, namespace, key, value):
        self.documents[key] = value


def report(*blockers):
    return [{"who": "Ada", "done": "the export", "blockers": list(blockers)}]


class Digests(unittest.TestCase):
    def test_blockers_over_days(self):
        store = Store()
        first = main.digest({"date": "2026-11-16", "reports": report("a", "b")}, store)
        self.assertEqual((first["compared_with"], first["new"]), (None, ["Ada: a", "Ada: b"]))
        for _ in range(2):  # the same day again
            second = main.digest({"date": "2026-11-17", "reports": report("b", "c", "c")}, store)
            self.assertEqual(second["compared_with"], "2026-11-16")
            self.assertEqual(
                (second["new"], second["still"], second["solved"]), (["Ada: c"], ["Ada: b"], ["Ada: a"])
            )

    def test_a_late_report_is_compared_with_the_day_before_it(self):
        store = Store()
        main.digest({"date": "2026-11-18", "reports": report("z")}, store)
        self.assertIsNone(main.digest({"date": "2026-11-17", "reports": report()}, store)["compared_with"])

    def test_texts_stay_in_their_line(self):
        answer = main.digest({"date": "2026-11-17", "reports": report("a\n## b")}, None)
        self.assertEqual(answer["new"], ["Ada: a ## b"])

    def test_bad_input(self):
        good = report("a")
        for given, member in [
            (None, "object"),
            ({}, "reports: "),
            ({"reports": []}, "reports: "),
            ({"reports": [1]}, r"reports\[0\]: "),
            ({"reports": [{"who": "Ada"}]}, r"reports\[0\]\.done"),
            ({"reports": [{"who": "Ada", "done": "x", "blockers": [1]}]}, r"reports\[0\]\.blockers"),
            ({"reports": good, "date": "17.11.2026"}, "date"),
            ({"reports": good, "date": 5}, "date"),
            ({"reports": good, "date": "2026-02-30"}, "date"),
        ]:
            with self.subTest(given), self.assertRaisesRegex(main.InputError, member):
                main.digest(given, Store())


if __name__ == "__main__":
    unittest.main()
