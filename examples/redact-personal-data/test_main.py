"""python3 -m unittest, in this folder."""

import pathlib
import tempfile
import time
import unittest

import main


def redacted(text):
    return main.Redaction().redact(text)[0]


class Found(unittest.TestCase):
    def test_kinds(self):
        for text, expected in [
            ("mail ada.b+c@mail.example.co.uk.", "mail [EMAIL-1]."),
            ("DE89 3704 0044 0532 0130 00, please", "[IBAN-1], please"),
            ("(NO9386011117947)", "([IBAN-1])"),
            ("4242 4242 4242 4242", "[CARD-1]"),
            ("3782-822463-10005", "[CARD-1]"),
            ("from 192.168.0.7.", "from [IP-1]."),
            ("call +44 20 7946 0958 now", "call [PHONE-1] now"),
            ("0049 (30) 123456-78", "[PHONE-1]"),
        ]:
            with self.subTest(text):
                self.assertEqual(redacted(text), expected)

    def test_same_value_same_placeholder(self):
        self.assertEqual(redacted("A@b.org c@d.org a@B.org"), "[EMAIL-1] [EMAIL-2] [EMAIL-1]")
        self.assertEqual(redacted("4242424242424242 4242-4242-4242-4242"), "[CARD-1] [CARD-1]")


class NotFound(unittest.TestCase):
    def test_other_texts_stay(self):
        for text in [
            "a@b",
            "DE89 3704 0044 0532 0130 01",
            "4242 4242 4242 4241",
            "0000 0000 0000 0000",
            "version 1.2.3.4.5 and 999.1.1.1",
            "order 2026-11-17 10:30",
            "2 + 12345678",
        ]:
            with self.subTest(text):
                self.assertEqual(redacted(text), text)

    def test_no_text_makes_it_slow(self):
        started = time.monotonic()
        for part in ("a", "a.", "1 ", "1-", "+1", "DE89 ", "a@a.", "1."):
            redacted(part * 50_000)
        self.assertLess(time.monotonic() - started, 20)


class Files(unittest.TestCase):
    def test_one_bad_file_does_not_stop_the_others(self):
        with tempfile.TemporaryDirectory() as folder:
            good, bad = pathlib.Path(folder, "good"), pathlib.Path(folder, "bad")
            good.write_text("a@b.org")
            bad.write_bytes(b"\xff\x00")
            files = [{"path": str(bad), "original_name": "logo.png"}, {"path": folder}, {"path": str(good)}]
            answer = main.redact({"files": files})
        self.assertEqual(answer["summary"], "1 replaced in 1 of 3 files")
        self.assertEqual(answer["files"][0], {"name": "logo.png", "error": "must be a text file in UTF-8"})
        self.assertEqual(answer["files"][2]["text"], "[EMAIL-1]")

    def test_bad_input(self):
        for given in (None, [], {}, {"files": []}, {"files": "a"}):
            with self.assertRaisesRegex(main.InputError, "at least one"):
                main.redact(given)
        with self.assertRaisesRegex(main.InputError, r"files\[0\]"):
            main.redact({"files": [5]})


if __name__ == "__main__":
    unittest.main()
