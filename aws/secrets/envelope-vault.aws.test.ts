import { randomUUID } from 'node:crypto';
import type { KMSClient } from '@aws-sdk/client-kms';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Clock } from '#core/ports/clock.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { Item } from '#core/ports/table.ts';
import { vaultConformance } from '#test/conformance/vault.ts';
import { createKmsKey, kmsClient, newTables } from '#test/helpers/aws.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { memoryDataKeys } from '#test/helpers/memory-data-keys.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { EnvelopeVault, secretsContextOf } from './envelope-vault.ts';
import { KmsDataKeys } from './kms-data-keys.ts';

async function openStore(clock: Clock) {
  const { main } = await newTables(clock);
  const client = kmsClient();
  const key = await createKmsKey(client);
  const prefix = `platform/${randomUUID()}`;
  let asked = 0;
  const counting: KMSClient = Object.assign(Object.create(client), {
    send: (...args: Parameters<typeof client.send>) => {
      asked++;
      return client.send(...args);
    },
  });
  const keysOf = (context: string) => new KmsDataKeys({ client: counting, key, prefix: context });
  const vaultOf = (of = prefix) =>
    new EnvelopeVault({ main, clock, secretKeys: keysOf(secretsContextOf(of)), dataKeys: keysOf(of) });
  return { main, client, key, prefix, vaultOf, asked: () => asked };
}

describe('EnvelopeVault', () => {
  vaultConformance(async () => {
    const store = await openStore(new SystemClock());
    return () => store.vaultOf();
  });
});

