import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { anthropic } from './anthropic.ts';
import { gemini } from './gemini.ts';
import { openaiChat } from './openai-chat.ts';
import { openaiResponses } from './openai-responses.ts';
import { type Answer, type Asked, fillIn, type ScriptedTurn, type Wire } from './turns.ts';

/**
 * A language model that says what it is told to, over HTTP in the wire formats of the real ones:
 *
 * | provider | base URL | answers | covered |
 * |---|---|---|---|
 * | Anthropic | `/anthropic/v1` | `POST /messages` | text, `tool_use` (parallel), thinking with a checked signature, stop reasons, cache tokens, named events with `ping` |
 * | OpenAI | `/openai/v1` | `POST /responses`, `POST /chat/completions` | text, function calls (parallel), reasoning items with checked content, `incomplete`, JSON mode with its rule on the word "json", cached tokens |
 * | Gemini | `/gemini/v1beta` | `POST /models/{model}:generateContent`, `:streamGenerateContent` | text, function calls (parallel) with checked thought signatures, thoughts, finish reasons, cached tokens, CRLF framing |
 * | local | `/ollama/v1` | `POST /chat/completions` | as OpenAI's, without a key |
 *
 * All of them: whole and streamed answers; errors in the provider's own form (a missing key, a key with `refused` in it,
 * conversations that the provider would not take, also when another status is scripted, `Retry-After`); and the faults of
 * {@link ScriptedTurn}. Not covered: images, files, tools that run at the provider, log probabilities, batches.
 *
 * What is answered to a request, the first that there is:
 * 1. a directive in the conversation's text: `[[llm TURN]]` or `[[llm [TURN, TURN, ...]]]`, TURN being a
 *    {@link ScriptedTurn} in JSON; of several, the nth turn of the model in the conversation;
 * 2. the rule whose marker is in the conversation's text, in the same way: neither keeps a state, so calls at the same
 *    time do not mix;
 * 3. the next turn of the queue of the request's API key, then of the queue for any key;
 * 4. the default, the text `ok`.
 *
 * From another process: `POST /script` {@link Script}, `GET /requests` (newest last), `DELETE /script` forgets
 * everything, `GET /health`.
 */
export interface ScriptedLlm {
  /** Without a slash at the end. */
  readonly url: string;
  /** The platform's settings for it. */
  readonly settings: Readonly<Record<string, string>>;
  /** The last 1000 requests, oldest first. */
  readonly requests: readonly RecordedRequest[];
  /** Requests in progress. */
  readonly open: number;
  script(script: Script): void;
  /** Answers the next requests with these turns, in order. */
  queue(...turns: ScriptedTurn[]): void;
  /** Releases all current and later turns that wait for this name. */
  release(name: string): void;
  /** Forgets scripts and requests. */
  reset(): void;
  close(): Promise<void>;
}

export interface Script {
  readonly turns?: readonly ScriptedTurn[];
  /** API key whose requests the turns are for. @default any */
  readonly key?: string;
  /** The last turn also answers all later requests. */
  readonly rules?: readonly { readonly marker: string; readonly turns: readonly ScriptedTurn[] }[];
  readonly default?: ScriptedTurn;
}

export interface RecordedRequest {
  /** First segment of the path: `anthropic`, `openai`, `gemini`, `ollama`. */
  readonly provider: string;
  readonly path: string;
  readonly apiKey: string | undefined;
  readonly model: string;
  readonly stream: boolean;
  /** All text of the conversation. */
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: bodies of four APIs.
  readonly body: any;
  readonly headers: IncomingMessage['headers'];
  /** The outcome: `gone` if the client disconnected before the end. */
  outcome: 'open' | 'answered' | 'failed' | 'gone';
}

const MAX_RECORDED = 1000;

