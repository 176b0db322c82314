import { useRef, useState } from 'react';
import { resumedText } from '#core/base/attempt-text.ts';
import { call, sendOperation } from '../../api/client.ts';
import { ApiError } from '../../api-error.ts';
import { type ProgressRecord, readRecords } from '../../live/read-records.ts';
import { type LiveEvent, watch } from '../../live/watch.ts';
import { type AskedCall, callRequest } from '../../publishing/call-request.ts';

/** Progress of a call. */
export interface Progress {
  readonly isRunning: boolean;
  readonly startedAt?: number;
  readonly endedAt?: number;
  /** Run id, once the run has started. */
  readonly runId?: string;
  /** Streamed text of the model. */
  readonly text: string;
  /** Output of the program. */
  readonly output: string;
  readonly steps: readonly string[];
  /** The success envelope. */
  readonly result?: { readonly data?: unknown; readonly metadata?: Readonly<Record<string, unknown>> };
  readonly error?: unknown;
}

const NOTHING: Progress = { isRunning: false, text: '', output: '', steps: [] };
/** Maximum length of displayed output; the run's page has the full output. */
const MAX_TEXT = 200_000;
const MAX_STEPS = 200;

const waitingText = ({ approvals = [] }: ProgressRecord): string => {
  const kinds = new Set(approvals.map(({ kind }) => kind));
  const tools = approvals.filter(({ kind }) => kind === 'approve').map(({ tool }) => tool);
  if (tools.length > 0) return `Waiting for the approval of ${tools.join(', ')}: open the run to decide`;
  return kinds.has('answer') ? 'Waiting for an answer: open the run to give it' : 'Waiting';
};

function after(progress: Progress, record: ProgressRecord): Progress {
  const { text = '', tool, args_brief = '', turn, status } = record;
  const step = (line: string): Progress => ({ ...progress, steps: [...progress.steps, line].slice(-MAX_STEPS) });
  switch (record.type) {
    case 'text_delta':
      return { ...progress, text: (progress.text + text).slice(-MAX_TEXT) };
    case 'stdout':
    case 'stderr':
      return { ...progress, output: (progress.output + text).slice(-MAX_TEXT) };
    case 'sandbox_start':
      return step('Starting the sandbox');
    case 'turn_start':
      return step(`Turn ${turn}`);
    case 'tool_call':
      return step(`${tool}: ${args_brief}`);
    case 'tool_result':
      return status === 'ok' ? progress : step(`${tool} failed`);
    case 'waiting':
      return step(waitingText(record));
    case 'resumed':
      return { ...step(resumedText(record)), text: '' };
    case 'retry':
      return { ...step('Retrying the model call'), ...(record.discard_text && { text: '' }) };
    default:
      return progress;
  }
}

/**
 * Calls an agent as a stream and reports progress. The run continues when the page is closed; only {@link cancel} ends
 * it.
 */
export function useCall(workspaceId: string) {
  const [progress, setProgress] = useState(NOTHING);
  const reader = useRef<AbortController>(undefined);

  async function run(asked: AskedCall): Promise<void> {
    reader.current?.abort();
    const own = new AbortController();
    reader.current = own;
    const change = (next: (before: Progress) => Progress) => {
      if (!own.signal.aborted) setProgress(next);
    };
    setProgress({ ...NOTHING, isRunning: true, startedAt: Date.now() });
    /** Shows a durable run that is not over when its call is, from after an event or from its beginning. */
    async function follow(run_id: string, last?: string | number): Promise<void> {
      const params = { workspace_id: workspaceId, run_id };
      const args = { params, query: last === undefined ? {} : { after: String(last) } };
      const ignore = () => {};
      const onEvent = ({ type, data }: LiveEvent) => {
        if (type === 'progress') change((before) => after(before, data as unknown as ProgressRecord));
      };
      await watch({ name: 'listRunEvents', args: args as never, onEvent, onState: ignore, onGap: ignore }, own.signal);
      if (own.signal.aborted) return;
      const ended = await call('getRun', { params }, { signal: own.signal });
      const { status, error_code, error_message, output_data, agent_version, duration_ms } = ended;
      const metadata = { version: agent_version, processing_time_ms: duration_ms };
      if (status === 'completed') return change((before) => ({ ...before, result: { data: output_data, metadata } }));
      const message = error_message ?? `The run ended with the status ${status}.`;
      throw new ApiError(422, { error: { code: error_code ?? 'INTERNAL_ERROR', message } });
    }
    try {
      const options = { workspaceId, signal: own.signal };
      const response = await sendOperation('callAgent', await callRequest(asked, options), options);
      const runId = response.headers.get('x-run-id') ?? undefined;
      change((before) => ({ ...before, runId }));
      if (!response.headers.get('content-type')?.includes('event-stream')) {
        const body = await response.json().catch(() => undefined);
        if (!response.ok) throw new ApiError(response.status, body, response.headers);
        if (response.status === 202) return await follow(body.run_id);
        change((before) => ({ ...before, result: body }));
        return;
      }
      const last = await readRecords(response, (record) => change((before) => after(before, record)));
      if (own.signal.aborted) return;
      if (last?.event === 'result')
        return change((before) => ({ ...before, result: last.value as Progress['result'] }));
      if (last?.event === 'error') throw new ApiError(422, last.value);
      if (last?.event === 'continues') return await follow(String(last.value.run_id), last.value.after as number);
      // The connection was lost: the run has not ended with it.
      if (runId === undefined) throw new ApiError(0);
      change((before) => ({ ...before, text: '', output: '', steps: [] }));
      await follow(runId);
    } catch (error) {
      change((before) => ({ ...before, error }));
    } finally {
      change((before) => ({ ...before, isRunning: false, endedAt: Date.now() }));
    }
  }

  async function cancel(): Promise<void> {
    const { runId } = progress;
    if (runId === undefined) return;
    await call('requestRunCancel', { params: { workspace_id: workspaceId, run_id: runId } } as never);
  }

  return { progress, run, cancel };
}
