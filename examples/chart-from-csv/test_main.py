"""python3 -m unittest, in this folder."""

import pathlib
import tempfile
import unittest
import xml.etree.ElementTree as tree

import main


def chart(content):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "upload")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return main.chart({"files": [{"path": str(path), "original_name": "table.csv"}]})


class Charts(unittest.TestCase):
    def test_adds_up_and_sorts(self):
        answer = chart("city,note,amount\nRome,a,1.5\nOslo,b,4\nRome,c,3\nBern,d,\n")
        self.assertEqual(answer["bars"], [{"label": "Rome", "total": 4.5}, {"label": "Oslo", "total": 4}])
        self.assertEqual((answer["label"], answer["value"], answer["rows"], answer["skipped"]), ("city", "amount", 4, 1))

    def test_image_is_xml_whatever_the_labels_are(self):
        answer = chart('<a>&,"x"\n<script>alert(1)</script>,-2\n\'"&<,3\n')
        image = tree.fromstring(answer["svg"])
        self.assertEqual({element.tag.split("}")[1] for element in image}, {"text", "rect"})

    def test_delimiters_and_byte_order_mark(self):
        self.assertEqual(chart("\ufeffa;b\nx;1\n")["label"], "a")
        self.assertEqual(chart("a\tb\nx\t1\n")["bars"], [{"label": "x", "total": 1}])

    def test_many_labels_become_others(self):
        bars = chart("a,b\n" + "".join(f"n{index},{index}\n" for index in range(50)))["bars"]
        self.assertEqual((len(bars), bars[-1]["label"], bars[-1]["total"]), (20, "(others)", sum(range(31))))

    def test_only_zeros(self):
        self.assertIn('width="0.0"', chart("a,b\nx,0\n")["svg"])


class BadInput(unittest.TestCase):
    def test_content(self):
        for content, words in [
            ("", "must have a header"),
            ("a\n1\n", "at least two columns"),
            ("a,b\nx,y\n", "has only numbers"),
            ("a,b\nx,nan\n", "has only numbers"),
            ("a,b\nx,1e308\nx,1e308\n", "too large"),
            (b"a,b\n\xff,1\n", "UTF-8"),
            ('a,b\n"' + "x" * 200_000 + '",1\n', "cannot be read as CSV"),
        ]:
            with self.subTest(content[:20]), self.assertRaisesRegex(main.InputError, words):
                chart(content)

    def test_files(self):
        for given in (None, {}, {"files": []}, {"files": [1]}, {"files": [{}, {}]}):
            with self.assertRaisesRegex(main.InputError, "exactly one"):
                main.chart(given)
        with self.assertRaisesRegex(main.InputError, "cannot be read"):
            main.chart({"files": [{"path": "/nowhere"}]})


if __name__ == "__main__":
    unittest.main()
