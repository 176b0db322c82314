import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { runHeads } from '#test/helpers/run-heads.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';

let server: ScriptedLlm;
beforeAll(async () => {
  server = await startScriptedLlm();
});
afterEach(() => server.reset());
afterAll(() => server.close());

const VAULT_KEY = 'sk-ant-vault-5f2a9c';
const CALLER_KEY = 'caller-key-77d1e0';

// These tests read logs and records directly, so they are not in the suite for every host.
describe('calls of prompt agents', () => {
  let deps: MemoryDeps;
  let app: (request: Request) => Promise<Response>;
  let apiKey: string;
  let workspaceId: string;

  const send = (method: string, path: string, body: unknown, headers: Record<string, string> = {}) =>
    app(
      new Request(`http://platform.test${path}`, {
        method,
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
    );
  const call = async (input: Record<string, unknown>, name = 'greeter') => {
    const response = await send('POST', `/ann/${name}/latest/run`, input);
    // biome-ignore lint/suspicious/noExplicitAny: bodies of several shapes.
    return { status: response.status, body: (await response.json()) as any };
  };

  beforeEach(async () => {
    deps = memoryDeps({
      anthropicUrl: `${server.url}/anthropic/v1`,
      openaiUrl: `${server.url}/openai/v1`,
      geminiUrl: `${server.url}/gemini/v1beta`,
    });
    // Retry delays pass ten times as fast.
    const hurry = setInterval(() => void deps.clock.advance(50), 5);
    onTestFinished(() => clearInterval(hurry));
    app = createWebApp(deps, routes, allHandlers(deps));
    const user = await addUser(deps, 'ann');
    apiKey = user.key;
    workspaceId = user.workspaceId;
    await send('PUT', `/workspaces/${workspaceId}/secrets`, { name: 'ANTHROPIC_API_KEY', value: VAULT_KEY });
    const published = await send('POST', '/agents', {
      name: 'greeter',
      type: 'prompt',
      description: 'Greets.',
      prompt: 'Greet {{name}}. Answer in JSON.',
      supported_providers: ['any'],
    });
    expect(published.status).toBe(201);
  });

  test('use the key of the workspace', async () => {
    server.queue({ text: '{"greeting": "Hello, Ada!"}', usage: { input: 12, output: 8 } });
    expect(await call({ name: 'Ada' })).toMatchObject({
      status: 200,
      body: {
        data: { greeting: 'Hello, Ada!' },
        metadata: { version: 'v1', usage: { input_tokens: 12, output_tokens: 8 } },
      },
    });
    expect(server.requests).toMatchObject([{ provider: 'anthropic', apiKey: VAULT_KEY }]);
    expect(server.requests[0]!.text).toMatch(/^Greet Ada\. Answer in JSON\.\n\nInput:/);
  });

  test("fill placeholders with the schema's defaults, and send the model the whole input", async () => {
    const properties = { name: { type: 'string' }, language: { type: 'string', default: 'German' } };
    const published = await send('POST', '/agents', {
      name: 'polyglot',
      type: 'prompt',
      description: 'Greets.',
      prompt: 'Greet {{name}} in {{language}}.',
      input_schema: { type: 'object', properties, required: ['name'] },
    });
    expect(await published.json()).toMatchObject({ warnings: [] });
    server.queue({ text: 'Hallo Ada' });
    expect((await call({ name: 'Ada' }, 'polyglot')).status).toBe(200);
    expect(server.requests[0]!.text).toMatch(/^Greet Ada in German\.[\s\S]*"language": "German"/);
  });

  test('use the key, provider and model of the caller', async () => {
    const llm_credentials = { api_key: CALLER_KEY, provider: 'gemini', model: 'gemini-2.5-pro' };
    expect((await call({ name: 'Ada', llm_credentials })).status).toBe(200);
    expect(server.requests).toMatchObject([{ provider: 'gemini', apiKey: CALLER_KEY, model: 'gemini-2.5-pro' }]);
    expect(server.requests[0]!.text).not.toContain('llm_credentials');
  });

  test('use the next provider when one is rate-limited', async () => {
    await send('PUT', `/workspaces/${workspaceId}/secrets`, { name: 'OPENAI_API_KEY', value: 'sk-openai-1' });
    server.script({ key: VAULT_KEY, turns: [{ status: 429 }] });
    server.script({ key: 'sk-openai-1', turns: [{ text: '{"greeting": "Hi"}' }] });
    expect(await call({ name: 'Ada' })).toMatchObject({ status: 200, body: { data: { greeting: 'Hi' } } });
  });

  test.each([
    [{}, 400, 'MISSING_INPUT_FIELDS'],
    [{ name: 'Ada', llm_credentials: { provider: 'openai' } }, 400, 'LLM_KEY_REQUIRED'],
    [{ name: 'Ada', llm_credentials: { api_key: 'who-knows' } }, 400, 'INVALID_INPUT'],
    [{ name: '[[llm {"status":429,"retryAfter":9}]]' }, 429, 'LLM_RATE_LIMITED'],
    [{ name: '[[llm {"status":529}]]' }, 502, 'LLM_ERROR'],
    [{ name: '[[llm {"refusal":"overflow"}]]' }, 422, 'UNPROCESSABLE'],
    [{ name: '[[llm {"status":401}]]' }, 400, 'LLM_KEY_REQUIRED'],
    [{ name: '[[llm {"breakOff":"reset"}]]' }, 502, 'LLM_ERROR'],
  ])('%j: %s %s', async (input, status, code) => {
    expect(await call(input)).toMatchObject({ status, body: { error: { code } } });
    // An alarm counts these lines.
    const told = deps.lines.filter(({ message }) => message === 'model provider failed');
    expect(told).toHaveLength(code === 'LLM_ERROR' ? 1 : 0);
  });

  test("stream the model's text", async () => {
    server.queue({ chunkDelayMs: 5, text: '{"greeting": "Hello, Ada, and a good morning to you!"}' });
    const response = await send('POST', '/ann/greeter/v1/run', { name: 'Ada' }, { accept: 'text/event-stream' });
    const text = await response.text();
    expect(text.match(/"type":"text_delta"/g)!.length).toBeGreaterThan(2);
    expect(text).toMatch(/event: result\ndata: .*good morning to you!/);
  });

  test('no key reaches an answer, a log or a record', async () => {
    const llm_credentials = { api_key: CALLER_KEY, provider: 'openai' };
    const turns = (key: string): ScriptedTurn[] => [
      { text: `The key is ${key}.` },
      { status: 400, message: 'Bad request with $KEY.' },
      { status: 429, message: 'Too many with $KEY.' },
      { status: 401, message: 'Wrong key: $KEY.' },
      { status: 500, message: 'Broken by $KEY.' },
      { malformed: true },
    ];
    const seen: string[] = [];
    for (const turn of turns(VAULT_KEY)) {
      server.script({ default: turn });
      seen.push(JSON.stringify(await call({ name: 'Ada' })));
    }
    for (const turn of turns(CALLER_KEY)) {
      server.script({ default: turn });
      seen.push(JSON.stringify(await call({ name: 'Ada', llm_credentials })));
    }
    expect(server.requests.length).toBeGreaterThanOrEqual(seen.length);
    seen.push(JSON.stringify(await runHeads(deps, workspaceId)));
    seen.push(JSON.stringify(deps.lines));
    for (const text of seen) {
      expect(text).not.toContain(VAULT_KEY);
      expect(text).not.toContain(CALLER_KEY);
    }
    expect(seen[0]).toContain('The key is [secret ANTHROPIC_API_KEY].');
  });
});
