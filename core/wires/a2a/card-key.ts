import { createPrivateKey, type KeyObject } from 'node:crypto';

const RULE =
  'must be a private key in PEM, without a password, for ECDSA on the curve P-256 (docs/a2a.md#signed-cards)';

/** Reads a {@link CardKey} in PEM. Throws an error that begins with `source` and repeats none of the text. */
export function parseCardKey(source: string, pem: string): KeyObject {
  const key = privateKeyIn(pem);
  const isOfCurve = key?.asymmetricKeyType === 'ec' && key.asymmetricKeyDetails?.namedCurve === 'prime256v1';
  if (key === undefined || !isOfCurve) throw new Error(`${source}: ${RULE}`);
  return key;
}

function privateKeyIn(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}
