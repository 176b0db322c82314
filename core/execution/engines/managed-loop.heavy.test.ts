import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { validateAgainst } from '#core/manifest/json-schema/schema-validation.ts';
import { fillCommand } from '#core/manifest/tool-commands/fill-command.ts';
import { placesIn } from '#core/manifest/tool-commands/tool-command.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import { Trace } from '#core/runs/trace/trace.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { createLocalSandbox } from '#local/sandbox/local-sandbox.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { EngineResult, EngineRun } from './engine.ts';
import { runLoop } from './managed-loop.ts';
import type { ProgressEvent } from './progress.ts';

const LOOPS = 1000;
const TURNS = 20;
/** Fraction of requests that fail. */
const FAULT_RATE = 0.01;

const folder = mkdtempSync(join(tmpdir(), 'steady-loops-'));
const blobs = new FolderBlobs(join(folder, 'blobs'));
const sandbox = await createLocalSandbox({ cacheFolder: join(folder, 'cache'), blobs, kind: 'auto', prestart: 2 });
const { problem } = await sandbox.status();

let server: ScriptedLlm;
beforeAll(async () => {
  server = await startScriptedLlm();
});
afterEach(() => server.reset());
afterAll(async () => {
  await Promise.all([server.close(), sandbox.close()]);
  rmSync(folder, { recursive: true, force: true });
});

/**
 * Every third turn writes its number into a file, the second to last reads the file, and the last answers with its
 * content.
 */
const isNoted = (turn: number): boolean => turn % 3 === 0;
const work = (turn: number): ScriptedTurn => ({
  thinking: `Turn ${turn}.`,
  text: `I note ${turn}.`,
  toolCalls: [isNoted(turn) ? { name: 'bash', input: { command: `echo ${turn} >> notes` } } : { name: 'no-such-tool' }],
});
const WORKING = Array.from({ length: TURNS - 2 }, (_, index) => index + 1);
const SCRIPT = [...WORKING.map(work), { toolCalls: [{ name: 'read_file', input: { path: 'notes' } }] }, { echo: true }];
const NOTES = WORKING.filter(isNoted).join('\n');

const FAULTS: ScriptedTurn[] = [
  { status: 529 },
  { status: 500 },
  { status: 429, retryAfter: 1 },
  { status: 503, retryAfter: 0.3, retryForm: 'ms' },
  { errorFirst: true },
  { ...work(3), streamError: true },
  { ...work(3), breakOff: 'reset' },
  { ...work(3), breakOff: 'end' },
  { resetBeforeHeaders: true },
  { contentType: 'text/html', status: 502 },
];

test.skipIf(problem !== undefined)(
  `${LOOPS} loops of ${TURNS} turns, with a fault in one of a hundred requests, end with a result; no tool runs twice`,
  async () => {
    server.script({
      default: {},
      rules: [{ marker: 'the notes', turns: SCRIPT }],
      faults: { rate: FAULT_RATE, turns: FAULTS },
    });
    const deps = newDeps();
    const results: EngineResult[] = [];
    let retries = 0;
    const numbers = Array.from({ length: LOOPS }, (_, index) => index);
    const worker = async (): Promise<void> => {
      for (let number = numbers.pop(); number !== undefined; number = numbers.pop()) {
        const run = runOf(number, deps.clock, ({ type }) => {
          if (type === 'retry') retries++;
        });
        results.push(await runLoop(deps, run));
      }
    };
    await Promise.all(Array.from({ length: 8 }, worker));

    const good = results.filter(({ error }) => error === undefined);
    console.log(`${good.length} of ${LOOPS} loops, ${server.asked} requests, ${retries} of them again`);
    expect(retries).toBeGreaterThan(0.5 * FAULT_RATE * LOOPS * TURNS);
    expect(good.length).toBeGreaterThanOrEqual(0.999 * LOOPS);
    expect(server.asked).toBeLessThanOrEqual(1.03 * LOOPS * TURNS);
    for (const { data } of good) expect((data as { result: string }).result.trim()).toBe(NOTES);
  },
  1_200_000,
);

