import { type AnswerOf, call, sendOperation } from '../../api/client.ts';
import { ApiError } from '../../api-error.ts';
import type { ChatTransport, Draft, RunWatcher } from '../../chat/transport.ts';
import { type ProgressRecord, readRecords } from '../../live/read-records.ts';
import { watch } from '../../live/watch.ts';
import { callRequest } from '../../publishing/call-request.ts';
import { stepsOf } from './tool-steps.ts';
import type { Session } from './use-sessions.ts';

export type ChatAgent = AnswerOf<'listAgents'>[number];

/** Steps that are read of a run: its first ones. */
const MAX_EVENTS = 1_000;

/** Reaches a session with the rights of the signed-in user. */
export function sessionTransport(
  workspaceId: string,
  agent: ChatAgent,
  { id, pin_version }: Pick<Session, 'id' | 'pin_version'>,
): ChatTransport {
  const params = { workspace_id: workspaceId, session_id: id };
  const paramsOf = (run_id: string) => ({ workspace_id: workspaceId, run_id });

  async function follow(runId: string, { signal, onRecord, onRestart }: RunWatcher, after?: string): Promise<void> {
    if (after === undefined) onRestart();
    await watch(
      {
        name: 'listRunEvents',
        args: { params: paramsOf(runId), query: after === undefined ? {} : { after } },
        onEvent: ({ type, data }) => {
          if (type === 'progress') onRecord(data as unknown as ProgressRecord);
        },
        onState: () => {},
        onGap: onRestart,
      },
      signal,
    );
  }

  function post({ text, input, files = [] }: Draft, signal: AbortSignal): Promise<Response> {
    if (files.length === 0) {
      const body = input === undefined ? { text } : { input: { ...input } };
      const request = { params, headers: { accept: 'text/event-stream' }, body };
      return sendOperation('sendSessionMessage', request as never, { signal });
    }
    // Files come with a call only.
    const { org_slug: org, name, default_endpoint: endpoint } = agent;
    const asked = {
      params: { org, agent: name, version: pin_version ?? 'latest', endpoint },
      input: { ...(input ?? { message: text }) },
      files,
      headers: { 'x-platform-session': id },
    };
    const options = { workspaceId, signal };
    return callRequest(asked, options).then((request) => sendOperation('callAgent', request, options));
  }

  return {
    list: ({ limit, cursor }) => call('listSessionMessages', { params, query: { order: 'desc', limit, cursor } }),
    follow: (runId, watcher) => follow(runId, watcher),
    stop: async (runId) => {
      await call('requestRunCancel', { params: paramsOf(runId) });
    },
    async send(draft, watcher) {
      const { signal, onRun, onRecord } = watcher;
      const response = await post(draft, signal);
      const runId = response.headers.get('x-run-id') ?? undefined;
      if (runId !== undefined) onRun(runId);
      if (!response.headers.get('content-type')?.includes('event-stream')) {
        const body = await response.json().catch(() => undefined);
        if (!response.ok) throw new ApiError(response.status, body, response.headers);
        if (response.status !== 202) return;
        onRun(body.run_id);
        return follow(body.run_id, watcher);
      }
      const last = await readRecords(response, onRecord);
      if (signal.aborted || last?.event === 'result' || last?.event === 'error') return;
      if (last?.event === 'continues') return follow(String(last.value.run_id), watcher, String(last.value.after));
      // The connection was lost: the run has not ended with it.
      if (runId === undefined) throw new ApiError(0);
      return follow(runId, watcher);
    },
    async steps(runId) {
      const { events } = await call('listTraceEvents', {
        params: { workspace_id: workspaceId, trace_id: runId },
        query: { content: 'true', limit: MAX_EVENTS },
      });
      return stepsOf(events);
    },
  };
}
