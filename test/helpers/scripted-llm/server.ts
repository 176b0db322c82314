import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import models from '#core/models/models.json' with { type: 'json' };
import { LLM_PROVIDERS } from '#core/ports/llm.ts';
import type { ModelFacts } from '#core/ports/model-table.ts';
import { answer, statusOf } from './answer.ts';
import { anthropic } from './anthropic.ts';
import { type BedrockAccount, bedrock, isSigned, signatureProblem } from './bedrock.ts';
import { type Faults, ScriptedFaults } from './faults.ts';
import { lineOf } from './files.ts';
import { gemini } from './gemini.ts';
import { openaiChat } from './openai-chat.ts';
import { openaiResponses } from './openai-responses.ts';
import { PromptCache } from './prompt-cache.ts';
import { settingProblem } from './settings.ts';
import {
  type Asked,
  endsOf,
  prefixesOf,
  prefixIn,
  type Read,
  type ScriptedTurn,
  type Usage,
  type Wire,
} from './turns.ts';

/**
 * Scripted language model over HTTP, in the wire formats of the real providers:
 *
 * | provider | base URL | answers | covered |
 * |---|---|---|---|
 * | Anthropic | `/anthropic/v1` | `POST /messages` | text, `tool_use` (parallel), thinking with a checked signature,
 * stop reasons, cache tokens, named events with `ping` |
 * | OpenAI | `/openai/v1` | `POST /responses`, `POST /chat/completions` | text, function calls (parallel), reasoning
 * items with checked content, `incomplete`, JSON mode with its rule on the word "json", cached tokens |
 * | Bedrock | `/anthropic/v1`, signed | `POST /messages` | like Anthropic, with a checked signature; 403 for a wrong
 * one |
 * | Gemini | `/gemini/v1beta` | `POST /models/{model}:generateContent`, `:streamGenerateContent` | text, function calls
 * (parallel) with checked thought signatures, thoughts, finish reasons, cached tokens, CRLF framing |
 * | local | `/ollama/v1` | `POST /chat/completions` | like OpenAI, without a key |
 *
 * All providers support complete and streamed answers, errors in the provider's own form (a missing key, a key that
 * contains
 * `refused`, an invalid conversation even if another status is scripted, `Retry-After`), and the faults of
 * {@link ScriptedTurn}. Answers are cut at the request's output token limit, which includes thoughts. The server
 * refuses a limit above the model's maximum, settings that the model does not support, and a conversation longer than
 * the model's window; it cuts an answer that fills the window. It refuses a signed thought (Anthropic and OpenAI's
 * Responses; OpenAI itself drops it silently) behind a changed conversation. Prompt caches work by key and model as the
 * providers' do: Anthropic's by at most four breakpoints that look back 20 parts, OpenAI's and Gemini's by the longest
 * prefix. All have a minimum number of tokens and a lifetime. A request that forces a tool (a named choice, or
 * `allowed_tools`) gets a call of that tool. Models without forced choice refuse it, and Anthropic's refuse the removal
 * of tools inside a conversation where the provider would. Images, PDFs and recordings are decoded; a wrong type, size
 * or count is refused with the provider's text. The turn `look` lists the files. Schemas for structured output are
 * refused where the provider would refuse them, and so are lone surrogates, blank texts (Anthropic), ids of calls that
 * occur twice, and names, property keys and schemas of tools that Anthropic or OpenAI do not accept. Anthropic's model answers with the tool
 * `json` if requested and if the text is a JSON object. Not covered: grammars (a text is sent as scripted, whatever the
 * schema), files by URL or id, provider-side tools, log probabilities, batches.
 *
 * The first match answers a request:
 * 1. a directive in the conversation's text: `[[llm TURN]]` or `[[llm [TURN, TURN, ...]]]`, where TURN is a
 *    {@link ScriptedTurn} in JSON; in a list, the nth turn of the model in the conversation;
 * 2. the rule whose marker is in the conversation's text, in the same way. Both are stateless, so concurrent calls do
 * not
 *    mix; only a turn with `times` is remembered, by key and conversation;
 * 3. the next turn of the queue of the request's API key, then of the queue for any key;
 * 4. the default, the text `ok`.
 *
 * `faults` take precedence over all of these: they replace a share of all requests, chosen by a seed.
 *
 * From another process: `POST /script` {@link Script}, `GET /requests` (newest last), `DELETE /script` resets
 * everything, `GET /health`.
 */
