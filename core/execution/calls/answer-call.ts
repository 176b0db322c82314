import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import { rateLimitHeaders } from '#core/accounts/limits/rate-limit.ts';
import { lazy } from '#core/base/lazy.ts';
import type { Outgoing } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { fingerprintOf } from '../idempotency/fingerprint.ts';
import { idempotent, type Keep, type KeyedCall } from '../idempotency/idempotent.ts';
import { keyHash } from '../idempotency/key-store.ts';
import type { KeptAnswer } from '../idempotency/stored-answer.ts';
import {
  type AnswerableRequest,
  acceptance,
  continuation,
  held,
  queued,
  rawAnswer,
  resultBody,
  shownAgain,
} from './answers.ts';
import { finishInBackground, type StartedCall, startCall } from './call.ts';
import { answerWhileHeld } from './held-answer.ts';
import { type Call, deadlineOf } from './prepare.ts';
import { type CallRoute, wantsNoWait } from './read-call.ts';

type Answer = Outgoing<CallRoute>;
type LaterCall = Call & { readonly runAt: number };

/** Loaded lazily: most calls are answered at their end, and smaller functions start faster. */
const eventAnswer = lazy(() => import('./event-answer.ts'));

/**
 * Makes a call and answers as the client requested: at the end, with events, or at once with the run's address. With an
 * `Idempotency-Key`, the call is made only once. Throws what {@link startCall} throws, and the error of a failed run.
 */
export async function answerCall(deps: Deps, incoming: AnswerableRequest, call: Call): Promise<Answer> {
  const key = incoming.headers['idempotency-key'];
  return key === undefined ? makeCall(deps, incoming, call) : answerOnce(deps, incoming, call, key);
}

/** Makes the call unless it was made with this key before; in that case sends the earlier answer again. */
async function answerOnce(deps: Deps, incoming: AnswerableRequest, given: Call, key: string): Promise<Answer> {
  const call = given.session === undefined ? given : { ...given, keyHash: keyHash(key) };
  const keyed = {
    workspaceId: call.workspace.id,
    key,
    fingerprint: fingerprintOf(incoming.request.url, call.input),
    runId: call.runId,
    deadline: deadlineOf(deps, call),
    ...(isLater(call) && onceLater(deps, call)),
  };
  const work = idempotent(deps, keyed, (keep) => makeCall(deps, incoming, call, keep));
  deps.background(work.then(ignore, ignore));
  const outcome = await work;
  if ('result' in outcome) return outcome.result;
  return rawAnswer(shownAgain(outcome.replayed, deps.config), { isReplayed: true, asStream: wantsEvents(incoming) });
}

const isLater = (call: Call): call is LaterCall => call.runAt !== undefined;

/** A call that begins later is answered before it runs: retries get that answer, as long as its run may last. */
const onceLater = (deps: Deps, call: LaterCall): Pick<KeyedCall, 'answerAtOnce' | 'keptUntil'> => ({
  keptUntil: deadlineOf(deps, { ...call, receivedAt: call.runAt }),
  answerAtOnce: ({ id: runId }) => keptOf(queued({ ...call, runId })),
});

/** Makes the call. `keep` stores the answer for retries. */
async function makeCall(deps: Deps, incoming: AnswerableRequest, call: Call, keep?: Keep): Promise<Answer> {
  if (isLater(call)) {
    // Loaded lazily: few calls begin later, and smaller functions start faster.
    const { queueCall } = await import('../durable/queue-call.ts');
    await charged(deps, incoming, call, () => queueCall(deps, call));
    nameRun(incoming, call);
    return answerWithAddress(queued(call), keep);
  }
  if (call.session?.busy === 'steer') {
    const runId = await steeredRun(deps, incoming, call);
    if (runId !== undefined) return answerSteered(deps, incoming, { ...call, runId }, keep);
  }
  const started = await beginCall(deps, incoming, call);
  if (wantsNoWait(incoming.headers)) return answerAtOnce(deps, call, started, keep);
  return answerStarted(deps, incoming, call, { started, keep });
}

