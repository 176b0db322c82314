import {
  CreateSecretCommand,
  GetSecretValueCommand,
  PutSecretValueCommand,
  SecretsManagerClient,
} from '@aws-sdk/client-secrets-manager';
import { PlatformError } from '#core/base/errors.ts';
import { type Clock, epochSeconds } from '#core/ports/clock.ts';
import type { Ids } from '#core/ports/ids.ts';
import { absent, anyOf, equals, lessThan, type Table } from '#core/ports/table.ts';
import {
  assertSecretValue,
  assertWorkspaceId,
  type DataKey,
  type DataKeys,
  decodeVault,
  encodeVault,
  pickValues,
  type Vault,
  type VaultValues,
  withoutSecret,
  withSecret,
} from '#core/ports/vault.ts';
import { mapThrottlingErrors } from '../tables/throttles.ts';

const CACHE_MS = 60_000;
/** A stamp outlives every cached value. */
const STAMP_SECONDS = 3600;
const MAX_CACHED_WORKSPACES = 200;
/** Timeout of a request. A writer makes two, so it never outlives its lock. */
const REQUEST_LIMIT_MS = 10_000;
const LOCK_SECONDS = 30;
/** Versions count for 24 hours: within an hour some of them expire. */
const VERSIONS_WAIT_SECONDS = 3600;
const LOCK_WAIT_MS = 15_000;
/**
 * Average delay between two attempts to get the lock, with jitter, so that many waiting writers do not slow its holder.
 */
const LOCK_PAUSE_MS = 200;

export interface SecretsManagerVaultProps {
  readonly client: SecretsManagerClient;
  /** Secrets are named `<prefix>/<workspaceId>`. */
  readonly prefix: string;
  /** ARN of the KMS key for new secrets. @default - the key of Secrets Manager */
  readonly key?: string | undefined;
  /** The counters table, in which writers lock a workspace, and store a stamp with each change. */
  readonly locks: Table;
  /** Loads the adapter of KMS, which makes and opens data keys: Secrets Manager does not store them. */
  readonly dataKeys: () => Promise<DataKeys>;
  readonly clock: Clock;
  readonly ids: Ids;
}

interface Cached {
  readonly values: VaultValues;
  /** Stamp of the last change before the values were read; absent if there was no recent one. */
  readonly stamp: string | undefined;
  /** Epoch milliseconds. */
  readonly until: number;
}

/** `dataKey` is the ARN or the alias of the KMS key that seals data keys. */
export type CreateVaultProps = Omit<SecretsManagerVaultProps, 'client' | 'dataKeys'> & {
  readonly dataKey: string | undefined;
};

/** Uses the environment's Region and credentials. */
export function createVault({ dataKey: key, ...props }: CreateVaultProps): SecretsManagerVault {
  let loaded: Promise<DataKeys> | undefined;
  return new SecretsManagerVault({
    ...props,
    client: mapThrottlingErrors(new SecretsManagerClient()),
    dataKeys() {
      loaded ??= import('./kms-data-keys.ts').then(({ createDataKeys }) =>
        createDataKeys({ key, prefix: props.prefix }),
      );
      return loaded;
    },
  });
}

/**
 * {@link Vault} in AWS Secrets Manager, one JSON secret per workspace, created by the first write and kept when empty.
 *
 * Values are cached for a minute, and used only while the workspace's stamp in the table is unchanged since they were
 * read: an old or deleted value is never returned after its write was acknowledged. Missing names are always looked up.
 * Secrets Manager allows 100 new versions of a secret in 24 hours. So unchanged values are not written, and beyond the
 * limit a write throws `RATE_LIMITED`.
 */
export class SecretsManagerVault implements Vault {
  readonly #props: SecretsManagerVaultProps;
  readonly #cache = new Map<string, Cached>();
  #writes: Promise<void> = Promise.resolve();

  constructor(props: SecretsManagerVaultProps) {
    this.#props = props;
  }

