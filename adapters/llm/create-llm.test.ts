import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { parseConfig } from '#core/base/config.ts';
import type { PlatformError } from '#core/base/errors.ts';
import {
  isCompatible,
  LLM_PROVIDERS,
  type Llm,
  type LlmAnswer,
  type LlmFailure,
  type LlmFile,
  type LlmMessage,
  type LlmProvider,
  type LlmRequest,
  type LlmTool,
  type LlmUsage,
} from '#core/ports/llm.ts';
import { pdf, png, wav } from '#test/helpers/sample-files.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import { testWhere } from '#test/helpers/test-where.ts';
import { createLlm } from './create-llm.ts';

let server: ScriptedLlm;
/** Sends even plain requests through the SDK. */
let bySdk: Llm;
let llm: Llm;
beforeAll(async () => {
  server = await startScriptedLlm();
  const config = parseConfig({ ...server.settings, PLATFORM_OUTBOUND_HOSTS: '127.0.0.1' });
  llm = createLlm(config);
  bySdk = createLlm(config, undefined, () => false);
});
afterEach(() => server.reset());
afterAll(() => server.close());

const MODELS = {
  anthropic: 'claude-sonnet-5-5',
  openai: 'gpt-6-sol',
  gemini: 'gemini-3.8-flash',
  ollama: 'llama3.2',
} as const;
/** The row of these tables that fits a provider: one without a row speaks chat completions, as Ollama does. */
const rowOf = (provider: LlmProvider): keyof typeof MODELS =>
  provider in MODELS ? (provider as keyof typeof MODELS) : 'ollama';
const KEY = 'the-key-0123456789';

const TOOLS: LlmTool[] = [
  {
    name: 'add',
    description: 'Adds.',
    inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } },
  },
  { name: 'now', description: 'Tells the time.', inputSchema: { type: 'object', properties: {} } },
];

