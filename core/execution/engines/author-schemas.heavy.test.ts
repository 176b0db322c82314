import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import { validateAgainst } from '#core/manifest/json-schema/schema-validation.ts';
import { fillCommand } from '#core/manifest/tool-commands/fill-command.ts';
import { placesIn } from '#core/manifest/tool-commands/tool-command.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import type { JsonSchema } from '#core/ports/llm.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import { Trace } from '#core/runs/trace/trace.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { runPrompt } from './direct-llm.ts';

const PROMPTS = 300;
/** Fraction of wrong answers. */
const WRONG_RATE = 0.1;

let server: ScriptedLlm;
beforeAll(async () => {
  server = await startScriptedLlm();
});
afterEach(() => server.reset());
afterAll(() => server.close());

type Members = { readonly [name: string]: Json };

/** An author's schema, and an output that matches it. */
interface Sample {
  readonly name: string;
  readonly schema: JsonSchema;
  readonly right: Json;
}

const ofExample = (name: string): JsonSchema =>
  JSON.parse(readFileSync(new URL(`../../../examples/${name}/schema.json`, import.meta.url), 'utf8')).output;
const text = { type: 'string' };

const SAMPLES: readonly Sample[] = [
  {
    name: 'nested objects with many optional members',
    schema: ofExample('csv-insights'),
    right: {
      summary: 'Two columns.',
      rows: 12,
      columns: [
        { name: 'id', type: 'integer', missing: 0, distinct: 12, min: 1, max: 12 },
        { name: 'city', type: 'text', missing: 1, distinct: 3, most_common: [{ value: 'Bern', count: 4 }] },
      ],
      findings: [{ kind: 'missing', message: 'One city is missing.', column: 'city', rows: [7] }],
    },
  },
  {
    name: 'texts that may be null',
    schema: ofExample('html-to-markdown'),
    right: { title: 'A', description: null, language: 'en', markdown: '# A', words: 1, links: [] },
  },
  {
    name: 'evidence in two levels of arrays',
    schema: ofExample('log-investigator'),
    right: {
      summary: 'The disk was full.',
      cause: null,
      confidence: 'high',
      began: '10:00',
      ended: null,
      findings: [{ what: 'No space.', evidence: [{ file: 'a.log', line: 3, text: 'ENOSPC' }] }],
      next_steps: ['Free some.'],
    },
  },
  {
    name: 'bounds and a pattern',
    schema: ofExample('ticket-triage'),
    right: {
      category: 'bug',
      urgency: 2,
      team: 'web',
      summary: 'It fails.',
      language: 'de-CH',
      missing: [],
      suspicious: false,
      reply: 'Thank you.',
    },
  },
  {
    name: 'references to a definition, and an open object',
    schema: ofExample('support-digest'),
    right: {
      summary: 'One ticket.',
      complete: false,
      tickets: [],
      failed: [{ id: '1', subject: 'Help', error: { code: 'TIMEOUT', message: 'Too late.' } }],
      export: {},
    },
  },
  {
    name: 'one of several kinds',
    schema: {
      type: 'object',
      required: ['events'],
      properties: {
        events: {
          type: 'array',
          minItems: 1,
          items: {
            oneOf: [
              {
                type: 'object',
                required: ['kind', 'amount'],
                properties: { kind: { const: 'payment' }, amount: { type: 'number', exclusiveMinimum: 0 }, note: text },
              },
              {
                type: 'object',
                required: ['kind', 'at'],
                properties: { kind: { const: 'visit' }, at: { type: 'string', format: 'date-time' } },
              },
            ],
          },
        },
      },
    },
    right: {
      events: [
        { kind: 'payment', amount: 9.5 },
        { kind: 'visit', at: '2026-11-22T10:00:00Z' },
      ],
    },
  },
  {
    name: 'an open map',
    schema: {
      type: 'object',
      required: ['translations'],
      properties: { translations: { type: 'object', additionalProperties: text }, note: text },
    },
    right: { translations: { de: 'Hallo', fr: 'Bonjour' } },
  },
  {
    name: 'a circle of references',
    schema: {
      type: 'object',
      required: ['root'],
      properties: { root: { $ref: '#/$defs/node' }, note: text },
      $defs: {
        node: {
          type: 'object',
          required: ['name'],
          properties: { name: text, children: { type: 'array', items: { $ref: '#/$defs/node' } } },
        },
      },
    },
    right: { root: { name: 'a', children: [{ name: 'b' }] } },
  },
  {
    name: 'a list',
    schema: {
      type: 'array',
      minItems: 1,
      items: {
        type: 'object',
        required: ['name', 'score'],
        properties: { name: text, score: { type: 'number', minimum: 0, maximum: 1 }, note: text },
      },
    },
    right: [
      { name: 'a', score: 0.5 },
      { name: 'b', score: 1 },
    ],
  },
  {
    name: 'a review',
    schema: {
      type: 'object',
      required: ['rating', 'topics'],
      properties: {
        rating: { type: 'integer', minimum: 1, maximum: 5 },
        topics: { type: 'array', uniqueItems: true, items: { enum: ['price', 'quality', 'delivery'] } },
        quote: { type: 'string', maxLength: 200 },
        note: text,
      },
    },
    right: { rating: 4, topics: ['price'] },
  },
];