export interface ScriptedLlm {
  /** URL without a slash at the end. */
  readonly url: string;
  /** Settings that connect the platform to this server. */
  readonly settings: Readonly<Record<string, string>>;
  /** The last 1000 requests, oldest first. */
  readonly requests: readonly RecordedRequest[];
  /** Number of all requests to models. */
  readonly asked: number;
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
  /** API key whose requests get the turns. @default any */
  readonly key?: string;
  /** The last turn also answers all later requests. */
  readonly rules?: readonly { readonly marker: string; readonly turns: readonly ScriptedTurn[] }[];
  readonly default?: ScriptedTurn;
  readonly faults?: Faults;
}

export interface RecordedRequest {
  /** First segment of the path: `anthropic`, `openai`, `gemini`, `ollama`; `bedrock` if the request is signed. */
  readonly provider: string;
  readonly path: string;
  readonly apiKey: string | undefined;
  readonly model: string;
  readonly stream: boolean;
  /** All text of the conversation. */
  readonly text: string;
  /** Images, PDFs and recordings of the conversation, each described by {@link lineOf}. */
  readonly files: readonly string[];
  // biome-ignore lint/suspicious/noExplicitAny: bodies of four APIs.
  readonly body: any;
  readonly headers: IncomingMessage['headers'];
  /** Size of the body in bytes. */
  readonly bytes: number;
  /**
   * Cumulative hash at each part that the model reads (tools, system message, parts of messages): a conversation that
   * was only appended to begins with the hashes of the previous request.
   */
  readonly prefixes: readonly string[];
  /** Tokens of the answer, even if it was interrupted. */
  usage?: Usage;
  /** The outcome: `gone` if the client disconnected before the end. */
  outcome: 'open' | 'answered' | 'failed' | 'gone';
}

const MAX_RECORDED = 1000;

interface ScriptedLlmOptions {
  readonly port?: number;
  readonly host?: string;
  /** Returns epoch milliseconds, for the lifetime of cache entries. */
  readonly now?: () => number;
  /** AWS account of signed requests. @default - none: all are refused */
  readonly aws?: BedrockAccount;
}

