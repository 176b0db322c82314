"""Agents that the command line tool runs on the author's own machine."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import LocalExecutionError, TimeoutExceededError


def run_locally(
    org: str, name: str, version: str, input: Mapping[str, Any], chain: str | None, hops: int | None, timeout: float
) -> Any:
    """Runs the agent in ``PLATFORM_AGENTS_DIR/org/name/version`` as the platform would: JSON in, JSON out."""
    ref = f"{org}/{name}@{version}"
    folder = Path(os.environ.get("PLATFORM_AGENTS_DIR", "."), org, name, version)
    try:
        command = json.loads((folder / "agent.json").read_text("utf-8"))["runtime"]["command"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LocalExecutionError(f"{ref} has no runtime.command in {folder}/agent.json: {error!r}", exit_code=None)
    environment = {**os.environ, "PLATFORM_CALL_CHAIN": f"{chain},{ref}" if chain else ref}
    if hops is not None:
        environment["PLATFORM_MAX_HOPS"] = str(hops)
    try:
        ended = subprocess.run(
            command, shell=True, cwd=folder, env=environment, input=json.dumps(input).encode(),
            stdout=subprocess.PIPE, timeout=timeout,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TimeoutExceededError(f"{ref} did not end within {timeout:.3g} s", code="TIMEOUT") from None
    if ended.returncode != 0:
        raise LocalExecutionError(f"{ref} ended with status {ended.returncode}", exit_code=ended.returncode)
    try:
        return json.loads(ended.stdout or b"{}")
    except ValueError:
        return {"result": ended.stdout.decode("utf-8", "replace")}
