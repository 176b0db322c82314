import { EventSourceParserStream } from 'eventsource-parser/stream';
import { useRef, useState } from 'react';
import { type ArgumentsOf, call, type SendOptions, sendOperation } from '../../api/client.ts';
import { ApiError } from '../../api-error.ts';
import { MAX_DIRECT_BYTES, sendAhead } from '../../publishing/send-file.ts';

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

interface Record_ {
  readonly type: string;
  readonly text?: string;
  readonly tool?: string;
  readonly args_brief?: string;
  readonly turn?: number;
  readonly status?: string;
  readonly name?: string;
  readonly discard_text?: boolean;
}

function after(progress: Progress, record: Record_): Progress {
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
    case 'retry':
      return { ...step('Retrying the model call'), ...(record.discard_text && { text: '' }) };
    default:
      return progress;
  }
}

/** A call submitted in the playground. */
interface Asked {
  readonly params: ArgumentsOf<'callAgent'>['params'];
  readonly input: Record<string, unknown>;
  readonly files: readonly File[];
  readonly headers: Readonly<Record<string, string>>;
}

/** Builds the request of a call. Uploads large parts first. Throws as {@link sendAhead}. */
async function requestOf(
  { params, input, files, headers }: Asked,
  options: SendOptions,
): Promise<ArgumentsOf<'callAgent'>> {
  const accept = { ...headers, accept: 'text/event-stream' };
  const json = new File([JSON.stringify(input)], 'input.json', { type: 'application/json' });
  const isLarge = [json, ...files].reduce((sum, { size }) => sum + size, 0) > MAX_DIRECT_BYTES;
  if (files.length === 0 && !isLarge) return { params, headers: accept, body: input } as never;
  if (files.length === 0) {
    const type = { 'content-type': 'application/vnd.platform.upload+json' };
    return {
      params,
      headers: { ...accept, ...type },
      body: { upload_id: await sendAhead('call', json, options) },
    } as never;
  }
  const body = new FormData();
  if (!isLarge) for (const file of files) body.append('files[]', file, file.name);
  else {
    const ahead = [];
    for (const file of files) {
      const upload_id = await sendAhead('call', file, options);
      ahead.push({ upload_id, name: file.name, ...(file.type !== '' && { content_type: file.type }) });
    }
    body.append('uploads', JSON.stringify(ahead));
  }
  body.append('metadata', JSON.stringify(input));
  return { params, headers: accept, body } as never;
}

/**
 * Calls an agent as a stream and reports progress. The run continues when the page is closed; only {@link cancel} ends
 * it.
 */
export function useCall(workspaceId: string) {
  const [progress, setProgress] = useState(NOTHING);
  const reader = useRef<AbortController>(undefined);

  async function run(asked: Asked): Promise<void> {
    reader.current?.abort();
    const own = new AbortController();
    reader.current = own;
    const change = (next: (before: Progress) => Progress) => {
      if (!own.signal.aborted) setProgress(next);
    };
    setProgress({ ...NOTHING, isRunning: true, startedAt: Date.now() });
    try {
      const options = { workspaceId, signal: own.signal };
      const response = await sendOperation('callAgent', await requestOf(asked, options), options);
      const runId = response.headers.get('x-run-id') ?? undefined;
      change((before) => ({ ...before, runId }));
      if (!response.headers.get('content-type')?.includes('event-stream')) {
        const body = await response.json().catch(() => undefined);
        if (!response.ok) throw new ApiError(response.status, body, response.headers);
        change((before) => ({ ...before, result: body }));
        return;
      }
      const records = response
        .body!.pipeThrough(new TextDecoderStream() as never)
        .pipeThrough(new EventSourceParserStream());
      let hasEnded = false;
      for await (const { event, data } of records as unknown as AsyncIterable<{ event?: string; data: string }>) {
        const value = JSON.parse(data);
        if (event === 'progress') change((before) => after(before, value));
        if (event === 'result') change((before) => ({ ...before, result: value }));
        if (event === 'error') change((before) => ({ ...before, error: new ApiError(422, value) }));
        hasEnded ||= event === 'result' || event === 'error';
      }
      if (!hasEnded) throw new ApiError(0);
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