export async function startScriptedLlm({
  port = 0,
  host = '127.0.0.1',
  now = Date.now,
  aws,
}: ScriptedLlmOptions = {}): Promise<ScriptedLlm> {
  const model = new ScriptedModel(now, aws);
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
    settings: Object.fromEntries(
      LLM_PROVIDERS.map((provider) => [
        `PLATFORM_${provider.toUpperCase()}_URL`,
        `${url}/${provider}/${provider === 'gemini' ? 'v1beta' : 'v1'}`,
      ]),
    ),
    get requests() {
      return model.requests;
    },
    get asked() {
      return model.asked;
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
  /** Failure count of each turn with `times`. */
  #failed = new Map<string, number>();
  #faults: ScriptedFaults | undefined;
  readonly #cache: PromptCache;
  /** All requests to models since the last reset. */
  asked = 0;
  readonly #aws: BedrockAccount | undefined;

  constructor(now: () => number, aws: BedrockAccount | undefined) {
    this.#cache = new PromptCache(now);
    this.#aws = aws;
  }

  /** Resolved when the gate opens. */
  gate(name: string): PromiseWithResolvers<void> {
    if (!this.#gates.has(name)) this.#gates.set(name, Promise.withResolvers());
    return this.#gates.get(name)!;
  }

  script({ turns = [], key = ANY_KEY, rules = [], default: fallback, faults }: Script): void {
    if (faults) this.#faults = new ScriptedFaults(faults);
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
    this.#failed.clear();
    this.#faults = undefined;
    this.#cache.clear();
    this.asked = 0;
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url!, 'http://scripted');
    const text = await readBody(request);
    const signed = isSigned(request);
    const wire = request.method === 'POST' ? (signed ? bedrock : wireOf(url.pathname)) : undefined;
    if (wire === undefined) {
      this.#control(request.method!, url.pathname, text, response);
      return;
    }

    const body = JSON.parse(text);
    const apiKey = wire.keyOf(request.headers);
    const asked = askedOf(wire.read(body, url, request.headers));
    const provider = signed ? 'bedrock' : url.pathname.split('/')[1]!;
    const record: RecordedRequest = {
      provider,
      path: url.pathname,
      apiKey,
      model: asked.model,
      stream: asked.stream,
      text: asked.text,
      files: asked.files.map(lineOf),
      body,
      headers: request.headers,
      bytes: Buffer.byteLength(text),
      prefixes: asked.prefixes,
      outcome: 'open',
    };
    this.requests.push(record);
    this.asked++;
    if (this.requests.length > 2 * MAX_RECORDED) this.requests = this.requests.slice(-MAX_RECORDED);
    const gone = new AbortController();
    response.once('close', () => {
      if (record.outcome === 'open') record.outcome = 'gone';
      gone.abort();
    });
    const problem = signed ? this.#signatureProblem(request, text) : undefined;
    const forbidden: ScriptedTurn | undefined = problem === undefined ? undefined : { status: 403, message: problem };
    const turn = forbidden ?? refusal(wire, record, asked) ?? this.#faults?.next() ?? this.#choose(asked, apiKey);
    try {
      if (turn.waitFor !== undefined) await this.gate(turn.waitFor).promise;
      const account = () => this.#account(`${provider} ${apiKey}`, asked);
      record.usage = await answer(wire, turn, asked, account, apiKey, response, gone.signal);
      if (record.outcome === 'open') record.outcome = statusOf(turn, asked) === undefined ? 'answered' : 'failed';
    } catch (error) {
      if (!gone.signal.aborted) throw error;
    }
  }

  #account(account: string, asked: Asked): Omit<Usage, 'output'> {
    if (asked.cache === undefined) return { input: asked.inputTokens, cacheRead: 0, cacheWrite: 0 };
    const { rest, read, write } = this.#cache.account(account, asked, asked.cache);
    return { input: asked.cache.kind === 'marks' ? rest : rest + read + write, cacheRead: read, cacheWrite: write };
  }

  #signatureProblem(request: IncomingMessage, body: string): string | undefined {
    return this.#aws ? signatureProblem(request, body, this.#aws) : 'There is no AWS account here.';
  }

  #choose(asked: Asked, apiKey: string | undefined): ScriptedTurn {
    const scripted = directiveIn(asked.text) ?? this.#rules.find(({ marker }) => asked.text.includes(marker))?.turns;
    if (scripted !== undefined) return this.#turnOf(scripted, asked, apiKey);
    const queue = [this.#queues.get(apiKey ?? ANY_KEY), this.#queues.get(ANY_KEY)].find((turns) => turns?.length);
    const [turn] = queue ?? [];
    if (turn?.times === undefined) return queue?.shift() ?? this.#default;
    if (turn.times > 1) queue![0] = { ...turn, times: turn.times - 1 };
    else queue!.shift();
    return turn;
  }

  /** Returns the turn of a list for the conversation's current position. */
  #turnOf(scripted: readonly ScriptedTurn[], asked: Asked, apiKey: string | undefined): ScriptedTurn {
    let turns = 0;
    let last: ScriptedTurn = {};
    for (const [index, turn] of scripted.entries()) {
      if (turn.times === undefined) {
        if (turns === asked.turns) return turn;
        turns++;
        last = turn;
      } else if (turns === asked.turns) {
        const place = createHash('sha256')
          .update(JSON.stringify([apiKey, index, asked.text]))
          .digest('base64');
        const failed = this.#failed.get(place) ?? 0;
        this.#failed.set(place, failed + 1);
        if (failed < turn.times) return turn;
      }
    }
    return last;
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

