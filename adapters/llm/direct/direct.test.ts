import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { parseConfig } from '#core/base/config.ts';
import type { Llm, LlmAnswer, LlmProvider, LlmRequest, LlmUsage } from '#core/ports/llm.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import { createLlm } from '../create-llm.ts';
import { isDirect } from './direct.ts';

let server: ScriptedLlm;
let direct: Llm;
let bySdk: Llm;
let wentDirectly = 0;
beforeAll(async () => {
  server = await startScriptedLlm();
  const config = parseConfig(server.settings);
  direct = createLlm(config, undefined, (...asked) => {
    const isSo = isDirect(...asked);
    if (isSo) wentDirectly++;
    return isSo;
  });
  bySdk = createLlm(config, undefined, () => false);
});
afterEach(() => server.reset());
afterAll(() => server.close());

const SCHEMA = {
  type: 'object',
  properties: {
    n: { type: 'integer', minimum: 3, description: 'How many' },
    at: { type: 'string', format: 'date-time' },
    kind: { enum: ['a', 'b'] },
    list: { type: 'array', items: { $ref: '#/$defs/one' }, maxItems: 4 },
    either: { anyOf: [{ type: 'string', pattern: '^x' }, { type: 'null' }] },
  },
  required: ['n', 'list'],
  $defs: { one: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } },
} as const;
const OPEN = { type: 'object', additionalProperties: { type: 'string' } } as const;

const TOOLS: LlmRequest['tools'] = [
  { name: 'look_up', description: 'Looks up', inputSchema: OPEN },
  { name: 'submit', description: 'Submits\n', inputSchema: SCHEMA },
];
const STRICT = TOOLS.map((tool) => ({ ...tool, isStrict: tool.name === 'submit' }));
/** Includes turns of another provider and of an unknown one. */
const CONVERSATION: LlmRequest['messages'] = [
  { role: 'user', shared: 'The rules.', text: 'Go.' },
  { role: 'assistant', text: 'I look. ', toolCalls: [{ id: 'a', name: 'look_up', input: { x: 'é' } }] },
  { role: 'tool', results: [{ id: 'a', name: 'look_up', text: '', isError: false }] },
  {
    role: 'assistant',
    text: '',
    toolCalls: [
      { id: 'b', name: 'look_up', input: undefined },
      { id: 'c', name: 'nothing', input: [1] },
    ],
  },
  {
    role: 'tool',
    results: [
      { id: 'b', name: 'look_up', text: 'no JSON', isError: true },
      { id: 'c', name: 'nothing', text: 'no such tool', isError: true },
    ],
  },
  { role: 'user', text: 'Now answer.' },
];
const PLAIN_CALLS = CONVERSATION.filter(({ role }, index) => role === 'user' || index < 3);
const LONG = 'a rule of the house, '.repeat(400);

const MODELS = {
  anthropic: ['claude-sonnet-5-5', 'claude-haiku-4-5', 'claude-opus-6', 'unheard-of'],
  openai: ['gpt-6.2-sol', 'gpt-5.1', 'gpt-5', 'gpt-5-chat-latest', 'gpt-4o', 'unheard-of'],
} as const satisfies { readonly [Provider in LlmProvider]?: readonly string[] };

