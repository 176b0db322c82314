import { describe, expect, test } from 'vitest';
import type { ModelChoice } from '#core/models/choose.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { cancelledError } from '#core/runs/run.ts';
import { loopRun } from '#test/helpers/loop-run.ts';
import { startLoopWorld } from '#test/helpers/loop-world.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import type { ScriptedToolCall, ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { EngineResult, EngineRun, SessionOfRun } from './engine.ts';
import { runLoop } from './managed-loop.ts';

const MODEL: ModelChoice = { provider: 'anthropic', model: 'claude-haiku-4-5', apiKey: 'made-up-key' };
const MB = 1024 ** 2;

const { sandbox, problem, server } = await startLoopWorld();

const bash = (command: string): ScriptedToolCall => ({ name: 'bash', input: { command } });
const submit = (result: string): ScriptedTurn => ({ toolCalls: [{ name: 'submit_result', input: { result } }] });

/** Runs the messages of one session, as the session would be kept. */
class Conversation {
  number = 0;
  conversation: SessionOfRun['conversation'];
  files: Uint8Array | undefined;
  readonly more: Partial<SessionOfRun>;
  constructor(more: Partial<SessionOfRun> = {}) {
    this.more = more;
  }

  async say(text: string, turns: readonly ScriptedTurn[], change: Partial<EngineRun> = {}): Promise<EngineResult> {
    server.queue(...turns);
    const clock = new SystemClock();
    const deps = {
      ...memoryDeps({ anthropicUrl: `${server.url}/anthropic/v1`, sandboxEgress: 'none' }),
      sandbox,
      clock,
    };
    this.number += 1;
    const { files } = this;
    const session: SessionOfRun = {
      id: 'ses_1',
      number: this.number,
      turns: [],
      leftOut: 0,
      conversation: this.conversation,
      workspace: { maxBytes: 10 * MB, read: async () => files && { content: files, isOtherBundle: false } },
      ...this.more,
    };
    const input = { document: { message: text }, uploads: [], isMultipart: false };
    const { run } = loopRun({ clock, maxTurns: 10, change: { models: [MODEL], session, input, ...change } });
    const result = await runLoop(deps, run);
    if (result.conversation !== undefined) this.conversation = { ...result.conversation, after: this.number };
    this.files = result.files ?? this.files;
    return result;
  }
}

/** The bodies of all requests to the model. */
const bodies = () => server.requests.map(({ body }) => body);
const textOf = (value: unknown): string => JSON.stringify(value);

