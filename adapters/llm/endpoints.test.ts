import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { parseConfig } from '#core/base/config.ts';
import { RefusedError } from '#core/outbound/allowed-addresses.ts';
import type { Llm, LlmRequest, LlmTransport } from '#core/ports/llm.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { addressGuard } from './address-guard.ts';
import { createLlm } from './create-llm.ts';
import { toPlatformError } from './provider-error.ts';
import { createSender, MAX_ANSWER_BYTES } from './send.ts';

const SECRET = 'wJalrXUtnFEMI-made-up';
let server: ScriptedLlm;
beforeAll(async () => {
  const secretOf = (accessKey: string) => (accessKey === 'AKIAMADEUP' ? SECRET : undefined);
  server = await startScriptedLlm({ aws: { region: 'eu-central-1', secretOf, sessionToken: 'the-session' } });
});
beforeEach(() => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIAMADEUP');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', SECRET);
  vi.stubEnv('AWS_SESSION_TOKEN', 'the-session');
  vi.stubEnv('ANTHROPIC_API_KEY', 'sk-ant-of-the-environment');
});
afterEach(() => {
  server.reset();
  vi.unstubAllEnvs();
});
afterAll(() => server.close());

type LogLine = { message: string; fields: Record<string, unknown> | undefined };

/** Creates a client of the scripted server, and collects the log. */
function prepare(settings: Record<string, string> = {}): { llm: Llm; errors: LogLine[] } {
  const errors: LogLine[] = [];
  const nothing = () => {};
  const config = parseConfig({ ...server.settings, PLATFORM_BEDROCK_URL: server.url, ...settings });
  const error = (message: string, fields?: Record<string, unknown>) => void errors.push({ message, fields });
  return { llm: createLlm(config, { debug: nothing, info: nothing, warn: nothing, error }), errors };
}

const request = (transport: LlmTransport, more: Partial<LlmRequest> = {}): LlmRequest => ({
  provider: 'anthropic',
  model: 'claude-sonnet-5-5',
  transport,
  messages: [{ role: 'user', text: 'Grüße' }],
  maxOutputTokens: 1000,
  signal: new AbortController().signal,
  ...more,
});

describe('Bedrock', () => {
  const EU: LlmTransport = { via: 'bedrock', region: 'eu-central-1', model: 'eu.anthropic.claude-sonnet-5-5' };

  test.each([false, true])('signed by the credentials of AWS, without a key; streamed: %s', async (isStreamed) => {
    const { llm } = prepare();
    server.queue({ text: 'Hallo.', usage: { input: 12, output: 3 } });
    const answer = await llm.generate(request(EU, { effort: 'low', ...(isStreamed && { onText: () => {} }) }));
    expect(answer).toMatchObject({ text: 'Hallo.', usage: { inputTokens: 12, outputTokens: 3 } });
    const [sent] = server.requests;
    expect(sent).toMatchObject({ provider: 'bedrock', model: 'eu.anthropic.claude-sonnet-5-5', stream: isStreamed });
    // The platform's own model id determines the supported settings.
    expect(sent!.body.output_config).toEqual({ effort: 'low' });
    expect(sent!.headers['x-api-key']).toBeUndefined();
    expect(JSON.stringify(sent)).not.toContain('of-the-environment');
  });

  test.each([
    ['another secret', { AWS_SECRET_ACCESS_KEY: 'wrong' }, 'calculated does not match'],
    ['an unknown account', { AWS_ACCESS_KEY_ID: 'AKIAOTHER' }, 'security token'],
    ['no session', { AWS_SESSION_TOKEN: '' }, 'security token'],
  ])('%s: refused, for the log to say why', async (_, environment, why) => {
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    const { llm, errors } = prepare();
    await expect(llm.generate(request(EU))).rejects.toMatchObject({
      code: 'LLM_ERROR',
      kind: 'refused',
      message: 'Amazon Bedrock does not let this platform use the model (status 403).',
    });
    expect(errors).toEqual([
      { message: 'Amazon Bedrock refuses the platform', fields: { problem: expect.stringContaining(why) } },
    ]);
    expect(server.asked).toBe(1);
  });

  test('the signature is for one Region', async () => {
    const { llm } = prepare();
    await expect(llm.generate(request({ ...EU, region: 'us-east-1' }))).rejects.toMatchObject({ kind: 'refused' });
  });

  test('what it says to other failures is passed on', async () => {
    const { llm } = prepare();
    await expect(llm.generate(request({ ...EU, model: 'nothing' }))).rejects.toMatchObject({
      kind: 'refused',
      message: 'Amazon Bedrock answered with status 400: The provided model identifier is invalid.',
    });
    server.queue({ status: 429, message: 'Too many requests, please wait before trying again.' });
    await expect(llm.generate(request(EU))).rejects.toMatchObject({
      code: 'LLM_RATE_LIMITED',
      message: expect.stringContaining('does not take more requests from this platform for now: Too many requests'),
    });
    server.queue({ status: 429, message: 'Too many tokens per day, please wait before trying again.' });
    await expect(llm.generate(request(EU))).rejects.toMatchObject({ kind: 'quota' });
    server.queue({ status: 400, message: 'Input is too long for requested model.' });
    await expect(llm.generate(request(EU))).rejects.toMatchObject({ kind: 'overflow' });
  });
});