const REQUESTS: { readonly [what: string]: Partial<LlmRequest> } = {
  plain: {},
  'with thoughts': { thoughts: true },
  'with effort': { effort: 'high', thoughts: true },
  'with a shared part': {
    messages: [{ role: 'user', shared: ' The rules. ', text: ' Grüße 🍾\n' }],
    cache: { key: 'v1' },
  },
  'with a shared part that comes again': {
    messages: [{ role: 'user', shared: 'The rules.', text: 'Go.' }],
    cache: { key: 'v1', again: 'shared' },
  },
  'with a schema': { outputSchema: SCHEMA },
  'with a schema that is open, and effort': { outputSchema: OPEN, effort: 'low' },
  'in JSON': { json: true },
  'with room for a book': { maxOutputTokens: 64_000 },
  'with a system message': { system: 'Be brief.', cache: { key: 'v1' } },
  'with tools': { system: 'Be brief.', tools: TOOLS, thoughts: true, effort: 'low' },
  'with tools, one by one': { tools: TOOLS, parallelToolCalls: false },
  'with tools at once': { tools: TOOLS, parallelToolCalls: true },
  'with a strict tool': { tools: STRICT },
  'with tools and a schema of the answer': { tools: TOOLS, outputSchema: SCHEMA },
  'a conversation': { tools: TOOLS, messages: CONVERSATION },
  'a conversation of plain calls': { tools: TOOLS, messages: PLAIN_CALLS },
  'a conversation whose tools are gone': { messages: PLAIN_CALLS },
  'a conversation that ends with the model': { messages: PLAIN_CALLS.slice(0, 2) },
  'a long conversation that comes again': {
    system: LONG,
    tools: TOOLS,
    messages: PLAIN_CALLS,
    cache: { key: 'v1', again: 'conversation' },
  },
  'a conversation that becomes long': {
    system: 'Short.',
    tools: TOOLS,
    messages: [...PLAIN_CALLS, { role: 'user', text: LONG }],
    cache: { key: 'v1', again: 'conversation', fromTokens: 512 },
  },
  'a conversation with a file': {
    messages: [
      {
        role: 'user',
        text: 'See.',
        files: [{ name: 'a.png', mediaType: 'image/png', bytes: new Uint8Array([137, 80, 78, 71]) }],
      },
    ],
  },
  'with only one tool left': {
    tools: TOOLS,
    messages: [
      { role: 'user', text: 'Go.' },
      { role: 'only', tool: 'submit' },
    ],
  },
};

const TURNS: { readonly [what: string]: ScriptedTurn } = {
  text: { text: 'Ten green bottles, äöü 🍾.', usage: { input: 20, output: 7 } },
  'text that JSON escapes': { text: 'He said "no",\\n\n\tthen\u2028 \u007f\u0001 </p> "}} ' },
  nothing: { text: '' },
  thoughts: { thinking: 'Let me see: äöü.', text: 'Twelve.', usage: { input: 20, output: 7, cacheRead: 4 } },
  'a cut': { text: 'Once', finish: 'length' },
  'a full window': { text: 'Once', finish: 'window' },
  'a refusal': { text: 'No.', finish: 'content_filter' },
  'status 529': { status: 529, message: 'Too busy for $KEY.' },
  'status 429': { status: 429, retryAfter: 7 },
  'status 400': { status: 400, message: 'temperature: not with this model' },
  'a page': { contentType: 'text/html' },
  'a page of a proxy': { contentType: 'text/html', status: 502 },
  'no JSON': { text: 'a long answer, of which half comes', malformed: true },
  'half an answer': { text: 'a long answer, of which half comes', breakOff: 'end' },
  'a break': { text: 'a long answer, of which half comes', breakOff: 'reset' },
  'no answer': { resetBeforeHeaders: true },
  'an error in the middle': { text: 'a long answer, of which half comes', streamError: true },
  'an error first': { text: 'a long answer, of which half comes', errorFirst: true },
  'a full conversation': { refusal: 'overflow' },
  'a used up quota': { refusal: 'quota' },
};

const CALLS: { readonly [what: string]: ScriptedTurn } = {
  'a call': { toolCalls: [{ name: 'look_up', input: { x: 'é🍾' } }] },
  'a text and calls': {
    text: 'I look.',
    toolCalls: [
      { name: 'look_up', input: {} },
      { name: 'submit', input: { n: 1, list: [] } },
    ],
  },
  'a call after a thought': { thinking: 'Let me look.', toolCalls: [{ name: 'look_up', input: { x: 'y' } }] },
  'a call that is cut': { toolCalls: [{ name: 'look_up', input: { x: 'y' } }], finish: 'length' },
  'a call in half an answer': { toolCalls: [{ name: 'look_up', input: { x: 'y'.repeat(99) } }], breakOff: 'end' },
};

type DirectlyAsked = 'anthropic' | 'openai';
const PROVIDERS = Object.keys(MODELS) as DirectlyAsked[];
const CASES = PROVIDERS.flatMap((provider) => [false, true].map((isStreamed) => ({ provider, isStreamed })));

