import type { Json } from '#core/base/json.ts';
import { MAX_QUEUED_MS, MAX_WAIT_SECONDS } from '#core/base/time-limits.ts';
import { mayWait } from '#core/manifest/approval.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { MAX_INLINE_BYTES } from '#core/ports/large-value.ts';
import { exists } from '#core/ports/table.ts';
import { journalBlobKey, orderKey } from '#core/runs/items.ts';
import { retriedFor } from '#core/runs/retries.ts';
import type { NewRun } from '#core/runs/run.ts';
import { type Call, type PreparedCall, retryPolicyFor } from '../calls/prepare.ts';
import type { Upload } from '../input/call-input.ts';
import { storedTerms } from '../steps/terms.ts';
import { DamagedError, RunSeal } from './sealing.ts';

const ORDER = 'ORDER';
/** How long after its time a run or a further try is tried to begin, if the workspace has no room for it. */
export const TRIED_FOR_MS = 15 * 60_000;
const VERSION = 1;
const KEPT_AFTER_END_MS = 24 * 3600 * 1000;

type OrderDeps = Pick<Deps, 'runs' | 'blobs' | 'vault' | 'clock'>;
export type OrderedCall = Omit<Call, 'workspace' | 'service'>;

/**
 * The stored call of a run, so that a process that never saw the request can begin or continue it. Runs table:
 *
 * - `WS#<workspace id>#JOURNAL#<run id without dashes> / ORDER`: the sealed data key of the run, and the order sealed with
 *   it, here or in a blob. Steps of the journal (`journal.ts`) share the partition and the key: without the order, they
 *   cannot be read.
 *
 * An order holds the input and the caller's provider key as they were sent, and the key of the run. It is removed a day after the run's end.
 */
export interface Order {
  readonly call: OrderedCall;
  readonly seal: RunSeal;
}

/** Returns the time (epoch milliseconds) by which the run of a call has certainly ended, with all its tries. */
export function orderedUntil(call: PreparedCall): number {
  const policy = retryPolicyFor(call);
  const beginsWithin = TRIED_FOR_MS + (call.turn === undefined ? 0 : MAX_QUEUED_MS);
  const retriedMs = policy ? retriedFor(policy, call.timeoutMs + beginsWithin) : 0;
  return call.deadline + beginsWithin + retriedMs + waitMsOf(call);
}

/**
 * Returns for how long the run of a call may wait for people, time and events, and for its turn to continue then, in
 * milliseconds. Waiting for a turn counts as waiting, so there is at most one turn after the time is used up.
 */
const waitMsOf = ({ agent }: Pick<Call, 'agent'>): number =>
  mayWait(agent.definition) ? MAX_WAIT_SECONDS * 1000 + MAX_QUEUED_MS : 0;

/** Returns the same for the run of a stored call that has begun. */
export const lastEndOf = ({ deadline, retries }: NewRun, call: Pick<Call, 'agent'>): number =>
  deadline + (retries ? retriedFor(retries.policy, TRIED_FOR_MS + MAX_QUEUED_MS) : 0) + waitMsOf(call);

/**
 * Stores the call of a run that is about to begin or to wait.
 *
 * @param expiresAt Epoch milliseconds by which the run has certainly ended.
 */
export async function putOrder(deps: OrderDeps, call: Call, expiresAt: number): Promise<RunSeal> {
  const { workspace, runId } = call;
  const { key, sealed: sealed_key } = await deps.vault.newDataKey(workspace.id);
  const seal = new RunSeal(key, runId);
  const sealed = seal.seal(ORDER, packed(call));
  const ttl = epochSeconds(expiresAt + KEPT_AFTER_END_MS);
  const isLarge = sealed.byteLength > MAX_INLINE_BYTES;
  if (isLarge) await deps.blobs.put(journalBlobKey(workspace.id, runId, ORDER), sealed);
  const data = isLarge ? {} : { data: sealed.toString('base64') };
  await deps.runs.put({
    ...orderKey(workspace.id, runId),
    version: VERSION,
    sealed_key,
    ...data,
    ...storedTerms(call.agent.definition),
    ttl,
  });
  return seal;
}

/** Returns `undefined` if the run has no order. Throws {@link DamagedError}. */
export async function findOrder(deps: OrderDeps, workspaceId: string, runId: string): Promise<Order | undefined> {
  const item = await deps.runs.get(orderKey(workspaceId, runId));
  if (item === undefined) return undefined;
  if (item.version !== VERSION) {
    throw new DamagedError(`The order of the run ${runId} was written by another version of the platform.`);
  }
  const sealed =
    item.data === undefined
      ? await deps.blobs.get(journalBlobKey(workspaceId, runId, ORDER))
      : Buffer.from(item.data as string, 'base64');
  if (sealed === undefined) throw new DamagedError(`The order of the run ${runId} is missing.`);
  const seal = new RunSeal(await deps.vault.openDataKey(workspaceId, item.sealed_key as string), runId);
  return { call: unpacked(seal.open(ORDER, sealed)), seal };
}

/** Removes what is stored of a run that has ended: the order a day later, and with it everybody's way to read the rest. */
export async function endOrder(
  { runs, clock }: Pick<Deps, 'runs' | 'clock'>,
  workspaceId: string,
  runId: string,
): Promise<void> {
  const set = { ttl: epochSeconds(clock.now() + KEPT_AFTER_END_MS) };
  await runs.update(orderKey(workspaceId, runId), { set }, exists());
}

/** What each process looks up or derives anew, so that no order holds a secret of the workspace. */
const NOT_STORED: ReadonlySet<string> = new Set<keyof PreparedCall>([
  ...(['workspace', 'service', 'secrets', 'models', 'mask', 'skills', 'document', 'promptFiles'] as const),
  ...(['deadline', 'timeoutMs', 'inputWarnings', 'turn', 'tracing'] as const),
]);

/** Packs a call as the length of its JSON in four bytes, the JSON, and the contents of its files. */
function packed({ input, ...more }: Call): Buffer {
  const call = Object.fromEntries(Object.entries(more).filter(([name]) => !NOT_STORED.has(name)));
  // What was said before is read again when the run begins.
  if (more.session !== undefined) call.session = { ...more.session, newest: [] };
  const uploads = input.uploads.map(({ content, ...upload }) => ({ ...upload, bytes: content.byteLength }));
  const json = Buffer.from(JSON.stringify({ ...call, input: { ...input, uploads } }));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(json.byteLength);
  return Buffer.concat([length, json, ...input.uploads.map(({ content }) => content)]);
}

function unpacked(content: Buffer): OrderedCall {
  const end = 4 + content.readUInt32BE(0);
  const { input, ...call } = JSON.parse(content.toString('utf8', 4, end));
  let at = end;
  const uploads = (input.uploads as readonly (Omit<Upload, 'content'> & { readonly bytes: number })[]).map(
    ({ bytes, ...upload }) => {
      const from = at;
      at += bytes;
      return { ...upload, content: content.subarray(from, at) };
    },
  );
  return { ...call, input: { ...(input as { readonly [member: string]: Json }), uploads } } as OrderedCall;
}