export async function startScriptedLlm({ port = 0, host = '127.0.0.1' } = {}): Promise<ScriptedLlm> {
  const model = new ScriptedModel();
  const server = createServer((request, response) => {
    model.handle(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const url = `http://${host}:${(server.address() as AddressInfo).port}`;
  return {
    url,
    settings: {
      PLATFORM_ANTHROPIC_URL: `${url}/anthropic/v1`,
      PLATFORM_OPENAI_URL: `${url}/openai/v1`,
      PLATFORM_GEMINI_URL: `${url}/gemini/v1beta`,
      PLATFORM_OLLAMA_URL: `${url}/ollama/v1`,
    },
    get requests() {
      return model.requests;
    },
    get open() {
      return model.requests.filter(({ outcome }) => outcome === 'open').length;
    },
    script: (script) => model.script(script),
    queue: (...turns) => model.script({ turns }),
    release: (name) => model.gate(name).resolve(),
    reset: () => model.reset(),
    close: () => closeServer(server),
  };
}

async function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise<void>((resolve) => server.close(() => resolve()));
}

const ANY_KEY = '';

class ScriptedModel {
  requests: RecordedRequest[] = [];
  #queues = new Map<string, ScriptedTurn[]>();
  #rules: NonNullable<Script['rules']> = [];
  #default: ScriptedTurn = {};
  #gates = new Map<string, PromiseWithResolvers<void>>();

  /** Resolved when the gate opens. */
  gate(name: string): PromiseWithResolvers<void> {
    if (!this.#gates.has(name)) this.#gates.set(name, Promise.withResolvers());
    return this.#gates.get(name)!;
  }

  script({ turns = [], key = ANY_KEY, rules = [], default: fallback }: Script): void {
    this.#queues.set(key, [...(this.#queues.get(key) ?? []), ...turns]);
    // The newest rule wins: a test may replace an older one.
    this.#rules = [...rules, ...this.#rules];
    if (fallback) this.#default = fallback;
  }

  reset(): void {
    this.requests = [];
    this.#queues.clear();
    this.#rules = [];
    this.#default = {};
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url!, 'http://scripted');
    const text = await readBody(request);
    const wire = request.method === 'POST' ? wireOf(url.pathname) : undefined;
    if (wire === undefined) {
      this.#control(request.method!, url.pathname, text, response);
      return;
    }

    const body = JSON.parse(text);
    const apiKey = wire.keyOf(request.headers);
    const asked = wire.read(body, url, request.headers);
    const provider = url.pathname.split('/')[1]!;
    const record: RecordedRequest = {
      provider,
      path: url.pathname,
      apiKey,
      model: asked.model,
      stream: asked.stream,
      text: asked.text,
      body,
      headers: request.headers,
      outcome: 'open',
    };
    this.requests.push(record);
    if (this.requests.length > 2 * MAX_RECORDED) this.requests = this.requests.slice(-MAX_RECORDED);
    const gone = new AbortController();
    response.once('close', () => {
      if (record.outcome === 'open') record.outcome = 'gone';
      gone.abort();
    });
    const turn = refusal(provider, apiKey, asked) ?? this.#choose(asked, apiKey);
    try {
      if (turn.waitFor !== undefined) await this.gate(turn.waitFor).promise;
      await answer(wire, turn, asked, apiKey, response, gone.signal);
      if (record.outcome === 'open') record.outcome = turn.status === undefined ? 'answered' : 'failed';
    } catch (error) {
      if (!gone.signal.aborted) throw error;
    }
  }

  #choose(asked: Asked, apiKey: string | undefined): ScriptedTurn {
    const scripted = directiveIn(asked.text) ?? this.#rules.find(({ marker }) => asked.text.includes(marker))?.turns;
    if (scripted !== undefined) return scripted[Math.min(asked.turns, scripted.length - 1)] ?? {};
    return this.#queues.get(apiKey ?? ANY_KEY)?.shift() ?? this.#queues.get(ANY_KEY)?.shift() ?? this.#default;
  }

  #control(method: string, path: string, text: string, response: ServerResponse): void {
    const answers: Record<string, () => unknown> = {
      'POST /script': () => this.script(JSON.parse(text)),
      'DELETE /script': () => this.reset(),
      'GET /requests': () => this.requests,
      'GET /health': () => ({ status: 'ok' }),
    };
    const found = answers[`${method} ${path}`];
    const value = found ? (found() ?? {}) : { error: { message: `The scripted LLM does not know ${method} ${path}.` } };
    response.writeHead(found ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  }
}

function wireOf(path: string): Wire | undefined {
  if (path.endsWith('/messages')) return anthropic;
  if (path.endsWith('/responses')) return openaiResponses;
  if (path.endsWith('/chat/completions')) return openaiChat;
  return /\/models\/[^/]+:(g|streamG)enerateContent$/.test(path) ? gemini : undefined;
}

function readBody(request: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => resolve(Buffer.concat(chunks).toString()));
    request.on('error', reject);
  });
}

