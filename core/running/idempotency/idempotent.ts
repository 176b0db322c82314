import { createHash } from 'node:crypto';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { RUN_GRACE_MS } from '#core/base/time-limits.ts';
import { errorEnvelope } from '#core/http/envelope.ts';
import { requestIdOf } from '#core/http/request-id.ts';
import type { RawAnswer } from '#core/http/route.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getLarge, putIfLarge } from '#core/ports/large-value.ts';
import { absent, allOf, anyOf, type Condition, equals, type Item, lessThan } from '#core/ports/table.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import type { CallInput } from '../input/call-input.ts';

/**
 * Counters table: `IDEM#<workspace id>#<hash of the key> / ANSWER` is the call that was sent with an `Idempotency-Key`:
 * `running` with the id of its run, then `done` with its answer, which lies in a blob when it is large.
 */
const keyOf = ({ workspaceId, key }: Pick<KeyedCall, 'workspaceId' | 'key'>) => ({
  pk: `IDEM#${workspaceId}#${createHash('sha256').update(key).digest('hex')}`,
  sk: 'ANSWER',
});

/** A call whose sender may send it again. */
export interface KeyedCall {
  readonly workspaceId: string;
  /** As the sender made it up, 1 to 255 characters. */
  readonly key: string;
  /** Of what was sent, see {@link fingerprintOf}. */
  readonly fingerprint: string;
  /** Of the run that this call would begin; also the UUID of its request. */
  readonly runId: string;
  /** When this call is over at the latest, in epoch milliseconds. */
  readonly deadline: number;
  /**
   * The answer of a run that ended, however it did: then a run that was lost with its host is answered, too, and never
   * made anew. @default - as a call is answered
   */
  readonly answerFrom?: (run: Run, output: Json | null) => KeptAnswer;
  /**
   * Makes sure that a run of this call never begins; false when it has begun. With it, a host that has not begun its run
   * after ten seconds is taken for dead. @default - a host has until past the deadline of its call
   */
  readonly prevent?: (runId: string) => Promise<boolean>;
}

/** What is answered to everyone who sends the call. */
export interface KeptAnswer {
  readonly status: number;
  /** JSON text. */
  readonly body: string;
  /** @default - none beyond those that name the run */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Writes down the answer before it is sent, and tells what to send: the answer that the key has. */
export type Keep = (answer: KeptAnswer) => Promise<KeptAnswer>;

const KEPT_SECONDS = 24 * 3600;
/** An item holds 400 KB at most. */
const MAX_INLINE_BODY_BYTES = 300 * 1024;
const FIRST_PAUSE_MS = 25;
const LONGEST_PAUSE_MS = 500;
/** A host needs this long past the end of a run, or past its deadline, to write down what it answers. */
const SAVED_WITHIN_MS = 5_000;
const LOST_AFTER_MS = RUN_GRACE_MS + SAVED_WITHIN_MS;
const BEGUN_WITHIN_MS = 10_000;

type IdempotencyDeps = Pick<Deps, 'counters' | 'runs' | 'blobs' | 'clock' | 'config' | 'log'>;

/**
 * Makes a call once, however often it is sent with its key within 24 hours (as Stripe's keys do): `execute` runs in one of
 * them, and all others wait for its answer, which is returned here with the header `Idempotent-Replayed`. `execute` calls
 * `keep` with the answer of the run that it began. What it throws is kept as well once the run is recorded; a call that
 * was refused before that leaves the key free.
 *
 * When the host of the first call dies, its answer is made of the record of its run; if the run was lost too, this call
 * is the first.
 *
 * Throws CONFLICT when another request was sent with this key, and when the first one is not done by this one's deadline.
 */
export async function idempotent<T>(
  deps: IdempotencyDeps,
  call: KeyedCall,
  execute: (keep: Keep) => Promise<T>,
): Promise<{ readonly result: T } | { readonly replayed: KeptAnswer }> {
  let found: Item | undefined;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    if (found === undefined && (await claim(deps, call, unclaimed(deps)))) return { result: await first() };
    found = await deps.counters.get(keyOf(call));
    if (found !== undefined) {
      checkFingerprint(found, call);
      if (found.state === 'done') return { replayed: await readAnswer(deps, found) };
      // Most calls are answered before anybody has to ask what became of their host.
      const end = pause < LONGEST_PAUSE_MS ? undefined : await endOfAbandoned(deps, call, found);
      const runId = found.run_id as string;
      if (end === 'lost' && (await claim(deps, call, isStill(runId)))) return { result: await first() };
      if (typeof end === 'object') return { replayed: await keepFor(deps, { ...call, runId }, end) };
    }
    if (deps.clock.now() + pause > call.deadline) throw stillRunning(found);
    await deps.clock.sleep(pause);
  }

