import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, webcrypto } from 'node:crypto';
import { expect, test } from 'vitest';
import { canonicalJson } from './canonical-json.ts';
import { parseCardKey } from './card-key.ts';
import { cardSignature, publishedKeyOf } from './card-signature.ts';

const CARD = { name: 'chat', skills: [{ tags: ['prompt'], id: 'run' }], capabilities: { streaming: true } };
const pemOf = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' }).toString();
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;

test('members are in the order of their code units, at every depth', () => {
  // RFC 8785, section 3.2.3.
  const names = ['\u20ac', '\r', '\ufb33', '1', '\ud83d\ude00', '\u0080', '\u00f6'];
  const text = canonicalJson(Object.fromEntries(names.map((name) => [name, { b: 1, a: undefined }])));
  const sorted = ['\\r', '1', '\u0080', '\u00f6', '\u20ac', '\ud83d\ude00', '\ufb33'];
  expect(text).toBe(`{${sorted.map((name) => `"${name}":{"b":1}`).join(',')}}`);
  expect(canonicalJson([{ b: 'ü"\n', a: [true, null] }])).toBe('[{"a":[true,null],"b":"ü\\"\\n"}]');
});

test('a signature is one of JOSE, by a key whose id is its thumbprint', async () => {
  const { protected: header, signature } = cardSignature(CARD, key, 'https://agents.example.com');
  const { kid, ...jwk } = publishedKeyOf(key);
  expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({
    ...{ alg: 'ES256', typ: 'JOSE', kid, jku: 'https://agents.example.com/.well-known/jwks.json' },
  });
  const ecdsa = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const published = await webcrypto.subtle.importKey('jwk', jwk, ecdsa, false, ['verify']);
  const isOf = (payload: string) => {
    const signed = `${header}.${Buffer.from(payload).toString('base64url')}`;
    return webcrypto.subtle.verify(ecdsa, published, Buffer.from(signature, 'base64url'), Buffer.from(signed));
  };
  const canonical = '{"capabilities":{"streaming":true},"name":"chat","skills":[{"id":"run","tags":["prompt"]}]}';
  expect(await isOf(canonical)).toBe(true);
  expect(await isOf(canonical.replace('chat', 'chap'))).toBe(false);
});

test('the thumbprint is that of RFC 7638, and nothing private is published', () => {
  // The key of RFC 7515, appendix A.3.
  const jwk = {
    ...{ kty: 'EC', crv: 'P-256' },
    x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU',
    y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
    d: 'jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI',
  };
  const { d: _, ...open } = jwk;
  const kid = 'oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U';
  const pem = pemOf(parseCardKey('x', pemOf(createPrivateKey({ key: jwk, format: 'jwk' }))));
  expect(publishedKeyOf(parseCardKey('x', pem))).toEqual({ ...open, kid, alg: 'ES256', use: 'sig' });
});

const curve = (namedCurve: string) => generateKeyPairSync('ec', { namedCurve }).privateKey;
test.each([
  ['of another curve', pemOf(curve('P-384'))],
  ['of a curve for other purposes', pemOf(curve('secp256k1'))],
  ['for RSA', pemOf(generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey)],
  ['for Ed25519', pemOf(generateKeyPairSync('ed25519').privateKey)],
  ['public', createPublicKey(key).export({ type: 'spki', format: 'pem' }).toString()],
  ['with a password', key.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString()],
  ['cut off', pemOf(key).slice(0, 100)],
  ['empty', ''],
])('a key %s is refused without its text', (_, pem) => {
  const refused = () => parseCardKey('PLATFORM_A2A_KEY_FILE', pem);
  expect(refused).toThrow(
    /^PLATFORM_A2A_KEY_FILE: must be a private key in PEM, .* P-256 \(docs\/a2a\.md#signed-cards\)$/,
  );
});

test('keys in the older form of OpenSSL are read', () => {
  const pem = key.export({ type: 'sec1', format: 'pem' }).toString();
  expect(publishedKeyOf(parseCardKey('x', pem))).toEqual(publishedKeyOf(key));
});
