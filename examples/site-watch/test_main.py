"""PYTHONPATH=../../sdk/python python3 -m unittest, in this folder."""

import contextlib
import http.server
import io
import threading
import unittest
from unittest import mock

import main
from agent_platform import PlatformError

KEY = {"SITE_WATCH_KEY": "made-up"}


class Site(http.server.BaseHTTPRequestHandler):
    """Answers with the status that the path names; /garbage is no HTTP."""

    def do_GET(self):
        if self.path == "/garbage":
            self.wfile.write(b"hello\r\n\r\n")
            return
        self.send_response(int(self.path[1:]))
        self.send_header("Location", "/500")
        self.end_headers()

    def log_message(self, *_):
        pass


class Settings(unittest.TestCase):
    def test_addresses_and_interval(self):
        sites = "https://a.example, http://b.example:8080/x\nhttps://a.example"
        self.assertEqual(main.settings({**KEY, "SITES": sites}), (["https://a.example", "http://b.example:8080/x"], 60))
        self.assertEqual(main.settings({**KEY, "SITES": "https://a.example", "INTERVAL_SECONDS": "5"})[1], 5)

    def test_what_is_wrong(self):
        for environment, problem in [
            ({}, "SITES must have 1 to 50 addresses"),
            ({"SITES": " ".join(f"https://{n}.example" for n in range(51))}, "it has 51"),
            ({"SITES": "ftp://a.example"}, '"ftp://a.example" must begin with https://'),
            ({"SITES": "https:///x"}, "have a host"),
            ({"SITES": "https://ada:word@a.example"}, "must not have a user"),
            ({"SITES": "https://a.example", "INTERVAL_SECONDS": "0"}, 'is "0"'),
            ({"SITES": "https://a.example", "INTERVAL_SECONDS": "often"}, 'is "often"'),
            ({"SITES": "https://a.example", "SITE_WATCH_KEY": ""}, "SITE_WATCH_KEY is missing"),
        ]:
            with self.subTest(problem), self.assertRaisesRegex(main.SettingsError, problem):
                main.settings({**KEY, **environment})


class Look(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
        cls.address = f"http://127.0.0.1:{cls.server.server_port}"
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()

    def test_answers(self):
        self.assertIsNone(main.look(f"{self.address}/200"))
        # The redirect is not followed: its target would fail.
        self.assertIsNone(main.look(f"{self.address}/302"))
        self.assertEqual(main.look(f"{self.address}/503"), "it answers 503")
        self.assertRegex(main.look(f"{self.address}/garbage"), "its answer makes no sense: BadStatusLine")

    def test_nobody_there(self):
        with http.server.HTTPServer(("127.0.0.1", 0), Site) as closed:
            address = f"http://127.0.0.1:{closed.server_port}"
        self.assertRegex(main.look(address), "it does not answer: .*refused")


class Watch(unittest.TestCase):
    def looks(self, problems, fails=()):
        """Looks at one site as often as there are problems. Returns the levels of the messages, and the last records."""
        levels, known = [], {}
        for number, problem in enumerate(problems):

            def send(title, body, level, metadata, number=number):
                if number in fails:
                    raise PlatformError("busy", code="RATE_LIMITED")
                levels.append(level)

            with mock.patch.object(main, "look", return_value=problem), mock.patch.object(main.message, "send", send):
                with contextlib.redirect_stdout(io.StringIO()):
                    known = main.watch_once(["https://a.example"], known, now=lambda number=number: str(number))
        return levels, known.get("https://a.example")

    def test_one_failure_is_no_news(self):
        levels, record = self.looks(["late", None, "late", None])
        self.assertEqual((levels, record), ([], {"state": "up", "since": "0", "failures": 0, "problem": None}))

    def test_down_is_told_once_and_up_again(self):
        levels, record = self.looks(["late"] * 5)
        self.assertEqual((levels, record), (["error"], {"state": "down", "since": "1", "failures": 5, "problem": "late"}))
        self.assertEqual(self.looks(["late"] * 3 + [None, None])[0], ["error", "success"])

    def test_what_could_not_be_told_is_told_by_the_next_look(self):
        levels, record = self.looks(["late", "late", "late"], fails=[1])
        self.assertEqual((levels, record["state"], record["since"]), (["error"], "down", "2"))
        levels, record = self.looks(["late", "late", None, None], fails=[2])
        self.assertEqual((levels, record["state"]), (["error", "success"], "up"))


if __name__ == "__main__":
    unittest.main()
