import { randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  assertSecretValue,
  assertWorkspaceId,
  type DataKey,
  decodeVault,
  encodeVault,
  pickValues,
  type Vault,
  type VaultValues,
} from '#core/ports/vault.ts';
import { replaceFile, undefinedIfMissing } from './files.ts';
import {
  checkKeyId,
  KEY_BYTES,
  newSealedDataKey,
  openSealedDataKey,
  seal,
  sealedDataKey,
  unseal,
  type VaultKey,
  VaultKeyError,
  vaultKeyOf,
} from './sealing.ts';

const SUFFIX = '.vault';
/** Maximum number of vaults in memory (at most 64 KB each). */
const MAX_OPENED = 500;

/**
 * {@link Vault} as one file per workspace, sealed as `sealing.ts` describes. Data keys are sealed the same way, and have
 * no files.
 *
 * The first write or data key creates the key file. It is never recreated while vaults exist: if their key is missing,
 * writes fail.
 * `openDatabase` ensures that only one process uses the vault.
 */
export class FileVault implements Vault {
  readonly #folder: string;
  readonly #keyFile: string;
  #key: Promise<VaultKey> | undefined;
  #writes: Promise<void> = Promise.resolve();
  /** No other process writes the files, so a cached vault stays valid until this process writes it. */
  readonly #opened = new Map<string, Promise<VaultValues>>();

  /** `keyFile` may lie outside `folder`, so that a copy of the folder does not contain the key. */
  constructor(folder: string, keyFile: string) {
    this.#folder = folder;
    this.#keyFile = keyFile;
  }

  /** Throws {@link VaultKeyError}. */
  async read(workspaceId: string, names: readonly string[]): Promise<Record<string, string>> {
    return pickValues(await this.#load(workspaceId), names);
  }

  /** Throws {@link VaultKeyError}. */
  async write(workspaceId: string, name: string, value: string): Promise<void> {
    assertSecretValue(name, value);
    await this.#change(workspaceId, (values) => new Map([...values, [name, value]]));
  }

  /** Throws {@link VaultKeyError}. */
  async remove(workspaceId: string, name: string): Promise<void> {
    await this.#change(workspaceId, (values) =>
      values.has(name) ? new Map([...values].filter(([other]) => other !== name)) : undefined,
    );
  }

  /** Throws {@link VaultKeyError}. */
  async newDataKey(workspaceId: string): Promise<DataKey> {
    assertWorkspaceId(workspaceId);
    return newSealedDataKey(await this.#openKey(), workspaceId);
  }

  /** Throws {@link VaultKeyError}, and never creates the key file, which could not open anything. */
  async openDataKey(workspaceId: string, sealed: string): Promise<Uint8Array> {
    assertWorkspaceId(workspaceId);
    const key = await (this.#key ?? this.#readKey());
    if (key === undefined) throw this.#missing('data keys');
    this.#key ??= Promise.resolve(key);
    return openSealedDataKey(key, workspaceId, sealed);
  }

  /** Throws {@link VaultKeyError}. */
  async sealDataKey(workspaceId: string, key: Uint8Array): Promise<string> {
    assertWorkspaceId(workspaceId);
    return sealedDataKey(await this.#openKey(), workspaceId, key);
  }

  /** Runs changes one after another, each on the result of the previous one. */
  #change(workspaceId: string, change: (values: VaultValues) => VaultValues | undefined): Promise<void> {
    const done = this.#writes.then(async () => {
      const values = change(await this.#load(workspaceId));
      if (values) await this.#save(workspaceId, values);
    });
    this.#writes = done.catch(() => {});
    return done;
  }

  #load(workspaceId: string): Promise<VaultValues> {
    const known = this.#opened.get(workspaceId);
    if (known) return known;
    const opened = this.#open(workspaceId);
    if (this.#opened.size >= MAX_OPENED) this.#opened.clear();
    this.#opened.set(workspaceId, opened);
    opened.catch(() => this.#opened.delete(workspaceId));
    return opened;
  }

  async #open(workspaceId: string): Promise<VaultValues> {
    const sealed = await undefinedIfMissing(readFile(this.#path(workspaceId)));
    if (sealed === undefined) return new Map();
    const bytes = unseal(sealed, await this.#openKey(), 'vault', workspaceId);
    if (bytes) return decodeVault(bytes.toString());
    throw new VaultKeyError(`the vault of workspace ${workspaceId} is damaged, or belongs to another workspace`);
  }

  async #save(workspaceId: string, values: VaultValues): Promise<void> {
    const sealed = seal(Buffer.from(encodeVault(values)), await this.#openKey(), 'vault', workspaceId);
    await replaceFile(this.#path(workspaceId), sealed, this.#folder);
    this.#opened.set(workspaceId, Promise.resolve(values));
  }

  #path(workspaceId: string): string {
    assertWorkspaceId(workspaceId);
    return join(this.#folder, workspaceId + SUFFIX);
  }

  /** Reads the key file, or creates it: only once, since another key would open nothing that the first one sealed. */
  #openKey(): Promise<VaultKey> {
    if (this.#key) return this.#key;
    const key = this.#readKey().then((known) => known ?? this.#makeKey());
    this.#key = key;
    key.catch(() => {
      this.#key = undefined;
    });
    return key;
  }

  /** Returns `undefined` if there is no key file, and no vault that needs it. */
  async #readKey(): Promise<VaultKey | undefined> {
    const text = await undefinedIfMissing(readFile(this.#keyFile, 'utf8'));
    const [anyVault] = ((await undefinedIfMissing(readdir(this.#folder))) ?? []).filter((name) =>
      name.endsWith(SUFFIX),
    );
    if (text === undefined) {
      if (anyVault)
        throw this.#missing(`the secrets in ${this.#folder}`, ', or delete that folder to start without secrets');
      return undefined;
    }
    if (!/^[0-9a-f]{64}\s*$/.test(text)) {
      throw new VaultKeyError(`the key file ${this.#keyFile} is damaged: it must contain 64 hexadecimal digits`);
    }
    const key = vaultKeyOf(Buffer.from(text.trim(), 'hex'));
    // Prevents a workspace without a vault from getting one under the wrong key.
    if (anyVault) checkKeyId(await readFile(join(this.#folder, anyVault)), key);
    return key;
  }

  async #makeKey(): Promise<VaultKey> {
    const key = vaultKeyOf(randomBytes(KEY_BYTES));
    await replaceFile(this.#keyFile, `${key.bytes.toString('hex')}\n`, dirname(this.#keyFile));
    return key;
  }

  #missing(what: string, otherwise = ''): VaultKeyError {
    return new VaultKeyError(
      `the key file ${this.#keyFile} is missing, and ${what} cannot be read without it: restore it${otherwise}`,
    );
  }
}
