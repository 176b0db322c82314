import { createCipheriv, createDecipheriv, hash, randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  assertSecretValue,
  assertWorkspaceId,
  decodeVault,
  encodeVault,
  pickValues,
  type Vault,
  type VaultValues,
} from '#core/ports/vault.ts';
import { replaceFile, undefinedIfMissing } from './files.ts';

const SUFFIX = '.vault';
/** Maximum number of vaults in memory (at most 64 KB each). */
const MAX_OPENED = 500;
const VERSION = 1;
const KEY_BYTES = 32;
const KEY_ID_BYTES = 8;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const HEADER_BYTES = 1 + KEY_ID_BYTES + NONCE_BYTES + TAG_BYTES;

interface VaultKey {
  readonly bytes: Buffer;
  /** Distinguishes a file encrypted with another key from a damaged one. */
  readonly id: Buffer;
}

/**
 * {@link Vault} as one AES-256-GCM file per workspace: version, key id, nonce, tag, then the encrypted JSON. Version
 * and workspace are authenticated, so a file cannot be passed off as another workspace's.
 *
 * The first write creates the key file. It is never recreated while vaults exist: if their key is missing, writes fail.
 * `openDatabase` ensures that only one process uses the vault.
 */
export class FileVault implements Vault {
  readonly #folder: string;
  readonly #keyFile: string;
  #key: VaultKey | undefined;
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
    return sealed ? decodeVault(unseal(sealed, await this.#openKey(), workspaceId)) : new Map();
  }

  async #save(workspaceId: string, values: VaultValues): Promise<void> {
    const text = encodeVault(values);
    const sealed = seal(text, await this.#openKey(), workspaceId);
    await replaceFile(this.#path(workspaceId), sealed, this.#folder);
    this.#opened.set(workspaceId, Promise.resolve(values));
  }

  #path(workspaceId: string): string {
    assertWorkspaceId(workspaceId);
    return join(this.#folder, workspaceId + SUFFIX);
  }

  async #openKey(): Promise<VaultKey> {
    if (this.#key) return this.#key;
    const text = await undefinedIfMissing(readFile(this.#keyFile, 'utf8'));
    const [anyVault] = ((await undefinedIfMissing(readdir(this.#folder))) ?? []).filter((name) =>
      name.endsWith(SUFFIX),
    );
    if (text !== undefined && !/^[0-9a-f]{64}\s*$/.test(text)) {
      throw new VaultKeyError(`the key file ${this.#keyFile} is damaged: it must contain 64 hexadecimal digits`);
    }
    if (text === undefined && anyVault) {
      throw new VaultKeyError(
        `the key file ${this.#keyFile} is missing, and the secrets in ${this.#folder} cannot be read without it: restore it, or delete that folder to start without secrets`,
      );
    }
    const bytes = text === undefined ? randomBytes(KEY_BYTES) : Buffer.from(text.trim(), 'hex');
    const key = {
      bytes,
      id: hash('sha256', Buffer.concat([Buffer.from('id'), bytes]), 'buffer').subarray(0, KEY_ID_BYTES),
    };
    if (text === undefined) await replaceFile(this.#keyFile, `${bytes.toString('hex')}\n`, dirname(this.#keyFile));
    // Prevents a workspace without a vault from getting one under the wrong key.
    else if (anyVault) checkKeyId(await readFile(join(this.#folder, anyVault)), key);
    this.#key = key;
    return key;
  }
}

export class VaultKeyError extends Error {
  readonly code = 'VAULT_KEY';
  constructor(message: string) {
    super(message);
    this.name = 'VaultKeyError';
  }
}

const authenticated = (workspaceId: string): Buffer => Buffer.from(`vault ${VERSION} ${workspaceId}`);

function seal(text: string, key: VaultKey, workspaceId: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key.bytes, nonce).setAAD(authenticated(workspaceId));
  const encrypted = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return Buffer.concat([Buffer.of(VERSION), key.id, nonce, cipher.getAuthTag(), encrypted]);
}

function unseal(sealed: Buffer, key: VaultKey, workspaceId: string): string {
  checkKeyId(sealed, key);
  const nonce = sealed.subarray(1 + KEY_ID_BYTES, 1 + KEY_ID_BYTES + NONCE_BYTES);
  const decipher = createDecipheriv('aes-256-gcm', key.bytes, nonce, { authTagLength: TAG_BYTES })
    .setAAD(authenticated(workspaceId))
    .setAuthTag(sealed.subarray(HEADER_BYTES - TAG_BYTES, HEADER_BYTES));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(HEADER_BYTES)), decipher.final()]).toString();
  } catch {
    throw new VaultKeyError(`the vault of workspace ${workspaceId} is damaged, or belongs to another workspace`);
  }
}

function checkKeyId(sealed: Buffer, key: VaultKey): void {
  if (sealed.length < HEADER_BYTES || sealed[0] !== VERSION) {
    throw new VaultKeyError(
      `a vault is damaged, or was written by a newer platform: its version is ${sealed[0]}, not ${VERSION}`,
    );
  }
  if (!sealed.subarray(1, 1 + KEY_ID_BYTES).equals(key.id)) {
    throw new VaultKeyError('the secrets were encrypted with another key file: restore that one');
  }
}
