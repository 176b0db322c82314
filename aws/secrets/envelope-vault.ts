import { openBytes, sealBytes } from '#core/base/aes-gcm.ts';
import type { Clock } from '#core/ports/clock.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, equals, type Item, type Table } from '#core/ports/table.ts';
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
import { createDataKeys } from './kms-data-keys.ts';

/** Version of the sealed format. */
const FORM = 1;
/** Opened data keys are kept in memory, so a key that KMS no longer opens is used for five more minutes at most. */
const MAX_OPENED_KEYS = 200;
const OPENED_MS = 5 * 60_000;
/** A reader may meet the two items of a vault before and after a write. */
const MAX_READS = 5;
const READ_PAUSE_MS = 20;

export interface EnvelopeVaultProps {
  readonly main: Table;
  /** Makes and opens the keys of secrets: another encryption context than that of other data keys. */
  readonly secretKeys: DataKeys;
  readonly dataKeys: DataKeys;
  readonly clock: Clock;
}

export interface CreateEnvelopeVaultProps extends Pick<EnvelopeVaultProps, 'main' | 'clock'> {
  readonly prefix: string;
  /** ARN or alias of the KMS key. */
  readonly dataKey: string | undefined;
}

/** The `vault` in the encryption context of keys of secrets. `lib/constructs/platform-function.ts` grants its use. */
export const secretsContextOf = (prefix: string): string => `${prefix}/secrets`;

/** Uses the environment's Region and credentials. */
export const createEnvelopeVault = ({ prefix, dataKey: key, ...props }: CreateEnvelopeVaultProps): EnvelopeVault =>
  new EnvelopeVault({
    ...props,
    secretKeys: createDataKeys({ key, prefix: secretsContextOf(prefix) }),
    dataKeys: createDataKeys({ key, prefix }),
  });

/** State of a workspace's vault: `values` is undefined if it has none here. */
export interface Found {
  /** Number of changes so far. */
  readonly version: number;
  readonly values: VaultValues | undefined;
}

/** The stored secrets of a workspace cannot be trusted. The error contains nothing of them. */
export class VaultDamagedError extends Error {
  readonly code = 'VAULT_DAMAGED';
  constructor(workspaceId: string, options?: ErrorOptions) {
    super(
      `the sealed secrets of workspace ${workspaceId} cannot be opened: they are damaged, belong to another workspace or stage, or are older than their record (docs/secrets-on-aws.md#what-a-refused-vault-means)`,
      options,
    );
    this.name = 'VaultDamagedError';
  }
}

/**
 * {@link Vault} in the main table. The secrets of a workspace are encrypted with AES-256-GCM under a data key of KMS:
 *
 * - `VAULT#<workspace id> / VALUES`: the sealed values, their data key sealed by KMS, and the version, which grows with
 *   each change. Workspace and version are authenticated. Each version has a data key of its own.
 * - `VAULT#<workspace id> / HEAD`: the newest version, by which older values are recognized; `is_elsewhere` if the
 *   values were moved to Secrets Manager. A vault without secrets keeps both items.
 *
 * Both are written in one transaction, and read each time: only data keys are kept in memory. So a change counts
 * everywhere at once, and KMS is asked once in five minutes for a vault that a process uses.
 */
export class EnvelopeVault implements Vault {
  readonly #props: EnvelopeVaultProps;
  /** Opened data keys by workspace and sealed key, the least recently used one first. */
  readonly #opened = new Map<string, { readonly key: Promise<Uint8Array>; readonly until: number }>();
  #writes: Promise<void> = Promise.resolve();

  constructor(props: EnvelopeVaultProps) {
    this.#props = props;
  }

  async read(workspaceId: string, names: readonly string[]): Promise<Record<string, string>> {
    return pickValues(valuesHere(workspaceId, await this.find(workspaceId)), names);
  }

  async write(workspaceId: string, name: string, value: string): Promise<void> {
    assertSecretValue(name, value);
    await this.#change(workspaceId, (values) => withSecret(values, name, value));
  }

  async remove(workspaceId: string, name: string): Promise<void> {
    await this.#change(workspaceId, (values) => withoutSecret(values, name));
  }

  async newDataKey(workspaceId: string): Promise<DataKey> {
    return this.#props.dataKeys.newDataKey(workspaceId);
  }

  async openDataKey(workspaceId: string, sealed: string): Promise<Uint8Array> {
    return this.#props.dataKeys.openDataKey(workspaceId, sealed);
  }

  async sealDataKey(workspaceId: string, key: Uint8Array): Promise<string> {
    return this.#props.dataKeys.sealDataKey(workspaceId, key);
  }