describe.skipIf(problem !== undefined)(problem ?? 'a loop in a session', () => {
  test('knows what was said and done before, and its request begins with the same bytes', async () => {
    const conversation = new Conversation();
    const first = await conversation.say('Count the lines.', [
      { toolCalls: [bash('echo 42 lines')] },
      submit('It has 42.'),
    ]);
    expect(first).toMatchObject({ data: { result: 'It has 42.' } });
    const second = await conversation.say('Are you sure?', [{ text: 'Yes.' }]);
    expect(second).toMatchObject({ data: { result: 'Yes.' } });
    const [, last, next] = bodies();
    expect(textOf(next.system)).toBe(textOf(last.system));
    expect(textOf(next.tools)).toBe(textOf(last.tools));
    const texts = textOf(next.messages);
    for (const part of [
      'Count the lines.',
      'echo 42 lines',
      '"42 lines"',
      'It has 42.',
      'The result was accepted.',
      'Are you sure?',
    ])
      expect(texts).toContain(part);
    const plain = (messages: unknown): string => textOf(messages).replaceAll(/,"cache_control":\{[^}]*\}/g, '');
    expect(plain(next.messages).startsWith(plain(last.messages).slice(0, -1))).toBe(true);
  });

  test('is not hindered by a run before that failed in its tools', async () => {
    const conversation = new Conversation();
    const stop = new AbortController();
    const ended = conversation.say('Wait.', [{ toolCalls: [bash('echo known'), bash('sleep 30')] }], {
      signal: stop.signal,
      emit: (event) => event.type === 'tool_result' && stop.abort(cancelledError()),
    });
    expect((await ended).error?.code).toBe('RUN_CANCELLED');
    expect(await conversation.say('And now?', [submit('Here.')])).toMatchObject({ data: { result: 'Here.' } });
    const texts = textOf(bodies().at(-1).messages);
    expect(texts).toContain('known');
    expect(texts).toMatch(/effect is unknown|because the run ended/);
    expect(texts).toContain('And now?');
  });

  test('goes on after a run whose last turn took only a result', async () => {
    const conversation = new Conversation();
    const busy = Array.from({ length: 10 }, (_, turn): ScriptedTurn => ({ toolCalls: [bash(`echo ${turn}`)] }));
    const first = await conversation.say('Work.', [...busy, { toolCalls: [bash('echo no')] }]);
    expect(first).toMatchObject({ data: { result: 'forced' } });
    expect(await conversation.say('Go on.', [{ toolCalls: [bash('echo more')] }, submit('Done.')])).toMatchObject({
      data: { result: 'Done.' },
    });
  });

  test('finds its files again, and those of a run that failed', async () => {
    const conversation = new Conversation();
    await conversation.say('Write.', [{ toolCalls: [bash('echo one > ~/a; mkdir d; echo two > d/b')] }, submit('ok')]);
    expect(conversation.files).toBeDefined();
    const failed = await conversation.say('Write more.', [
      { toolCalls: [bash('cat a d/b; echo three > c; rm a')] },
      { status: 400, message: 'no' },
    ]);
    expect(failed.error?.code).toBe('LLM_ERROR');
    await conversation.say('Read.', [{ toolCalls: [bash('ls -R; cat c')] }, submit('ok')]);
    const read = textOf(bodies().at(-1).messages.at(-1));
    expect(read).toContain('three');
    expect(read).not.toMatch(/\ba\\n/);
    const { files } = conversation;
    expect(await conversation.say('Nothing.', [submit('ok')])).not.toHaveProperty('files');
    expect(conversation.files).toBe(files);
  });

  test('says so if its files are too large to be kept, and keeps those before', async () => {
    const conversation = new Conversation();
    await conversation.say('Write.', [{ toolCalls: [bash('echo one > a')] }, submit('ok')]);
    const { files } = conversation;
    const result = await conversation.say('Write much.', [
      { toolCalls: [bash('head -c 20000000 /dev/urandom > large')] },
      submit('ok'),
    ]);
    expect(result).toMatchObject({
      data: { result: 'ok' },
      warnings: [{ code: 'TRUNCATED', field: 'workspace', message: expect.stringMatching(/were not kept.*10 MB/) }],
    });
    expect(conversation.files).toBe(files);
  });

  test('ends with a clear error if its files are damaged', async () => {
    const conversation = new Conversation();
    conversation.files = Buffer.from('not an archive');
    const { error } = await conversation.say('Read.', [{ toolCalls: [bash('ls')] }, submit('ok')]);
    expect(error).toMatchObject({
      code: 'INTERNAL_ERROR',
      message: expect.stringContaining('The snapshot is damaged'),
    });
  });

  test('takes messages between its turns, each once', async () => {
    const waiting = ['Make it blue.', 'And large.'];
    let taken = 0;
    const steering = {
      waiting: async () => (taken < waiting.length ? { texts: waiting.slice(taken), upTo: waiting.length } : undefined),
      take: async (upTo: number) => {
        taken = upTo;
      },
    };
    const conversation = new Conversation({ steering });
    await conversation.say('Paint.', [{ toolCalls: [bash('echo red')] }, submit('Blue.')]);
    const texts = textOf(bodies().at(-1).messages);
    expect(texts.split('Make it blue.')).toHaveLength(2);
    expect(texts.split('And large.')).toHaveLength(2);
    expect(taken).toBe(2);
  });

  test('leaves messages to the next run if only its result is missing', async () => {
    let asked = 0;
    const steering = { waiting: async () => void asked++, take: async () => {} };
    const conversation = new Conversation({ steering });
    const busy = Array.from({ length: 10 }, (_, turn): ScriptedTurn => ({ toolCalls: [bash(`echo ${turn}`)] }));
    await conversation.say('Work.', [...busy.slice(1), submit('ok')]);
    expect(asked).toBe(9);
  });
});
