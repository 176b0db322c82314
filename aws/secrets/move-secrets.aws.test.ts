import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import {
  CreateSecretCommand,
  DescribeSecretCommand,
  GetSecretValueCommand,
  PutSecretValueCommand,
} from '@aws-sdk/client-secrets-manager';
import { expect, test } from 'vitest';
import { SystemIds } from '#core/ports/ids.ts';
import { PROJECTIONS, type TableName } from '#core/ports/table-rules.ts';
import { signingVaultOf } from '#core/ports/vault.ts';
import { createKmsKey, createTables, dynamoDbClient, kmsClient, secretsManagerClient } from '#test/helpers/aws.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { DynamoTable } from '../tables/dynamo-table.ts';
import { EnvelopeVault, secretsContextOf } from './envelope-vault.ts';
import { KmsDataKeys } from './kms-data-keys.ts';
import { deleteMovedSecrets, describeSecrets, moveSecrets } from './move-secrets.ts';
import { MovingVault } from './moving-vault.ts';
import { placeOf, type SecretsPlace, takeSecretsPlace } from './place.ts';
import { SecretsManagerVault } from './secrets-manager-vault.ts';

/** Imitates a process that dies at its nth request: this request and all later ones never return. */
function mortal<Port extends object>(port: Port, life: { left: number }, died: () => void): Port {
  return new Proxy(port, {
    get(target, name) {
      const method = Reflect.get(target, name);
      if (typeof method !== 'function') return method;
      return async (...args: unknown[]) => {
        if (--life.left > 0) return method.apply(target, args);
        // Its last request arrives.
        if (life.left === 0) await method.apply(target, args).catch(() => {});
        died();
        return new Promise(() => {});
      };
    },
  });
}

async function openStage() {
  const clock = new ManualClock();
  const tables = dynamoDbClient();
  const names = await createTables(tables);
  const secrets = secretsManagerClient();
  const kms = kmsClient();
  const key = await createKmsKey(kms);
  const prefix = `platform/${randomUUID()}`;
  const said: string[] = [];

  /** Opens what a process with access to both places has; it dies with its nth request. */
  function processOf(lifetime = Number.POSITIVE_INFINITY) {
    const life = { left: lifetime };
    const death = Promise.withResolvers<void>();
    const own = <Port extends object>(port: Port) => mortal(port, life, death.resolve);
    const table = (name: TableName) => own(new DynamoTable(tables, names[name], clock, PROJECTIONS[name]));
    const [main, locks] = [table('main'), table('counters')];
    const keysOf = (context: string) => own(new KmsDataKeys({ client: kms, key, prefix: context }));
    const dataKeys = keysOf(prefix);
    const client = own(secrets);
    const ids = new SystemIds();
    const secretsManager = new SecretsManagerVault({
      ...{ client, prefix, locks, clock, ids },
      dataKeys: async () => dataKeys,
    });
    const envelopes = new EnvelopeVault({ main, clock, dataKeys, secretKeys: keysOf(secretsContextOf(prefix)) });
    const vault = new MovingVault({ secretsManager, envelopes, main, clock });
    const props = { vault, envelopes, main, clock, prefix, secrets: client, tables, mainTable: names.main };
    return {
      ...{ vault, envelopes, secretsManager, main },
      died: death.promise,
      props: { ...props, say: (line: string) => said.push(line) },
    };
  }

  /** Passes time until the work has ended. A lock must not expire while the emulators work. */
  async function passed<T>(work: Promise<T>, stepMs = 5000): Promise<T> {
    let hasEnded = false;
    work
      .catch(() => {})
      .finally(() => {
        hasEnded = true;
      });
    while (!hasEnded) {
      await clock.advance(stepMs);
      await setTimeout(5);
    }
    return work;
  }

  const main = processOf().main;
  const heads = async (ids: readonly string[]) =>
    Promise.all(ids.map((id) => main.get({ pk: `VAULT#${id}`, sk: 'HEAD' })));
  return { clock, secrets, prefix, said, processOf, passed, main, heads };
}

/** Twenty times as fast as real time. */
const PACE_MS = 100;

const other = (place: SecretsPlace): SecretsPlace => (place === 'envelope' ? 'secrets-manager' : 'envelope');