describe('Azure', () => {
  const azure = (auth: 'api-key' | 'bearer'): Partial<LlmRequest> => ({
    provider: 'openai',
    model: 'gpt-6.2-sol',
    apiKey: 'key-of-azure',
    transport: { via: 'azure', url: `${server.url}/openai/v1`, auth, model: 'our-sol' },
  });

  test('the deployment is named, the key is in the header that was chosen', async () => {
    const { llm } = prepare();
    await llm.generate({ ...request({ via: 'gateway', url: '' }), ...azure('bearer'), effort: 'low' });
    const [sent] = server.requests;
    expect(sent).toMatchObject({ path: '/openai/v1/responses', model: 'our-sol', apiKey: 'key-of-azure' });
    expect(sent!.body.reasoning).toEqual({ effort: 'low' });
    server.reset();
    await llm.generate({ ...request({ via: 'gateway', url: '' }), ...azure('api-key') });
    expect(server.requests[0]).toMatchObject({ headers: { 'api-key': 'key-of-azure' }, model: 'our-sol' });
    expect(server.requests[0]!.headers.authorization).toBeUndefined();
  });
});

describe('the gateway of a workspace', () => {
  const gateway = (url: string, more: Partial<LlmRequest> = {}) =>
    request({ via: 'gateway', url }, { apiKey: 'key-of-gateway', ...more });

  test.each([
    ['anthropic', 'claude-sonnet-5-5', '/anthropic/v1'],
    ['openai', 'gpt-6.2-sol', '/openai/v1'],
    ['gemini', 'gemini-3.8-flash', '/gemini/v1beta'],
  ] as const)('%s: the request goes there, and nowhere else', async (provider, model, path) => {
    // The provider's own address must not be used.
    const { llm } = prepare({
      PLATFORM_OUTBOUND_HOSTS: '127.0.0.1',
      PLATFORM_ANTHROPIC_URL: 'http://127.0.0.1:1/v1',
      PLATFORM_OPENAI_URL: 'http://127.0.0.1:1/v1',
      PLATFORM_GEMINI_URL: 'http://127.0.0.1:1/v1',
    });
    server.queue({ text: 'From the gateway.' });
    const answer = await llm.generate(gateway(server.url + path, { provider, model }));
    expect(answer.text).toBe('From the gateway.');
    expect(server.requests).toMatchObject([{ provider, model, apiKey: 'key-of-gateway' }]);
  });

  test('a private address is refused before anything is sent', async () => {
    const { llm } = prepare();
    const { port } = new URL(server.url);
    for (const url of [server.url, `https://127.0.0.1:${port}/v1`, `https://localhost:${port}/v1`]) {
      await expect(llm.generate(gateway(url))).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    }
    expect(server.asked).toBe(0);
  });

  test('a name is judged by the addresses that are connected to, each time', async () => {
    const { port } = new URL(server.url);
    let answers = [['127.0.0.1'], ['10.0.0.7', '::1'], ['169.254.169.254'], []];
    let asked = 0;
    const resolve = async () => answers[asked++ % answers.length]!;
    const { lookup } = addressGuard([], resolve);
    const url = new URL(`http://rebound.example:${port}/anthropic/v1/messages`);
    const guarded = createSender({ check: () => {}, lookup })({});
    const send = () => guarded({ url, headers: {}, body: '{}' }, undefined);
    for (const _ of answers) await expect(send()).rejects.toMatchObject({ code: 'OUTBOUND_REFUSED' });
    expect(asked).toBe(4);
    // A name in the operator's network may be private; each connection resolves it once.
    answers = [['127.0.0.1']];
    const own = createSender({ check: () => {}, lookup: addressGuard(['rebound.example'], resolve).lookup })({});
    const answer = await own({ url, headers: {}, body: '{}' }, undefined);
    expect(answer.statusCode).toBe(401);
    answer.resume();
    expect(asked).toBe(5);
  });

  test('a refused address is no failure that passes', () => {
    const wrapped = new Error('Cannot connect to API', { cause: new RefusedError('rebound.example is private') });
    expect(toPlatformError(wrapped, gateway('https://rebound.example/v1'))).toMatchObject({
      kind: 'refused',
      message: 'The gateway of ANTHROPIC_BASE_URL is at an address that is not of the public internet.',
    });
  });

  test('a redirect is not followed', async () => {
    const redirecting = createServer((_, response) => {
      response.writeHead(307, { location: `${server.url}/anthropic/v1/messages` }).end();
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void redirecting.close());
    await new Promise((resolve) => redirecting.once('listening', resolve));
    const { port } = redirecting.address() as AddressInfo;
    const { llm } = prepare({ PLATFORM_OUTBOUND_HOSTS: '127.0.0.1' });
    await expect(llm.generate(gateway(`http://127.0.0.1:${port}/v1`))).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringMatching(/^The gateway of ANTHROPIC_BASE_URL answered with status 307/),
    });
    expect(server.asked).toBe(0);
  });

  test.each([false, true])('an answer without end is given up; streamed: %s', async (isStreamed) => {
    const chunk = Buffer.alloc(1024 * 1024, ' ');
    let written = 0;
    const endless = createServer((incoming, response) => {
      incoming.resume();
      response.writeHead(200, { 'content-type': isStreamed ? 'text/event-stream' : 'application/json' });
      const write = (): void => {
        written += chunk.length;
        if (response.destroyed || written > 3 * MAX_ANSWER_BYTES) return;
        response.write(isStreamed ? `: ${chunk}\n` : chunk, () => setImmediate(write));
      };
      write();
    }).listen(0, '127.0.0.1');
    onTestFinished(() => {
      endless.closeAllConnections();
      endless.close();
    });
    await new Promise((resolve) => endless.once('listening', resolve));
    const { port } = endless.address() as AddressInfo;
    const { llm } = prepare({ PLATFORM_OUTBOUND_HOSTS: '127.0.0.1' });
    const asked = gateway(`http://127.0.0.1:${port}/v1`, isStreamed ? { onText: () => {} } : {});
    await expect(llm.generate(asked)).rejects.toMatchObject({
      kind: 'refused',
      message: 'The answer of the gateway of ANTHROPIC_BASE_URL is longer than 64 MB.',
    });
    expect(written).toBeLessThan(2 * MAX_ANSWER_BYTES);
  });

  test('its errors name it', async () => {
    const { llm } = prepare({ PLATFORM_OUTBOUND_HOSTS: '127.0.0.1' });
    const error = await llm
      .generate(gateway(`${server.url}/anthropic`, { apiKey: 'refused-key' }))
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: 'LLM_KEY_REQUIRED',
      message: 'The gateway of ANTHROPIC_BASE_URL refused the API key (status 401).',
    });
  });
});
