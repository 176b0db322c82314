import type { Ids } from '#core/ports/ids.ts';
import { decodeKey, encodeKey, isKeyOf } from '../keys/key-format.ts';

/**
 * The kinds of service keys of agents, which differ in length. A _run key_ belongs to one run and becomes invalid with
 * it; it contains the run's id, so it needs no item. The key of an always-on _service_ contains the service's id in the
 * same way, and is valid for one revision of it. A _static key_ belongs to an agent until it is revoked, and is looked
 * up by its hash like a user's key.
 */
const PREFIX = 'sk_agent_';
const UUID_BYTES = 16;
const SECRET_BYTES = 32;
const RUN_KEY_BYTES = 2 * UUID_BYTES + SECRET_BYTES;
const SERVICE_KEY_BYTES = UUID_BYTES + SECRET_BYTES;

export interface RunKeyParts {
  readonly workspaceId: string;
  readonly runId: string;
}

export function newRunKey(ids: Pick<Ids, 'cell' | 'randomBytes'>, { workspaceId, runId }: RunKeyParts): string {
  const bytes = Buffer.concat([uuidBytes(workspaceId), uuidBytes(runId), ids.randomBytes(SECRET_BYTES)]);
  return encodeKey(PREFIX, ids.cell, bytes);
}

/** @param secret 32 bytes. */
export const newServiceKey = (cell: string, serviceId: string, secret: Uint8Array): string =>
  encodeKey(PREFIX, cell, Buffer.concat([uuidBytes(serviceId), secret]));

/** Returns the service id in a key; `undefined` for any other text. */
export function readServiceKey(text: string): string | undefined {
  const bytes = decodeKey(PREFIX, SERVICE_KEY_BYTES, text);
  return bytes && uuidOf(bytes.subarray(0, UUID_BYTES));
}

export const newStaticKey = (ids: Pick<Ids, 'cell' | 'randomBytes'>): string =>
  encodeKey(PREFIX, ids.cell, ids.randomBytes(SECRET_BYTES));

/** Returns the run id in a run key; `undefined` for any other text. Compare the key's hash with the hash in the run. */
export function readRunKey(text: string): RunKeyParts | undefined {
  const bytes = decodeKey(PREFIX, RUN_KEY_BYTES, text);
  if (bytes === undefined) return undefined;
  return {
    workspaceId: uuidOf(bytes.subarray(0, UUID_BYTES)),
    runId: uuidOf(bytes.subarray(UUID_BYTES, 2 * UUID_BYTES)),
  };
}

export const isStaticKey = (text: string): boolean => isKeyOf(PREFIX, SECRET_BYTES, text);

/** Whether a text has the format of a service key of any kind. */
export const isServiceKey = (text: string): boolean =>
  [SECRET_BYTES, RUN_KEY_BYTES, SERVICE_KEY_BYTES].some((bytes) => isKeyOf(PREFIX, bytes, text));

const uuidBytes = (uuid: string): Uint8Array => Buffer.from(uuid.replaceAll('-', ''), 'hex');

const uuidOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes)
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
