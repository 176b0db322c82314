import { rateLimitHeaders } from '#core/accounts/limits/rate-limit.ts';
import { versionName } from '#core/agents/references.ts';
import { isPlatformError } from '#core/base/errors.ts';
import { errorEnvelope } from '#core/http/envelope.ts';
import { EventStream } from '#core/http/event-stream.ts';
import { requestIdOf } from '#core/http/request-id.ts';
import type { Handlers, Incoming, Outgoing } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { ProgressEvent } from '../engines/progress.ts';
import { answerOf, fingerprintOf, idempotent, type Keep } from '../idempotency/idempotent.ts';
import { readCallInput } from '../input/call-input.ts';
import { topOfChain } from '../sub-calls/lineage.ts';
import { checkSubCall } from '../sub-calls/sub-call.ts';
import { type Call, type CallAnswer, deadlineOf, finishInBackground, type StartedCall, startCall } from './call.ts';
import { replayRun } from './replay.ts';
import type { callRoutes } from './routes.ts';
import { actingWorkspace, checkDeprecation, resolveForCall } from './target.ts';

/** Shorter than the idle limits of common proxies. */
const HEARTBEAT_MS = 15_000;

type CallRoute = Extract<(typeof callRoutes)[number], { operationId: 'callAgent' }>;
type CallRequest = Incoming<CallRoute>;

export const callHandlers = (deps: Deps): Handlers<typeof callRoutes> => ({
  async callAgent(incoming) {
    const call = await readCall(deps, incoming);
    const key = incoming.headers['idempotency-key'];
    if (key === undefined) return answer(deps, incoming, call);

    const keyed = {
      workspaceId: call.workspace.id,
      key,
      fingerprint: fingerprintOf(incoming.request.url, call.input),
      runId: call.runId,
      deadline: deadlineOf(deps, call),
    };
    const work = idempotent(deps, keyed, (keep) => answer(deps, incoming, call, keep));
    deps.background(work.then(ignore, ignore));
    const outcome = await work;
    if ('result' in outcome) return outcome.result;
    return answerOf(outcome.replayed, { isReplayed: true, asStream: wantsEvents(incoming) });
  },

  async replayRun({ params, caller, requestUuid: runId, receivedAt }) {
    const original = await replayRun(deps, { caller, name: params.run_id, runId, receivedAt });
    return {
      status: 202,
      body: { run_id: runId, job_id: runId, replay_of_run_id: original, status: 'queued' },
    };
  },
});

const wantsEvents = ({ headers }: CallRequest): boolean => /\btext\/event-stream\b/i.test(headers.accept ?? '');
const wantsNoWait = ({ headers }: CallRequest): boolean => /\brespond-async\b/i.test(headers.prefer ?? '');

/** Makes the call; its answer is kept for those who send it again where there is a `keep`. */
async function answer(deps: Deps, incoming: CallRequest, call: Call, keep?: Keep): Promise<Outgoing<CallRoute>> {
  const { responseHeaders } = incoming;
  const run = await startCall(deps, call);
  responseHeaders['x-run-id'] = call.runId;
  responseHeaders['x-platform-run-id'] = call.runId;
  if (run.rateLimit) Object.assign(responseHeaders, rateLimitHeaders(run.rateLimit));
  if (wantsNoWait(incoming)) {
    finishInBackground(deps, run);
    const accepted = acceptance(call);
    if (keep === undefined) return accepted;
    const { status, headers, body } = accepted;
    return answerOf(await keep({ status, headers, body: JSON.stringify(body) }), {
      isReplayed: false,
      asStream: false,
    });
  }
  if (wantsEvents(incoming)) return stream(deps, run, incoming, call, keep);

  // Not tied to the request's signal: a call outlives its client's connection, and a host that stops waits for it.
  const work = run.finish();
  deps.background(work.then(ignore, ignore));
  const body = envelope(deps, incoming, call, await work);
  if (keep === undefined) return { status: 200, body };
  return answerOf(await keep({ status: 200, body: JSON.stringify(body) }), { isReplayed: false, asStream: false });
}