/** Returns the run that takes the message of a call while it works; `undefined` if none does. */
async function steeredRun(deps: Deps, incoming: AnswerableRequest, call: Call): Promise<string | undefined> {
  // Loaded lazily: few sessions steer, and smaller functions start faster.
  const { steer } = await import('../sessions/steer.ts');
  return charged(deps, incoming, call, () => steer(deps, call));
}

/** Answers a call whose message a run has taken that another call began. */
async function answerSteered(deps: Deps, incoming: AnswerableRequest, call: Call, keep?: Keep): Promise<Answer> {
  nameRun(incoming, call);
  if (wantsNoWait(incoming.headers)) return answerWithAddress(acceptance(call), keep);
  const { followRun } = await import('../sessions/follow-run.ts');
  return answerStarted(deps, incoming, call, { started: followRun(deps, call), keep });
}

async function answerStarted(
  deps: Deps,
  incoming: AnswerableRequest,
  call: Call,
  outcome: { readonly started: StartedCall; readonly keep?: Keep | undefined },
): Promise<Answer> {
  if (wantsEvents(incoming)) return (await eventAnswer()).answerWithEvents(deps, incoming, call, outcome);
  return answerAtEnd(deps, incoming, call, outcome);
}

/** Begins a call's run, and tells its id and the plan's remaining calls in headers. Throws what {@link startCall} throws. */
export async function beginCall(deps: Deps, incoming: BegunRequest, call: Call): Promise<StartedCall> {
  const started = await charged(deps, incoming, call, () => startCall(deps, call));
  nameRun(incoming, call);
  if (started.rateLimit) Object.assign(incoming.responseHeaders, rateLimitHeaders(started.rateLimit));
  return started;
}

type BegunRequest = Pick<AnswerableRequest, 'caller' | 'responseHeaders'>;

function nameRun({ responseHeaders }: BegunRequest, { runId }: Call): void {
  responseHeaders['x-run-id'] = runId;
  responseHeaders['x-platform-run-id'] = runId;
}

/**
 * Charges a rejected call to the caller's workspace as well, if it acts in another one whose time budget may be used
 * up.
 */
const charged = <T>(deps: Deps, { caller }: BegunRequest, call: Call, work: () => Promise<T>): Promise<T> =>
  caller === undefined || caller.workspace.id === call.workspace.id
    ? work()
    : chargeIfRejected(deps, caller.workspace, work);

export const wantsEvents = ({ headers }: Pick<AnswerableRequest, 'headers'>): boolean =>
  /\btext\/event-stream\b/i.test(headers.accept ?? '');

async function answerAtOnce(deps: Deps, call: Call, started: StartedCall, keep?: Keep): Promise<Answer> {
  if (started.heldBy !== undefined) return answerWithAddress(held(call, started.heldBy), keep);
  finishInBackground(deps, started);
  return answerWithAddress(acceptance(call), keep);
}

async function answerWithAddress(
  answer: ReturnType<typeof acceptance | typeof continuation | typeof held | typeof queued>,
  keep?: Keep,
): Promise<Answer> {
  if (keep === undefined) return answer;
  return rawAnswer(await keep(keptOf(answer)), AS_JSON);
}

const keptOf = ({ status, headers, body }: Parameters<typeof answerWithAddress>[0]): KeptAnswer => ({
  status,
  headers,
  body: JSON.stringify(body),
});

async function answerAtEnd(
  deps: Deps,
  incoming: AnswerableRequest,
  call: Call,
  { started, keep }: { readonly started: StartedCall; readonly keep?: Keep | undefined },
): Promise<Answer> {
  // Independent of the request's signal: the call outlives the client's connection, and a stopping host waits for it.
  const work = started.finish();
  deps.background(work.then(ignore, ignore));
  const answer = await answerWhileHeld(deps, started, work);
  if (answer === undefined) return answerWithAddress(continuation(call), keep);
  const body = resultBody(deps, incoming, call, answer);
  if (keep === undefined) return { status: 200, body };
  return rawAnswer(await keep({ status: 200, body: JSON.stringify(body) }), AS_JSON);
}

const AS_JSON = { isReplayed: false, asStream: false };

const ignore = (): void => {};
