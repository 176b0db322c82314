import { createHash, randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { CORE_SETTINGS } from '#core/base/config.ts';
import { rowOf } from '#core/models/providers.ts';
import { LLM_PROVIDERS, type LlmProvider } from '#core/ports/llm.ts';

/** One recorded answer of a model, stored beside the tests. Headers are not stored, because they contain the key. */
export interface RecordedAnswer {
  readonly provider: string;
  readonly model?: string;
  /** Hash of the request's path and body. */
  readonly request: string;
  readonly status: number;
  readonly content_type: string;
  /** JSON, or the lines of an event stream. */
  readonly answer: unknown;
}

/** Providers with keys. Answers of local servers depend on the machine, so they are not recorded. */
export const MODEL_PROVIDERS = LLM_PROVIDERS.filter((provider) => rowOf(provider).key !== null);

const urlSettingOf = (provider: LlmProvider) => CORE_SETTINGS[rowOf(provider).urlSetting!];

/** Returns the name of the secret and environment variable with a provider's key. */
export const keyNameOf = (provider: LlmProvider): string => rowOf(provider).key!.secret;

/** Hop-by-hop headers, and headers that this server sets itself. */
const NOT_FORWARDED = ['host', 'connection', 'content-length', 'transfer-encoding', 'accept-encoding'];
const KEY_HEADERS = ['authorization', 'x-api-key', 'x-goog-api-key'];

export interface ModelRecorder {
  /** Settings that point a platform's model providers to this recorder. */
  readonly settings: Readonly<Record<string, string>>;
  /** Starts a new test: replays `recorded`, or calls the providers if it is undefined. */
  begin(recorded: readonly RecordedAnswer[] | undefined): void;
  /** Model answers since {@link ModelRecorder.begin}. */
  readonly answers: readonly RecordedAnswer[];
  /** Number of requests without a recorded answer since then. */
  readonly unknown: number;
  close(): Promise<void>;
}

/**
 * A proxy between a platform and the APIs of model providers. It replays recorded answers, or calls the providers with
 * the keys of the environment and records their answers.
 */
export async function startModelRecorder(
  env: Readonly<Record<string, string | undefined>>,
  fetch: typeof globalThis.fetch,
): Promise<ModelRecorder> {
  let left: RecordedAnswer[] | undefined = [];
  let answers: RecordedAnswer[] = [];
  let unknown = 0;
  const upstream = (provider: LlmProvider): string => {
    const { variable, schema } = urlSettingOf(provider);
    return schema().parse(env[variable] || undefined) as string;
  };

  async function answer(provider: LlmProvider, path: string, headers: Headers, body: string): Promise<RecordedAnswer> {
    const request = hashOf(path, body);
    if (left !== undefined) {
      const index = left.findIndex((each) => each.provider === provider && each.request === request);
      if (index >= 0) return left.splice(index, 1)[0]!;
      unknown++;
      const message = 'no recorded answer for this request';
      const error = { type: 'invalid_request_error', code: 400, message, status: 'INVALID_ARGUMENT' };
      return { provider, request, status: 400, content_type: 'application/json', answer: { type: 'error', error } };
    }
    const key = env[keyNameOf(provider)]!;
    for (const name of KEY_HEADERS) {
      if (headers.has(name)) headers.set(name, name === 'authorization' ? `Bearer ${key}` : key);
    }
    const asked = await fetch(`${upstream(provider)}${path}`, { method: 'POST', headers, body });
    const contentType = asked.headers.get('content-type')?.split(';')[0] ?? 'application/json';
    const said = (await asked.text()).replaceAll(key, '***');
    const recorded: RecordedAnswer = {
      provider,
      ...modelIn(body),
      request,
      status: asked.status,
      content_type: contentType,
      answer: contentType === 'application/json' ? JSON.parse(said) : said.split('\n'),
    };
    answers.push(recorded);
    return recorded;
  }

  // Keeps other programs on this machine, and web pages (DNS rebinding), from using the keys.
  const word = randomUUID();
  // A static import would load Node's whole HTTP client at the start of every command of the bundle.
  const { createServer } = await import('node:http');
  const server = createServer(async (request, response) => {
    const [, given, name, path] = /^\/([\w-]+)\/(\w+)(\/.*)$/.exec(request.url ?? '') ?? [];
    const provider = given === word ? MODEL_PROVIDERS.find((each) => each === name) : undefined;
    const headers = new Headers();
    for (const [header, value] of Object.entries(request.headers)) {
      if (!NOT_FORWARDED.includes(header)) headers.set(header, String(value));
    }
    try {
      if (provider === undefined) throw new Error('unknown provider');
      const { answer: said, content_type, status } = await answer(provider, path!, headers, await text(request));
      const isText = Array.isArray(said) && content_type !== 'application/json';
      response.writeHead(status, { 'content-type': content_type });
      response.end(isText ? said.join('\n') : JSON.stringify(said));
    } catch (error) {
      response.writeHead(502, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: { message: (error as Error).message } }));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${word}`;
  return {
    settings: Object.fromEntries(MODEL_PROVIDERS.map((each) => [urlSettingOf(each).variable, `${url}/${each}`])),
    begin(recorded) {
      left = recorded === undefined ? undefined : [...recorded];
      answers = [];
      unknown = 0;
    },
    get answers() {
      return answers;
    },
    get unknown() {
      return unknown;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Members that differ between platforms: the cache key of a provider contains the agent's ID. */
const OF_ONE_PLATFORM = ['prompt_cache_key'];

/** Hashes a request, independent of the platform. Throws SyntaxError if the body is not JSON. */
function hashOf(path: string, body: string): string {
  const json = Object.entries(JSON.parse(body) as object).filter(([name]) => !OF_ONE_PLATFORM.includes(name));
  const sorted = JSON.stringify([path.split('?')[0], Object.fromEntries(json)]);
  return createHash('sha256').update(sorted).digest('hex').slice(0, 32);
}

function modelIn(body: string): { model?: string } {
  const { model } = JSON.parse(body) as { model?: unknown };
  return typeof model === 'string' ? { model } : {};
}
