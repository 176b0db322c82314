import { membershipOf } from '#core/accounts/workspaces/store.ts';
import { ANYONE, findAnyVersion } from '#core/agents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { hasEnded, isInstallation } from '#core/base/run-kinds.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { Watched } from '#core/events/watch.ts';
import { textOfAnswer } from '#core/execution/calls/answer-text.ts';
import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import type { HttpRequest } from '#core/http/message.ts';
import type { Deps } from '#core/ports/deps.ts';
import { liveEventsOf } from '#core/runs/live-events.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { errorObject, OpenAiError } from './errors.ts';
import { LiveText } from './live-text.ts';
import { ResponseEvents } from './response-events.ts';
import { conversationIdOf, readResponseId, responseIdOf } from './response-id.ts';
import {
  type OutputItem,
  type ResponseEnd,
  type ResponseHead,
  type ResponseStatus,
  responseObject,
} from './response-object.ts';
import { tenantOf } from './tenant.ts';

type StoredDeps = Pick<Deps, 'main' | 'runs' | 'blobs' | 'clock' | 'ids' | 'config'>;

/** A run that is read as a response. */
export interface StoredResponse {
  readonly run: Run;
  readonly workspace: Workspace;
  readonly runs: RunStore;
}

/** Parts of a request that names a response. */
interface Naming {
  readonly caller: Caller;
  readonly request: Pick<HttpRequest, 'headers'>;
  readonly params: { readonly response_id: string };
}

/**
 * Finds the run of a response. A request without a tenant sees those of all tenants, as with sessions. Throws NOT_FOUND, the
 * same for one of another tenant or workspace.
 */
export async function findResponse(deps: StoredDeps, { caller, request, params }: Naming): Promise<StoredResponse> {
  const id = params.response_id;
  const named = readResponseId(id);
  const workspace =
    named?.workspaceId === undefined
      ? caller.workspace
      : (await membershipOf(deps, caller, named.workspaceId))?.workspace;
  if (named === undefined || workspace === undefined) throw unknownResponse(id);
  const runs = new RunStore(deps, workspace.id);
  const run = await runs.find(named.runId);
  const tenantId = tenantOf(request.headers);
  const isOther = tenantId !== undefined && run?.tenantId !== tenantId;
  if (run === undefined || run.isErased || isInstallation(run) || isOther) throw unknownResponse(id);
  return { run, workspace, runs };
}

export const unknownResponse = (id: string, param = 'response_id'): OpenAiError =>
  new OpenAiError('NOT_FOUND', `There is no response with the id "${id.slice(0, 100)}".`, {
    param,
    openAiCode: 'not_found',
  });

const headOf = ({ run, workspace }: StoredResponse, caller: Caller): ResponseHead => ({
  runId: run.id,
  id: responseIdOf(run.id, workspace, caller.workspace),
  model: `${run.agentOrg}/${run.agentName}@${run.agentVersion}`,
  createdAt: Date.parse(run.createdAt),
  isBackground: false,
  isStored: true,
  conversationId: run.sessionId === null ? undefined : conversationIdOf(run.sessionId, workspace, caller.workspace),
});

const STATUSES: { readonly [status in Run['status']]: ResponseStatus } = {
  queued: 'queued',
  running: 'in_progress',
  waiting: 'in_progress',
  completed: 'completed',
  failed: 'failed',
  timeout: 'failed',
  cancelled: 'cancelled',
};

function endOf({ run }: StoredResponse): Omit<ResponseEnd, 'output'> {
  const { inputTokens, outputTokens, cacheReadTokens, errorCode, errorMessage } = run;
  const usage = { input_tokens: inputTokens ?? 0, output_tokens: outputTokens ?? 0 };
  return {
    status: STATUSES[run.status],
    ...(hasEnded(run.status) && {
      usage: { ...usage, ...(cacheReadTokens !== null && { cache_read_tokens: cacheReadTokens }) },
    }),
    ...(errorCode !== null && {
      error: errorObject(new PlatformError(errorCode, errorMessage ?? 'The run failed.'), run.id),
    }),
  };
}

/** Returns a response as it is now. */
export async function shownResponse(stored: StoredResponse, caller: Caller) {
  const { run, runs } = stored;
  const body = run.status === 'completed' ? await runs.body(run.id) : undefined;
  const output: OutputItem[] =
    body === undefined
      ? []
      : [{ type: 'message', id: `msg_${run.id}_0`, text: textOfAnswer(body.output), isDone: true }];
  return responseObject(headOf(stored, caller), { ...endOf(stored), output });
}

/** Returns what a response answers, as one message of the user. */
export async function inputItems({ run, runs }: StoredResponse) {
  const body = await runs.body(run.id);
  const id = `msg_${run.id}_in`;
  const text = textOfAnswer((body?.input ?? {}) as Json);
  const item = { id, type: 'message', role: 'user', status: 'completed', content: [{ type: 'input_text', text }] };
  return { object: 'list', data: [item], first_id: id, last_id: id, has_more: false };
}

/**
 * Returns the events of a response after one that the client has, from what its run has written so far: the same that a stream
 * of the call itself has.
 *
 * @param after Number of the last event that the client got. @default - none
 */
export async function watchResponse(
  deps: StoredDeps,
  stored: StoredResponse,
  caller: Caller,
  after?: number,
): Promise<Watched<string>> {
  const { run, runs, workspace } = stored;
  const agent = await findAnyVersion(deps, run.agentId, ANYONE);
  let records: string[] = [];
  const events = new ResponseEvents(headOf(stored, caller), (record) => records.push(record), after);
  const live = new LiveText(events, agent?.definition.output_schema === null);
  let last = 0;
  events.begin();
  return {
    async look() {
      // Read before the events, because a run writes all events before its end.
      const now = await runs.find(run.id);
      const isOver = now === undefined || hasEnded(now.status);
      for await (const { number, type, data } of liveEventsOf(
        deps,
        { workspaceId: workspace.id, runId: run.id },
        last,
      )) {
        last = number;
        if (type === 'progress') live.push(data as unknown as ProgressEvent);
      }
      if (now !== undefined && isOver) {
        const body = now.status === 'completed' ? await runs.body(run.id) : undefined;
        if (body !== undefined) live.finish(textOfAnswer(body.output));
        events.end(endOf({ ...stored, run: now }));
      }
      const seen = records;
      records = [];
      return { events: seen, isOver };
    },
  };
}
