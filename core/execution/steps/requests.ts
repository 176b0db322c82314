import type { Caller, RunCaller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import type { Incoming } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps, RunJob } from '#core/ports/deps.ts';
import { findEvent } from '#core/runs/approvals/events.ts';
import { findLease, lookNow } from '#core/runs/leases.ts';
import { RunStore } from '#core/runs/store.ts';
import { addressOfEvent, mayAsk, waitLeftMs } from '../durable/wait-limits.ts';
import type { Entry, EntryName, PlacedEntry, WaitTerms } from './entry.ts';
import type { stepRoutes } from './routes.ts';
import { ProgramSteps } from './store.ts';
import type { StepTerms } from './terms.ts';

/** A longer schema cannot be stored with the question. */
const MAX_SCHEMA_BYTES = 32 * 1024;
const MAX_STEP_NAME = 200;

type Body = Incoming<Extract<(typeof stepRoutes)[number], { operationId: 'putRunStep' }>>['body'];

/** Returns what the program of a run did, after a position. Throws what {@link stepsOf} throws. */
export async function listSteps(deps: Deps, caller: Caller, { runId, after }: { runId: string; after: number }) {
  const { entries, hasMore } = await (await stepsOf(deps, caller, runId)).page(after);
  return { steps: entries.map(viewOf), has_more: hasMore };
}

/** Keeps what the program of a run did. Throws what {@link stepsOf} and {@link ProgramSteps.put} throw, and INVALID_INPUT. */
export async function putStep(deps: Deps, from: From, { runId, body }: { runId: string; body: Body }) {
  const steps = await stepsOf(deps, from.caller, runId);
  const kept = await steps.put(body.position, await entryOf(deps, from, steps, body));
  if (body.kind === 'suspension') await hurry(deps, placeOf(from.caller));
  return viewOf(kept);
}

/**
 * Throws NOT_FOUND for a run that is not the caller's, UNPROCESSABLE if its program does no steps, FORBIDDEN for all keys but its
 * own.
 */
async function stepsOf(deps: Deps, { agent, workspace }: Caller, runId: string): Promise<ProgramSteps> {
  if (agent === undefined) await new RunStore(deps, workspace.id).findByName(runId);
  else if (agent.kind !== 'run') throw notOwn();
  else if (agent.runId !== runId) {
    throw new PlatformError('NOT_FOUND', 'The key of a run opens the steps of that run only.');
  }
  const steps = await ProgramSteps.open(deps, { workspaceId: workspace.id, runId });
  if (steps === undefined) {
    throw new PlatformError('UNPROCESSABLE', 'The agent of this run does no steps.', {
      hint: 'Write "durable": {"steps": true} into the agent.json of a program, and publish it again.',
    });
  }
  if (agent === undefined) throw notOwn();
  return steps;
}

const notOwn = (): PlatformError =>
  new PlatformError('FORBIDDEN', 'Only the program of the run does its steps, with the key of the run.');

interface From {
  readonly caller: Caller;
  readonly headers: RequestHeaders;
}

async function entryOf(deps: Deps, from: From, { terms }: ProgramSteps, body: Body): Promise<Entry> {
  const { kind, text, number, value, wait } = body;
  const refuse = (problem: string): never => {
    throw new PlatformError('INVALID_INPUT', `body.${problem}`);
  };
  const named: EntryName = { kind, text, number };
  const hasText = kind !== 'sleep' && kind !== 'suspension';
  if (hasText !== (text !== '')) refuse(`text: must ${hasText ? 'not be' : 'be'} empty here.`);
  if (kind === 'step' && text.length > MAX_STEP_NAME) refuse(`text: must be at most ${MAX_STEP_NAME} characters.`);
  const isEvent = kind === 'event_url' || kind === 'wait_for_event';
  if (isEvent && !EVENT_NAME.test(text)) refuse('text: must be 1 to 64 of a-z, 0-9, - and _.');
  const mayHave = { value: kind === 'step' || kind === 'sleep', wait: WAITING.includes(kind) };
  if (value !== undefined && !mayHave.value) refuse(`value: does not go with ${kind}.`);
  if (wait !== undefined && !mayHave.wait) refuse(`wait: does not go with ${kind}.`);
  if (kind === 'suspension') return { ...named, marks: 'suspended' };
  if (kind === 'event_url') return { ...named, value: await eventUrl(deps, from, terms, text) };
  if ((value === undefined) === (wait === undefined)) refuse('value: give either a value or a wait.');
  if (wait === undefined) return { ...named, value: value as Json };
  if (kind === 'wait_for_event') {
    const event = await findEvent(deps, placeOf(from.caller), text);
    if (event === undefined) {
      throw new PlatformError('UNPROCESSABLE', `The event ${text} has no address yet: make one with event_url first.`);
    }
    if (event.happened !== undefined) return { ...named, value: event.happened.payload };
  }
  return { ...named, wait: await termsOf(deps, from.caller, { kind, wait, own: terms.maxWaitSeconds }) };
}

