import { withDocsUrl } from '#core/http/envelope.ts';
import { requestIdOf } from '#core/http/request-id.ts';
import type { RawAnswer } from '#core/http/route.ts';
import { versionName } from '#core/manifest/references.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { HeldBy } from '#core/runs/run.ts';
import { heldByOf } from '#core/runs/view.ts';
import type { KeptAnswer } from '../idempotency/stored-answer.ts';
import type { CallAnswer } from './finish.ts';
import type { Call } from './prepare.ts';
import type { CallRequest } from './read-call.ts';

/** Parts of a request that decide how its call is answered. */
export interface AnswerableRequest
  extends Pick<CallRequest, 'request' | 'requestUuid' | 'receivedAt' | 'responseHeaders' | 'query'> {
  readonly headers: Pick<CallRequest['headers'], 'accept' | 'prefer' | 'idempotency-key'>;
  /** Absent if the caller has no workspace of its own, as a service instance. */
  readonly caller?: Pick<CallRequest['caller'], 'workspace'>;
}

/** Builds the response body of a successful call. */
export function resultBody(
  deps: Pick<Deps, 'clock'>,
  { query, requestUuid, receivedAt }: Pick<AnswerableRequest, 'query' | 'requestUuid' | 'receivedAt'>,
  { agent, session }: Call,
  { data, warnings, executionMs, usage, stdout, stderr }: CallAnswer,
) {
  return {
    data,
    ...(warnings.length > 0 && { warnings: [...warnings] }),
    metadata: {
      request_id: requestIdOf(requestUuid),
      processing_time_ms: deps.clock.now() - receivedAt,
      version: versionName(agent.version),
      ...(session && { session_id: session.id }),
      execution_time_ms: executionMs,
      ...(usage && { usage }),
      ...(query.verbose && { stdout, stderr }),
    },
  };
}

/** Builds the answer to `Prefer: respond-async` (RFC 7240): the run continues, and its record will show its end. */
export function acceptance({ agent, workspace, runId, session }: Call) {
  const url = `/workspaces/${workspace.id}/runs/${runId}`;
  return {
    status: 202 as const,
    body: {
      run_id: runId,
      status: 'running' as const,
      url,
      metadata: {
        request_id: requestIdOf(runId),
        version: versionName(agent.version),
        ...(session && { session_id: session.id }),
      },
    },
    headers: { location: url, 'preference-applied': 'respond-async' },
  };
}

/** Builds the answer to a call that begins later. */
export function queued(call: Call & { readonly runAt: number }) {
  const { status, body, headers } = acceptance(call);
  return { status, body: { ...body, status: 'queued' as const, run_at: isoTime(call.runAt) }, headers };
}

/** Builds the answer to a call whose run waits for its turn. */
export function held(call: Call, heldBy: HeldBy) {
  const { status, body, headers } = acceptance(call);
  return { status, body: { ...body, status: 'queued' as const, held_by: heldByOf(heldBy) }, headers };
}

/** Builds the answer to a call whose run is not over: its record will show its end. */
export function continuation(call: Call) {
  const { status, body, headers } = acceptance(call);
  return { status, body, headers: { location: headers.location } };
}

/** Adds to a stored error what is added to each error that is sent. */
export const shownAgain = (answer: KeptAnswer, config: Pick<Deps['config'], 'baseUrl' | 'dashboardUrl'>): KeptAnswer =>
  answer.status < 400 ? answer : { ...answer, body: JSON.stringify(withDocsUrl(JSON.parse(answer.body), config)) };

/** Sends a stored answer as JSON, or as a stream with one event to a client that accepts events. */
export function rawAnswer(
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