/** All request types for every provider. */
const PROVIDERS: readonly LlmProvider[] = [...LLM_PROVIDERS, 'openai-compatible:lab'];
const WAYS = PROVIDERS.flatMap((provider) =>
  [false, true].flatMap((stream) => [false, true].map((sdk) => ({ provider, stream, sdk }))),
);
describe.each(WAYS)('$provider, streamed: $stream, by the SDK: $sdk', ({ provider, stream, sdk }) => {
  let pieces: string[];
  const ask = (request: Partial<LlmRequest> = {}): Promise<LlmAnswer> => {
    pieces = [];
    return (sdk ? bySdk : llm).generate({
      provider,
      model: MODELS[rowOf(provider)],
      apiKey: KEY,
      ...(isCompatible(provider) && { transport: { via: 'gateway', url: `${server.url}/openai-compatible:lab/v1` } }),
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
    expect(sent).toMatchObject({ provider, apiKey: KEY, model: MODELS[rowOf(provider)], stream });
    expect(sent!.text).toContain('Be brief.');
    expect(sent!.text).toContain('Say it in JSON.');
    const { max_tokens, max_output_tokens, generationConfig, temperature } = sent!.body;
    expect(max_tokens ?? max_output_tokens ?? generationConfig.maxOutputTokens).toBe(4096);
    expect(temperature).toBeUndefined();
  });

  test('a limit above what the model writes is refused with the limit that it takes', async () => {
    const error = await ask({ model: 'small-max-1000' }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'LLM_ERROR', kind: 'refused', maxOutputTokens: 1000 });
    expect(server.requests).toHaveLength(1);
  });

  test('effort is sent in the form of the provider, and nothing else with it', async () => {
    await ask();
    await ask({ effort: 'low' });
    const [plain, low] = server.requests.map(({ body }) => body);
    const { output_config, reasoning, reasoning_effort, generationConfig } = low;
    expect(output_config ?? reasoning ?? generationConfig?.thinkingConfig ?? { effort: reasoning_effort }).toEqual(
      rowOf(provider) === 'gemini' ? { thinkingLevel: 'low' } : { effort: 'low' },
    );
    const members = (body: Record<string, unknown>) => Object.keys(body).toSorted().join();
    const added = { anthropic: ['output_config'], openai: ['reasoning'], gemini: [], ollama: ['reasoning_effort'] };
    expect(members(low)).toBe([...Object.keys(plain), ...added[rowOf(provider)]].toSorted().join());
  });

  test('tokens of the cache count as input', async () => {
    server.queue({ usage: { input: 100, output: 7, cacheRead: 40 } });
    const { usage } = await ask();
    // Anthropic counts cached tokens separately.
    expect(usage).toEqual({
      inputTokens: rowOf(provider) === 'anthropic' ? 140 : 100,
      outputTokens: 7,
      cacheReadTokens: 40,
    });
  });

  test('JSON mode where there is one', async () => {
    await ask({ json: true });
    const { response_format, text, generationConfig } = server.requests[0]!.body;
    const mode = response_format?.type ?? text?.format?.type ?? generationConfig?.responseMimeType;
    const modes = { anthropic: undefined, openai: 'json_object', gemini: 'application/json', ollama: 'json_object' };
    expect(mode).toBe(isCompatible(provider) ? undefined : modes[rowOf(provider)]);
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
        // The message after a round trip through JSON, as callers store conversations.
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
    // The server refuses calls without results and modified signed parts.
    expect(second.finishReason).toBe('stop');
    expect(server.requests[1]!.text).toContain('done: add');
    expect(server.requests[1]!.text).toContain('done: now');
  });

  test('a conversation that goes on says so, and is read from the cache', async () => {
    const long = 'x'.repeat(20_000);
    const cache = { key: 'run-1', again: 'conversation' } as const;
    const messages: LlmMessage[] = [{ role: 'user', text: long }];
    for (const turn of [1, 2, 3]) {
      server.queue({ toolCalls: [{ name: 'now' }, { name: 'now' }] });
      const { message, toolCalls } = await ask({ system: long, tools: TOOLS, messages, cache });
      const results = toolCalls.map(({ id, name }) => ({ id, name, text: `${turn} ${long}`, isError: false }));
      messages.push(message, { role: 'tool', results });
    }
    const sent = server.requests.map(({ body }) => JSON.stringify(body));
    expect(sent.map((text) => text.split('"cache_control"').length - 1)).toEqual(
      rowOf(provider) === 'anthropic' ? [2, 3, 3] : [0, 0, 0],
    );
    expect(server.requests.map(({ body }) => body.prompt_cache_key ?? '')).toEqual(
      Array(3).fill(rowOf(provider) === 'openai' ? 'run-1' : ''),
    );
    const [first, second, third] = server.requests.map(({ usage }) => usage!);
    if (rowOf(provider) === 'ollama') return expect(third!.cacheRead).toBe(0);
    const totalOf = (usage: NonNullable<typeof first>) =>
      usage.input + (rowOf(provider) === 'anthropic' ? usage.cacheRead + usage.cacheWrite : 0);
    expect(second!.cacheRead).toBeGreaterThan(0.98 * totalOf(first!));
    expect(third!.cacheRead).toBeGreaterThan(0.98 * totalOf(second!));
  });

  test('a part that is shared with other requests comes first, and is marked on request', async () => {
    const messages: LlmMessage[] = [{ role: 'user', shared: 'The rules, in JSON.', text: 'The question.' }];
    await ask({ messages });
    await ask({ messages, cache: { key: 'v1' } });
    await ask({ messages, cache: { key: 'v1', again: 'shared' } });
    for (const { text } of server.requests) expect(text).toMatch(/^The rules, in JSON\.\n+The question\.$/);
    const marks = server.requests.map(({ body }) => JSON.stringify(body).split('"cache_control"').length - 1);
    expect(marks).toEqual(rowOf(provider) === 'anthropic' ? [0, 0, 1] : [0, 0, 0]);
    if (rowOf(provider) === 'anthropic')
      expect(server.requests[2]!.body.messages[0].content[0]).toMatchObject({ cache_control: { type: 'ephemeral' } });
  });

  const IMAGE: LlmFile = { name: '0_a.png', mediaType: 'image/png', bytes: png() };
  const OTHER: LlmFile =
    rowOf(provider) === 'ollama'
      ? { name: '1_b.wav', mediaType: 'audio/wav', bytes: wav() }
      : { name: '1_b.pdf', mediaType: 'application/pdf', bytes: pdf(3) };
  const OTHER_SEEN = rowOf(provider) === 'ollama' ? 'audio/wav 100 bytes' : 'application/pdf 3 pages';

  test('files come before the text of a message', async () => {
    server.queue({ look: true });
    const { text } = await ask({ messages: [{ role: 'user', text: 'What is it?', files: [IMAGE, OTHER] }] });
    expect(text).toBe(`image/png 812x400\n${OTHER_SEEN}`);
    const { messages, input, contents } = server.requests[0]!.body;
    const [{ content, parts }] = messages ?? input ?? contents;
    expect((content ?? parts).at(-1)).toMatchObject({ text: 'What is it?' });
    expect(content ?? parts).toHaveLength(3);
  });

  test('files of a result are in it, or follow it where results are text', async () => {
    server.queue({ toolCalls: [{ name: 'now' }, { name: 'now' }] }, { look: true });
    const asked = await ask({ tools: TOOLS });
    const results = asked.toolCalls.map(({ id, name }, index) => ({
      id,
      name,
      text: `result ${index}`,
      isError: false,
      files: index === 0 ? [IMAGE, OTHER] : [],
    }));
    const messages: LlmMessage[] = [{ role: 'user', text: 'JSON' }, asked.message, { role: 'tool', results }];
    expect((await ask({ tools: TOOLS, messages })).text).toBe(`image/png 812x400\n${OTHER_SEEN}`);
    const { text, body } = server.requests[1]!;
    expect(text).toMatch(/result 0[\s\S]*result 1/);
    const isApart = JSON.stringify(body).includes('The files of these results, in their order: 0_a.png, 1_b.wav.');
    expect(isApart).toBe(rowOf(provider) === 'ollama');
  });

  test('files of an answer that broke off are estimated, not counted byte by byte', async () => {
    server.queue({ text: 'Half of it.', breakOff: 'reset' });
    const usages: LlmUsage[] = [];
    const files = [{ ...IMAGE, bytes: png(812, 400, 1_000_000) }];
    const messages: LlmMessage[] = [{ role: 'user', text: 'JSON', files }];
    await ask({ messages, onBroken: (usage) => usages.push(usage) }).catch(() => {});
    expect(usages).toHaveLength(1);
    const said = rowOf(provider) === 'anthropic' && stream;
    if (!said) expect(usages[0]!.inputTokens).toBeGreaterThan(1_600);
    expect(usages[0]!.inputTokens).toBeLessThan(1_800);
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

  testWhere(rowOf(provider) !== 'gemini' && (rowOf(provider) !== 'anthropic' || stream))(
    'arguments that are no JSON',
    async () => {
      server.queue({ toolCalls: [{ name: 'add', rawInput: '{"a": 1, "b"' }] });
      const { toolCalls, message } = await ask({ tools: TOOLS });
      expect(toolCalls).toMatchObject([{ name: 'add', input: undefined }]);
      // The call can still be sent back.
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

  test('cut at the limit, at the end of the window, or by a filter', async () => {
    server.queue({ text: 'Once upon', finish: 'length' }, { text: 'Once', finish: 'window' });
    server.queue({ text: 'I', finish: 'content_filter' });
    expect(await ask()).toMatchObject({ text: 'Once upon', finishReason: 'length' });
    // Only Anthropic distinguishes the two.
    const full = rowOf(provider) === 'anthropic' ? 'window' : 'length';
    expect(await ask()).toMatchObject({ text: 'Once', finishReason: full });
    expect(await ask()).toMatchObject({ finishReason: 'content_filter' });
  });

  test('a rate limit, with the time to wait', async () => {
    const error = await failure({ status: 429, retryAfter: 17, message: 'Slow down, $KEY.' });
    expect(error).toMatchObject({ code: 'LLM_RATE_LIMITED', extra: { suggested_wait_time: 17 } });
    expect(error.message).toContain('Slow down, [key].');
    expect(server.requests).toHaveLength(1);
  });

  test.each([
    [500, 'transient'],
    [503, 'transient'],
    [529, 'transient'],
    [408, 'transient'],
    [400, 'refused'],
    [404, 'refused'],
  ])('status %s is %s', async (status, kind) => {
    const error = await failure({ status, message: 'It did not work with $KEY.' });
    expect(error).toMatchObject({ code: 'LLM_ERROR', kind });
    expect(error.extra.is_retryable).toBe(kind === 'refused' ? false : undefined);
    expect(error.message).toContain(`status ${status}: It did not work with [key].`);
    // Retries are up to the caller.
    expect(server.requests).toHaveLength(1);
  });

  testWhere(rowOf(provider) !== 'ollama')('a key that the provider refuses', async () => {
    const error = await failure({}, { apiKey: 'sk-refused-0123456789' });
    expect(error).toMatchObject({ code: 'LLM_KEY_REQUIRED', kind: 'key', extra: { hint: expect.any(String) } });
    expect(error.message).toContain('refused the API key');
    expect(JSON.stringify(error) + error.message + error.stack).not.toContain('0123456789');
  });

  test.each(['seconds', 'date', 'ms', ...(rowOf(provider) === 'gemini' ? (['body'] as const) : [])] as const)(
    'a time to wait, said as %s',
    async (retryForm) => {
      expect(await failure({ status: 503, retryAfter: 3, retryForm })).toMatchObject({ retryAfterMs: 3000 });
      expect(await failure({ status: 503, retryAfter: 0, retryForm })).toMatchObject({ retryAfterMs: 0 });
    },
  );

  test('the provider may say itself whether to try again', async () => {
    expect(await failure({ status: 500, shouldRetry: false })).toMatchObject({ kind: 'refused' });
    expect(await failure({ status: 400, shouldRetry: true })).toMatchObject({ kind: 'transient' });
  });

  test('a conversation that is longer than the model reads', async () => {
    expect(await failure({ refusal: 'overflow' })).toMatchObject({ code: 'UNPROCESSABLE', kind: 'overflow' });
  });

  testWhere(rowOf(provider) !== 'ollama')('a quota that is used up, or credit', async () => {
    for (const refusal of ['quota', 'spend'] as const) {
      const error = await failure({ refusal });
      expect(error).toMatchObject({ code: 'LLM_RATE_LIMITED', kind: 'quota', extra: { is_retryable: false } });
      expect(error.extra.suggested_wait_time).toBeUndefined();
    }
  });

  test('a request is sent once, whatever becomes of a kept connection', async () => {
    server.queue({}, {}, {}, {});
    await Promise.all([ask(), ask(), ask(), ask()]);
    const error = await failure({ resetBeforeHeaders: true });
    expect(error).toMatchObject({
      code: 'LLM_ERROR',
      kind: 'transient',
      message: expect.stringContaining('broke off'),
    });
    expect(server.asked).toBe(5);
  });

  test('a connection that breaks', async () => {
    const spent: LlmUsage[] = [];
    const turn: ScriptedTurn = {
      text: 'a long answer, of which half comes',
      breakOff: 'reset',
      usage: { input: 400 },
    };
    const error = await failure(turn, { onBroken: (usage) => spent.push(usage) });
    expect(error).toMatchObject({ code: 'LLM_ERROR', kind: 'transient' });
    expect(error.message).toContain('broke off');
    // Providers charge for partial answers. Only Anthropic reports the input tokens at the beginning.
    expect(spent).toHaveLength(1);
    if (stream && rowOf(provider) === 'anthropic') expect(spent[0]!.inputTokens).toBe(400);
    else expect(spent[0]!.inputTokens).toBeGreaterThan(10);
    expect(spent[0]!.outputTokens).toBe(Math.ceil(pieces.join('').length / 4));
  });

  test('what fails before it begins costs nothing', async () => {
    const onBroken = () => expect.unreachable('nothing began');
    for (const turn of [{ status: 500 }, { status: 429 }, { contentType: 'text/html' }, { resetBeforeHeaders: true }])
      await failure(turn, { onBroken });
  });

  test('an answer that is given up in the middle is counted', async () => {
    const spent: LlmUsage[] = [];
    const stop = new AbortController();
    const signs: string[] = [];
    server.queue({ text: 'a long answer, of which half comes', hangAfter: stream ? 4 : 0 });
    const answer = ask({
      signal: stop.signal,
      onBroken: (usage) => spent.push(usage),
      onSign: (sign) => signs.push(sign),
    });
    await expect.poll(() => signs.length).toBeGreaterThanOrEqual(stream ? 3 : 2);
    stop.abort(new Error('enough'));
    await expect(answer).rejects.toThrow('enough');
    expect(signs.slice(0, 2)).toEqual(['sent', 'received']);
    expect(spent).toMatchObject([{ inputTokens: expect.any(Number) }]);
  });

  test('an answer that ends half-way as if it were whole', async () => {
    const error = await failure({ text: 'a long answer, of which half comes', breakOff: 'end' });
    expect(error).toMatchObject({
      code: 'LLM_ERROR',
      kind: expect.stringMatching(stream ? 'transient|unreadable' : 'unreadable'),
    });
    expect(error.message).toMatch(stream ? /broke off|without a finish/ : /could not be read/);
  });

  test('JSON that is none', async () => {
    const error = await failure({ text: 'a long answer, of which half comes', malformed: true });
    expect(error).toMatchObject({ code: 'LLM_ERROR', kind: 'unreadable' });
  });

  test('a page instead of an answer', async () => {
    expect(await failure({ contentType: 'text/html' })).toMatchObject({
      code: 'LLM_ERROR',
      kind: 'unreadable',
    });
    const error = await failure({ contentType: 'text/html', status: 502 });
    expect(error).toMatchObject({ message: expect.stringContaining('status 502'), kind: 'transient' });
  });

  testWhere(stream).each([{ streamError: true }, { errorFirst: true }])(
    'an error inside the stream: %j',
    async (fault) => {
      const error = await failure({ text: 'a long answer, of which half comes', ...fault });
      expect(error).toMatchObject({ code: 'LLM_ERROR', kind: 'transient' });
      expect(error.message).toContain('Overloaded');
    },
  );

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
});

test('a provider that cannot be reached', async () => {
  const nowhere = createLlm(parseConfig({ PLATFORM_ANTHROPIC_URL: 'http://127.0.0.1:1/v1' }));
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
  // A key from the environment is never used.
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

test('kept connections that the other side has closed fail one request at most', async () => {
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
  const client = createLlm(parseConfig(closing.settings));
  await Promise.all(Array.from({ length: 4 }, () => client.generate(request)));
  await closing.close();
  const again = await startScriptedLlm({ port });
  try {
    await client.generate(request).catch((error: LlmFailure) => expect(error.kind).toBe('transient'));
    expect((await client.generate(request)).text).toBe('ok');
  } finally {
    await again.close();
  }
});
