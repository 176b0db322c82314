import { hash } from 'node:crypto';
import { DecryptCommand, EncryptCommand, GenerateDataKeyCommand, KMSClient } from '@aws-sdk/client-kms';
import {
  assertWorkspaceId,
  type DataKey,
  DataKeyError,
  type DataKeys,
  decodeSealedKey,
  encodeSealedKey,
} from '#core/ports/vault.ts';
import { mapThrottlingErrors } from '../tables/throttles.ts';

const REQUEST_LIMIT_MS = 10_000;
const CHECKSUM_BYTES = 8;

export interface KmsDataKeysProps {
  readonly client: KMSClient;
  /** ARN of the KMS key, or the name of its alias. Policies may demand the alias, so each request names it. */
  readonly key: string;
  /** Prefix of the vaults: the functions of a stage have no rights on keys of another, even under the same KMS key. */
  readonly prefix: string;
}

/** Uses the environment's Region and credentials. */
export function createDataKeys({
  key,
  prefix,
}: {
  readonly key: string | undefined;
  readonly prefix: string;
}): DataKeys {
  if (key === undefined) throw new Error('PLATFORM_DATA_KEY is not set, so this function may not use data keys.');
  return new KmsDataKeys({ client: mapThrottlingErrors(new KMSClient()), key, prefix });
}

/** {@link DataKeys} of AWS KMS, which authenticates stage and workspace as the encryption context. */
export class KmsDataKeys implements DataKeys {
  readonly #props: KmsDataKeysProps;

  constructor(props: KmsDataKeysProps) {
    this.#props = props;
  }

  async newDataKey(workspaceId: string): Promise<DataKey> {
    const { client, key: KeyId } = this.#props;
    const EncryptionContext = this.#contextOf(workspaceId);
    const command = new GenerateDataKeyCommand({ KeyId, KeySpec: 'AES_256', EncryptionContext });
    const { Plaintext, CiphertextBlob } = await client.send(command, requestLimit());
    return { key: Plaintext!, sealed: sealedOf(CiphertextBlob!) };
  }

  async openDataKey(workspaceId: string, sealed: string): Promise<Uint8Array> {
    const { client, key: KeyId } = this.#props;
    const EncryptionContext = this.#contextOf(workspaceId);
    const bytes = decodeSealedKey(workspaceId, sealed);
    const CiphertextBlob = bytes.subarray(CHECKSUM_BYTES);
    if (!bytes.subarray(0, CHECKSUM_BYTES).equals(checksumOf(CiphertextBlob))) throw new DataKeyError(workspaceId);
    try {
      const { Plaintext } = await client.send(
        new DecryptCommand({ KeyId, CiphertextBlob, EncryptionContext }),
        requestLimit(),
      );
      return Plaintext!;
    } catch (cause) {
      throw isUnreadable(cause) ? new DataKeyError(workspaceId, { cause }) : cause;
    }
  }

  async sealDataKey(workspaceId: string, key: Uint8Array): Promise<string> {
    const { client, key: KeyId } = this.#props;
    const EncryptionContext = this.#contextOf(workspaceId);
    const command = new EncryptCommand({ KeyId, Plaintext: key, EncryptionContext });
    const { CiphertextBlob } = await client.send(command, requestLimit());
    return sealedOf(CiphertextBlob!);
  }

  #contextOf(workspaceId: string): Record<string, string> {
    assertWorkspaceId(workspaceId);
    return { vault: this.#props.prefix, workspace: workspaceId };
  }
}

/**
 * Puts a checksum before the ciphertext. Without it, KMS would deny access to a key that only a damaged ciphertext
 * names, as if the function lacked rights.
 */
export const sealedOf = (ciphertext: Uint8Array): string =>
  encodeSealedKey(Buffer.concat([checksumOf(ciphertext), ciphertext]));

const checksumOf = (ciphertext: Uint8Array): Buffer => hash('sha256', ciphertext, 'buffer').subarray(0, CHECKSUM_BYTES);

/** Whether KMS has rejected the ciphertext: docs.aws.amazon.com/kms/latest/APIReference/API_Decrypt.html. */
const isUnreadable = (error: unknown): boolean =>
  error instanceof Error && ['InvalidCiphertextException', 'IncorrectKeyException'].includes(error.name);

const requestLimit = () => ({ abortSignal: AbortSignal.timeout(REQUEST_LIMIT_MS) });