describe.each(CASES)(
  '$provider, streamed: $isStreamed: nobody can tell the ways apart by',
  ({ provider, isStreamed }) => {
    /** Returns everything that one path makes of a request and of the model's turn. */
    async function seen(llm: Llm, request: Partial<LlmRequest>, turn: ScriptedTurn = {}) {
      server.reset();
      server.queue(turn);
      /** Consecutive pieces may arrive as one. */
      const pieces: { readonly kind: string; text: string }[] = [];
      const add = (kind: string) => (text: string) => {
        if (pieces.at(-1)?.kind === kind) pieces.at(-1)!.text += text;
        else pieces.push({ kind, text });
      };
      const spent: LlmUsage[] = [];
      const signs: string[] = [];
      const outcome = await llm
        .generate({
          provider,
          model: MODELS[provider][0]!,
          apiKey: 'the-key-0123456789',
          messages: [{ role: 'user', text: 'Say it in JSON.' }],
          maxOutputTokens: 4096,
          signal: new AbortController().signal,
          onBroken: (usage) => spent.push(usage),
          onSign: (sign) => signs.push(sign),
          ...(isStreamed && {
            onText: add('text'),
            onThought: add('thought'),
            onTool: add('tool'),
          }),
          ...request,
        })
        .catch(({ code, message, kind, extra, ...more }) => {
          // The text for an unreadable answer differs between the paths.
          const told = kind === 'unreadable' ? message.replace(/could not be read.*/s, 'could not be read') : message;
          return { code, message: told, kind, extra, ...more };
        });
      const sent = server.requests.map(({ path, body, headers }) => {
        const { 'user-agent': _, 'content-length': __, ...known } = headers;
        return { path, body, headers: known };
      });
      // Each answer has different ids.
      const known = JSON.parse(JSON.stringify(outcome).replaceAll(/\b(msg|rs|fc|call|toolu)_[\w-]+/g, '$1_'));
      return { outcome: known, sent, pieces, spent, signs: new Set(signs) };
    }

    async function expectSame(request: Partial<LlmRequest>, turn?: ScriptedTurn): Promise<void> {
      const plain = await seen(direct, request, turn);
      expect(plain).toEqual(await seen(bySdk, request, turn));
      expect(plain.sent.length).toBeLessThanOrEqual(1);
    }

    describe.each(MODELS[provider])('what they send to %s', (model) => {
      test.each(Object.entries(REQUESTS))('%s', (_, request) => expectSame({ model, ...request }));
    });

    test.each(Object.entries(TURNS))('what they make of %s', async (_, turn) => {
      const before = wentDirectly;
      await expectSame({ thoughts: true }, turn);
      expect(wentDirectly).toBe(before + 1);
    });

    test.each(Object.entries(CALLS))('what they make of %s', async (_, turn) => {
      const before = wentDirectly;
      await expectSame({ tools: TOOLS, thoughts: true }, turn);
      expect(wentDirectly).toBe(before + 1);
    });
  },
);

const said = (text: string) => ({
  type: 'message',
  role: 'assistant',
  id: 'msg_1',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations: [] }],
});

const text = fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('', ' ', 'a \n'));
const anyInput = fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue());
const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
const rawOptions = {
  anthropic: {
    text: fc.constant(undefined),
    reasoning: fc.record({
      anthropic: fc.oneof(fc.record({ signature: text }), fc.record({ redactedData: text }), fc.constant({})),
    }),
    call: optional(
      fc.record({
        anthropic: fc.record({
          caller: fc.record({
            type: fc.constantFrom('direct', 'code_execution_20250825', 'code_execution_20260120'),
            toolId: optional(text),
          }),
        }),
      }),
    ),
  },
  openai: {
    text: optional(fc.record({ openai: fc.record({ itemId: text, phase: optional(text) }) })),
    reasoning: fc.record({
      openai: fc.record(
        { itemId: fc.constantFrom('rs_1', 'rs_2'), reasoningEncryptedContent: fc.oneof(text, fc.constant(null)) },
        { requiredKeys: ['reasoningEncryptedContent'] },
      ),
    }),
    call: optional(
      fc.record({
        openai: fc.oneof(
          fc.record({ itemId: text }),
          fc.record({ itemId: text, async: optional(fc.boolean()), namespace: optional(text) }),
        ),
      }),
    ),
  },
};
const rawPartOf = (provider: DirectlyAsked) =>
  fc.oneof(
    fc.record({ type: fc.constant('text'), text, providerOptions: rawOptions[provider].text }),
    fc.record({ type: fc.constant('reasoning'), text, providerOptions: rawOptions[provider].reasoning }),
    fc.record({
      type: fc.constant('tool-call'),
      toolCallId: fc.stringMatching(/^toolu_\w{1,4}$/),
      toolName: fc.constantFrom('look_up', 'gone'),
      input: anyInput,
      providerOptions: rawOptions[provider].call,
    }),
  );
