import { countIfRefused } from '#core/accounts/limits/check-time.ts';
import { rateLimitHeaders } from '#core/accounts/limits/rate-limit.ts';
import type { Handlers, Outgoing } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { fingerprintOf } from '../idempotency/fingerprint.ts';
import { idempotent, type Keep } from '../idempotency/idempotent.ts';
import { acceptance, rawAnswer, resultBody } from './answers.ts';
import { finishInBackground, type StartedCall, startCall } from './call.ts';
import { answerWithEvents } from './event-answer.ts';
import { type Call, deadlineOf } from './prepare.ts';
import { type CallRequest, type CallRoute, readCall } from './read-call.ts';
import { replayRun } from './replay.ts';
import type { callRoutes } from './routes.ts';

type Answer = Outgoing<CallRoute>;

export const callHandlers = (deps: Deps): Handlers<typeof callRoutes> => ({
  async callAgent(incoming) {
    const call = await countIfRefused(deps, incoming.caller.workspace, () => readCall(deps, incoming));
    const key = incoming.headers['idempotency-key'];
    return key === undefined ? answerCall(deps, incoming, call) : answerOnce(deps, incoming, call, key);
  },

  async replayRun({ params, caller, requestUuid: runId, receivedAt }) {
    const original = await replayRun(deps, { caller, name: params.run_id, runId, receivedAt });
    return {
      status: 202,
      body: { run_id: runId, job_id: runId, replay_of_run_id: original, status: 'queued' },
    };
  },
});

/** Makes the call unless it was made with this key before: then its answer is sent again. */
async function answerOnce(deps: Deps, incoming: CallRequest, call: Call, key: string): Promise<Answer> {
  const keyed = {
    workspaceId: call.workspace.id,
    key,
    fingerprint: fingerprintOf(incoming.request.url, call.input),
    runId: call.runId,
    deadline: deadlineOf(deps, call),
  };
  const work = idempotent(deps, keyed, (keep) => answerCall(deps, incoming, call, keep));
  deps.background(work.then(ignore, ignore));
  const outcome = await work;
  if ('result' in outcome) return outcome.result;
  return rawAnswer(outcome.replayed, { isReplayed: true, asStream: wantsEvents(incoming) });
}

/** Makes the call, and answers as the client wants it. `keep` stores the answer for retries. */
async function answerCall(deps: Deps, incoming: CallRequest, call: Call, keep?: Keep): Promise<Answer> {
  const started = await startAndCount(deps, incoming, call);
  const { responseHeaders } = incoming;
  responseHeaders['x-run-id'] = call.runId;
  responseHeaders['x-platform-run-id'] = call.runId;
  if (started.rateLimit) Object.assign(responseHeaders, rateLimitHeaders(started.rateLimit));
  if (wantsNoWait(incoming)) return answerAtOnce(deps, call, started, keep);
  if (wantsEvents(incoming)) return answerWithEvents(deps, incoming, call, { started, keep });
  return answerAtEnd(deps, incoming, call, { started, keep });
}

/** A refused call counts for the workspace of the caller, too, if it acts in another one: that may have no time left to count. */
const startAndCount = (deps: Deps, { caller }: CallRequest, call: Call): Promise<StartedCall> =>
  caller.workspace.id === call.workspace.id
    ? startCall(deps, call)
    : countIfRefused(deps, caller.workspace, () => startCall(deps, call));

const wantsEvents = ({ headers }: CallRequest): boolean => /\btext\/event-stream\b/i.test(headers.accept ?? '');
const wantsNoWait = ({ headers }: CallRequest): boolean => /\brespond-async\b/i.test(headers.prefer ?? '');

async function answerAtOnce(deps: Deps, call: Call, started: StartedCall, keep?: Keep): Promise<Answer> {
  finishInBackground(deps, started);
  const accepted = acceptance(call);
  if (keep === undefined) return accepted;
  const { status, headers, body } = accepted;
  return rawAnswer(await keep({ status, headers, body: JSON.stringify(body) }), AS_JSON);
}

async function answerAtEnd(
  deps: Deps,
  incoming: CallRequest,
  call: Call,
  { started, keep }: { readonly started: StartedCall; readonly keep?: Keep },
): Promise<Answer> {
  // Not tied to the request's signal: the call outlives its client's connection, and a stopping host waits for it.
  const work = started.finish();
  deps.background(work.then(ignore, ignore));
  const body = resultBody(deps, incoming, call, await work);
  if (keep === undefined) return { status: 200, body };
  return rawAnswer(await keep({ status: 200, body: JSON.stringify(body) }), AS_JSON);
}

const AS_JSON = { isReplayed: false, asStream: false };

const ignore = (): void => {};
