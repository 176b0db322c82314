import { describe, expect, test } from 'vitest';
import type { ModelChoice } from '#core/models/choose.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { LLM_PROVIDERS, type LlmProvider } from '#core/ports/llm.ts';
import type { ModelFacts } from '#core/ports/model-table.ts';
import { loopRun } from '#test/helpers/loop-run.ts';
import { startLoopWorld } from '#test/helpers/loop-world.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import type { RecordedRequest } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedToolCall, ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { EngineRun } from './engine.ts';
import { runLoop } from './managed-loop.ts';

const { sandbox, problem, server } = await startLoopWorld();

const WINDOW = 40_000;
const modelOf = (provider: LlmProvider): ModelChoice => ({ provider, model: `m-window-${WINDOW}`, apiKey: 'key' });
/** Cost of a request; a power of two, so that sums are exact. */
const COST = 1 / 1024;
const ANTHROPIC = modelOf('anthropic');

interface Prepared {
  /** The platform's facts about the model. */
  readonly facts?: ModelFacts;
  readonly maxTurns?: number;
  readonly change?: Partial<EngineRun>;
}

function prepare({ facts = { window: WINDOW }, maxTurns = 50, change = {} }: Prepared = {}) {
  const memory = memoryDeps({
    anthropicUrl: `${server.url}/anthropic/v1`,
    openaiUrl: `${server.url}/openai/v1`,
    geminiUrl: `${server.url}/gemini/v1beta`,
    ollamaUrl: `${server.url}/ollama/v1`,
    sandboxEgress: 'none',
  });
  const modelTable = { factsOf: () => facts, costOf: () => COST, refresh: async () => {} };
  const deps = { ...memory, modelTable, sandbox, clock: new SystemClock() };
  return { deps, ...loopRun({ clock: deps.clock, maxTurns, change: { models: [ANTHROPIC], ...change } }) };
}

const NOTES_WANTED = 'It is replaced by your notes';
const NOTES = 'Goal: to know why. Done: read a lot. Open: the rest.';
const isNotesRequest = ({ text }: RecordedRequest): boolean => text.includes(NOTES_WANTED);
const writeNotes = (turn: ScriptedTurn = { thinking: 'What matters?', text: NOTES }): void =>
  server.script({ rules: [{ marker: NOTES_WANTED, turns: [turn] }] });

const call = (name: string, input: Record<string, unknown> = {}): ScriptedToolCall => ({ name, input });
const submit: ScriptedTurn = { toolCalls: [call('submit_result', { result: 'done' })] };
/** Writes 12 KB once, then reads them again and again. */
const reading = (turns: number): ScriptedTurn[] => [
  { thinking: 'First.', toolCalls: [call('write_file', { path: 'notes/long.txt', content: 'a line\n'.repeat(1700) })] },
  ...Array.from({ length: turns - 1 }, (_, index) => ({
    thinking: `Thought ${index}.`,
    text: `I read it for the ${index}th time.`,
    // Every call is different.
    toolCalls: [call('read_file', { path: 'notes/long.txt', limit: 2000 + index })],
  })),
];