test('vaults move there and back under writers and readers, who lose nothing', { timeout: 240_000 }, async () => {
  const { processOf, passed, main, heads, clock } = await openStage();
  const ids = Array.from({ length: 6 }, (_, n) => (n < 4 ? randomUUID() : signingVaultOf(randomUUID())));
  for (const id of ids) await processOf().secretsManager.write(id, 'OLD', `old-${id}`);
  let isMoving = true;
  /** Acknowledged count by workspace. */
  const acknowledged = new Map<string, number>();
  const late = Array.from({ length: 3 }, () => randomUUID());

  async function writer(workspaces: readonly string[]): Promise<void> {
    const { vault } = processOf();
    for (let n = 1; isMoving; n++) {
      for (const id of workspaces) {
        await vault.write(id, 'COUNT', String(n));
        acknowledged.set(id, n);
        if (n % 3 === 0) await vault.remove(id, 'GONE');
        else await vault.write(id, 'GONE', String(n));
        await clock.sleep(1000);
      }
    }
  }
  async function reader(): Promise<number> {
    const { vault } = processOf();
    let reads = 0;
    while (isMoving) {
      for (const id of ids) {
        const before = acknowledged.get(id) ?? 0;
        const { OLD, COUNT = '0' } = await vault.read(id, ['OLD', 'COUNT']);
        expect(OLD).toBe(`old-${id}`);
        expect(Number(COUNT)).toBeGreaterThanOrEqual(before);
        reads++;
      }
      await clock.sleep(500);
    }
    return reads;
  }
  const around = Promise.all([writer(ids.slice(0, 3)), writer(late), reader(), reader()]);
  around.catch(() => {});
  for (const place of ['envelope', 'secrets-manager', 'envelope'] as const) {
    await passed(moveSecrets(processOf().props, place), PACE_MS);
    expect(await placeOf(main)).toEqual({ place, isMoving: false });
    const isHere = (await heads(ids)).map((head) => head !== undefined && head.is_elsewhere === undefined);
    expect(isHere).toEqual(ids.map(() => place === 'envelope'));
    const found = await Promise.all([...ids, ...late].map((id) => processOf().vault.placeOfVault(id)));
    expect(new Set(found)).toEqual(new Set([place]));
  }
  isMoving = false;
  const [, , ...reads] = await passed(around, PACE_MS);
  for (const count of reads) expect(count).toBeGreaterThan(10);
  // Functions with envelopes alone find everything.
  const { envelopes } = processOf();
  for (const [id, count] of acknowledged) expect(await envelopes.read(id, ['COUNT'])).toEqual({ COUNT: String(count) });
});

test.each(['envelope', 'secrets-manager'] as const)(
  'a move to %s that dies at any request is completed by the next, and readers find everything meanwhile',
  { timeout: 300_000 },
  async (to) => {
    const { processOf, passed, clock, main } = await openStage();
    const ids = [randomUUID(), randomUUID()];
    const values = { A: 'a', B: 'b' };
    const readAll = async () => {
      const { vault } = processOf();
      for (const id of ids) expect(await vault.read(id, ['A', 'B'])).toEqual(values);
    };
    for (const id of ids)
      for (const [name, value] of Object.entries(values)) await processOf().vault.write(id, name, value);
    if (to === 'secrets-manager') await passed(moveSecrets(processOf().props, 'envelope'));
    for (let lifetime = 1; ; lifetime += 2) {
      const dying = processOf(lifetime);
      const moved = moveSecrets(dying.props, to).then(() => 'completed');
      const outcome = await passed(Promise.race([moved, dying.died.then(() => 'died')]));
      await readAll();
      if (outcome === 'completed') break;
      // The lock of the dead process expires.
      await clock.advance(60_000);
      await passed(processOf().vault.write(ids[0]!, 'A', 'a'));
      const back = lifetime % 4 === 1 ? other(to) : to;
      await passed(moveSecrets(processOf().props, back));
      await readAll();
      if (back === to) await passed(moveSecrets(processOf().props, other(to)));
    }
    expect(await placeOf(main)).toEqual({ place: to, isMoving: false });
  },
);

