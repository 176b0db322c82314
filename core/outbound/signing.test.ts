import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { signingVaultOf, type Vault } from '#core/ports/vault.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { messageHeaders, rotateSigningSecret } from './signing.ts';

const MESSAGE = { id: 'msg_1', body: '{"event":"x"}' };
const HOUR_MS = 3_600_000;

/** Computes the signature as a receiver does by the standard. */
function signature(secret: string, headers: Record<string, string>, body = MESSAGE.body): string {
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  return `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
}

test('a message is not signed before there is a secret', async () => {
  const deps = memoryDeps();
  expect(await messageHeaders(deps, 'ws', MESSAGE)).toEqual({
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(deps.clock.now() / 1000),
  });
});

test('a message is signed with the secret of its workspace', async () => {
  const deps = memoryDeps();
  const { secret, previousUntil } = await rotateSigningSecret(deps, 'ws');
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(previousUntil).toBeNull();
  const headers = await messageHeaders(deps, 'ws', MESSAGE);
  expect(headers['webhook-signature']).toBe(signature(secret, headers));
  expect(await messageHeaders(deps, 'other', MESSAGE)).not.toHaveProperty('webhook-signature');
});

test('the secret is in a vault without the values that users store, and signing reads no other', async () => {
  const deps = memoryDeps();
  await deps.vault.write('ws', 'TOKEN', 'made-up');
  const { secret } = await rotateSigningSecret(deps, 'ws');
  expect(await deps.vault.read(signingVaultOf('ws'), ['TOKEN', 'outbound-signing'])).toEqual({
    'outbound-signing': JSON.stringify({ current: secret }),
  });
  expect(await deps.vault.read('ws', ['TOKEN', 'outbound-signing'])).toEqual({ TOKEN: 'made-up' });
  const vault: Vault = Object.assign(Object.create(deps.vault), {
    read: async (id: string, names: readonly string[]) => {
      if (id !== 'signing-ws') throw new Error(`${id} is not for functions that sign`);
      return deps.vault.read(id, names);
    },
  });
  const headers = await messageHeaders({ ...deps, vault }, 'ws', MESSAGE);
  expect(headers['webhook-signature']).toBe(signature(secret, headers));
});

test('a replaced secret signs beside its successor for 24 hours, but its own predecessor stops signing', async () => {
  const deps = memoryDeps();
  const first = await rotateSigningSecret(deps, 'ws');
  const second = await rotateSigningSecret(deps, 'ws');
  expect(second.previousUntil).toBe(deps.clock.now() + 24 * HOUR_MS);
  const both = await messageHeaders(deps, 'ws', MESSAGE);
  expect(both['webhook-signature']).toBe([second, first].map(({ secret }) => signature(secret, both)).join(' '));

  const third = await rotateSigningSecret(deps, 'ws');
  const after = await messageHeaders(deps, 'ws', MESSAGE);
  expect(after['webhook-signature']).toBe([third, second].map(({ secret }) => signature(secret, after)).join(' '));

  await deps.clock.advance(24 * HOUR_MS);
  const alone = await messageHeaders(deps, 'ws', MESSAGE);
  expect(alone['webhook-signature']).toBe(signature(third.secret, alone));
});
