import { randomBytes } from 'node:crypto';
import { assertWorkspaceId, type DataKeys } from '#core/ports/vault.ts';
import { KEY_BYTES, newSealedDataKey, openSealedDataKey, sealedDataKey, vaultKeyOf } from '#local/files/sealing.ts';

/** {@link DataKeys} under a key in memory, sealed as the local vault seals them. */
export function memoryDataKeys(): DataKeys {
  const key = vaultKeyOf(randomBytes(KEY_BYTES));
  return {
    async newDataKey(workspaceId) {
      assertWorkspaceId(workspaceId);
      return newSealedDataKey(key, workspaceId);
    },
    async openDataKey(workspaceId, sealed) {
      assertWorkspaceId(workspaceId);
      return openSealedDataKey(key, workspaceId, sealed);
    },
    async sealDataKey(workspaceId, given) {
      assertWorkspaceId(workspaceId);
      return sealedDataKey(key, workspaceId, given);
    },
  };
}