describe('a stored vault', () => {
  const SECRET = 'made-up-value-of-a-secret';
  let store: Awaited<ReturnType<typeof openStore>>;
  const item = async (workspaceId: string, sk: 'HEAD' | 'VALUES'): Promise<Item> =>
    (await store.main.get({ pk: `VAULT#${workspaceId}`, sk }))!;

  beforeAll(async () => {
    store = await openStore(new SystemClock());
  });

  /** Returns a vault with a second version, and its items before and after. */
  async function written(workspaceId: string) {
    const vault = store.vaultOf();
    await vault.write(workspaceId, 'TOKEN', SECRET);
    const before = { head: await item(workspaceId, 'HEAD'), values: await item(workspaceId, 'VALUES') };
    await vault.write(workspaceId, 'TOKEN', `${SECRET}-2`);
    const now = { head: await item(workspaceId, 'HEAD'), values: await item(workspaceId, 'VALUES') };
    return { vault, before, now };
  }

  /** Expects that neither a process that knows the vault nor another one opens or changes it. */
  async function expectRefused(workspaceId: string, known: EnvelopeVault): Promise<void> {
    const stored = [await item(workspaceId, 'HEAD'), await item(workspaceId, 'VALUES')];
    for (const vault of [known, store.vaultOf()]) {
      for (const attempt of [
        () => vault.read(workspaceId, ['TOKEN']),
        () => vault.write(workspaceId, 'OTHER', 'x'),
        () => vault.remove(workspaceId, 'TOKEN'),
      ]) {
        const error = await attempt().then(
          () => expect.unreachable(),
          (thrown) => thrown,
        );
        expect(error).toMatchObject({ code: 'VAULT_DAMAGED', name: 'VaultDamagedError' });
        expect(error.message).toContain(`workspace ${workspaceId} cannot be opened`);
        const told = JSON.stringify([error.message, error.stack, String(error.cause), error.cause?.cause?.message]);
        expect(told).not.toMatch(/made-up|TOKEN/);
        for (const text of stored.flatMap((each) => [each?.sealed, each?.sealed_key])) {
          if (typeof text === 'string' && text.length > 20) expect(told).not.toContain(text);
        }
      }
    }
    expect([await item(workspaceId, 'HEAD'), await item(workspaceId, 'VALUES')]).toEqual(stored);
  }

  test('has neither names nor values in the table, and another data key with each version', async () => {
    const { before, now } = await written('plain');
    expect(Object.keys(now.values).sort()).toEqual(['pk', 'sealed', 'sealed_key', 'sk', 'version']);
    expect([before.head.version, now.head.version, now.values.version]).toEqual([1, 2, 2]);
    const text = ['sealed', 'sealed_key'].map((name) => Buffer.from(now.values[name] as string, 'base64url')).join();
    expect(text + JSON.stringify(now)).not.toMatch(/TOKEN|made-up/);
    expect(now.values.sealed_key).not.toBe(before.values.sealed_key);
  });

  test('that was copied from another workspace is refused', async () => {
    const { now, vault } = await written('source');
    await written('target');
    await store.main.put({ ...now.values, pk: 'VAULT#target' });
    await expectRefused('target', vault);
  });

  test('that was copied whole into a workspace without one is refused, also where its data key is known', async () => {
    const { now, vault } = await written('whole');
    await store.main.put({ ...now.values, pk: 'VAULT#empty' });
    await expectRefused('empty', vault);
    await store.main.put({ ...now.head, pk: 'VAULT#empty' });
    await expectRefused('empty', vault);
  });

  test('that was put back to an older version is refused', async () => {
    const { before, vault } = await written('older');
    await store.main.put(before.values);
    await expectRefused('older', vault);
    await store.main.put({ ...before.values, version: 2 });
    await expectRefused('older', vault);
  });

  test('whose members were exchanged between versions is refused', async () => {
    const { before, now, vault } = await written('members');
    for (const name of ['sealed', 'sealed_key'] as const) {
      await store.main.put({ ...now.values, [name]: before.values[name] });
      await expectRefused('members', vault);
    }
  });

  test('that is damaged, truncated, incomplete or gone is refused', async () => {
    const { now, vault } = await written('damaged');
    const sealed = now.values.sealed as string;
    const flipped = Buffer.from(sealed, 'base64url');
    flipped[20]! ^= 1;
    const { sealed_key: _, ...withoutKey } = now.values;
    for (const values of [
      { ...now.values, sealed: flipped.toString('base64url') },
      { ...now.values, sealed: sealed.slice(0, -4) },
      { ...now.values, sealed: sealed.slice(0, 20) },
      { ...now.values, sealed: '' },
      { ...now.values, sealed: 7 },
      { ...now.values, sealed_key: (now.values.sealed_key as string).slice(0, -8) },
      { ...now.values, version: '2' },
      withoutKey as Item,
    ]) {
      await store.main.put(values);
      await expectRefused('damaged', vault);
    }
    await store.main.delete({ pk: 'VAULT#damaged', sk: 'VALUES' });
    await expectRefused('damaged', vault);
    await store.main.put(now.values);
    expect(await store.vaultOf().read('damaged', ['TOKEN'])).toEqual({ TOKEN: `${SECRET}-2` });
    await store.main.delete({ pk: 'VAULT#damaged', sk: 'HEAD' });
    await expectRefused('damaged', vault);
  });

  test('of another stage under the same KMS key is refused', async () => {
    await written('stages');
    await expect(store.vaultOf('platform/another').read('stages', ['TOKEN'])).rejects.toMatchObject({
      code: 'VAULT_DAMAGED',
    });
  });

  test('is not opened by a data key of durable runs, nor the other way round', async () => {
    const { now, vault } = await written('kinds');
    const { sealed } = await vault.newDataKey('kinds');
    await expect(vault.openDataKey('kinds', now.values.sealed_key as string)).rejects.toMatchObject({
      code: 'DATA_KEY',
    });
    await store.main.put({ ...now.values, sealed_key: sealed });
    await expectRefused('kinds', vault);
  });

  test('that Secrets Manager has now is refused until functions know both places', async () => {
    const { vault } = await written('left');
    expect(await vault.leave('left', 1)).toBe(false);
    expect(await vault.leave('left', 2)).toBe(true);
    const elsewhere = "are in Secrets Manager: deploy the stage with secrets: 'both'";
    await expect(vault.read('left', ['TOKEN'])).rejects.toThrow(elsewhere);
    await expect(vault.write('left', 'TOKEN', 'x')).rejects.toThrow(elsewhere);
    await vault.deleteLeft('left');
    expect(await item('left', 'VALUES')).toBeUndefined();
    await expect(vault.read('left', ['TOKEN'])).rejects.toThrow(elsewhere);
    expect(await vault.replace('left', 2, new Map([['TOKEN', 'again']]))).toBe(true);
    expect(await vault.read('left', ['TOKEN'])).toEqual({ TOKEN: 'again' });
    await vault.deleteLeft('left');
    expect(await vault.read('left', ['TOKEN'])).toEqual({ TOKEN: 'again' });
  });

  test('writes no version that says the same', async () => {
    const { vault } = await written('same');
    await vault.write('same', 'TOKEN', `${SECRET}-2`);
    await vault.remove('same', 'OTHER');
    await vault.remove('never', 'OTHER');
    expect((await item('same', 'HEAD')).version).toBe(2);
    expect(await item('never', 'HEAD')).toBeUndefined();
  });

  test('of the largest size fits into an item', async () => {
    const vault = store.vaultOf();
    for (let n = 0; n < 7; n++) await vault.write('large', `N${n}`, '\u{1f40e}'.repeat(2048));
    expect(Object.keys(await store.vaultOf().read('large', ['N0', 'N6']))).toEqual(['N0', 'N6']);
    expect(JSON.stringify(await item('large', 'VALUES')).length).toBeLessThan(100_000);
  });
});

