import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { parseConfig } from '#core/base/config.ts';
import type { PlatformError } from '#core/base/errors.ts';
import type { Llm, LlmAnswer, LlmProvider, LlmRequest, LlmTool } from '#core/ports/llm.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import { createAiSdkLlm } from './ai-sdk-llm.ts';

let server: ScriptedLlm;
let llm: Llm;
beforeAll(async () => {
  server = await startScriptedLlm();
  llm = createAiSdkLlm(parseConfig(server.settings));
});
afterEach(() => server.reset());
afterAll(() => server.close());

const MODELS = {
  anthropic: 'claude-sonnet-5-5',
  openai: 'gpt-6-sol',
  gemini: 'gemini-3.8-flash',
  ollama: 'llama3.2',
} as const;
const PROVIDERS = Object.keys(MODELS) as LlmProvider[];
const KEY = 'the-key-0123456789';

const TOOLS: LlmTool[] = [
  {
    name: 'add',
    description: 'Adds.',
    inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } },
  },
  { name: 'now', description: 'Tells the time.', inputSchema: { type: 'object', properties: {} } },
];

/** Both ways of asking, for every provider. */
describe.each(PROVIDERS.flatMap((provider) => [false, true].map((stream) => ({ provider, stream }))))(
  '$provider, streamed: $stream',
  ({ provider, stream }) => {
    let pieces: string[];
    const ask = (request: Partial<LlmRequest> = {}): Promise<LlmAnswer> => {
      pieces = [];
      return llm.generate({
        provider,
        model: MODELS[provider],
        apiKey: KEY,
        messages: [{ role: 'user', text: 'Say it in JSON.' }],
        maxOutputTokens: 4096,
        signal: new AbortController().signal,
        ...(stream && { onText: (text: string) => pieces.push(text) }),
        ...request,
      });
    };
    const failure = async (turn: ScriptedTurn, request: Partial<LlmRequest> = {}): Promise<PlatformError> => {
      server.queue(turn);
      return ask(request).then(
        () => expect.unreachable('the request succeeded'),
        (error: PlatformError) => error,
      );
    };

    test('text, tokens, and what was sent', async () => {
      server.queue({ text: 'Ten green bottles, äöü 🍾.', usage: { input: 20, output: 7 } });
      const answer = await ask({ system: 'Be brief.' });
      expect(answer).toMatchObject({
        text: 'Ten green bottles, äöü 🍾.',
        toolCalls: [],
        finishReason: 'stop',
        usage: { inputTokens: 20, outputTokens: 7 },
        message: { role: 'assistant', text: 'Ten green bottles, äöü 🍾.' },
      });
      expect(pieces.join('')).toBe(stream ? answer.text : '');
      const [sent] = server.requests;
      expect(sent).toMatchObject({ provider, apiKey: KEY, model: MODELS[provider], stream });
      expect(sent!.text).toContain('Be brief.');
      expect(sent!.text).toContain('Say it in JSON.');
      const { max_tokens, max_output_tokens, generationConfig, temperature } = sent!.body;
      expect(max_tokens ?? max_output_tokens ?? generationConfig.maxOutputTokens).toBe(4096);
      expect(temperature).toBeUndefined();
    });

    test('tokens of the cache count as input', async () => {
      server.queue({ usage: { input: 100, output: 7, cacheRead: 40 } });
      const { usage } = await ask();
      // Anthropic counts them beside the others.
      expect(usage).toEqual({
        inputTokens: provider === 'anthropic' ? 140 : 100,
        outputTokens: 7,
        cacheReadTokens: 40,
      });
    });

    test('JSON mode where there is one', async () => {
      await ask({ json: true });
      const { response_format, text, generationConfig } = server.requests[0]!.body;
      const mode = response_format?.type ?? text?.format?.type ?? generationConfig?.responseMimeType;
      const modes = { anthropic: undefined, openai: 'json_object', gemini: 'application/json', ollama: 'json_object' };
      expect(mode).toBe(modes[provider]);
    });

    test('parallel tool calls, their results, and what the provider signed', async () => {
      server.queue(
        {
          thinking: 'Both at once.',
          text: 'One moment.',
          toolCalls: [
            { name: 'add', input: { a: 1, b: [2, 'ü'] } },
            { name: 'now', input: {} },
          ],
        },
        { echo: true },
      );
      const first = await ask({ tools: TOOLS });
      expect(first.finishReason).toBe('tool_calls');
      expect(first.text).toBe('One moment.');
      expect(first.toolCalls).toMatchObject([
        { name: 'add', input: { a: 1, b: [2, 'ü'] } },
        { name: 'now', input: {} },
      ]);
      const second = await ask({
        tools: TOOLS,
        messages: [
          { role: 'user', text: 'Say it in JSON.' },
          // As a caller that keeps conversations as JSON has it.
          JSON.parse(JSON.stringify(first.message)),
          {
            role: 'tool',
            results: first.toolCalls.map(({ id, name }) => ({
              id,
              name,
              text: `done: ${name}`,
              isError: name === 'now',
            })),
          },
        ],
      });
      // The server refuses calls without results, and signed parts that changed.
      expect(second.finishReason).toBe('stop');
      expect(server.requests[1]!.text).toContain('done: add');
      expect(server.requests[1]!.text).toContain('done: now');
    });

    test('a turn of another provider goes on without what that one signed', async () => {
      const messages: LlmRequest['messages'] = [
        { role: 'user', text: 'Say it in JSON.' },
        {
          role: 'assistant',
          text: 'Said.',
          toolCalls: [],
          raw: { provider: 'another', content: [{ type: 'nonsense' }] },
        },
        { role: 'user', text: 'Again.' },
      ];
      expect((await ask({ messages })).finishReason).toBe('stop');
      expect(server.requests[0]!.text).toContain('Said.');
    });

    test.skipIf(provider === 'gemini' || (provider === 'anthropic' && !stream))(
      'arguments that are no JSON',
      async () => {
        server.queue({ toolCalls: [{ name: 'add', rawInput: '{"a": 1, "b"' }] });
        const { toolCalls, message } = await ask({ tools: TOOLS });
        expect(toolCalls).toMatchObject([{ name: 'add', input: undefined }]);
        // The call can go back all the same.
        const { id } = toolCalls[0]!;
        const result = { id, name: 'add', text: '[ERROR] no JSON', isError: true };
        const messages: LlmRequest['messages'] = [
          { role: 'user', text: 'JSON' },
          message,
          { role: 'tool', results: [result] },
        ];
        expect((await ask({ tools: TOOLS, messages })).finishReason).toBe('stop');
      },
    );

    test('cut at the limit, or by a filter', async () => {
      server.queue({ text: 'Once upon', finish: 'length' }, { text: 'I', finish: 'content_filter' });
      expect(await ask()).toMatchObject({ text: 'Once upon', finishReason: 'length' });
      expect(await ask()).toMatchObject({ finishReason: 'content_filter' });
    });

    test('a rate limit, with the time to wait', async () => {
      const error = await failure({ status: 429, retryAfter: 17, message: 'Slow down, $KEY.' });
      expect(error).toMatchObject({ code: 'LLM_RATE_LIMITED', extra: { suggested_wait_time: 17 } });
      expect(error.message).toContain('Slow down, [key].');
      expect(server.requests).toHaveLength(1);
    });

    test.each([500, 503, 529, 400, 404])('status %s', async (status) => {
      const error = await failure({ status, message: 'It did not work with $KEY.' });
      expect(error.code).toBe('LLM_ERROR');
      expect(error.message).toContain(`status ${status}: It did not work with [key].`);
      // Trying again is the caller's business.
      expect(server.requests).toHaveLength(1);
    });

    test.skipIf(provider === 'ollama')('a key that the provider refuses', async () => {
      const error = await failure({}, { apiKey: 'sk-refused-0123456789' });
      expect(error.code).toBe('LLM_ERROR');
      expect(error.message).toContain('refused the API key');
      expect(JSON.stringify(error) + error.message + error.stack).not.toContain('0123456789');
    });

    test('a connection that breaks', async () => {
      const error = await failure({ text: 'a long answer, of which half comes', breakOff: 'reset' });
      expect(error.code).toBe('LLM_ERROR');
      expect(error.message).toContain('broke off');
    });

    test('an answer that ends half-way as if it were whole', async () => {
      const error = await failure({ text: 'a long answer, of which half comes', breakOff: 'end' });
      expect(error.code).toBe('LLM_ERROR');
      expect(error.message).toMatch(stream ? /broke off|without a finish/ : /could not be read/);
    });

    test('JSON that is none', async () => {
      const error = await failure({ text: 'a long answer, of which half comes', malformed: true });
      expect(error.code).toBe('LLM_ERROR');
    });

    test('a page instead of an answer', async () => {
      expect((await failure({ contentType: 'text/html' })).code).toBe('LLM_ERROR');
      expect((await failure({ contentType: 'text/html', status: 502 })).message).toContain('status 502');
    });

    test.runIf(stream)('an error inside the stream', async () => {
      const error = await failure({ text: 'a long answer, of which half comes', streamError: true });
      expect(error.code).toBe('LLM_ERROR');
      expect(error.message).toContain('Overloaded');
    });

    test('an abort ends the request at once', async () => {
      for (const turn of [
        { hang: true },
        { text: 'a long answer, piece by piece', chunkDelayMs: 5_000, delayMs: stream ? 0 : 5_000 },
      ]) {
        server.reset();
        server.queue(turn);
        const stop = new AbortController();
        const answer = ask({ signal: stop.signal });
        await expect.poll(() => server.open).toBe(1);
        const reason = new Error('the deadline passed');
        stop.abort(reason);
        await expect(answer).rejects.toBe(reason);
        await expect.poll(() => server.requests[0]!.outcome).toBe('gone');
      }
    });

    test('an aborted signal sends no request', async () => {
      const reason = new Error('too late');
      await expect(ask({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
      expect(server.requests).toHaveLength(0);
    });
  },
);

test('a provider that cannot be reached', async () => {
  const nowhere = createAiSdkLlm(parseConfig({ PLATFORM_ANTHROPIC_URL: 'http://127.0.0.1:1/v1' }));
  const request: LlmRequest = {
    provider: 'anthropic',
    model: 'claude-sonnet-5-5',
    apiKey: KEY,
    messages: [{ role: 'user', text: 'Hello?' }],
    maxOutputTokens: 10,
    signal: new AbortController().signal,
  };
  await expect(nowhere.generate(request)).rejects.toMatchObject({
    code: 'LLM_ERROR',
    message: expect.stringMatching(/^Anthropic could not be reached.*ECONNREFUSED/),
  });
  await expect(nowhere.generate({ ...request, provider: 'ollama' })).rejects.toMatchObject({ code: 'LLM_ERROR' });
  // Never one from the environment.
  await expect(nowhere.generate({ ...request, apiKey: undefined })).rejects.toThrow('needs a key');
});

test('OpenAI is told to keep nothing, and to take schemas as authors write them', async () => {
  await llm.generate({
    provider: 'openai',
    model: 'gpt-6-sol',
    apiKey: KEY,
    messages: [{ role: 'user', text: 'Hello' }],
    tools: TOOLS,
    maxOutputTokens: 10,
    signal: new AbortController().signal,
  });
  expect(server.requests[0]!.body).toMatchObject({ store: false, tools: [{ strict: false }, { strict: false }] });
});

test('a kept connection that the other side has closed is replaced', async () => {
  const closing = await startScriptedLlm();
  const port = Number(new URL(closing.url).port);
  const request: LlmRequest = {
    provider: 'anthropic',
    model: 'claude-sonnet-5-5',
    apiKey: KEY,
    messages: [{ role: 'user', text: 'Hello' }],
    maxOutputTokens: 10,
    signal: new AbortController().signal,
  };
  const client = createAiSdkLlm(parseConfig(closing.settings));
  await client.generate(request);
  await closing.close();
  const again = await startScriptedLlm({ port });
  try {
    expect((await client.generate(request)).text).toBe('ok');
  } finally {
    await again.close();
  }
});