describe.skipIf(problem !== undefined)('what the model read before is read from its cache', () => {
  /** Twelve concurrent calls are shorter, so that the conversation is not compacted. */
  const written = (calls: number) => ({
    name: 'bash',
    input: { command: `head -c ${calls === 1 ? 10_240 : 1536} /dev/zero | tr '\\0' x | tee page` },
  });
  /** Reads the only line of the file. Every turn asks in different words, because repeats would count as stuck. */
  const page = (limit: number) => ({ name: 'read_file', input: { path: 'page', limit } });

  test.each([
    { provider: 'anthropic', model: 'claude-sonnet-5-5', calls: 1 },
    { provider: 'anthropic', model: 'claude-sonnet-5-5', calls: 12 },
    { provider: 'openai', model: 'gpt-6.2-sol', calls: 1 },
    { provider: 'gemini', model: 'gemini-3.8-flash', calls: 1 },
  ] as const)(
    '$model, $calls calls a turn',
    async ({ provider, model, calls }) => {
      const turns = [
        { toolCalls: Array(calls).fill(written(calls)) },
        ...WORKING.map((turn): ScriptedTurn => ({ text: 'On.', toolCalls: Array(calls).fill(page(turn)) })),
        { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] },
      ];
      server.script({ turns: turns.map((turn) => ({ ...turn, usage: { output: 250 } })) });
      const deps = newDeps();
      const run = runOf(1, deps.clock, () => {}, { provider, model, apiKey: 'k' });
      const result = await runLoop(deps, run);
      expect(result.data).toEqual({ result: 'done' });
      expect(server.requests).toHaveLength(TURNS);
      const billed = server.requests.map(({ usage }) => usage!);
      const totals = billed.map(({ input, cacheRead, cacheWrite }) =>
        provider === 'anthropic' ? input + cacheRead + cacheWrite : input,
      );
      const reads = billed.map(({ cacheRead }) => cacheRead);
      // A turn reads the previous turn's request from the cache if it has at least this many tokens. OpenAI counts in
      // steps.
      const least = deps.modelTable.factsOf(model).cache_from!;
      for (let turn = 3; turn <= TURNS; turn++) {
        const before = totals[turn - 2]!;
        if (before >= least) expect(reads[turn - 1], `turn ${turn}`).toBeGreaterThan(before - 128);
      }
      const from = Math.max(2, totals.findIndex((total) => total >= least) + 1);
      const readPart = sum(reads.slice(from)) / sum(totals.slice(from));
      const costOf = (inputTokens: number): number =>
        deps.modelTable.costOf(provider, model, { inputTokens, outputTokens: 250 })!;
      const costPart = result.costUsd! / sum(totals.map(costOf));
      console.log(`${model}, ${calls} calls a turn: ${readPart.toFixed(3)} read, ${costPart.toFixed(3)} of the cost`);
      expect(readPart).toBeGreaterThanOrEqual(0.9);
      expect(costPart).toBeLessThanOrEqual(0.25);

      expect(result.usage).toEqual({
        input_tokens: sum(totals),
        output_tokens: TURNS * 250,
        cache_read_tokens: sum(reads),
        ...(provider !== 'gemini' && { cache_write_tokens: sum(billed.map(({ cacheWrite }) => cacheWrite)) }),
      });
      const ends = run.trace.events.filter(({ event_type }) => event_type === 'llm_call_succeeded');
      expect(ends.map(({ cache_read_tokens }) => cache_read_tokens ?? 0)).toEqual(reads);
    },
    120_000,
  );
});

const sum = (numbers: readonly number[]): number => numbers.reduce((all, number) => all + number, 0);

const newDeps = () => ({
  ...memoryDeps({
    anthropicUrl: `${server.url}/anthropic/v1`,
    openaiUrl: `${server.url}/openai/v1`,
    geminiUrl: `${server.url}/gemini/v1beta`,
    sandboxEgress: 'none',
  }),
  sandbox,
  clock: new SystemClock(),
});

const HAIKU: ModelChoice = { provider: 'anthropic', model: 'claude-haiku-4-5', apiKey: 'key-of-anthropic' };

function runOf(
  number: number,
  clock: SystemClock,
  emit: (event: ProgressEvent) => void,
  model: ModelChoice = HAIKU,
): EngineRun {
  return {
    runId: `r${number}`,
    workspaceId: 'w',
    validate: async (schema, value) => validateAgainst(schema, value),
    fillCommand: async (command, values) => fillCommand(command, placesIn(command), values),
    agent: {
      definition: {
        prompt: 'Keep the notes.',
        output_schema: null,
        supported_providers: ['anthropic'],
        custom_tools: [],
        manifest: null,
        // Extra turns: near the limit the model gets notices, and this one would answer with them.
        loop: { max_turns: TURNS + 5 },
      },
    } as unknown as AgentVersion,
    input: { document: { number }, uploads: [], isMultipart: false },
    skills: [],
    models: [model],
    isStrict: false,
    files: [],
    env: {},
    mask: new SecretMask({}),
    deadline: clock.now() + 240_000,
    signal: new AbortController().signal,
    emit,
    isWatched: true,
    trace: new Trace(clock),
  };
}