describe('requests to KMS', () => {
  test('once in five minutes for a vault, and none after a write', async () => {
    const clock = new ManualClock();
    const { vaultOf, asked } = await openStore(clock);
    const writer = vaultOf();
    await writer.write('ws', 'A', '1');
    await writer.read('ws', ['A']);
    expect(asked()).toBe(1);
    const reader = vaultOf();
    await Promise.all(Array.from({ length: 5 }, () => reader.read('ws', ['A'])));
    for (let n = 0; n < 3; n++) await reader.read('ws', ['A', 'B']);
    expect(asked()).toBe(2);
    await clock.advance(5 * 60_000);
    await reader.read('ws', ['A']);
    expect(asked()).toBe(3);
    await writer.write('ws', 'A', '2');
    expect(await reader.read('ws', ['A'])).toEqual({ A: '2' });
    expect(asked()).toBe(6);
  });

  test('that fail say nothing of the vault, and are repeated', async () => {
    const { main, clock, ids } = memoryDeps();
    const keys = memoryDataKeys();
    const failure = Object.assign(new Error('made-up'), { name: 'KMSInvalidStateException' });
    let fails = false;
    const openDataKey: typeof keys.openDataKey = async (...args) => {
      if (fails) throw failure;
      return keys.openDataKey(...args);
    };
    const open = () => new EnvelopeVault({ main, clock, secretKeys: { ...keys, openDataKey }, dataKeys: keys });
    const id = ids.uuid();
    await open().write(id, 'A', '1');
    const vault = open();
    fails = true;
    await expect(vault.read(id, ['A'])).rejects.toBe(failure);
    fails = false;
    expect(await vault.read(id, ['A'])).toEqual({ A: '1' });
  });

  test('keep 200 data keys in memory', async () => {
    const { main, clock } = memoryDeps();
    const keys = memoryDataKeys();
    let opened = 0;
    const openDataKey: typeof keys.openDataKey = (...args) => {
      opened++;
      return keys.openDataKey(...args);
    };
    const vault = new EnvelopeVault({ main, clock, secretKeys: { ...keys, openDataKey }, dataKeys: keys });
    for (let n = 0; n <= 200; n++) await vault.write(`ws-${n}`, 'A', '1');
    await vault.read('ws-1', ['A']);
    expect(opened).toBe(0);
    await vault.read('ws-0', ['A']);
    expect(opened).toBe(1);
  });
});
