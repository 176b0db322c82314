"""Reads the input from stdin and writes the output to stdout."""

import json
import sys


def greet(name):
    return {"greeting": f"Hello, {name}!"}


given = json.load(sys.stdin)
print("greets one person", file=sys.stderr)  # stderr is the log of the run
json.dump(greet(given["name"]), sys.stdout)
