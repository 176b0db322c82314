import { createPublicKey, hash, type KeyObject, sign } from 'node:crypto';
import { canonicalJson } from './canonical-json.ts';

const KEYS_PATH = '/.well-known/jwks.json';

/** The public part of a key as a JSON Web Key (RFC 7517), whose id is its thumbprint (RFC 7638). */
export function publishedKeyOf(key: KeyObject) {
  const { x, y } = createPublicKey(key).export({ format: 'jwk' }) as { readonly x: string; readonly y: string };
  const kid = hash('sha256', canonicalJson({ crv: 'P-256', kty: 'EC', x, y }), 'base64url');
  return { kty: 'EC', crv: 'P-256', x, y, kid, alg: 'ES256', use: 'sig' } as const;
}

/** A signature in a card: the header in Base64, and the signature over the header and the card. */
export interface CardSignature {
  readonly protected: string;
  readonly signature: string;
}

/**
 * Signs a card as A2A 1.0 does (section 8.4): a JSON Web Signature over the canonical card without its signatures. The
 * card must have no empty members: verifiers leave these out, and some leave out more than others.
 */
export function cardSignature(card: object, key: KeyObject, baseUrl: string): CardSignature {
  const { alg, kid } = publishedKeyOf(key);
  const header = base64url(JSON.stringify({ alg, typ: 'JOSE', kid, jku: `${baseUrl}${KEYS_PATH}` }));
  // ES256 puts both numbers of the signature side by side (RFC 7518, section 3.4), unlike OpenSSL.
  const signature = sign('sha256', Buffer.from(`${header}.${base64url(canonicalJson(card))}`), {
    key,
    dsaEncoding: 'ieee-p1363',
  });
  return { protected: header, signature: signature.toString('base64url') };
}

const base64url = (text: string): string => Buffer.from(text).toString('base64url');