test('copies are deleted once all vaults can be opened in their place, and not before', async () => {
  const { processOf, passed, secrets, prefix, main, said } = await openStage();
  const [id, damaged] = [randomUUID(), randomUUID()];
  const { vault, props } = processOf();
  for (const each of [id, damaged]) await vault.write(each, 'A', '1');
  // A secret of the operator below the same prefix is none of ours.
  const own = `${prefix}/stripe`;
  await secrets.send(new CreateSecretCommand({ Name: own, SecretString: '{"key":"made-up"}' }));
  await passed(moveSecrets(props, 'envelope'));
  const place = { pk: 'PLATFORM', sk: 'SECRETS_PLACE' };
  const placed = (await main.get(place))!;
  await main.put({ ...placed, is_moving: true });
  await expect(deleteMovedSecrets(props)).rejects.toThrow('finish the move first');
  await main.put(placed);
  const broken = { pk: `VAULT#${damaged}`, sk: 'VALUES' };
  const values = (await main.get(broken))!;
  await main.put({ ...values, sealed: 'broken' });

  expect(await describeSecrets(props)).toBe(1);
  expect(await deleteMovedSecrets(props)).toBe(1);
  const deletedAt = async (workspace: string) =>
    (await secrets.send(new DescribeSecretCommand({ SecretId: `${prefix}/${workspace}` }))).DeletedDate;
  expect(await deletedAt(id)).toBeInstanceOf(Date);
  expect([await deletedAt(damaged), await deletedAt('stripe')]).toEqual([undefined, undefined]);
  expect(await vault.read(id, ['A'])).toEqual({ A: '1' });

  // Back again: what waits for its deletion is restored, and a vault that cannot be opened is named.
  await vault.write(id, 'A', '2');
  await expect(passed(moveSecrets(props, 'secrets-manager'))).rejects.toThrow('1 vaults moved, and 1 could not be');
  expect(said.join('\n')).toContain(`The vault of workspace ${damaged} was not moved: VaultDamagedError`);
  expect(said.join('\n')).not.toContain('"A"');
  await main.put(values);
  await passed(moveSecrets(props, 'secrets-manager'));
  expect(await processOf().secretsManager.read(id, ['A'])).toEqual({ A: '2' });
  expect(await deleteMovedSecrets(props)).toBe(0);
  expect(await main.get(broken)).toBeUndefined();
  const { SecretString } = await secrets.send(new GetSecretValueCommand({ SecretId: own }));
  expect(SecretString).toBe('{"key":"made-up"}');
  expect(await describeSecrets(props)).toBe(0);
  expect(said.at(-1)).toBe('In envelopes: 0 vaults. In Secrets Manager: 2.');
});

test('the old copy of a moved vault is never read again', async () => {
  const { processOf, passed, secrets, prefix } = await openStage();
  const id = randomUUID();
  const { vault, props } = processOf();
  await vault.write(id, 'A', '1');
  await passed(moveSecrets(props, 'envelope'));
  await secrets.send(new PutSecretValueCommand({ SecretId: `${prefix}/${id}`, SecretString: '{"A":"stale"}' }));
  expect(await vault.read(id, ['A', 'B'])).toEqual({ A: '1' });
  await vault.remove(id, 'A');
  expect(await processOf().vault.read(id, ['A'])).toEqual({});
});

test('a deployment is refused while functions would not find all secrets', async () => {
  const { main, processOf, passed } = await openStage();
  const take = (access: Parameters<typeof takeSecretsPlace>[1], isNew = false) => takeSecretsPlace(main, access, isNew);
  for (const access of ['secrets-manager', 'both'] as const) await take(access);
  await expect(take('envelope')).rejects.toThrow("are in secrets-manager, and functions with secrets: 'envelope'");
  await processOf().vault.write(randomUUID(), 'A', '1');
  const dying = processOf(8);
  await passed(Promise.race([moveSecrets(dying.props, 'envelope'), dying.died]));
  for (const access of ['secrets-manager', 'envelope'] as const) {
    await expect(take(access)).rejects.toThrow('are on their way to envelope');
  }
  await take('both');
  await passed(moveSecrets(processOf().props, 'envelope'));
  for (const access of ['envelope', 'both'] as const) await take(access);
  await expect(take('secrets-manager')).rejects.toThrow('are in envelope');
  const another = await openStage();
  await takeSecretsPlace(another.main, 'envelope', true);
  expect(await placeOf(another.main)).toEqual({ place: 'envelope', isMoving: false });
});
