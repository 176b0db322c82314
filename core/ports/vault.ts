/**
 * Secret values and data keys, by workspace. Names and descriptions live in the main table (`core/accounts/secrets/store.ts`): listing secrets
 * never opens the vault. Values are strings of 1 to 8,192 bytes of UTF-8; a workspace's vault holds at most 64 KB of
 * JSON `{NAME: value}` (the limit of one Secrets Manager secret).
 *
 * The secrets that sign messages of a workspace are in a vault of their own ({@link signingVaultOf}), so that a host can
 * let a process sign without letting it read what users store.
 */
export interface Vault {
  /**
   * Returns the values of those `names` that exist.
   *
   * @param areSomeEnough Whether the caller accepts a partial result: a vault that caches values in memory then does
   * not look again for names that were missing a short time ago.
   */
  read(workspaceId: string, names: readonly string[], areSomeEnough?: boolean): Promise<Record<string, string>>;
  /**
   * Creates or replaces one value; concurrent writes of different names are all kept. Throws {@link VaultFullError} if
   * the workspace's vault would exceed 64 KB.
   */
  write(workspaceId: string, name: string, value: string): Promise<void>;
  /** Removing a missing value succeeds. */
  remove(workspaceId: string, name: string): Promise<void>;
  /** Returns a new key, which the vault does not keep. */
  newDataKey(workspaceId: string): Promise<DataKey>;
  /**
   * Returns the `key` of a {@link DataKey} of this workspace. Throws {@link DataKeyError} if `sealed` is damaged or
   * belongs to another workspace.
   */
  openDataKey(workspaceId: string, sealed: string): Promise<Uint8Array>;
  /**
   * Seals a key of 32 bytes that another vault made, as {@link Vault.newDataKey} seals its own. Only a move of a workspace
   * needs it: on AWS no function may.
   */
  sealDataKey(workspaceId: string, key: Uint8Array): Promise<string>;
}

/** The part of a {@link Vault} that makes and opens data keys. */
export type DataKeys = Pick<Vault, 'newDataKey' | 'openDataKey' | 'sealDataKey'>;

/** A key that encrypts data of one workspace outside the vault. */
export interface DataKey {
  /** 32 bytes, for AES-256. */
  readonly key: Uint8Array;
  /** The same key, encrypted by the vault: at most 1,000 printable characters, stored beside the data. */
  readonly sealed: string;
}

export const MAX_VAULT_BYTES = 64 * 1024;
export const MAX_SECRET_BYTES = 8192;

/** Prefix of the vaults with signing secrets, which the rights of functions name. */
export const SIGNING_PREFIX = 'signing-';
/** Returns what a {@link Vault} takes as the id of a workspace, for the signing secrets of one. */
export const signingVaultOf = (workspaceId: string): string => SIGNING_PREFIX + workspaceId;

const WORKSPACE_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** Throws unless the id is safe in a file name and in the name of a secret. Every adapter calls it first. */
export function assertWorkspaceId(workspaceId: string): void {
  if (!WORKSPACE_ID.test(workspaceId)) {
    throw new Error(`a workspace id is 1 to 64 of A-Z a-z 0-9 _ -, not ${JSON.stringify(workspaceId.slice(0, 100))}`);
  }
}

/** Throws if a value is empty or too long. The error does not contain the value. */
export function assertSecretValue(name: string, value: string): void {
  const bytes = Buffer.byteLength(value);
  if (bytes < 1 || bytes > MAX_SECRET_BYTES) {
    throw new Error(`the value of secret ${name} must have 1 to ${MAX_SECRET_BYTES} bytes, it has ${bytes}`);
  }
}

/** Secret name -> value. */
export type VaultValues = ReadonlyMap<string, string>;

/** Throws {@link VaultFullError}. */
export function encodeVault(values: VaultValues): string {
  const text = JSON.stringify(Object.fromEntries(values));
  if (Buffer.byteLength(text) > MAX_VAULT_BYTES) throw new VaultFullError();
  return text;
}

export const decodeVault = (text: string): VaultValues => new Map(Object.entries(JSON.parse(text)));

export const pickValues = (values: VaultValues, names: readonly string[]): Record<string, string> =>
  Object.fromEntries([...values].filter(([name]) => names.includes(name)));

/** Returns the same map if it has the value. */
export const withSecret = (values: VaultValues, name: string, value: string): VaultValues =>
  values.get(name) === value ? values : new Map([...values, [name, value]]);

/** Returns the same map if it has no such secret. */
export const withoutSecret = (values: VaultValues, name: string): VaultValues =>
  values.has(name) ? new Map([...values].filter(([other]) => other !== name)) : values;

export class VaultFullError extends Error {
  readonly code = 'VAULT_FULL';
  constructor() {
    super('the workspace vault is full');
    this.name = 'VaultFullError';
  }
}

export class DataKeyError extends Error {
  readonly code = 'DATA_KEY';
  constructor(workspaceId: string, options?: ErrorOptions) {
    super(
      `a sealed data key of workspace ${workspaceId} cannot be opened: it is damaged, belongs to another workspace, or was sealed by another vault`,
      options,
    );
    this.name = 'DataKeyError';
  }
}

export const encodeSealedKey = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url');

/** Throws {@link DataKeyError} for any other text than {@link encodeSealedKey} writes. */
export function decodeSealedKey(workspaceId: string, sealed: string): Buffer {
  const bytes = Buffer.from(sealed, 'base64url');
  if (bytes.length === 0 || encodeSealedKey(bytes) !== sealed) throw new DataKeyError(workspaceId);
  return bytes;
}