const toolCall = fc.record({
  id: fc.constantFrom('a', 'b'),
  name: fc.constantFrom('look_up', 'gone'),
  input: anyInput,
});
const messageOf = (provider: DirectlyAsked) =>
  fc.oneof(
    fc.record({ role: fc.constant('user'), text }),
    fc.record({
      role: fc.constant('assistant'),
      text,
      toolCalls: fc.array(toolCall, { maxLength: 3 }),
      raw: optional(
        fc.record({
          provider: fc.constantFrom(provider, provider, 'gemini'),
          content: fc.array(rawPartOf(provider), { maxLength: 4 }),
          schemaPlace: fc.constant(undefined),
        }),
      ),
    }),
    fc.record({
      role: fc.constant('tool'),
      results: fc.array(
        fc.record({ id: fc.constantFrom('a', 'b'), name: fc.constant('look_up'), text, isError: fc.boolean() }),
        { minLength: 1, maxLength: 3 },
      ),
    }),
    fc.record({ role: fc.constant('only'), tool: fc.constantFrom('look_up', 'gone') }),
  );
const conversationOf = (provider: DirectlyAsked) =>
  fc.record(
    {
      system: text,
      messages: fc
        .tuple(
          fc.record({ role: fc.constant('user'), shared: optional(text), text }),
          fc.array(messageOf(provider), { maxLength: 6 }),
        )
        .map(([first, others]) => [first, ...others]),
      tools: fc.subarray([...TOOLS]),
      cache: fc.constantFrom(
        { key: 'k' },
        { key: 'k', again: 'shared' },
        { key: 'k', again: 'conversation', fromTokens: 1 },
        { key: 'k', again: 'conversation', fromTokens: 20 },
      ),
      parallelToolCalls: fc.boolean(),
      thoughts: fc.boolean(),
      json: fc.boolean(),
    },
    { requiredKeys: ['messages'] },
  ) as unknown as fc.Arbitrary<Partial<LlmRequest>>;

