import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { callA2a } from '#test/helpers/a2a.ts';
import { newCardKey } from '#test/helpers/card-key.ts';
import { clientOf, type LocalTarget, request, startLocalTarget } from '#test/helpers/platform.ts';
import { expectError, expectOk } from './expect.ts';

const JWKS = '/.well-known/jwks.json';
const cardPath = (name: string) => `/a2a/acme/${name}/.well-known/agent-card.json`;
const decoded = (text: string) => JSON.parse(Buffer.from(text, 'base64url').toString());

async function publish(target: LocalTarget): Promise<void> {
  const common = { type: 'prompt', description: 'Grüßt – "alle" 😀', prompt: 'Be kind. {{message}}' } as const;
  for (const [name, is_public] of [
    ['open', true],
    ['own', false],
  ] as const) {
    await clientOf(target).createAgent({ body: { ...common, name, is_public } });
  }
}

describe('with a key', () => {
  const key = newCardKey();
  const written: string[] = [];
  let target: LocalTarget;

  beforeAll(async () => {
    vi.spyOn(process.stderr, 'write').mockImplementation((text) => Boolean(written.push(String(text))));
    target = await startLocalTarget({ PLATFORM_A2A_KEY_FILE: key.file, PLATFORM_LOG_LEVEL: 'debug' });
    await publish(target);
  });
  afterAll(async () => {
    vi.restoreAllMocks();
    await target?.close();
    key.remove();
  });

  const get = async (path: string, own = target.key, headers: Record<string, string> = {}) =>
    (await callA2a(target, path, { method: 'GET', key: own, headers })).answer;

  test('every card has the signature of a published key', async () => {
    const keys = expectOk(await request(target, 'GET', JWKS)).keys;
    expect(keys).toEqual([
      {
        ...{ kty: 'EC', crv: 'P-256', alg: 'ES256', use: 'sig' },
        ...{ x: expect.any(String), y: expect.any(String), kid: expect.any(String) },
      },
    ]);
    const rpc = { json: { jsonrpc: '2.0', id: 1, method: 'GetExtendedAgentCard', params: {} }, key: target.key };
    const cards = [
      (await get(cardPath('open'))).body,
      (await get(cardPath('own'))).body,
      (await get('/a2a/acme/own/extendedAgentCard')).body,
      (await callA2a(target, '/a2a/acme/own', rpc)).answer.body.result,
    ];
    for (const { signatures } of cards) {
      expect(signatures).toEqual([{ protected: expect.any(String), signature: expect.stringMatching(/^[\w-]{86}$/) }]);
      const header = { alg: 'ES256', typ: 'JOSE', kid: keys[0].kid, jku: `${target.url}${JWKS}` };
      expect(decoded(signatures[0].protected)).toEqual(header);
    }
  });

  test('a copy of the card stays valid, although each answer has a signature of its own', async () => {
    const [first, second] = [await get(cardPath('open')), await get(cardPath('open'))];
    expect(second.body.signatures[0].signature).not.toBe(first.body.signatures[0].signature);
    const etag = first.headers.get('etag')!;
    expect(etag).toMatch(/^W\/"[\w-]{27}"$/);
    expect(second.headers.get('etag')).toBe(etag);
    expect(await get(cardPath('open'), target.key, { 'if-none-match': etag })).toMatchObject({ status: 304, body: '' });
  });

  test('the key is in no answer and no line of the log', async () => {
    const secrets = key.pem.split('\n').filter((line) => line.length > 20 && !line.includes('---'));
    expect(written.join('')).toContain('"status":200');
    expect(secrets.length).toBeGreaterThan(1);
    const answers = [
      await get(JWKS),
      await get(cardPath('open')),
      await request(target, 'GET', '/health/detailed', { key: target.operatorKey }),
    ];
    const shown = `${JSON.stringify(answers.map(({ body }) => body))}${written.join('')}`;
    for (const secret of secrets) expect(shown).not.toContain(secret);
  });
});

test('without a key cards have no signatures, and there are no keys', async () => {
  const target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0' });
  try {
    await publish(target);
    const { answer } = await callA2a(target, cardPath('open'), { method: 'GET' });
    expect(answer.body).not.toHaveProperty('signatures');
    expect(answer.headers.get('etag')).toMatch(/^"/);
    expectError(await request(target, 'GET', JWKS), 404, 'NOT_FOUND', 'does not sign');
  } finally {
    await target.close();
  }
});

test('a key of another kind, and a file that is not there, end the start with the setting', async () => {
  const { file, remove } = newCardKey();
  writeFileSync(file, 'made-up-secret');
  const started = (path: string) => startLocalTarget({ PLATFORM_A2A_KEY_FILE: path });
  const error: Error = await started(file).then(
    () => expect.unreachable(),
    (thrown) => thrown,
  );
  expect(error.message).toMatch(/^PLATFORM_A2A_KEY_FILE: must be a private key in PEM/);
  expect(error.stack).not.toContain('made-up-secret');
  const missing = join(file, '../none.pem');
  await expect(started(missing)).rejects.toThrow(/^PLATFORM_A2A_KEY_FILE: the file cannot be read: ENOENT/);
  remove();
});
