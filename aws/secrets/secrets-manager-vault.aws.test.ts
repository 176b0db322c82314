import {
  GetSecretValueCommand,
  ListSecretVersionIdsCommand,
  type SecretsManagerClient,
} from '@aws-sdk/client-secrets-manager';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Clock, epochSeconds, SystemClock } from '#core/ports/clock.ts';
import { SystemIds } from '#core/ports/ids.ts';
import { vaultConformance } from '#test/conformance/vault.ts';
import { createKmsKey, kmsClient, newTables, secretsManagerClient } from '#test/helpers/aws.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { KmsDataKeys } from './kms-data-keys.ts';
import { SecretsManagerVault } from './secrets-manager-vault.ts';

async function openStore(clock: Clock) {
  const { counters: locks } = await newTables(clock);
  const client = secretsManagerClient();
  const prefix = `agents/${new SystemIds().uuid()}`;
  const kms = kmsClient();
  const dataKeys = new KmsDataKeys({ client: kms, key: await createKmsKey(kms), prefix });
  return { client, prefix, locks, dataKeys: async () => dataKeys, clock, ids: new SystemIds() };
}

describe('SecretsManagerVault', () => {
  vaultConformance(async () => {
    const store = await openStore(new SystemClock());
    return () => new SecretsManagerVault(store);
  });

  describe('with its time in our hands', () => {
    const clock = new ManualClock();
    let store: Awaited<ReturnType<typeof openStore>>;
    const another = () => new SecretsManagerVault(store);
    const current = async (workspaceId: string) =>
      (await store.client.send(new GetSecretValueCommand({ SecretId: `${store.prefix}/${workspaceId}` }))).SecretString;

    beforeAll(async () => {
      store = await openStore(clock);
    });

    test('reads at once what another process changed or deleted', async () => {
      const [one, other] = [another(), another()];
      await one.write('cached', 'A', '1');
      expect(await other.read('cached', ['A'])).toEqual({ A: '1' });
      await one.write('cached', 'A', '2');
      expect(await other.read('cached', ['A'])).toEqual({ A: '2' });
      await one.remove('cached', 'A');
      expect(await other.read('cached', ['A'])).toEqual({});
    });

    test('asks Secrets Manager once a minute while nothing changes', async () => {
      let asked = 0;
      const send: SecretsManagerClient['send'] = store.client.send.bind(store.client);
      const client = Object.assign(Object.create(store.client), {
        send: (...args: Parameters<typeof send>) => {
          asked++;
          return send(...args);
        },
      });
      await another().write('asked', 'A', '1');
      const vault = new SecretsManagerVault({ ...store, client });
      for (let n = 0; n < 3; n++) expect(await vault.read('asked', ['A'])).toEqual({ A: '1' });
      expect(asked).toBe(1);
      await clock.advance(60_000);
      await vault.read('asked', ['A']);
      expect(asked).toBe(2);
      for (let n = 0; n < 3; n++) expect(await vault.read('asked', ['A', 'B'], true)).toEqual({ A: '1' });
      expect(asked).toBe(2);
      await vault.read('asked', ['A', 'B']);
      await vault.read('asked', ['B'], true);
      expect(asked).toBe(4);
    });

    test('keeps an empty secret, and writes no version that says the same', async () => {
      const vault = another();
      await vault.remove('versions', 'A');
      await expect(current('versions')).rejects.toMatchObject({ name: 'ResourceNotFoundException' });
      await vault.write('versions', 'A', '1');
      await vault.write('versions', 'A', '1');
      await vault.remove('versions', 'B');
      const secret = { SecretId: `${store.prefix}/versions`, IncludeDeprecated: true };
      expect((await store.client.send(new ListSecretVersionIdsCommand(secret))).Versions).toHaveLength(1);
      await vault.remove('versions', 'A');
      expect(await current('versions')).toBe('{}');
    });

    /** Advances the clock while the write waits for the lock. */
    async function finish(writing: Promise<void>): Promise<unknown> {
      let ended = false;
      const outcome = writing
        .catch((error: unknown) => error)
        .finally(() => {
          ended = true;
        });
      await expect.poll(() => clock.advance(500).then(() => ended), { interval: 5 }).toBe(true);
      return outcome;
    }

    test('waits for the lock of another process, and takes over one that has expired', async () => {
      const lock = { pk: 'VAULT#dead', sk: 'LOCK' };
      await store.locks.put({ ...lock, owner: 'a process that died', ttl: epochSeconds(clock.now()) + 5 });
      const writing = another().write('dead', 'A', '1');
      await expect.poll(() => clock.sleepers).toBe(1);
      await expect(current('dead')).rejects.toThrow();
      expect(await finish(writing)).toBeUndefined();
      expect(await current('dead')).toBe('{"A":"1"}');
      expect(await store.locks.get(lock)).toBeUndefined();
    });

    test('gives up on a lock that is held for long, and goes on with the next write', async () => {
      await store.locks.put({
        pk: 'VAULT#held',
        sk: 'LOCK',
        owner: 'another',
        ttl: epochSeconds(clock.now()) + 86_400,
      });
      const vault = another();
      expect(await finish(vault.write('held', 'A', '1'))).toMatchObject({ code: 'CONFLICT' });
      await vault.write('free', 'A', '1');
      expect(await current('free')).toBe('{"A":"1"}');
    });
  });
});
