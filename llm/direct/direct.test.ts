import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { parseConfig } from '#core/base/config.ts';
import type { Llm, LlmProvider, LlmRequest, LlmUsage } from '#core/ports/llm.ts';
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

const MODELS: { readonly [Provider in LlmProvider]?: readonly string[] } = {
  anthropic: ['claude-sonnet-5-5', 'claude-haiku-4-5', 'claude-opus-6', 'unheard-of'],
  openai: ['gpt-6.2-sol', 'gpt-5.1', 'gpt-5', 'gpt-5-chat-latest', 'gpt-4o', 'unheard-of'],
};

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
};

const TURNS: { readonly [what: string]: ScriptedTurn } = {
  text: { text: 'Ten green bottles, äöü 🍾.', usage: { input: 20, output: 7 } },
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

const PROVIDERS = Object.keys(MODELS) as LlmProvider[];
const CASES = PROVIDERS.flatMap((provider) => [false, true].map((isStreamed) => ({ provider, isStreamed })));

describe.each(CASES)(
  '$provider, streamed: $isStreamed: nobody can tell the ways apart by',
  ({ provider, isStreamed }) => {
    /** Everything that one way makes of a request and the turn of the model. */
    async function seen(llm: Llm, request: Partial<LlmRequest>, turn: ScriptedTurn = {}) {
      server.reset();
      server.queue(turn);
      const pieces: string[] = [];
      const thoughts: string[] = [];
      const spent: LlmUsage[] = [];
      const signs: string[] = [];
      const outcome = await llm
        .generate({
          provider,
          model: MODELS[provider]![0]!,
          apiKey: 'the-key-0123456789',
          messages: [{ role: 'user', text: 'Say it in JSON.' }],
          maxOutputTokens: 4096,
          signal: new AbortController().signal,
          onBroken: (usage) => spent.push(usage),
          onSign: (sign) => signs.push(sign),
          ...(isStreamed && {
            onText: (text: string) => pieces.push(text),
            onThought: (text: string) => thoughts.push(text),
          }),
          ...request,
        })
        .catch(({ code, message, kind, extra, ...more }) => {
          // The ways differ in the text of an answer that is none.
          const told = kind === 'unreadable' ? message.replace(/could not be read.*/s, 'could not be read') : message;
          return { code, message: told, kind, extra, ...more };
        });
      const sent = server.requests.map(({ path, body, headers }) => {
        const { 'user-agent': _, 'content-length': __, ...known } = headers;
        return { path, body, headers: known };
      });
      // Each answer has ids of its own.
      const known = JSON.parse(JSON.stringify(outcome).replaceAll(/\b(msg|rs)_[\w-]+/g, '$1_'));
      return { outcome: known, sent, pieces, thoughts, spent, signs: new Set(signs) };
    }

    async function expectSame(request: Partial<LlmRequest>, turn?: ScriptedTurn): Promise<void> {
      const plain = await seen(direct, request, turn);
      expect(plain).toEqual(await seen(bySdk, request, turn));
      expect(plain.sent.length).toBeLessThanOrEqual(1);
    }

    describe.each(MODELS[provider]!)('what they send to %s', (model) => {
      test.each(Object.entries(REQUESTS))('%s', (_, request) => expectSame({ model, ...request }));
    });

    test.each(Object.entries(TURNS))('what they make of %s', async (_, turn) => {
      const before = wentDirectly;
      await expectSame({ thoughts: true }, turn);
      expect(wentDirectly).toBe(before + 1);
    });
  },
);
