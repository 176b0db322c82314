/**
 * Secret values, by workspace. Names and descriptions live in the main table (`core/secrets/store.ts`): listing secrets
 * never opens the vault. Values are strings of 1 to 8,192 bytes of UTF-8; a workspace's vault holds at most 64 KB of
 * JSON `{NAME: value}` (the limit of one Secrets Manager secret).
 */
export interface Vault {
  /** Values of those of `names` that exist. */
  read(workspaceId: string, names: readonly string[]): Promise<Record<string, string>>;
  /**
   * Creates or replaces one value; simultaneous writes of different names all survive.
   * Throws {@link VaultFullError} when the workspace's vault would pass 64 KB.
   */
  write(workspaceId: string, name: string, value: string): Promise<void>;
  /** Removing what is not there succeeds. */
  remove(workspaceId: string, name: string): Promise<void>;
}

export const MAX_VAULT_BYTES = 64 * 1024;

export class VaultFullError extends Error {
  readonly code = 'VAULT_FULL';
  constructor() {
    super('the workspace vault is full');
    this.name = 'VaultFullError';
  }
}