/** The provider's answer before its model is asked. */
function refusal(provider: string, apiKey: string | undefined, { problem }: Asked): ScriptedTurn | undefined {
  if (provider !== 'ollama') {
    // Google calls a wrong key a bad request.
    const status = provider === 'gemini' ? 400 : 401;
    if (apiKey === undefined) return { status, message: 'No API key was given.' };
    if (apiKey.includes('refused')) return { status, message: 'API key not valid: $KEY.' };
  }
  return problem === undefined ? undefined : { status: 400, message: problem };
}

const DIRECTIVE = '[[llm ';

/** The first directive that parses: the input's JSON contains an escaped copy of the text. */
function directiveIn(text: string): readonly ScriptedTurn[] | undefined {
  for (let at = text.indexOf(DIRECTIVE); at >= 0; at = text.indexOf(DIRECTIVE, at + 1)) {
    for (let end = text.indexOf(']]', at); end >= 0; end = text.indexOf(']]', end + 1)) {
      try {
        // The end may be that of the array within.
        const turns = JSON.parse(text.slice(at + DIRECTIVE.length, end)) as ScriptedTurn | ScriptedTurn[];
        return Array.isArray(turns) ? turns : [turns];
      } catch {
        // A later end may fit.
      }
    }
  }
  return undefined;
}

async function answer(
  wire: Wire,
  turn: ScriptedTurn,
  asked: Asked,
  apiKey: string | undefined,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
  if (turn.hang) {
    await new Promise<void>((resolve) => gone.addEventListener('abort', () => resolve()));
    return;
  }
  if (turn.delayMs) await setTimeout(turn.delayMs, undefined, { signal: gone });
  if (turn.contentType !== undefined) {
    response.writeHead(turn.status ?? 200, { 'content-type': turn.contentType });
    response.end('<html><body>This is not the API that you are looking for.</body></html>');
    return;
  }
  if (turn.status !== undefined) {
    const { status, retryAfter, message = `Scripted error ${status}.` } = turn;
    response.writeHead(status, {
      'content-type': 'application/json',
      ...(retryAfter !== undefined && { 'retry-after': String(retryAfter) }),
    });
    response.end(JSON.stringify(wire.error(status, message.replaceAll('$KEY', apiKey ?? ''), retryAfter)));
    return;
  }
  const filled = fillIn(turn, asked);
  if (asked.stream) await writeStream(wire, turn, filled, response, gone);
  else writeWhole(wire, turn, filled, response);
}

function writeWhole(wire: Wire, turn: ScriptedTurn, filled: Answer, response: ServerResponse): void {
  const body = Buffer.from(JSON.stringify(wire.body(filled)));
  const half = body.subarray(0, body.byteLength >> 1);
  if (turn.breakOff === 'reset') {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.byteLength });
    response.write(half, () => response.socket?.resetAndDestroy());
    return;
  }
  const sent = turn.malformed || turn.breakOff === 'end' ? half : body;
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': sent.byteLength });
  response.end(sent);
}

async function writeStream(
  wire: Wire,
  turn: ScriptedTurn,
  filled: Answer,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  const all = wire.frames(filled);
  const isCut = turn.breakOff !== undefined || turn.malformed || turn.streamError;
  const frames = isCut ? all.slice(0, all.length >> 1) : all;
  if (turn.malformed) frames.push(all[all.length >> 1]!.slice(0, -10).concat('\n\n'));
  if (turn.streamError) frames.push(wire.errorFrame('Overloaded'));
  if (turn.chunkDelayMs) {
    for (const [index, frame] of frames.entries()) {
      if (index > 0) await setTimeout(turn.chunkDelayMs, undefined, { signal: gone });
      response.write(frame);
    }
  } else {
    response.write(frames.join(''));
  }
  if (turn.breakOff === 'reset') response.write('', () => response.socket?.resetAndDestroy());
  else response.end();
}
