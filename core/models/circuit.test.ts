import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createLlm } from '#adapters/llm/create-llm.ts';
import { parseConfig } from '#core/base/config.ts';
import type { LlmFailure } from '#core/ports/llm.ts';
import { HastyClock } from '#test/helpers/hasty-clock.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { ModelChoice } from './choose.ts';
import { Circuits, circuitsOf, type Outcome } from './circuit.ts';
import { RetryingLlm } from './retrying-llm.ts';

const CLAUDE: ModelChoice = { provider: 'anthropic', model: 'claude-sonnet-5-5', apiKey: 'key-1' };
const GPT: ModelChoice = { provider: 'openai', model: 'gpt-6.2-sol', apiKey: 'key-2' };
const GEMINI: ModelChoice = { provider: 'gemini', model: 'gemini-3.8-flash', apiKey: 'key-3' };

describe('a circuit', () => {
  function prepare() {
    const clock = new ManualClock();
    const circuits = new Circuits(clock);
    const isOpen = (choice = CLAUDE, workspace = 'ws-1') => circuits.isOpen(workspace, choice);
    const request = (outcome: Outcome, choice = CLAUDE) => circuits.begin('ws-1', choice)(outcome);
    const requests = (count: number, outcome: Outcome) => {
      for (let i = 0; i < count; i++) request(outcome);
    };
    return { clock, circuits, isOpen, request, requests };
  }

  test('opens after five failures in 30 seconds without an answer', async () => {
    const { clock, isOpen, requests, request } = prepare();
    requests(4, 'failed');
    expect(isOpen()).toBe(false);
    request('answered');
    requests(4, 'failed');
    expect(isOpen()).toBe(false);
    await clock.advance(30_000);
    request('failed');
    expect(isOpen()).toBe(false);
    requests(3, 'failed');
    expect(isOpen()).toBe(false);
    request('failed');
    expect(isOpen()).toBe(true);
  });

  test('lets one request through after 15 seconds, whose end decides', async () => {
    const { clock, circuits, isOpen, requests } = prepare();
    requests(5, 'failed');
    await clock.advance(14_999);
    expect(isOpen()).toBe(true);
    await clock.advance(1);
    expect(isOpen()).toBe(false);
    const end = circuits.begin('ws-1', CLAUDE);
    expect(isOpen()).toBe(true);
    end('failed');
    expect(isOpen()).toBe(true);
    await clock.advance(15_000);
    circuits.begin('ws-1', CLAUDE)('answered');
    expect(isOpen()).toBe(false);
    // The count starts anew.
    requests(4, 'failed');
    expect(isOpen()).toBe(false);
  });

  test('a probe that is given up leaves its place to the next one', async () => {
    const { clock, circuits, isOpen, requests } = prepare();
    requests(5, 'failed');
    await clock.advance(15_000);
    const end = circuits.begin('ws-1', CLAUDE);
    expect(isOpen()).toBe(true);
    end('given-up');
    expect(isOpen()).toBe(false);
  });

  test('late failures of requests that were under way open it no longer, an answer closes it', async () => {
    const { clock, circuits, isOpen, requests } = prepare();
    const underWay = [1, 2, 3].map(() => circuits.begin('ws-1', CLAUDE));
    requests(5, 'failed');
    await clock.advance(10_000);
    underWay[0]!('failed');
    await clock.advance(4_999);
    underWay[1]!('given-up');
    expect(isOpen()).toBe(true);
    await clock.advance(1);
    expect(isOpen()).toBe(false);
    requests(1, 'failed');
    expect(isOpen()).toBe(true);
    underWay[2]!('answered');
    expect(isOpen()).toBe(false);
  });

  test('is one of a workspace, provider, model, way and key', () => {
    const { isOpen, requests } = prepare();
    requests(5, 'failed');
    expect(isOpen()).toBe(true);
    expect(isOpen(CLAUDE, 'ws-2')).toBe(false);
    expect(isOpen({ ...CLAUDE, model: 'claude-haiku-5-5' })).toBe(false);
    expect(isOpen({ ...CLAUDE, apiKey: 'key-9' })).toBe(false);
    expect(isOpen({ ...CLAUDE, transport: { via: 'gateway', url: 'https://gw.example.com/v1' } })).toBe(false);
    expect(isOpen(GPT)).toBe(false);
  });

  test('the oldest is forgotten when there are too many', () => {
    const { isOpen, request, requests } = prepare();
    requests(5, 'failed');
    for (let i = 0; i < 999; i++) request('failed', { ...CLAUDE, model: `claude-${i}` });
    expect(isOpen()).toBe(true);
    request('failed', { ...CLAUDE, model: 'claude-999' });
    expect(isOpen()).toBe(false);
  });

  test('there is one set for a clock', () => {
    const clock = new ManualClock();
    expect(circuitsOf(clock)).toBe(circuitsOf(clock));
    expect(circuitsOf(clock)).not.toBe(circuitsOf(new ManualClock()));
  });
});

