"""Verifies the signature of a card by the key that it names, and prints what was found as JSON."""

import asyncio
import json
import os
from urllib.parse import urlsplit

import httpx
from a2a.client import A2ACardResolver
from a2a.utils.signing import SignatureVerificationError, create_signature_verifier
from jwt import PyJWK

origins = set()


def key_of(kid: str | None, jku: str | None) -> PyJWK:
    where = urlsplit(jku)
    origins.add(f"{where.scheme}://{where.netloc}")
    keys = httpx.get(jku).json()["keys"]
    return PyJWK(next(key for key in keys if key["kid"] == kid))


def verdict(card) -> str:
    try:
        create_signature_verifier(key_of, ["ES256"])(card)
    except SignatureVerificationError as error:
        return type(error).__name__
    return "valid"


async def main() -> None:
    headers = {"authorization": f"Bearer {os.environ['A2A_KEY']}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        card = await A2ACardResolver(http, f"{os.environ['A2A_URL']}/teller").get_agent_card()
    found = {"card": verdict(card)}
    card.description = "Tests clients"
    found["changed"] = verdict(card)
    found["origin"] = ", ".join(origins)
    print(json.dumps(found))


asyncio.run(main())