const MODELS: readonly ModelChoice[] = [
  { provider: 'anthropic', model: 'claude-sonnet-5-5', apiKey: undefined },
  { provider: 'anthropic', model: 'claude-haiku-5-5', apiKey: undefined },
  { provider: 'openai', model: 'gpt-6.2-sol', apiKey: undefined },
  { provider: 'gemini', model: 'gemini-3.8-flash', apiKey: undefined },
  { provider: 'ollama', model: 'llama3.2', apiKey: undefined },
];

/** The answer requested from the model: an object, which contains the output if that is not an object itself. */
const asked = ({ right }: Sample): Members => (Array.isArray(right) ? { result: right } : (right as Members));

/** Answers that are wrong however they are read. */
const HARD: readonly ((sample: Sample) => string)[] = [
  (sample) => JSON.stringify(Object.fromEntries(Object.entries(asked(sample)).slice(1))),
  (sample) => JSON.stringify({ ...asked(sample), [Object.keys(asked(sample))[0]!]: [[]] }),
  () => 'I am sorry, I would rather describe it in words.',
];
/** Answers of models that were told a schema but not constrained to it. */
const SOFT: readonly ((sample: Sample) => string)[] = [
  (sample) => `Here is the result:\n\n${JSON.stringify(asked(sample))}\n\nAnything else?`,
  (sample) =>
    JSON.stringify(
      'note' in ((sample.schema.properties ?? {}) as object) ? { ...asked(sample), note: null } : asked(sample),
    ),
];

/** Park-Miller random number generator, values between 0 and 1. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

/** Runs all prompts; each answer is wrong at random, in the next of these ways. */
async function played(ways: readonly ((sample: Sample) => string)[], seed: number) {
  const { url } = server;
  const urls = {
    anthropicUrl: `${url}/anthropic/v1`,
    openaiUrl: `${url}/openai/v1`,
    geminiUrl: `${url}/gemini/v1beta`,
  };
  const deps = memoryDeps({ ...urls, ollamaUrl: `${url}/ollama/v1` });
  const random = randomOf(seed);
  let wrong = 0;
  const answerOf = (sample: Sample): string =>
    random() < WRONG_RATE ? ways[wrong++ % ways.length]!(sample) : JSON.stringify(asked(sample));
  let firstWrong = 0;
  let skipped = 0;
  for (let n = 0; n < PROMPTS; n++) {
    const sample = SAMPLES[n % SAMPLES.length]!;
    const choice = { ...MODELS[Math.floor(n / SAMPLES.length) % MODELS.length]!, apiKey: `key-${n}` };
    const before = wrong;
    const first = answerOf(sample);
    firstWrong += wrong - before;
    const answers = [first, answerOf(sample)];
    server.script({ key: choice.apiKey, turns: answers.map((answer) => ({ text: answer })) });
    const definition = { prompt: 'Judge it.', output_schema: sample.schema, supported_providers: ['any'] };
    const result = await runPrompt(deps, {
      runId: 'r',
      workspaceId: 'w',
      validate: async (schema, value) => validateAgainst(schema, value),
      fillCommand: async (command, values) => fillCommand(command, placesIn(command), values),
      agent: { definition } as unknown as AgentVersion,
      input: { document: {}, uploads: [], isMultipart: false },
      skills: [],
      models: [choice],
      isStrict: false,
      files: [],
      env: {},
      mask: new SecretMask({}),
      deadline: deps.clock.now() + 60_000,
      signal: new AbortController().signal,
      emit() {},
      trace: new Trace(deps.clock),
    });
    expect(result.error).toBeUndefined();
    // `checkOutput` turns each into a VALIDATION_SKIPPED warning.
    if (result.dataProblems!.length > 0) skipped++;
    else expect(result.data).toEqual(sample.right);
  }
  return { firstWrong, skipped, requests: server.asked };
}

describe(`${PROMPTS} prompts of ten authors, with providers whose answers are wrong one time in ten`, () => {
  test.each(SAMPLES)('$name: its sample matches', ({ schema, right }) => {
    expect(validateAgainst(schema, right)).toEqual([]);
  });

  /** Several seeds, because a single round of 300 has so few wrong answers that chance would decide. */
  const rounds = async (ways: typeof HARD, count: number) => {
    const runs: Awaited<ReturnType<typeof played>>[] = [];
    for (let seed = 1; seed <= count; seed++) {
      runs.push(await played(ways, seed * 7919));
      server.reset();
    }
    const of = (name: 'firstWrong' | 'skipped' | 'requests') => runs.map((run) => run[name]);
    console.log({ wrong: of('firstWrong').join(), skipped: of('skipped').join(), requests: of('requests').join() });
    for (const { firstWrong, requests } of runs) expect(requests).toBeLessThanOrEqual(PROMPTS + firstWrong);
    const share = (name: 'firstWrong' | 'skipped') => of(name).reduce((sum, n) => sum + n) / (count * PROMPTS);
    expect(share('firstWrong')).toBeGreaterThan(WRONG_RATE * 0.8);
    return share('skipped');
  };

  test('end with an output that does not match in less than 1 in 100', async () => {
    expect(await rounds([...HARD, ...SOFT], 4)).toBeLessThan(0.01);
  }, 300_000);

  test('of which no reading is right: as often as the corrected answer is wrong, too', async () => {
    expect(await rounds(HARD, 2)).toBeLessThan(2 * WRONG_RATE ** 2);
  }, 300_000);
});