describe('questions', () => {
  let server: ScriptedLlm;
  beforeAll(async () => {
    server = await startScriptedLlm();
  });
  afterEach(() => server.reset());
  afterAll(() => server.close());

  function prepare() {
    const clock = new HastyClock();
    const llm = createLlm(parseConfig(server.settings));
    const skipped: string[] = [];
    const ask = (models: readonly ModelChoice[], signal = new AbortController().signal) =>
      new RetryingLlm({ llm, clock }, { workspaceId: 'ws-1', deadline: clock.now() + 240_000 }).ask(models, {
        signal,
        question: () => ({ messages: [{ role: 'user', text: 'Hello' }], maxOutputTokens: 1000 }),
        mayRepeat: () => true,
        onStart: () => {},
        onFailure: () => {},
        onSkip: (from, to) => skipped.push(`${from.provider} ${to.provider}`),
      });
    /** Returns the model that answered, or the last error, and the models that were asked. */
    const answerer = async (...models: ModelChoice[]) => {
      const before = server.requests.length;
      const who = await ask(models).then(
        ({ choice }) => choice.provider,
        ({ kind }: LlmFailure) => kind,
      );
      return [who, ...server.requests.slice(before).map(({ provider }) => provider)];
    };
    return { clock, skipped, ask, answerer };
  }

  /** Makes all requests with the key of a model fail. */
  const fail = ({ apiKey }: ModelChoice, turn: ScriptedTurn = { status: 529 }) =>
    server.script({ key: apiKey, turns: [{ ...turn, times: 1000 }] });

  test('go straight to the next provider while the first one fails, and come back to it', async () => {
    const { clock, skipped, answerer } = prepare();
    fail(CLAUDE);
    // The fifth failure occurs in the third question.
    for (let i = 0; i < 3; i++) {
      expect(await answerer(CLAUDE, GPT)).toEqual(['openai', 'anthropic', 'anthropic', 'openai']);
    }
    expect(skipped).toEqual([]);
    expect(await answerer(CLAUDE, GPT)).toEqual(['openai', 'openai']);
    expect(skipped).toEqual(['anthropic openai']);
    server.reset();
    expect(await answerer(CLAUDE, GPT)).toEqual(['openai', 'openai']);
    await clock.advance(15_000);
    for (let i = 0; i < 2; i++) expect(await answerer(CLAUDE, GPT)).toEqual(['anthropic', 'anthropic']);
    expect(skipped).toHaveLength(2);
  });

  test('one alone is never refused, nor the first where all fail', async () => {
    const { answerer } = prepare();
    for (const model of [CLAUDE, GPT]) fail(model);
    for (let i = 0; i < 3; i++) expect((await answerer(CLAUDE, GPT))[0]).toBe('transient');
    expect(await answerer(CLAUDE)).toEqual(['transient', ...Array(4).fill('anthropic')]);
    expect((await answerer(CLAUDE, GPT))[1]).toBe('anthropic');
    expect(await answerer(CLAUDE, GPT, GEMINI)).toEqual(['gemini', 'gemini']);
  });

  test('that are wrong open nothing: the provider has answered', async () => {
    const { answerer } = prepare();
    for (const turn of [{ status: 400 }, { status: 401 }, { refusal: 'overflow' as const }]) {
      server.reset();
      fail(CLAUDE, turn);
      for (let i = 0; i < 6; i++) expect((await answerer(CLAUDE, GPT)).slice(1)).toEqual(['anthropic']);
    }
    server.reset();
    expect(await answerer(CLAUDE, GPT)).toEqual(['anthropic', 'anthropic']);
  });

  test('at the same time send one probe; one that is cancelled lets the next one try', async () => {
    const { clock, ask, answerer } = prepare();
    fail(CLAUDE);
    for (let i = 0; i < 3; i++) await answerer(CLAUDE, GPT);
    server.reset();
    await clock.advance(15_000);
    server.script({ key: CLAUDE.apiKey, turns: [{ waitFor: 'the end' }] });
    const stop = new AbortController();
    const probe = ask([CLAUDE, GPT], stop.signal);
    await expect.poll(() => server.open).toBe(1);
    for (let i = 0; i < 3; i++) expect(await answerer(CLAUDE, GPT)).toEqual(['openai', 'openai']);
    stop.abort(new Error('cancelled'));
    await expect(probe).rejects.toThrow('cancelled');
    expect(await answerer(CLAUDE, GPT)).toEqual(['anthropic', 'anthropic']);
  });
});
