"""Calls a dependency of the running agent: python3 platform_call.py org/agent@v1

The input is the JSON object in /tmp/__tool_input.json, or in the file that PLATFORM_TOOL_INPUT names. Prints the
dependency's data as JSON; after a failure {"error": text}, and ends with status 1.
"""

import json
import os
import sys

from agent_platform import AgentClient, PlatformError

# A tool of a loop has 120 s: the call must fail earlier, so that the model gets the reason.
TIMEOUT_SECONDS = 115


def main() -> int:
    if len(sys.argv) != 2:
        return fail("usage: platform_call.py org/agent@v1")
    try:
        with open(os.environ.get("PLATFORM_TOOL_INPUT") or "/tmp/__tool_input.json", encoding="utf-8") as file:
            tool_input = json.load(file)
        data = AgentClient().call_sync(sys.argv[1], tool_input, timeout=TIMEOUT_SECONDS)
    except PlatformError as error:
        return fail(f"{error.code}: {error}")
    except (OSError, ValueError) as error:
        return fail(str(error))
    print(json.dumps(data, ensure_ascii=False))
    return 0


def fail(message: str) -> int:
    print(json.dumps({"error": message}, ensure_ascii=False))
    return 1


if __name__ == "__main__":
    sys.exit(main())