describe('an API that takes everything', () => {
  /** Body of every response, and the request received. */
  let answer = '';
  let contentType = 'application/json';
  let asked: { readonly body: unknown; readonly prefix: string; readonly beta: unknown }[] = [];
  const api = createServer(async (request, response) => {
    const body = JSON.parse(Buffer.concat(await request.toArray()).toString());
    // Prefix that the provider's cache compares byte by byte.
    const prefix = JSON.stringify([body.tools, body.system, body.messages, body.input]);
    asked.push({ body, prefix, beta: request.headers['anthropic-beta'] });
    response.writeHead(200, { 'content-type': contentType }).end(answer);
  });
  let ways: readonly Llm[];
  beforeAll(async () => {
    await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve));
    const address = `http://127.0.0.1:${(api.address() as AddressInfo).port}/v1`;
    const config = { ...parseConfig(server.settings), anthropicUrl: address, openaiUrl: address };
    ways = [createLlm(config), createLlm(config, undefined, () => false)];
  });
  afterAll(() => api.close());

  async function outcomes(provider: DirectlyAsked, request: Partial<LlmRequest>) {
    const seen: { readonly outcome: LlmAnswer; readonly asked: typeof asked; readonly named: string[] }[] = [];
    for (const llm of ways) {
      asked = [];
      const named: string[] = [];
      const outcome = await llm
        .generate({
          provider,
          model: MODELS[provider][0],
          apiKey: 'the-key-0123456789',
          messages: [{ role: 'user', text: 'Go.' }],
          maxOutputTokens: 4096,
          signal: new AbortController().signal,
          onTool: (name) => named.push(name),
          ...request,
        })
        .catch(({ message }) => ({ message }));
      seen.push({ outcome: JSON.parse(JSON.stringify(outcome)), asked, named });
    }
    return seen;
  }

  const USAGE = { input_tokens: 20, output_tokens: 7 };
  const whole = (content: readonly object[]): string =>
    JSON.stringify({
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content,
      usage: USAGE,
      stop_reason: 'tool_use',
    });
  const response = (output: readonly object[]) => ({
    id: 'resp_1',
    created_at: 1,
    model: 'm',
    output,
    incomplete_details: null,
    usage: USAGE,
  });
  const ANSWERS = {
    anthropic: whole([{ type: 'text', text: 'Yes.' }]),
    openai: JSON.stringify(response([said('Yes.')])),
  };
  const use = (more: object) => ({ type: 'tool_use', id: 'toolu_1', name: 'look_up', input: {}, ...more });

  test.each(PROVIDERS)('gets the same conversation both ways: %s', { timeout: 60_000 }, async (provider) => {
    answer = ANSWERS[provider];
    let direct = 0;
    await fc.assert(
      fc.asyncProperty(conversationOf(provider), async (request) => {
        if (isDirect({ provider, model: MODELS[provider][0], ...request } as LlmRequest, undefined)) direct++;
        const [plain, bySdk] = await outcomes(provider, request);
        expect(plain).toEqual(bySdk);
      }),
      { numRuns: 300 },
    );
    expect(direct).toBeGreaterThan(30);
  });

  test.each([
    ['the model', { input: { x: 'é' }, caller: { type: 'direct' } }],
    ['code of the model', { input: { x: 1 }, caller: { type: 'code_execution_20260120', tool_id: 'srvtoolu_1' } }],
    ['nobody it tells of', { input: {} }],
  ])('a call by %s comes back as it was', async (_, more) => {
    answer = whole([use(more)]);
    const [plain, bySdk] = await outcomes('anthropic', { tools: TOOLS });
    expect(plain).toEqual(bySdk);
    const messages: LlmRequest['messages'] = [
      { role: 'user', text: 'Go.' },
      plain!.outcome.message,
      { role: 'tool', results: [{ id: 'toolu_1', name: 'look_up', text: '1', isError: false }] },
    ];
    const [again, againBySdk] = await outcomes('anthropic', { tools: TOOLS, messages });
    expect(again).toEqual(againBySdk);
    expect(again!.asked[0]!.body).toMatchObject({ messages: [{}, { content: [{ id: 'toolu_1' }] }, {}] });
  });

  test.each([
    [
      'pieces',
      [
        { type: 'input_json_delta', partial_json: '{"x":' },
        { type: 'input_json_delta', partial_json: '"é"}' },
      ],
      {},
      true,
    ],
    ['no piece', [{ type: 'input_json_delta', partial_json: '' }], {}, true],
    ['its beginning', [], { input: { x: 1 } }, true],
    ['pieces that are no JSON', [{ type: 'input_json_delta', partial_json: '{"x":' }], {}, true],
    ['a block without an end', [{ type: 'input_json_delta', partial_json: '{}' }], {}, false],
  ] as const)('a streamed call whose parameters come in %s is the same both ways', async (_, deltas, more, isEnded) => {
    const events = [
      { type: 'message_start', message: { ...JSON.parse(whole([])), stop_reason: null } },
      { type: 'content_block_start', index: 0, content_block: use(more) },
      ...deltas.map((delta) => ({ type: 'content_block_delta', index: 0, delta })),
      ...(isEnded ? [{ type: 'content_block_stop', index: 0 }] : []),
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 7 } },
      { type: 'message_stop' },
    ];
    contentType = 'text/event-stream';
    answer = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
    const [plain, bySdk] = await outcomes('anthropic', { tools: TOOLS, onText: () => {} });
    expect(plain).toEqual(bySdk);
    contentType = 'application/json';
  });

  const call = (more: object) => ({
    type: 'function_call',
    id: 'fc_1',
    call_id: 'call_1',
    name: 'look_up',
    arguments: '{"x":"é"}',
    status: 'completed',
    ...more,
  });
  const thought = (summary: readonly string[]) => ({
    type: 'reasoning',
    id: 'rs_1',
    encrypted_content: 'sealed',
    summary: summary.map((text) => ({ type: 'summary_text', text })),
  });
  const uses = (...names: readonly unknown[]) =>
    JSON.stringify({
      tool_uses: names.map((name) => ({ recipient_name: name, parameters: { x: 'é' } })),
    });
  interface Item {
    readonly id: string;
    readonly content?: readonly { readonly text: string }[];
    readonly summary?: readonly { readonly text: string }[];
    readonly arguments?: string;
  }
  const OUTPUTS: { readonly [what: string]: readonly Item[] } = {
    'a call': [call({})],
    'a call without parameters': [call({ arguments: '' })],
    'a call whose parameters are no JSON': [call({ arguments: '{"x":' })],
    'a call of nobody': [call({ name: 'gone', async: false, namespace: 'a', caller: { type: 'direct' } })],
    'a call by a program': [call({ caller: { type: 'program', caller_id: 'p_1' } })],
    'thoughts and calls': [
      thought(['First.', 'Then.']),
      said('I look.'),
      call({}),
      call({ id: 'fc_2', call_id: 'call_2' }),
    ],
    'a thought without a summary': [thought([]), call({})],
    'two calls in one': [call({ name: 'parallel', arguments: uses('functions.look_up', 'functions.submit') })],
    'no calls in one': [call({ name: 'parallel', arguments: uses() })],
    'calls of others in one': [call({ name: 'parallel', arguments: uses('functions.look_up', 'web.search') })],
    'what is no call in one': [call({ name: 'parallel', arguments: uses(null) }), said('Well.')],
  };

  test.each(Object.entries(OUTPUTS))('%s of OpenAI: the same both ways, and goes back', async (_, output) => {
    answer = JSON.stringify(response(output));
    await expectSameTurn();
    contentType = 'text/event-stream';
    const events = [
      { type: 'response.created', response: { ...response([]), usage: null } },
      ...output.flatMap((item, output_index) => {
        const of = { output_index, item_id: item.id };
        const begun = {
          ...item,
          ...(item.content && { content: [] }),
          ...(item.summary && { summary: [] }),
          ...(item.arguments && { arguments: '' }),
        };
        return [
          { type: 'response.output_item.added', output_index, item: begun },
          ...(item.summary ?? []).flatMap(({ text: delta }, summary_index) => [
            { type: 'response.reasoning_summary_part.added', ...of, summary_index },
            { type: 'response.reasoning_summary_text.delta', ...of, summary_index, delta },
            { type: 'response.reasoning_summary_part.done', ...of, summary_index },
          ]),
          ...(item.content ?? []).map(({ text: delta }) => ({ type: 'response.output_text.delta', ...of, delta })),
          ...(item.arguments ? [{ type: 'response.function_call_arguments.delta', ...of, delta: item.arguments }] : []),
          { type: 'response.output_item.done', output_index, item },
        ];
      }),
      { type: 'response.completed', response: response(output) },
    ];
    answer = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
    await expectSameTurn({ onText: () => {} });
    contentType = 'application/json';
  });

  test('a streamed call of OpenAI that does not end is none', async () => {
    const events = [
      { type: 'response.created', response: { ...response([]), usage: null } },
      { type: 'response.output_item.added', output_index: 0, item: call({ arguments: '' }) },
      { type: 'response.function_call_arguments.delta', output_index: 0, item_id: 'fc_1', delta: '{}' },
      {
        type: 'response.incomplete',
        response: { ...response([]), incomplete_details: { reason: 'max_output_tokens' } },
      },
    ];
    contentType = 'text/event-stream';
    answer = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
    const { toolCalls, finishReason } = await expectSameTurn({ onText: () => {} });
    expect({ toolCalls, finishReason }).toEqual({ toolCalls: [], finishReason: 'length' });
    contentType = 'application/json';
  });

  /** Expects the same for the next request with this turn in the conversation, on either path. Returns the turn. */
  async function expectSameTurn(more: Partial<LlmRequest> = {}): Promise<LlmAnswer> {
    const turns = await outcomes('openai', { tools: TOOLS, ...more });
    const [plain, bySdk] = turns.map(({ outcome: { message: _, ...seen }, ...others }) => ({ ...others, seen }));
    expect(plain).toEqual(bySdk);
    const sent: unknown[] = [];
    for (const { message, toolCalls } of turns.map(({ outcome }) => outcome)) {
      const results = toolCalls.map(({ id, name }) => ({ id, name, text: '1', isError: false }));
      const messages: LlmRequest['messages'] = [{ role: 'user', text: 'Go.' }, message, { role: 'tool', results }];
      for (const { asked } of await outcomes('openai', { tools: TOOLS, messages, ...more })) sent.push(asked);
    }
    expect(sent).toEqual(sent.map(() => sent[0]));
    return turns[0]!.outcome;
  }
});