  /** Throws {@link VaultDamagedError}. */
  async find(workspaceId: string): Promise<Found> {
    assertWorkspaceId(workspaceId);
    const { main, clock } = this.#props;
    for (let reads = 1; ; reads++) {
      const [head, item] = await Promise.all([
        main.get(keyOf(workspaceId, 'HEAD')),
        main.get(keyOf(workspaceId, 'VALUES')),
      ]);
      const version = (head?.version ?? 0) as number;
      if (head?.is_elsewhere) return { version, values: undefined };
      if (head === undefined && item === undefined) return { version: 0, values: undefined };
      if (head !== undefined && item?.version === version) {
        return { version, values: await this.#open(workspaceId, version, item) };
      }
      if (reads === MAX_READS) throw new VaultDamagedError(workspaceId);
      await clock.sleep(READ_PAUSE_MS);
    }
  }

  /**
   * Stores `values` as the version after `version`, unless there is one already. Returns whether they are stored. Throws
   * {@link VaultFullError}.
   */
  async replace(workspaceId: string, version: number, values: VaultValues): Promise<boolean> {
    const text = encodeVault(values);
    const { main, secretKeys } = this.#props;
    const next = version + 1;
    const { key, sealed: sealed_key } = await secretKeys.newDataKey(workspaceId);
    const sealed = sealBytes(key, authenticated(workspaceId, next), Buffer.from(text)).toString('base64url');
    const { ok } = await main.transact([
      { op: 'put', item: { ...keyOf(workspaceId, 'HEAD'), version: next }, condition: isAt(version) },
      { op: 'put', item: { ...keyOf(workspaceId, 'VALUES'), version: next, sealed_key, sealed } },
    ]);
    if (ok) this.#keep(workspaceId, sealed_key, Promise.resolve(key));
    return ok;
  }

  /** Records that Secrets Manager has the values of this version, unless they have changed. The items stay. */
  async leave(workspaceId: string, version: number): Promise<boolean> {
    const head: Item = { ...keyOf(workspaceId, 'HEAD'), version, is_elsewhere: true };
    return (await this.#props.main.put(head, isAt(version))).ok;
  }

  /** Deletes the values of a vault that was left. */
  async deleteLeft(workspaceId: string): Promise<void> {
    const { main } = this.#props;
    const head = await main.get(keyOf(workspaceId, 'HEAD'));
    if (!head?.is_elsewhere) return;
    await main.transact([
      { op: 'check', key: keyOf(workspaceId, 'HEAD'), condition: equals('is_elsewhere', true) },
      { op: 'delete', key: keyOf(workspaceId, 'VALUES') },
    ]);
  }

  /** `change` returns the same map if nothing changes. Writers of this process take turns. */
  async #change(workspaceId: string, change: (values: VaultValues) => VaultValues): Promise<void> {
    const done = this.#writes.then(() =>
      retryOnConflict(this.#props.clock, 'the vault', async () => {
        const found = await this.find(workspaceId);
        const before = valuesHere(workspaceId, found);
        const values = change(before);
        return values === before || (await this.replace(workspaceId, found.version, values)) || undefined;
      }),
    );
    this.#writes = done.then(
      () => {},
      () => {},
    );
    await done;
  }

  async #open(workspaceId: string, version: number, { sealed_key, sealed }: Item): Promise<VaultValues> {
    if (typeof sealed_key !== 'string' || typeof sealed !== 'string') throw new VaultDamagedError(workspaceId);
    const key = await this.#openKey(workspaceId, sealed_key).catch((error) => {
      throw error.code === 'DATA_KEY' ? new VaultDamagedError(workspaceId, { cause: error }) : error;
    });
    try {
      const bytes = Buffer.from(sealed, 'base64url');
      return decodeVault(openBytes(key, authenticated(workspaceId, version), bytes).toString());
    } catch {
      throw new VaultDamagedError(workspaceId);
    }
  }

  #openKey(workspaceId: string, sealedKey: string): Promise<Uint8Array> {
    const kept = this.#opened.get(openedKey(workspaceId, sealedKey));
    if (kept && kept.until > this.#props.clock.now()) return kept.key;
    return this.#keep(workspaceId, sealedKey, this.#props.secretKeys.openDataKey(workspaceId, sealedKey));
  }

  #keep(workspaceId: string, sealedKey: string, key: Promise<Uint8Array>): Promise<Uint8Array> {
    const name = openedKey(workspaceId, sealedKey);
    const own = { key, until: this.#props.clock.now() + OPENED_MS };
    this.#opened.delete(name);
    const [oldest] = this.#opened.keys();
    if (oldest !== undefined && this.#opened.size >= MAX_OPENED_KEYS) this.#opened.delete(oldest);
    this.#opened.set(name, own);
    key.catch(() => {
      if (this.#opened.get(name) === own) this.#opened.delete(name);
    });
    return key;
  }
}

const keyOf = (workspaceId: string, sk: 'HEAD' | 'VALUES') => ({ pk: `VAULT#${workspaceId}`, sk });

const isAt = (version: number) => (version === 0 ? absent() : equals('version', version));

const authenticated = (workspaceId: string, version: number): string => `vault ${FORM} ${workspaceId} ${version}`;

/** The workspace is part of it: a data key that another workspace has opened opens nothing here. */
const openedKey = (workspaceId: string, sealedKey: string): string => `${workspaceId} ${sealedKey}`;

function valuesHere(workspaceId: string, { version, values }: Found): VaultValues {
  if (values) return values;
  if (version === 0) return new Map();
  throw new Error(
    `the secrets of workspace ${workspaceId} are in Secrets Manager: deploy the stage with secrets: 'both' (docs/secrets-on-aws.md)`,
  );
}
