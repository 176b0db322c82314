/**
 * What every client for TypeScript consists of, besides its types and endpoints. `URL_TEXT` is a string literal. It needs
 * `fetch` and nothing else, so it runs in Node, Deno, Bun and browsers.
 */
export const TYPESCRIPT_RUNTIME = String.raw`/** The platform from which this file was made. */
const PLATFORM_URL = URL_TEXT;

/** Where a call goes, and as whom. */
export interface Options {
  /** An API key. Default: the variable PLATFORM_API_KEY. */
  readonly key?: string | undefined;
  /** Address of the platform. Default: the variable PLATFORM_API_URL, else PLATFORM_URL. */
  readonly url?: string | undefined;
  /** Id of the workspace to act in. */
  readonly workspace?: string | undefined;
  /** Your customer, whose sessions and memory are apart from those of others. */
  readonly tenant?: string | undefined;
  /** Session that the call continues: its id, or a name of yours, which opens it. */
  readonly session?: string | undefined;
  /** A call that is repeated with the same key gets the first answer, and runs nothing. */
  readonly idempotencyKey?: string | undefined;
  /** Stops waiting. The run continues. */
  readonly signal?: AbortSignal | undefined;
  readonly fetch?: typeof globalThis.fetch | undefined;
}

export interface Answer<Data> {
  readonly data: Data;
  readonly warnings: ReadonlyArray<{ readonly code: string; readonly field?: string; readonly message: string }>;
  readonly requestId: string | undefined;
  readonly runId: string | undefined;
  readonly sessionId: string | undefined;
  /** Version of the agent, such as v3. */
  readonly version: string | undefined;
}

/** What happens in a run: progress as it comes, and its answer at the end. */
export type StreamEvent<Data> =
  | { readonly type: 'progress'; readonly progress: { readonly type: string; readonly [name: string]: unknown } }
  | { readonly type: 'answer'; readonly answer: Answer<Data> };

/** A run in the background. */
export interface Job<Data> {
  readonly runId: string;
  /** Waits for the end of the run. */
  result(options?: { readonly signal?: AbortSignal | undefined }): Promise<Answer<Data>>;
  cancel(): Promise<void>;
}

/** A call that was refused or failed. */
export class AgentError extends Error {
  /** Such as INVALID_INPUT; NETWORK_ERROR without an answer. */
  readonly code: string;
  /** HTTP status; undefined without an answer. */
  readonly status: number | undefined;
  readonly requestId: string | undefined;
  readonly runId: string | undefined;
  /** How to fix it. */
  readonly hint: string | undefined;
  readonly isRetryable: boolean;
  /** Seconds. */
  readonly suggestedWaitTime: number | undefined;

  constructor(message: string, failure: Failure) {
    super(message, failure.cause === undefined ? undefined : { cause: failure.cause });
    this.name = 'AgentError';
    this.code = failure.code;
    this.status = failure.status;
    this.requestId = failure.requestId;
    this.runId = failure.runId;
    this.hint = failure.hint;
    this.isRetryable = failure.isRetryable ?? false;
    this.suggestedWaitTime = failure.suggestedWaitTime;
  }
}

interface Failure {
  readonly code: string;
  readonly status?: number | undefined;
  readonly requestId?: string | undefined;
  readonly runId?: string | undefined;
  readonly hint?: string | undefined;
  readonly isRetryable?: boolean | undefined;
  readonly suggestedWaitTime?: number | undefined;
  readonly cause?: unknown;
}

export interface Endpoint<In, Data> {
  /** Calls the agent and waits for its answer. */
  (input: In, options?: Options): Promise<Answer<Data>>;
  /** Calls the agent and shows what happens. */
  stream(input: In, options?: Options): AsyncGenerator<StreamEvent<Data>, void>;
  /** Calls the agent without waiting for it. */
  background(input: In, options?: Options): Promise<Job<Data>>;
}

type Json = { readonly [name: string]: unknown };

function endpointOf<In, Data>(path: string): Endpoint<In, Data> {
  const call = async (input: In, options: Options = {}): Promise<Answer<Data>> => {
    const response = await requestTo(path, options, input, {});
    const body = objectOf(await jsonOf(response));
    return response.status === 202 ? jobOf<Data>(body, options).result(options) : answerOf<Data>(body, response.headers);
  };
  async function* stream(input: In, options: Options = {}): AsyncGenerator<StreamEvent<Data>, void> {
    const response = await requestTo(path, options, input, { Accept: 'text/event-stream' });
    for await (const { name, data } of eventsOf(response)) {
      const body = objectOf(data);
      if (name === 'progress') yield { type: 'progress', progress: { type: 'unknown', ...body } };
      else if (name === 'error') throw errorOf(undefined, body, response.headers);
      else if (name === 'result') return yield { type: 'answer', answer: answerOf<Data>(body, response.headers) };
      else if (name === 'continues') {
        const job = jobOf<Data>({ ...body, url: String(body.url).replace(/\/events$/, '') }, options);
        return yield { type: 'answer', answer: await job.result(options) };
      }
    }
    const runId = response.headers.get('x-run-id') ?? undefined;
    throw new AgentError('The stream ended before the run', { code: 'NETWORK_ERROR', isRetryable: true, runId });
  }
  const background = async (input: In, options: Options = {}): Promise<Job<Data>> => {
    const response = await requestTo(path, options, input, { Prefer: 'respond-async' });
    return jobOf<Data>(objectOf(await jsonOf(response)), options);
  };
  return Object.assign(call, { stream, background });
}

/** The options are those of the call: the run is read with its key. */
function jobOf<Data>(accepted: Json, options: Options): Job<Data> {
  const path = String(accepted.url);
  const runId = String(accepted.run_id);
  const read = async (query: string, signal: AbortSignal | undefined) =>
    objectOf(await jsonOf(await requestTo(path + query, { ...options, signal }, undefined, {})));
  return {
    runId,
    async result({ signal } = {}) {
      for (let wait = 500; ; wait = Math.min(wait * 1.5, 5000)) {
        // Input and output may be large.
        const { status } = await read('?body=false', signal);
        if (['completed', 'failed', 'timeout', 'cancelled'].includes(String(status))) break;
        await pause(wait, signal);
      }
      const record = await read('', signal);
      const requestId = 'req_' + runId.replaceAll('-', '');
      if (record.status === 'completed') {
        const version = textOf(record.agent_version);
        const { session_id } = objectOf(accepted.metadata);
        return { data: record.output_data as Data, warnings: [], requestId, runId, sessionId: textOf(session_id), version };
      }
      const code = record.status === 'timeout' ? 'TIMEOUT' : record.status === 'cancelled' ? 'RUN_CANCELLED' : 'INTERNAL_ERROR';
      const message = textOf(record.error_message) ?? 'The run ended as ' + String(record.status);
      throw new AgentError(message, { code: textOf(record.error_code) ?? code, requestId, runId });
    },
    async cancel() {
      await requestTo(path, options, undefined, {}, 'DELETE');
    },
  };
}

async function requestTo(
  path: string,
  options: Options,
  input: unknown,
  more: { readonly [name: string]: string },
  method = input === undefined ? 'GET' : 'POST',
): Promise<Response> {
  const key = options.key ?? variable('PLATFORM_API_KEY');
  const url = (options.url ?? variable('PLATFORM_API_URL') ?? PLATFORM_URL).replace(/\/+$/, '');
  if (key === undefined) {
    throw new AgentError('There is no API key', { code: 'UNAUTHORIZED', hint: 'Set PLATFORM_API_KEY, or pass the option key.' });
  }
  // The address of a run comes from an answer: the key goes to the platform alone.
  if (!/^\/(?!\/)/.test(path)) throw new AgentError('The answer names no path: ' + path, { code: 'NETWORK_ERROR' });
  const isCall = input !== undefined;
  const { workspace, tenant, session, idempotencyKey, signal, fetch: send = fetch } = options;
  const headers: { [name: string]: string } = { Authorization: 'Bearer ' + key, ...more };
  if (workspace !== undefined) headers['X-Workspace-Id'] = workspace;
  if (isCall) headers['Content-Type'] = 'application/json';
  if (isCall && tenant !== undefined) headers['X-Platform-Tenant'] = tenant;
  if (isCall && session !== undefined) headers['X-Platform-Session'] = session;
  if (isCall && idempotencyKey !== undefined) headers['Idempotency-Key'] = idempotencyKey;
  let response: Response;
  try {
    const body = isCall ? JSON.stringify(input) : null;
    response = await send(url + path, { method, headers, body, signal: signal ?? null, redirect: 'error' });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new AgentError(method + ' ' + url + path + ' failed: ' + String(cause), { code: 'NETWORK_ERROR', isRetryable: true, cause });
  }
  if (response.ok) return response;
  throw errorOf(response.status, objectOf(await response.json().catch(() => undefined)), response.headers);
}

function errorOf(status: number | undefined, body: Json, headers: Headers): AgentError {
  const error = objectOf(body.error);
  const message = textOf(error.message) ?? 'The platform answered with the status ' + String(status);
  const wait = error.suggested_wait_time;
  return new AgentError(message, {
    code: textOf(error.code) ?? 'UNKNOWN',
    status,
    requestId: textOf(objectOf(body.metadata).request_id) ?? headers.get('x-request-id') ?? undefined,
    runId: headers.get('x-run-id') ?? undefined,
    hint: textOf(error.hint),
    isRetryable: error.is_retryable === true,
    suggestedWaitTime: typeof wait === 'number' ? wait : undefined,
  });
}

function answerOf<Data>(body: Json, headers: Headers): Answer<Data> {
  const metadata = objectOf(body.metadata);
  return {
    data: body.data as Data,
    warnings: Array.isArray(body.warnings) ? body.warnings : [],
    requestId: textOf(metadata.request_id),
    runId: headers.get('x-run-id') ?? undefined,
    sessionId: textOf(metadata.session_id),
    version: textOf(metadata.version),
  };
}

/** The events of a stream (text/event-stream). */
async function* eventsOf(response: Response): AsyncGenerator<{ readonly name: string; readonly data: unknown }, void> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (let done = false; !done; ) {
      const piece = await reader.read();
      done = piece.done;
      text += decoder.decode(piece.value, { stream: !done });
      const blocks = text.split(/\r?\n\r?\n/);
      text = blocks.pop() ?? '';
      for (const block of blocks) {
        const lines = block.split(/\r?\n/);
        const valueOf = (field: string) =>
          lines.filter((line) => line.startsWith(field)).map((line) => line.slice(field.length).replace(/^ /, '')).join('\n');
        const data = valueOf('data:');
        if (data !== '') yield { name: valueOf('event:'), data: JSON.parse(data) };
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

async function jsonOf(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch (cause) {
    throw new AgentError('The answer is not JSON', { code: 'NETWORK_ERROR', status: response.status, isRetryable: true, cause });
  }
}

const objectOf = (value: unknown): Json => (typeof value === 'object' && value !== null ? (value as Json) : {});
const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** Browsers have no environment. */
function variable(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: { [name: string]: string | undefined } } };
  return process?.env?.[name] || undefined;
}

const pause = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
`;