/** `JSON.stringify` escapes a surrogate only if it has no pair; the backslash must not be escaped itself. */
const LONE_SURROGATE = /(?<!\\)(?:\\\\)*\\ud[89a-f]/;

/** Returns the provider's refusal before the model is called. */
function refusal(wire: Wire, { provider, apiKey, body }: RecordedRequest, asked: Asked): ScriptedTurn | undefined {
  if (provider !== 'ollama' && provider !== 'bedrock') {
    // Google answers a wrong key with 400.
    const status = provider === 'gemini' ? 400 : 401;
    if (apiKey === undefined) return { status, message: 'No API key was given.' };
    if (apiKey.includes('refused')) return { status, message: 'API key not valid: $KEY.' };
  }
  if (LONE_SURROGATE.test(JSON.stringify(body))) {
    return {
      status: 400,
      message: 'The request body is not valid JSON: no low surrogate in string: line 1 column 120',
    };
  }
  if (asked.inputTokens > asked.window) return { refusal: 'overflow' };
  const most = mostTokensOf(asked.model);
  const isTooMuch = asked.maxTokens !== undefined && asked.maxTokens > most;
  const problem =
    asked.problem ??
    settingProblem(provider, asked.model, body) ??
    (isTooMuch ? wire.tooManyTokens(asked, most) : undefined);
  return problem === undefined ? undefined : { status: 400, message: problem };
}

/** Adds fields derived from the model and from the order of the conversation. */
function askedOf({ parts, signed = [], ...read }: Read): Asked {
  const prefixes = prefixesOf(parts);
  const ends = endsOf(parts);
  const moved = signed.find(({ part, signature }) => prefixIn(signature) !== prefixes[part - 1]);
  return {
    ...read,
    window: windowOf(read.model),
    parts,
    ends,
    inputTokens: ends.at(-1) ?? 1,
    prefixes,
    prefix: prefixes.at(-1) ?? '',
    problem: read.problem ?? (moved && `A thinking block (part ${moved.part}) is bound to a different conversation.`),
  };
}

/**
 * Returns a model's window for input and output: from the platform's table, or `20000` for a name with `-window-20000`.
 */
function windowOf(model: string): number {
  const told = /-window-(\d+)/.exec(model)?.[1];
  const known = models as Record<string, ModelFacts>;
  return told === undefined ? (known[model]?.window ?? Number.POSITIVE_INFINITY) : Number(told);
}

/** Returns a model's output limit: from the platform's table, or `8192` for a name that ends with `-max-8192`. */
function mostTokensOf(model: string): number {
  const told = /-max-(\d+)$/.exec(model)?.[1];
  const known = models as Record<string, ModelFacts>;
  const name = model.replace(/^(.*\.)?anthropic\./, '');
  return told === undefined ? (known[name]?.max_output ?? Number.POSITIVE_INFINITY) : Number(told);
}

const DIRECTIVE = '[[llm ';

/** Returns the first directive that parses, because JSON input contains an escaped copy of the text. */
function directiveIn(text: string): readonly ScriptedTurn[] | undefined {
  for (let at = text.indexOf(DIRECTIVE); at >= 0; at = text.indexOf(DIRECTIVE, at + 1)) {
    for (let end = text.indexOf(']]', at); end >= 0; end = text.indexOf(']]', end + 1)) {
      try {
        // This end may belong to an inner array.
        const turns = JSON.parse(text.slice(at + DIRECTIVE.length, end)) as ScriptedTurn | ScriptedTurn[];
        return Array.isArray(turns) ? turns : [turns];
      } catch {
        // A later end may parse.
      }
    }
  }
  return undefined;
}