const EVENT_NAME = /^[a-z0-9_-]{1,64}$/;
const WAITING: readonly Body['kind'][] = ['ask_human', 'sleep', 'wait_for_event'];

const placeOf = ({ agent, workspace }: Caller) => ({
  workspaceId: workspace.id,
  runId: (agent as RunCaller).runId,
});

/** The platform looks at a detached program about every minute. People should be asked sooner, so it looks now. */
async function hurry(deps: Deps, run: RunJob): Promise<void> {
  const lease = await findLease(deps, run.runId);
  if (lease?.reason === 'look' && (await lookNow(deps, lease))) await deps.wakeRun?.(run);
}

async function eventUrl(
  deps: Deps,
  { caller, headers }: From,
  { maxWaitSeconds: own }: StepTerms,
  name: string,
): Promise<string> {
  const place = placeOf(caller);
  const lease = await findLease(deps, place.runId);
  const leftMs = waitLeftMs(deps, caller.workspace, { own, idleMs: lease?.idleMs ?? 0 });
  // The key that was accepted.
  const serviceKey = headers
    .get('authorization')!
    .replace(/^\S+\s+/, '')
    .trim();
  const url = await addressOfEvent(deps, place, { name, serviceKey, leftMs });
  if (url !== undefined) return url;
  throw new PlatformError('UNPROCESSABLE', 'This run has addresses for as many events as it may.');
}

/** Throws INVALID_INPUT, and UNPROCESSABLE or RATE_LIMITED if the run may not wait. */
async function termsOf(
  deps: Deps,
  caller: Caller,
  { kind, wait, own }: { readonly kind: Body['kind']; readonly wait: NonNullable<Body['wait']>; readonly own: number },
): Promise<WaitTerms> {
  const { workspace } = caller;
  const { seconds, until, options, schema } = wait;
  const refuse = (problem: string): never => {
    throw new PlatformError('INVALID_INPUT', `body.wait${problem}`);
  };
  const isSleep = kind === 'sleep';
  if (!isSleep && until !== undefined) refuse('.until: only goes with sleep.');
  if (isSleep && (seconds === undefined) === (until === undefined)) refuse(': a sleep has either seconds or until.');
  if (kind !== 'ask_human' && (options !== undefined || schema !== undefined)) refuse(': only ask_human has answers.');
  if (options !== undefined && schema !== undefined) refuse(': give either options or a schema.');
  if (schema !== undefined && Buffer.byteLength(JSON.stringify(schema)) > MAX_SCHEMA_BYTES) {
    refuse(`.schema: must be at most ${MAX_SCHEMA_BYTES / 1024} KB.`);
  }
  const now = deps.clock.now();
  const lease = await findLease(deps, placeOf(caller).runId);
  const latest = now + waitLeftMs(deps, workspace, { own, idleMs: lease?.idleMs ?? 0 });
  const wanted = until !== undefined ? Date.parse(until) : seconds === undefined ? latest : now + seconds * 1000;
  if (latest <= now || (isSleep && wanted > latest)) {
    const left = Math.max(0, Math.floor((latest - now) / 1000));
    throw new PlatformError(
      'UNPROCESSABLE',
      `This run may wait for ${left} more seconds, not until ${isoTime(wanted)}.`,
    );
  }
  if (!(await mayAsk(deps, workspace))) {
    throw new PlatformError('RATE_LIMITED', 'Too many runs of the workspace wait already.', { is_retryable: false });
  }
  const ofAnswer = schema ?? (options && { type: 'string', enum: options });
  return {
    expiresAt: Math.min(wanted, latest),
    ...(options && { options }),
    ...(ofAnswer && { schema: ofAnswer as NonNullable<WaitTerms['schema']> }),
  };
}

function viewOf(entry: PlacedEntry) {
  const { position, kind, text, number } = entry;
  const named = { position, kind, text, number, value: null };
  if ('wait' in entry) return { ...named, status: 'waiting' as const };
  if ('marks' in entry) return { ...named, status: entry.marks };
  if ('error' in entry) return { ...named, status: 'failed' as const, error: entry.error };
  return { ...named, status: 'done' as const, value: entry.value };
}
