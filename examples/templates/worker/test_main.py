"""python3 -m unittest, in this folder."""

import unittest

from main import work


class Work(unittest.TestCase):
    def test_each_turn_is_in_the_log(self):
        self.assertEqual(work(3), "INFO turn 3: nothing to do")


if __name__ == "__main__":
    unittest.main()