async function readCall(deps: Deps, incoming: CallRequest): Promise<Call> {
  const { params, headers, caller, request, requestUuid, receivedAt, responseHeaders } = incoming;
  const agent = await resolveForCall(deps, params);
  const workspace = await actingWorkspace(deps, caller, agent, request.headers.has('x-workspace-id'));
  const lineage = caller.agent
    ? await checkSubCall(deps, caller.agent, request.headers, { version: params.version, agent })
    : topOfChain(agent, headers['x-platform-max-hops']);
  Object.assign(responseHeaders, await checkDeprecation(deps, agent, params.endpoint));
  const input = await readCallInput(deps, caller.workspace.id, request);
  return {
    agent,
    endpoint: params.endpoint,
    input,
    workspace,
    runId: requestUuid,
    triggerSource: caller.agent ? 'agent' : headers['x-platform-client'] === 'cli' ? 'cli' : 'api',
    receivedAt,
    lineage,
    tenantId: headers['x-platform-tenant'],
    skillHeaders: {
      skills: headers['x-platform-skills'],
      skillsOnly: headers['x-platform-skills-only'],
      noSkills: headers['x-platform-no-skills'],
    },
    wantedDeadline: headers['x-platform-deadline-ms'],
  };
}

function envelope(deps: Deps, { query, requestUuid, receivedAt }: CallRequest, { agent }: Call, answer: CallAnswer) {
  return {
    data: answer.data,
    ...(answer.warnings.length > 0 && { warnings: [...answer.warnings] }),
    metadata: {
      request_id: requestIdOf(requestUuid),
      processing_time_ms: deps.clock.now() - receivedAt,
      version: versionName(agent.version),
      execution_time_ms: answer.executionMs,
      ...(answer.usage && { usage: answer.usage }),
      ...(query.verbose && { stdout: answer.stdout, stderr: answer.stderr }),
    },
  };
}

/** RFC 7240: the run goes on, and its record says how it ends. */
function acceptance({ agent, workspace, runId }: Call) {
  const url = `/workspaces/${workspace.id}/runs/${runId}`;
  return {
    status: 202 as const,
    body: {
      run_id: runId,
      status: 'running' as const,
      url,
      metadata: { request_id: requestIdOf(runId), version: versionName(agent.version) },
    },
    headers: { location: url, 'preference-applied': 'respond-async' },
  };
}

/** `contract.md` 1.2: `progress` records while the run goes on, with or without a reader; then `result` or `error`. */
function stream(deps: Deps, run: StartedCall, incoming: CallRequest, call: Call, keep?: Keep) {
  const events = new EventStream();
  let lastEventAt = deps.clock.now();
  const emit = (event: ProgressEvent): void => {
    events.offer('progress', event);
    lastEventAt = deps.clock.now();
  };
  const ended = new AbortController();
  const work = run
    .finish(emit)
    .then(
      (given) => ({ status: 200, body: envelope(deps, incoming, call, given) as unknown }),
      (error: unknown) => {
        if (!isPlatformError(error)) deps.log.error('run failed', { run_id: call.runId, error: String(error) });
        return errorEnvelope(error, call.runId) as { status: number; body: unknown };
      },
    )
    .then(async ({ status, body }) => {
      const json = JSON.stringify(body);
      await keep?.({ status, body: json });
      events.end(status === 200 ? 'result' : 'error', json);
    });
  deps.background(work.finally(() => ended.abort()));
  void beat();
  return {
    status: 200,
    raw: { contentType: 'text/event-stream', content: events },
    headers: { 'cache-control': 'no-cache' },
  };

  async function beat(): Promise<void> {
    while (!ended.signal.aborted) {
      const quietFor = deps.clock.now() - lastEventAt;
      if (quietFor >= HEARTBEAT_MS) emit({ type: 'heartbeat' });
      await deps.clock.sleep(Math.max(1, HEARTBEAT_MS - quietFor), ended.signal).catch(ignore);
    }
  }
}

const ignore = (): void => {};