  async function first(): Promise<T> {
    try {
      return await execute((answer) => keepFor(deps, call, answer));
    } catch (error) {
      const isOurs = await settle(error).catch((failure: unknown) => {
        deps.log.error('idempotency key not settled', { run_id: call.runId, error: String(failure) });
        return true;
      });
      throw isOurs ? error : stillRunning(undefined);
    }
  }

  /** False when another call has taken the key over, because this one seemed dead. */
  async function settle(error: unknown): Promise<boolean> {
    const run = await new RunStore(deps, call.workspaceId).find(call.runId);
    if (run === undefined) return (await deps.counters.delete(keyOf(call), equals('run_id', call.runId))).ok;
    // Otherwise the record of the run answers, once it has ended.
    if (call.answerFrom === undefined) await keepFor(deps, call, errorAnswer(error, call.runId));
    return true;
  }
}

/** A hash of what a call asks for: where, what, and with which model; keys of providers are not part of it. */
export function fingerprintOf(url: string, { document, uploads, isMultipart, llmCredentials }: CallInput): string {
  const { pathname, search } = new URL(url);
  const { provider, model } = llmCredentials ?? {};
  // The document lists the uploads by name, type and size.
  const text = JSON.stringify([pathname, search, isMultipart, document, provider, model]);
  const hash = createHash('sha256').update(text);
  for (const { content } of uploads) hash.update(content);
  return hash.digest('hex');
}

/** How the answer goes out: as it is, or as a stream of its one event. */
export function answerOf(
  { status, body, headers }: KeptAnswer,
  { isReplayed, asStream }: { readonly isReplayed: boolean; readonly asStream: boolean },
): { status: number; raw: RawAnswer; headers: Record<string, string> } {
  const isEvent = asStream && status !== 202;
  const text = isEvent ? `event: ${status === 200 ? 'result' : 'error'}\ndata: ${body}\n\n` : body;
  return {
    status: isEvent ? 200 : status,
    raw: { contentType: isEvent ? 'text/event-stream' : 'application/json', content: Buffer.from(text) },
    headers: { ...headers, ...(isReplayed && { 'idempotent-replayed': 'true' }) },
  };
}

const unclaimed = ({ clock }: IdempotencyDeps): Condition =>
  anyOf(absent(), lessThan('ttl', epochSeconds(clock.now()) + 1));

const isStill = (runId: string): Condition => allOf(equals('state', 'running'), equals('run_id', runId));

async function claim(deps: IdempotencyDeps, call: KeyedCall, condition: Condition): Promise<boolean> {
  const { ok } = await deps.counters.put(
    {
      ...keyOf(call),
      state: 'running',
      fingerprint: call.fingerprint,
      run_id: call.runId,
      deadline: call.deadline,
      claimed_at: deps.clock.now(),
      ttl: epochSeconds(deps.clock.now()) + KEPT_SECONDS,
    },
    condition,
  );
  return ok;
}

function checkFingerprint(found: Item, { fingerprint }: KeyedCall): void {
  if (found.fingerprint === fingerprint) return;
  throw new PlatformError(
    'CONFLICT',
    'This Idempotency-Key came with another request before: its path, query or body was different.',
    { hint: 'Send a new key with every new request, and the same key only with the same request.' },
  );
}

const stillRunning = (found: Item | undefined): PlatformError =>
  new PlatformError(
    'CONFLICT',
    `The first request with this Idempotency-Key is still under way${found ? `, as run ${found.run_id}` : ''}.`,
    { hint: 'Send it again later with the same key to get its answer.', suggested_wait_time: 5 },
  );

/**
 * What became of a call whose host may be gone: the answer that its run's record gives, `lost` when it has to be made
 * anew, `undefined` while it may still be answered.
 */