describe.skipIf(problem !== undefined)('a conversation longer than three fifths of the window', () => {
  test.each(LLM_PROVIDERS)('begins anew; between beginnings it is only appended to: %s', async (provider) => {
    writeNotes();
    server.queue(...reading(18), submit);
    const { deps, run, events } = prepare({ facts: { window: 25_000 }, change: { models: [modelOf(provider)] } });
    const result = await runLoop(deps, run);
    expect(result.error).toBeUndefined();
    expect(result.data).toEqual({ result: 'done' });

    const compactions = events.filter(({ type }) => type === 'context_compacted');
    expect(compactions.length).toBeGreaterThan(0);
    const beginnings: number[] = [];
    for (const [index, { prefixes }] of server.requests.entries()) {
      const before = server.requests[index - 1];
      if (before === undefined) continue;
      const shared = before.prefixes.findIndex((hash, part) => hash !== prefixes[part]);
      if (shared === -1) continue;
      beginnings.push(index);
      // All messages but the user's first one.
      expect(shared).toBe(server.requests[0]!.prefixes.length - 1);
      expect(isNotesRequest(before)).toBe(true);
    }
    expect(beginnings).toHaveLength(compactions.length);
    expect(server.requests.filter(isNotesRequest)).toHaveLength(compactions.length);
    for (const { outcome } of server.requests) expect(outcome).toBe('answered');
  });

  test('tells client, trace and log, and counts what the notes cost; the client does not see them', async () => {
    writeNotes();
    server.queue(...reading(12), submit);
    const { deps, run, events } = prepare();
    const { costUsd, stderr } = await runLoop(deps, run);
    const [compacted, ...others] = events.filter(({ type }) => type === 'context_compacted');
    expect(others).toEqual([]);
    const { turn, before_tokens, after_tokens } = compacted as Extract<typeof compacted, { turn: number }> & {
      before_tokens: number;
      after_tokens: number;
    };
    expect(compacted).toEqual({ type: 'context_compacted', turn, before_tokens, after_tokens, cost_usd: COST });
    expect(before_tokens).toBeGreaterThan(0.6 * WINDOW);
    expect(after_tokens).toBeLessThan(0.25 * WINDOW);
    const { type: _, ...payload } = compacted!;
    expect(run.trace.events).toContainEqual(expect.objectContaining({ event_type: 'context_compacted', payload }));
    expect(stderr).toContain(
      `turn ${turn}: the conversation was compacted from ${before_tokens} to ${after_tokens} tokens\n`,
    );
    expect(costUsd).toBeCloseTo(COST * server.requests.length);
    // The request for notes is not a turn of the loop.
    expect(events.filter(({ type }) => type === 'turn_start')).toHaveLength(server.requests.length - 1);
    const shown = events.flatMap((event) => (event.type === 'text_delta' ? event.text : [])).join('');
    expect(shown).toContain('I read it for the 0th time.');
    expect(shown).not.toContain('Goal:');
  });

  test('begins with input, notes, written files and the last results, behind the same system message and tools', async () => {
    writeNotes();
    server.queue(...reading(12), submit);
    const { deps, run } = prepare();
    await runLoop(deps, run);
    const at = server.requests.findIndex(isNotesRequest);
    const [first, before, anew] = [0, at, at + 1].map((index) => server.requests[index]!.body);
    expect(anew.system).toEqual(first.system);
    expect(anew.tools).toEqual(first.tools);
    expect(before.tools).toEqual(first.tools);
    expect(anew.messages).toHaveLength(1);
    const [{ role, content }] = anew.messages;
    expect(role).toBe('user');
    const text: string = content.map((part: { text: string }) => part.text).join('');
    expect(text.startsWith('{\n  "question": "why?"\n}\n\n---\n\n')).toBe(true);
    expect(text).toContain(`notes that you wrote:\n\n${NOTES}\n\nFiles that you wrote: notes/long.txt\n\n`);
    const [last, ...more] = text.split('as JSON:\n')[1]!.split('\n');
    expect(more).toEqual([]);
    expect(JSON.parse(last!)).toEqual({
      tool: 'read_file',
      parameters: expect.stringMatching(/^{"path":"notes\/long.txt","limit":\d+}$/),
      result: 'a line\n'.repeat(1700),
    });
  });

  test.each<[string, ScriptedTurn]>([
    ['are empty', { toolCalls: [call('read_file', { path: 'x' })] }],
    ['are refused', { finish: 'content_filter' }],
    ['fail', { status: 400, message: 'no' }],
  ])('goes on as it is if the notes %s', async (_, turn) => {
    writeNotes(turn);
    server.queue(...reading(9), submit);
    const { deps, run, events } = prepare();
    expect((await runLoop(deps, run)).data).toEqual({ result: 'done' });
    expect(events.filter(({ type }) => type === 'context_compacted')).toEqual([]);
    expect(server.requests.filter(isNotesRequest).length).toBeGreaterThan(0);
    const turns = server.requests.filter((request) => !isNotesRequest(request));
    for (const [index, { prefixes }] of turns.entries()) {
      const before = turns[index - 1]?.prefixes ?? [];
      expect(prefixes.slice(0, before.length)).toEqual(before);
    }
  });

  test('goes on as it is in its last turns and its last minute', async () => {
    writeNotes();
    const turns = reading(11);
    server.queue(...turns, submit);
    const { deps, run } = prepare({ facts: { window: 30_000 }, maxTurns: 7 });
    await runLoop(deps, run);
    expect(server.requests.filter(isNotesRequest)).toHaveLength(0);
    server.reset();
    writeNotes();
    server.queue(...turns, submit);
    const late = prepare({ change: { deadline: Date.now() + 60_000 } });
    expect((await runLoop(late.deps, late.run)).data).toEqual({ result: 'done' });
    expect(server.requests.filter(isNotesRequest)).toHaveLength(0);
  });
});