  async read(workspaceId: string, names: readonly string[], areSomeEnough = false): Promise<Record<string, string>> {
    assertWorkspaceId(workspaceId);
    // Read before the values, which are then at least as new.
    const stamp = await this.#stampOf(workspaceId);
    const cached = this.#cache.get(workspaceId);
    if (cached && cached.stamp === stamp && cached.until > this.#props.clock.now()) {
      const isThere = (name: string): boolean => cached.values.has(name);
      if (areSomeEnough ? names.some(isThere) : names.every(isThere)) return pickValues(cached.values, names);
    }
    const values = (await this.fetch(workspaceId)) ?? new Map();
    // A write that finished in the meantime has cached newer values.
    if (this.#cache.get(workspaceId) === cached) this.#keep(workspaceId, { values, stamp });
    return pickValues(values, names);
  }

  /**
   * Throws {@link PlatformError} `CONFLICT` if other writers hold the workspace's lock for 15 seconds, and
   * `RATE_LIMITED` if its secrets were changed too often.
   */
  async write(workspaceId: string, name: string, value: string): Promise<void> {
    assertSecretValue(name, value);
    await this.#change(workspaceId, (values) => withSecret(values, name, value));
  }

  /** Throws like {@link SecretsManagerVault.write}. */
  async remove(workspaceId: string, name: string): Promise<void> {
    await this.#change(workspaceId, (values) => withoutSecret(values, name));
  }

  async newDataKey(workspaceId: string): Promise<DataKey> {
    return (await this.#props.dataKeys()).newDataKey(workspaceId);
  }

  async openDataKey(workspaceId: string, sealed: string): Promise<Uint8Array> {
    return (await this.#props.dataKeys()).openDataKey(workspaceId, sealed);
  }

  async sealDataKey(workspaceId: string, key: Uint8Array): Promise<string> {
    return (await this.#props.dataKeys()).sealDataKey(workspaceId, key);
  }

  /** `change` returns the same map if nothing changes. */
  async #change(workspaceId: string, change: (values: VaultValues) => VaultValues): Promise<void> {
    await this.withLock(workspaceId, async () => {
      const before = await this.fetch(workspaceId);
      await this.store(workspaceId, change(before ?? new Map()), before);
    });
  }

  /**
   * Runs `work` while no other writer changes the workspace's secrets: writers of this process queue here, writers of
   * other processes at the lock. Throws `CONFLICT` if they hold it for 15 seconds.
   *
   * @param seconds Time after which the lock expires. `work` must not take longer.
   */
  async withLock(workspaceId: string, work: () => Promise<void>, seconds: number = LOCK_SECONDS): Promise<void> {
    assertWorkspaceId(workspaceId);
    const done = this.#writes.then(() => this.#whileLocked(workspaceId, work, seconds));
    this.#writes = done.catch(() => {});
    await done;
  }

  async #whileLocked(workspaceId: string, work: () => Promise<void>, seconds: number): Promise<void> {
    const { locks, clock, ids } = this.#props;
    const key = { pk: `VAULT#${workspaceId}`, sk: 'LOCK' };
    const owner = ids.uuid();
    const giveUpAt = clock.now() + LOCK_WAIT_MS;
    for (;;) {
      const now = epochSeconds(clock.now());
      const taken = await locks.put({ ...key, owner, ttl: now + seconds }, anyOf(absent(), lessThan('ttl', now)));
      if (taken.ok) break;
      if (clock.now() >= giveUpAt) {
        throw new PlatformError('CONFLICT', 'other changes of this workspace’s secrets are in progress: try again');
      }
      await clock.sleep(LOCK_PAUSE_MS * (0.5 + Math.random()));
    }
    try {
      await work();
    } finally {
      await locks.delete(key, equals('owner', owner));
    }
  }

  /** Reads past the cache. Returns `undefined` if the workspace has no secret yet. */
  async fetch(workspaceId: string): Promise<VaultValues | undefined> {
    try {
      const command = new GetSecretValueCommand({ SecretId: this.#nameOf(workspaceId) });
      return decodeVault((await this.#props.client.send(command, requestLimit())).SecretString ?? '{}');
    } catch (error) {
      if (isNamed(error, 'ResourceNotFoundException')) return undefined;
      throw error;
    }
  }

  /**
   * Only for the holder of the lock, who has just fetched `before`; it is not written again if `values` is the same map.
   */
  async store(workspaceId: string, values: VaultValues, before: VaultValues | undefined): Promise<void> {
    if (before ? values !== before : values.size > 0) await this.#write(workspaceId, values, before === undefined);
    // Needed even without a change: the previous writer may have died between the two writes.
    this.#keep(workspaceId, { values, stamp: await this.#newStamp(workspaceId) });
  }

  async #write(workspaceId: string, values: VaultValues, isNew: boolean): Promise<void> {
    const { client, ids, key: KmsKeyId } = this.#props;
    const name = this.#nameOf(workspaceId);
    // The token prevents a second version when the SDK retries.
    const content = { SecretString: encodeVault(values), ClientRequestToken: ids.uuid() };
    try {
      if (isNew) await client.send(new CreateSecretCommand({ Name: name, KmsKeyId, ...content }), requestLimit());
      else await client.send(new PutSecretValueCommand({ SecretId: name, ...content }), requestLimit());
    } catch (error) {
      if (!isNamed(error, 'LimitExceededException')) throw error;
      throw new PlatformError('RATE_LIMITED', 'the secrets of this workspace were changed too often today', {
        suggested_wait_time: VERSIONS_WAIT_SECONDS,
      });
    }
  }

  async #stampOf(workspaceId: string): Promise<string | undefined> {
    return (await this.#props.locks.get(stampKey(workspaceId)))?.stamp as string | undefined;
  }

  async #newStamp(workspaceId: string): Promise<string> {
    const { locks, clock, ids } = this.#props;
    const stamp = ids.uuid();
    await locks.put({ ...stampKey(workspaceId), stamp, ttl: epochSeconds(clock.now()) + STAMP_SECONDS });
    return stamp;
  }

  #keep(workspaceId: string, read: Pick<Cached, 'values' | 'stamp'>): void {
    this.#cache.delete(workspaceId);
    const [oldest] = this.#cache.keys();
    if (oldest !== undefined && this.#cache.size >= MAX_CACHED_WORKSPACES) this.#cache.delete(oldest);
    this.#cache.set(workspaceId, { ...read, until: this.#props.clock.now() + CACHE_MS });
  }

  #nameOf(workspaceId: string): string {
    return `${this.#props.prefix}/${workspaceId}`;
  }
}

const stampKey = (workspaceId: string) => ({ pk: `VAULT#${workspaceId}`, sk: 'STAMP' });

const requestLimit = () => ({ abortSignal: AbortSignal.timeout(REQUEST_LIMIT_MS) });

const isNamed = (error: unknown, name: string): boolean => error instanceof Error && error.name === name;