async function endOfAbandoned(
  deps: IdempotencyDeps,
  { workspaceId, answerFrom, prevent }: KeyedCall,
  { run_id, deadline, claimed_at }: Item,
): Promise<KeptAnswer | 'lost' | undefined> {
  const runs = new RunStore(deps, workspaceId);
  const run = await runs.find(run_id as string);
  const now = deps.clock.now();
  if (run === undefined) {
    const mayBegin = prevent
      ? isWithin(BEGUN_WITHIN_MS, claimed_at as number, now)
      : now <= (deadline as number) + LOST_AFTER_MS;
    if (mayBegin) return undefined;
    return prevent === undefined || (await prevent(run_id as string)) ? 'lost' : undefined;
  }
  if (run.status === 'running' || run.status === 'queued') return undefined;
  // It may end yet, and is answered as its record says in the end.
  if (answerFrom !== undefined && run.completedAt === null) return undefined;
  // What nobody but the platform is to blame for may be tried again.
  if (answerFrom === undefined && run.errorCode === 'INTERNAL_ERROR') return mayBeSaved(run, now) ? undefined : 'lost';
  if (mayBeSaved(run, now)) return undefined;
  const body = await runs.body(run.id);
  if (answerFrom !== undefined) return answerFrom(run, body?.output ?? null);
  return run.errorCode === null ? resultAnswer(run, body?.output ?? null) : errorAnswer(errorOf(run), run.id);
}

/** Whether its host may be about to write down the answer. A run that is lost has no end. */
const mayBeSaved = ({ completedAt }: Run, now: number): boolean =>
  completedAt !== null && isWithin(SAVED_WITHIN_MS, Date.parse(completedAt), now);

/** On either side, for clocks may be set back. */
const isWithin = (ms: number, time: number, now: number): boolean => Math.abs(now - time) <= ms;

/** As the call would have been answered, without its warnings. */
const resultAnswer = (run: Run, data: unknown): KeptAnswer => ({
  status: 200,
  body: JSON.stringify({
    data,
    metadata: {
      request_id: requestIdOf(run.id),
      processing_time_ms: run.durationMs,
      version: run.agentVersion,
      execution_time_ms: run.executionMs ?? 0,
      ...(run.inputTokens !== null && {
        usage: { input_tokens: run.inputTokens, output_tokens: run.outputTokens ?? 0 },
      }),
    },
  }),
});

const errorOf = ({ errorCode, errorMessage }: Run): PlatformError =>
  new PlatformError(errorCode!, errorMessage ?? 'The run failed.');

function errorAnswer(error: unknown, runId: string): KeptAnswer {
  const { status, body } = errorEnvelope(error, runId);
  return { status, body: JSON.stringify(body) };
}

/** Writes down the answer of the run `runId`, unless the key has one by now or belongs to another run. */
async function keepFor(deps: IdempotencyDeps, call: KeyedCall, given: KeptAnswer): Promise<KeptAnswer> {
  const { runId, workspaceId } = call;
  const answer = { ...given, headers: { 'x-run-id': runId, 'x-platform-run-id': runId, ...given.headers } };
  try {
    const blob = `runs/${workspaceId}/${runId}.answer.json`;
    const isLarge = await putIfLarge(deps, blob, answer.body, MAX_INLINE_BODY_BYTES);
    const { ok } = await deps.counters.update(
      keyOf(call),
      {
        set: {
          state: 'done',
          status: answer.status,
          headers: answer.headers,
          ...(isLarge ? { blob } : { body: answer.body }),
        },
      },
      isStill(runId),
    );
    if (ok) return answer;
    const kept = await deps.counters.get(keyOf(call));
    return kept?.state === 'done' ? await readAnswer(deps, kept) : answer;
  } catch (error) {
    // The run is over and recorded: whoever sends the call again gets an answer that is made of the record.
    deps.log.error('answer not kept', { run_id: runId, error: String(error) });
    return answer;
  }
}

async function readAnswer(deps: IdempotencyDeps, { status, headers, body, blob }: Item): Promise<KeptAnswer> {
  const text = (body as string | undefined) ?? (await readBlob(deps, blob as string));
  return { status: status as number, headers: headers as Record<string, string>, body: text };
}

async function readBlob(deps: IdempotencyDeps, key: string): Promise<string> {
  const text = await getLarge(deps, key);
  if (text === undefined) throw new Error(`the answer ${key} is gone`);
  return text;
}