describe.skipIf(problem !== undefined)('a window that is full', () => {
  /** A model about which the platform knows nothing. */
  const unknown: ModelFacts = {};
  const filling: ScriptedTurn[] = [
    ...reading(10),
    {
      thinking: 'All of it.',
      toolCalls: Array.from({ length: 4 }, () => call('read_file', { path: 'notes/long.txt' })),
    },
  ];

  test.each(LLM_PROVIDERS)('loses the newest results to files, begins anew and goes on: %s', async (provider) => {
    writeNotes();
    server.queue(...filling, submit);
    const { deps, run, events } = prepare({ facts: unknown, change: { models: [modelOf(provider)] } });
    const result = await runLoop(deps, run);
    expect(result.error).toBeUndefined();
    expect(result.data).toEqual({ result: 'done' });
    const outcomes = server.requests.map((request) => [request.outcome, isNotesRequest(request)]);
    expect(outcomes.slice(-3)).toEqual([
      ['failed', false],
      ['answered', true],
      ['answered', false],
    ]);
    expect(events).toContainEqual(expect.objectContaining({ type: 'context_compacted', turn: 12 }));
    const [, notes, anew] = server.requests.slice(-3);
    for (const number of [1, 2, 3, 4]) {
      const notice = `[... left out, because the conversation was full; all of it: /tmp/tool_output/11-${number}.txt ...]`;
      expect(notes!.text).toContain(notice);
      expect(anew!.text).toContain(notice);
    }
    const failed = run.trace.events.filter(({ event_type }) => event_type === 'llm_call_failed');
    expect(failed).toMatchObject([{ error_type: 'UNPROCESSABLE' }]);
  });

  test('leaves the results in files that the model can read', async () => {
    writeNotes();
    server.queue(
      ...filling,
      { toolCalls: [call('read_file', { path: '/tmp/tool_output/11-3.txt', limit: 2 })] },
      submit,
    );
    const { deps, run } = prepare({ facts: unknown });
    await runLoop(deps, run);
    expect(server.requests.at(-1)!.text).toContain('a line\na line\n[... the file goes on: offset 3 ...]');
  });

  test('in the middle of an answer is the same; the half answer is dropped', async () => {
    writeNotes();
    const half: ScriptedTurn = { text: 'Half an ans', finish: 'window' };
    server.queue(...reading(2), half, submit);
    const { deps, run } = prepare();
    expect((await runLoop(deps, run)).data).toEqual({ result: 'done' });
    expect(server.requests.map(isNotesRequest)).toEqual([false, false, false, true, false]);
    expect(server.requests.at(-1)!.text).not.toContain('Half an ans');
  });

  test('in the last turn is the same, and only a result is taken afterwards', async () => {
    writeNotes();
    server.queue(...reading(2), { refusal: 'overflow' }, submit);
    const { deps, run } = prepare({ maxTurns: 3, change: { models: [modelOf('openai')] } });
    expect((await runLoop(deps, run)).data).toEqual({ result: 'done' });
    const [, , failed, notes, anew] = server.requests.map(({ body }) => body.tool_choice);
    expect(failed).toMatchObject({ type: 'allowed_tools', tools: [{ name: 'submit_result' }] });
    expect(notes?.type ?? 'auto').not.toBe('allowed_tools');
    expect(anew).toEqual(failed);
    expect(server.requests.at(-1)!.text).toContain('The next turn is the last one.');
  });

  test('by the input alone ends the run at once', async () => {
    const { deps, run } = prepare({
      change: { input: { document: { text: 'word '.repeat(WINDOW) }, uploads: [], isMultipart: false } },
    });
    const { error } = await runLoop(deps, run);
    expect(error).toMatchObject({
      code: 'UNPROCESSABLE',
      message: expect.stringMatching(/^The conversation is longer than the model of Anthropic reads: .*too long/),
    });
    expect(server.requests).toHaveLength(1);
  });

  test.each<[string, ScriptedTurn[], number]>([
    ['while the notes are written', [{ refusal: 'overflow' }, { refusal: 'overflow' }], 4],
    ['in the new beginning', [{ finish: 'window' }, { text: NOTES }, { refusal: 'overflow' }], 5],
    ['and no notes are written', [{ refusal: 'overflow' }, { text: ' ' }], 4],
  ])('again ends the run: %s', async (_, turns, requests) => {
    server.queue(...reading(2), ...turns, submit);
    const { deps, run } = prepare();
    const { error, usage } = await runLoop(deps, run);
    expect(error).toMatchObject({ code: 'UNPROCESSABLE', extra: { hint: expect.any(String) } });
    expect(error!.extra.is_retryable).not.toBe(true);
    expect(usage!.input_tokens).toBeGreaterThan(0);
    expect(server.requests).toHaveLength(requests);
  });
});
