import { hash, randomBytes } from 'node:crypto';
import { openBytes, SEAL_BYTES, sealBytes } from '#core/base/aes-gcm.ts';
import { type DataKey, DataKeyError, decodeSealedKey, encodeSealedKey } from '#core/ports/vault.ts';

export const KEY_BYTES = 32;
const VERSION = 1;
const KEY_ID_BYTES = 8;
const HEADER_BYTES = 1 + KEY_ID_BYTES;

/** The key in the vault's key file. */
export interface VaultKey {
  readonly bytes: Buffer;
  /** Distinguishes what was sealed with another key from what is damaged. */
  readonly id: Buffer;
}

export const vaultKeyOf = (bytes: Buffer): VaultKey => ({
  bytes,
  id: hash('sha256', Buffer.concat([Buffer.from('id'), bytes]), 'buffer').subarray(0, KEY_ID_BYTES),
});

export class VaultKeyError extends Error {
  readonly code = 'VAULT_KEY';
  constructor(message: string) {
    super(message);
    this.name = 'VaultKeyError';
  }
}

/** What is sealed: a workspace's secrets, or one data key. */
type Content = 'vault' | 'data-key';

const authenticated = (content: Content, workspaceId: string): string => `${content} ${VERSION} ${workspaceId}`;

/**
 * Encrypts with AES-256-GCM: version, key id, then what {@link sealBytes} writes. Version, kind of content and
 * workspace are authenticated, so nothing can be passed off as another workspace's, or a data key as secrets.
 */
export function seal(bytes: Uint8Array, key: VaultKey, content: Content, workspaceId: string): Buffer {
  const sealed = sealBytes(key.bytes, authenticated(content, workspaceId), bytes);
  return Buffer.concat([Buffer.of(VERSION), key.id, sealed]);
}

/**
 * Returns `undefined` if `sealed` is damaged, of another kind, or another workspace's. Throws {@link VaultKeyError}, as
 * {@link checkKeyId} does.
 */
export function unseal(sealed: Buffer, key: VaultKey, content: Content, workspaceId: string): Buffer | undefined {
  checkKeyId(sealed, key);
  try {
    return openBytes(key.bytes, authenticated(content, workspaceId), sealed.subarray(HEADER_BYTES));
  } catch {
    return undefined;
  }
}

/** Throws {@link VaultKeyError} if the header is damaged, or names another version or key. */
export function checkKeyId(sealed: Buffer, key: VaultKey): void {
  if (sealed.length < HEADER_BYTES + SEAL_BYTES || sealed[0] !== VERSION) {
    throw new VaultKeyError(
      `a vault is damaged, or was written by a newer platform: its version is ${sealed[0]}, not ${VERSION}`,
    );
  }
  if (!sealed.subarray(1, HEADER_BYTES).equals(key.id)) {
    throw new VaultKeyError('the secrets were encrypted with another key file: restore that one');
  }
}

export function newSealedDataKey(vaultKey: VaultKey, workspaceId: string): DataKey {
  const key = randomBytes(KEY_BYTES);
  return { key, sealed: sealedDataKey(vaultKey, workspaceId, key) };
}

export const sealedDataKey = (vaultKey: VaultKey, workspaceId: string, key: Uint8Array): string =>
  encodeSealedKey(seal(key, vaultKey, 'data-key', workspaceId));

/** Throws {@link DataKeyError}. */
export function openSealedDataKey(vaultKey: VaultKey, workspaceId: string, sealed: string): Uint8Array {
  const bytes = decodeSealedKey(workspaceId, sealed);
  let key: Buffer | undefined;
  try {
    key = unseal(bytes, vaultKey, 'data-key', workspaceId);
  } catch (cause) {
    throw new DataKeyError(workspaceId, { cause });
  }
  if (key === undefined) throw new DataKeyError(workspaceId);
  return key;
}
