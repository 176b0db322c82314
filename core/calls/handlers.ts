import { versionName } from '../agents/store.ts';
import type { Deps } from '../deps.ts';
import { isPlatformError } from '../errors.ts';
import { errorEnvelope } from '../http/envelope.ts';
import { EventStream } from '../http/event-stream.ts';
import { type Handlers, type Incoming, requestIdOf } from '../http/route.ts';
import { topOfChain } from '../orchestration/context.ts';
import { checkSubCall } from '../orchestration/sub-call.ts';
import { finishInBackground } from './async.ts';
import { type BegunRun, beginCall, type Call, type CallAnswer } from './call.ts';
import { readCallInput } from './input.ts';
import type { ProgressEvent } from './progress.ts';
import type { callRoutes } from './routes.ts';
import { actingWorkspace, checkDeprecation, resolveForCall } from './target.ts';

/** Shorter than the idle limits of common proxies. */
const HEARTBEAT_MS = 15_000;

type CallRequest = Incoming<(typeof callRoutes)[0]>;

export const callHandlers = (deps: Deps): Handlers<typeof callRoutes> => ({
  async callAgent(incoming) {
    const { headers, requestUuid, responseHeaders } = incoming;
    const call = await readCall(deps, incoming);
    const isAsync = /\brespond-async\b/i.test(headers.prefer ?? '');
    const run = await beginCall(deps, call);
    responseHeaders['x-run-id'] = requestUuid;
    responseHeaders['x-platform-run-id'] = requestUuid;
    if (isAsync) return respondAsync(deps, call, run);
    if (/\btext\/event-stream\b/i.test(headers.accept ?? '')) return stream(deps, run, incoming, call);

    // Not tied to the request's signal: a call outlives its client's connection, and a host that stops waits for it.
    const answer = run.finish();
    deps.background(answer.then(ignore, ignore));
    return { status: 200, body: envelope(deps, incoming, call, await answer) };
  },
});

async function readCall(deps: Deps, incoming: CallRequest): Promise<Call> {
  const { params, headers, caller, request, requestUuid, receivedAt, responseHeaders } = incoming;
  const agent = await resolveForCall(deps, params);
  const workspace = await actingWorkspace(deps, caller, agent, request.headers.has('x-workspace-id'));
  const lineage = caller.agent
    ? await checkSubCall(deps, caller.agent, request.headers, { version: params.version, agent })
    : topOfChain(agent, headers['x-platform-max-hops']);
  Object.assign(responseHeaders, await checkDeprecation(deps, agent, params.endpoint));
  const input = await readCallInput(request, deps.config.maxCallBodyBytes);
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
function respondAsync(deps: Deps, { agent, workspace, runId }: Call, run: BegunRun) {
  finishInBackground(deps, run);
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
function stream(deps: Deps, run: BegunRun, incoming: CallRequest, call: Call) {
  const events = new EventStream();
  let lastEventAt = deps.clock.now();
  const emit = (event: ProgressEvent): void => {
    events.offer('progress', event);
    lastEventAt = deps.clock.now();
  };
  const ended = new AbortController();
  const work = run.finish(emit).then(
    (answer) => events.end('result', JSON.stringify(envelope(deps, incoming, call, answer))),
    (error: unknown) => {
      if (!isPlatformError(error)) deps.log.error('run failed', { run_id: call.runId, error: String(error) });
      events.end('error', JSON.stringify(errorEnvelope(error, incoming.requestUuid).body));
    },
  );
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
