import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { Caller } from '#core/base/caller.ts';
import { derivedKey } from '#core/execution/durable/derived-key.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';

/** How long a client may take to answer. */
const VALID_SECONDS = 24 * 3600;
const PURPOSE = 'mcp request state';
const STATE = /^v1\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([\w-]{11})\.(\d{1,12})\.([\w-]{43})$/;

/** What a state is bound to: a client cannot use it for another call, and nobody else can use it. */
export interface StateOwner {
  readonly caller: Pick<Caller, 'userId'>;
  readonly workspaceId: string;
  readonly tenantId?: string | undefined;
  /** Name of the tool and the arguments that the client called it with. */
  readonly tool: string;
  readonly args: unknown;
}

type StateDeps = Pick<Deps, 'runs' | 'vault' | 'clock' | 'ids'>;

/** What is signed, apart from its owner. */
interface Claims {
  readonly runId: string;
  /** Each round of a call has another state. */
  readonly nonce: string;
  /** Epoch seconds. */
  readonly expires: number;
}

/**
 * Returns the `requestState` of a run that asks people: its id and the end of the state's validity, signed with a key of this
 * run (`docs/interface/mcp.md#questions`).
 */
export async function requestStateOf(deps: StateDeps, owner: StateOwner, runId: string): Promise<string> {
  const nonce = Buffer.from(deps.ids.randomBytes(8)).toString('base64url');
  const expires = epochSeconds(deps.clock.now()) + VALID_SECONDS;
  const signature = await signatureOf(deps, owner, { runId, nonce, expires });
  if (signature === undefined) throw new Error(`the run ${runId} has no order`);
  return ['v1', runId, nonce, expires, signature.toString('base64url')].join('.');
}

/**
 * Returns the run of a `requestState`; `undefined` if it was forged, has expired, or belongs to another call, caller, workspace
 * or tenant.
 */
export async function runOfState(deps: StateDeps, owner: StateOwner, state: string): Promise<string | undefined> {
  const [, runId, nonce = '', until, given] = STATE.exec(state) ?? [];
  const expires = Number(until);
  if (runId === undefined || expires < epochSeconds(deps.clock.now())) return undefined;
  const signature = await signatureOf(deps, owner, { runId, nonce, expires });
  const bytes = Buffer.from(given!, 'base64url');
  const isOurs = signature !== undefined && bytes.length === signature.length && timingSafeEqual(bytes, signature);
  return isOurs ? runId : undefined;
}

async function signatureOf(
  deps: StateDeps,
  { caller, workspaceId, tenantId, tool, args }: StateOwner,
  { runId, nonce, expires }: Claims,
): Promise<Buffer | undefined> {
  const key = await derivedKey(deps, { workspaceId, runId }, PURPOSE);
  if (key === undefined) return undefined;
  const signed = [runId, nonce, expires, workspaceId, caller.userId, tenantId ?? null, tool, hashOf(args)];
  return createHmac('sha256', key).update(JSON.stringify(signed)).digest();
}

/** Clients may send the members of an object in another order the second time. */
function hashOf(args: unknown): string {
  const sorted = JSON.stringify(args ?? {}, (_, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );
  return createHash('sha256').update(sorted).digest('hex');
}
