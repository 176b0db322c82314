import { describe, expect, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { LlmAnswer, LlmMessage } from '#core/ports/llm.ts';
import { journalPartition } from '#core/runs/items.ts';
import { branchHistory, checkBranch, EARLIER, endedRun, NEW_SANDBOX, textsOf } from '#test/helpers/branch-histories.ts';
import { IMMORTAL, processOf, SENDS, settled } from '#test/helpers/durable-histories.ts';
import { runHeads } from '#test/helpers/run-heads.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { branchSteps } from './branch.ts';
import type { Step } from './journal.ts';
import { resumeRuns } from './resume.ts';

const HOUR_MS = 3_600_000;
const RUN = { id: 'the-run' };

const signedOf = (messages: readonly LlmMessage[]) =>
  messages.flatMap((message) => (message.role === 'assistant' ? [message.raw !== undefined] : []));

describe('a replay from a turn', () => {
  test('continues the conversation as it was before the turn, and runs no copied tool again', async () => {
    const { world, origin, replay, run, asked, path } = await endedRun();
    const before = world.requests[2]!;
    const { status, body } = await replay({ from_turn: 3 });
    expect(status).toBe(202);
    expect(body).toMatchObject({ replay_of_run_id: origin, status: 'queued' });
    expect(world.requests[4]).toEqual({ ...before, messages: [...before.messages, NEW_SANDBOX] });
    expect(world.sent).toEqual([...EARLIER, ...SENDS, ...SENDS]);
    const branch = { from_turn: 3, changed: [] };
    expect(await run(body.run_id)).toMatchObject({
      ...{ status: 'completed', replay_of_run_id: origin, branch, has_turns: true, output_data: { result: 'done' } },
      // Two turns: those before are not paid again.
      ...{ input_tokens: 20, output_tokens: 10 },
    });
    expect(await run(origin)).toMatchObject({ input_tokens: 40, branch: null, has_turns: true });
    expect((await asked('GET', `${path()}/branches`)).body).toMatchObject({
      run_id: origin,
      branches: [{ id: body.run_id, status: 'completed', ...branch }],
    });
    expect((await asked('GET', `${path(body.run_id)}/branches`)).body.branches).toEqual([]);
  });

  test('from the first turn asks the first question again', async () => {
    const { world, replay, run } = await endedRun();
    const { body } = await replay({ from_turn: 1 });
    expect(world.requests[4]).toEqual(world.requests[0]);
    expect(await run(body.run_id)).toMatchObject({ status: 'completed', input_tokens: 40 });
  });

  test('from the turn after the last recorded one asks for the end again', async () => {
    const { world, replay, run } = await endedRun();
    const { body } = await replay({ from_turn: 4 });
    const last = world.requests[3]!;
    expect(world.requests[4]).toEqual({ ...last, messages: [...last.messages, NEW_SANDBOX] });
    expect(world.sent).toEqual([...EARLIER, ...SENDS]);
    expect(await run(body.run_id)).toMatchObject({ status: 'completed', input_tokens: 10 });
  });

  test.each([
    [1, []],
    [3, [NEW_SANDBOX]],
  ])('gives the model a message before turn %i, once', async (from_turn, told) => {
    const { world, replay, run } = await endedRun();
    const { body } = await replay({ from_turn, message: 'Send less.' });
    const [first, ...later] = world.requests.slice(4);
    const message = { role: 'user', text: 'Send less.' };
    expect(first!.messages).toEqual([...world.requests[from_turn - 1]!.messages, ...told, message]);
    for (const { messages } of later) {
      expect(messages.slice(0, first!.messages.length)).toEqual(first!.messages);
      expect(messages.filter((each) => each.role === 'user' && each.text === 'Send less.')).toHaveLength(1);
    }
    expect(await run(body.run_id)).toMatchObject({ status: 'completed', branch: { from_turn, changed: ['message'] } });
  });

  test('shows the model other results, and no thoughts that it had about the recorded ones', async () => {
    const { world, replay, run } = await endedRun();
    const results = [
      { turn: 1, call: 2, text: 'not sent' },
      { turn: 2, call: 1, text: '[ERROR] nothing there' },
    ];
    const { body } = await replay({ from_turn: 3, tool_results: results });
    const { messages } = world.requests[4]!;
    expect(textsOf(messages)).toEqual(['ok', 'not sent', 'ok', '[ERROR] nothing there', 'ok']);
    expect(signedOf(messages)).toEqual([true, false]);
    expect(await run(body.run_id)).toMatchObject({ branch: { from_turn: 3, changed: ['tool_results'] } });
  });

  test('asks another model, without thoughts of the one before', async () => {
    const { world, replay, run } = await endedRun();
    const { body } = await replay({ from_turn: 3, model: 'anthropic/claude-other' });
    const [first, last] = world.requests.slice(4);
    expect([first!.model, last!.model]).toEqual(['claude-other', 'claude-other']);
    expect(signedOf(first!.messages)).toEqual([false, false]);
    expect(signedOf(last!.messages)).toEqual([false, false, true]);
    expect(await run(body.run_id)).toMatchObject({ llm_model: 'claude-other', branch: { changed: ['model'] } });
  });

  test('continues with the tools and the system message of another version', async () => {
    const { world, asked, replay, run } = await endedRun();
    const look = { name: 'look', description: 'other', command: 'look', interruption: 'retry' };
    const send = { name: 'send', description: 'other', command: './send.sh {{what}}' };
    const input_schema = { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] };
    const published = await asked('POST', '/agents', {
      ...{ name: 'lasting', type: 'agent', description: 'x', prompt: 'Another prompt.', required_secrets: [] },
      ...{ durable: true, loop: { max_turns: 5 }, custom_tools: [{ ...send, input_schema }, look] },
    });
    expect(published.status).toBe(201);
    const { body } = await replay({ from_turn: 3, agent_version: 'latest', message: 'Go on.' });
    const [first, last] = world.requests.slice(4);
    expect(first!.system).toContain('Another prompt.');
    expect(first!.tools!.find(({ name }) => name === 'look')!.description).toBe('other');
    expect(signedOf(first!.messages)).toEqual([false, false]);
    expect(last!.messages.slice(0, first!.messages.length)).toEqual(first!.messages);
    expect([last!.system, last!.tools]).toEqual([first!.system, first!.tools]);
    expect(await run(body.run_id)).toMatchObject({
      ...{ status: 'completed', agent_version: 'v2', branch: { changed: ['message', 'version'] } },
    });
    const refused = await replay({ from_turn: 6, agent_version: 'v2' });
    expect(refused.body.error.message).toContain('has 5 turns at most');
  });

  test('of a branch keeps what was changed before', async () => {
    const { world, replay, run, path, asked } = await endedRun();
    const { body: first } = await replay({ from_turn: 3, message: 'Send less.' });
    const { body: same } = await replay({ from_turn: 3 }, first.run_id);
    expect(world.requests[6]).toEqual(world.requests[4]);
    const { body: other } = await replay({ from_turn: 3, message: 'Send more.' }, first.run_id);
    const users = world.requests[8]!.messages.filter(({ role }) => role === 'user').slice(1);
    expect(users).toEqual([NEW_SANDBOX, { role: 'user', text: 'Send more.' }]);
    const { body: later } = await replay({ from_turn: 4 }, first.run_id);
    const last = world.requests[5]!;
    expect(world.requests[10]).toEqual({ ...last, messages: [...last.messages, NEW_SANDBOX] });
    expect(await run(later.run_id)).toMatchObject({ status: 'completed', input_tokens: 10 });
    const { branches } = (await asked('GET', `${path(first.run_id)}/branches`)).body;
    const ids = branches.map(({ id }: { readonly id: string }) => id);
    expect(ids.toSorted()).toEqual([same, other, later].map(({ run_id }) => run_id).toSorted());
  });
});

test('a branch of another version that leaves its process after each turn keeps its conversation', async () => {
  const { world, asked, request, path, run } = await endedRun();
  const { deps } = world;
  const manifest = { name: 'lasting', type: 'agent', description: 'x', prompt: 'Another prompt.', durable: true };
  expect((await asked('POST', '/agents', { ...manifest, required_secrets: [] })).status).toBe(201);
  const { process, idle } = processOf(world, IMMORTAL);
  const leaving = { ...process, handOver: { afterMs: 0 } };
  const app = createWebApp(leaving, routes, allHandlers(leaving));
  const body = { from_turn: 2, agent_version: 'v2', message: 'Go on.' };
  const response = await settled(deps, app(request('POST', `${path()}/replay`, body)));
  const { run_id } = (await response.json()) as { readonly run_id: string };
  await settled(deps, idle());
  const requests = world.requests.slice(4);
  expect(requests).toHaveLength(1);
  while ((await run(run_id)).status === 'running') await settled(deps, resumeRuns(leaving).then(idle));
  const [first, ...later] = world.requests.slice(4);
  expect(later).toHaveLength(2);
  for (const { system, tools, messages } of later) {
    expect([system, tools]).toEqual([first!.system, first!.tools]);
    expect(messages.slice(0, first!.messages.length)).toEqual(first!.messages);
    expect(messages.filter((each) => each.role === 'user' && each.text === 'Go on.')).toHaveLength(1);
  }
  expect(first!.system).toContain('Another prompt.');
  expect(await run(run_id)).toMatchObject({ status: 'completed', input_tokens: 30 });
});

describe('a replay from a turn is refused', () => {
  const cases: readonly (readonly [string, object, number, string])[] = [
    ['a turn that the run did not reach', { from_turn: 5 }, 422, 'body.from_turn: the run'],
    ['turn 0', { from_turn: 0 }, 400, 'body.from_turn'],
    ['a text in place of a turn', { from_turn: '3' }, 400, 'body.from_turn'],
    ['another input', { from_turn: 3, input: {} }, 400, 'body.input'],
    ['a message without a turn', { message: 'x' }, 400, 'body.message: requires from_turn'],
    ['results without a turn', { tool_results: [{ turn: 1, call: 1, text: '' }] }, 400, 'body.tool_results: requires'],
    ['a model without a turn', { model: 'claude-x' }, 400, 'body.model: requires from_turn'],
    ['a blank message', { from_turn: 3, message: ' \n' }, 400, 'body.message'],
    ['a long message', { from_turn: 3, message: 'x'.repeat(50_001) }, 400, 'body.message'],
    ['no results', { from_turn: 3, tool_results: [] }, 400, 'body.tool_results'],
    [
      'a long result',
      { from_turn: 3, tool_results: [{ turn: 1, call: 1, text: 'é'.repeat(8193) }] },
      ...([400, 'body.tool_results.0.text'] as const),
    ],
    [
      'a result of the turn itself',
      { from_turn: 3, tool_results: [{ turn: 3, call: 1, text: '' }] },
      ...([400, 'body.tool_results.0.turn: must be before from_turn (3), not 3.'] as const),
    ],
    [
      'a result of a call that is not there',
      { from_turn: 3, tool_results: [{ turn: 2, call: 3, text: '' }] },
      ...([422, 'body.tool_results.0.call: turn 2 has 2 calls of tools.'] as const),
    ],
    [
      'two results of a call',
      {
        from_turn: 3,
        tool_results: [
          { turn: 2, call: 1, text: '' },
          { turn: 2, call: 1, text: 'x' },
        ],
      },
      ...([400, 'body.tool_results.1: call 1 of turn 2 is named twice.'] as const),
    ],
    ['a model that the agent may not use', { from_turn: 3, model: 'openai/gpt-x' }, 400, 'body.model: is a model of'],
    ['what is no model', { from_turn: 3, model: 'anthropic/../x' }, 400, 'body.model: must be a model id'],
    ['a version that is not there', { from_turn: 3, agent_version: 'v9' }, 422, 'no version v9'],
  ];

  test('with what is wrong, and begins nothing', async () => {
    const { world, workspaceId, replay, asked } = await endedRun();
    const manifest = { name: 'lasting', type: 'agent', description: 'x', prompt: 'Send.', required_secrets: [] };
    await asked('POST', '/agents', { ...manifest, supported_providers: ['anthropic'] });
    for (const [name, body, status, message] of cases) {
      const answer = await replay(body);
      expect([answer.status, answer.body.error?.message], name).toEqual([status, expect.stringContaining(message)]);
    }
    const isNotDurable = await replay({ from_turn: 3, agent_version: 'v2' });
    expect(isNotDurable.body.error.message).toContain('only durable loops keep their turns, and durable/lasting@v2');
    const heads = await runHeads(world.deps, workspaceId);
    expect(heads).toHaveLength(1);
    expect(world.requests).toHaveLength(4);
  });

  test('of a run that is not durable, of one in another workspace, and of one that ended a day ago', async () => {
    const { world, replay, asked, path } = await endedRun();
    const manifest = { type: 'agent', description: 'x', prompt: 'Send.', required_secrets: [] };
    await asked('POST', '/agents', { ...manifest, name: 'fleeting' });
    const { body } = await asked('POST', '/durable/fleeting/latest/run', {});
    const refused = await replay({ from_turn: 1 }, body.metadata.request_id);
    expect([refused.status, refused.body.error.code]).toEqual([422, 'UNPROCESSABLE']);
    expect((await replay({ from_turn: 1 }, crypto.randomUUID())).status).toBe(404);
    world.deps.clock.jump(25 * HOUR_MS);
    const late = await replay({ from_turn: 3 });
    expect([late.status, late.body.error.message]).toEqual([422, expect.stringContaining('until a day after its end')]);
    expect((await asked('GET', path())).body.status).toBe('completed');
  });
});

test('a replay from a turn is refused if a step of the original run is damaged or missing', async () => {
  const { world, workspaceId, origin, replay } = await endedRun();
  const { runs } = world.deps;
  const pk = journalPartition(workspaceId, origin);
  const step = (await runs.get({ pk, sk: 'STEP#000002' }))!;
  await runs.put({ ...step, data: Buffer.from('damaged').toString('base64') });
  const damaged = await replay({ from_turn: 3 });
  expect([damaged.status, damaged.body.error.message]).toEqual([
    422,
    expect.stringMatching(/^body\.from_turn: .*damaged/),
  ]);
  await runs.delete({ pk, sk: 'STEP#000002' });
  const missing = await replay({ from_turn: 3 });
  expect([missing.status, missing.body.error.message]).toEqual([
    422,
    expect.stringMatching(/^body\.from_turn: .*missing/),
  ]);
  expect((await replay({})).status).toBe(202);
});

describe('the steps of a branch', () => {
  const turn = (number: number, names: readonly string[], more: object = {}): Step => {
    const toolCalls = names.map((name, index) => ({ id: `${number}-${index}`, name, input: {} }));
    const message = { role: 'assistant', text: '', toolCalls, raw: {} } as const;
    const usage = { inputTokens: 10, outputTokens: 5 };
    const answer: LlmAnswer = { text: '', toolCalls, finishReason: 'tool_calls', usage, message };
    const model = { provider: 'anthropic', model: 'm' } as const;
    const spending = { usage: { input_tokens: 10 * number, output_tokens: 0 }, model, costs: [], costUsd: 0.5 };
    return { type: 'turn', turn: number, before: { texts: {}, messages: [] }, answer, ...model, spending, ...more };
  };
  const result = (number: number, call: number, more: object = {}): Step => ({
    ...{ type: 'result', turn: number, call, outcome: { text: 'old', isError: false }, durationMs: 1 },
    ...more,
  });
  const base = (number: number): Step => ({
    ...{ type: 'base', turn: number, system: 's', tools: [], compactionsLeft: 3 },
    messages: [{ role: 'user', text: 'first' }],
  });
  const changes = { toolResults: [], isOtherVersion: false, isOtherModel: false };

  test('keep members and steps that are not known, cost nothing, and leave out what belongs to processes', () => {
    const decision: Step = { type: 'decision', turn: 1, call: 0, decision: { type: 'approve', forRun: true } };
    const past: Step[] = [
      ...[base(1), turn(1, ['look'], { unknown: 'x' }), decision, result(1, 0, { hint: 'y' })],
      ...([
        { type: 'attempt', attempt: 2 },
        { type: 'files', turn: 1, blob: 'b' },
      ] as const),
      ...[turn(2, ['look', 'submit_result']), { type: 'begin', turn: 2, call: 0 } as const, result(2, 0)],
    ];
    const steps = branchSteps(RUN, past, { ...changes, fromTurn: 3 });
    expect(steps.map(({ type }) => type)).toEqual(['base', 'turn', 'decision', 'result', 'turn', 'begin', 'result']);
    expect(steps[1]).toMatchObject({ unknown: 'x', spending: { usage: { input_tokens: 0 }, costs: [], costUsd: 0 } });
    // The approval of later calls was given for the other run.
    expect([steps[2], steps[3]]).toEqual([{ ...decision, decision: { type: 'approve' } }, past[3]]);
    expect(branchSteps(RUN, past, { ...changes, fromTurn: 2 })).toHaveLength(4);
  });

  test('end before a turn whose tools have not all ended', () => {
    const past = [base(1), turn(1, ['look', 'look']), result(1, 1)];
    expect(branchSteps(RUN, past, { ...changes, fromTurn: 1 })).toEqual([past[0]]);
    expect(() => branchSteps(RUN, past, { ...changes, fromTurn: 2 })).toThrow('can begin again only from turn 1');
  });

  test('are those before a compaction, if the branch begins with it', () => {
    const past = [base(1), turn(1, ['look']), result(1, 0), base(2), turn(2, ['look']), result(2, 0)];
    expect(branchSteps(RUN, past, { ...changes, fromTurn: 2 }).map(({ type }) => type)).toEqual([
      ...['base', 'turn', 'result'],
    ]);
    expect(branchSteps(RUN, past, { ...changes, fromTurn: 3 })).toHaveLength(6);
    const toolResults = [{ turn: 1, call: 1, text: 'new' }];
    expect(() => branchSteps(RUN, past, { ...changes, fromTurn: 3, toolResults })).toThrow(
      'was compacted before turn 2',
    );
    const early = branchSteps(RUN, past, { ...changes, fromTurn: 2, toolResults });
    expect(early[2]).toMatchObject({ outcome: { text: 'new', isError: false } });
  });

  test('show a changed result as it is, not as the model got the recorded one', () => {
    const before = { texts: { '0': 'cut', '1': 'kept' }, messages: [] };
    const past = [
      ...[base(1), turn(1, ['look', 'look']), result(1, 0), result(1, 1)],
      ...[turn(2, ['look'], { before }), result(2, 0)],
    ];
    const toolResults = [{ turn: 1, call: 1, text: 'new' }];
    const steps = branchSteps(RUN, past, { ...changes, fromTurn: 3, toolResults });
    expect(steps[4]).toMatchObject({ before: { texts: { '1': 'kept' } } });
    expect(steps[4]).not.toMatchObject({ before: { texts: { '0': 'cut' } } });
    const submitted = [base(1), turn(1, ['submit_result']), result(1, 0)];
    expect(() => branchSteps(RUN, submitted, { ...changes, fromTurn: 2, toolResults })).toThrow('is submit_result');
  });
});

/** Every sixth call of a port: `branch.heavy.test.ts` has all of them. */
const STEP = 6;

test('a process leaves a whole branch, or none, at whichever call of a port it dies', async () => {
  const whole = await branchHistory([]);
  await checkBranch(whole, 'nobody dies');
  expect(whole.calls).toBeGreaterThan(30);
  for (let lifetime = 1; lifetime <= whole.calls; lifetime += STEP) {
    for (const lastOneHappens of [false, true]) {
      const where = `dies ${lastOneHappens ? 'after' : 'before'} call ${lifetime}`;
      await checkBranch(await branchHistory([{ lifetime, lastOneHappens }]), where);
    }
  }
});

test('a branch takes its turn as every run does, wherever a process dies', { timeout: 120_000 }, async () => {
  const whole = await branchHistory([], { waits: true });
  await checkBranch(whole, 'nobody dies');
  expect(whole.callsOfNext).toBeGreaterThan(30);
  const lastOneHappens = true;
  for (let lifetime = 1; lifetime <= whole.callsOfNext; lifetime += 3 * STEP) {
    const begins = await branchHistory([{ lifetime, lastOneHappens }], { waits: true });
    await checkBranch(begins, `dies after call ${lifetime}`);
    const continues = await branchHistory([IMMORTAL, { lifetime, lastOneHappens }], { waits: true });
    await checkBranch(continues, `dies after call ${lifetime} of its turn`);
  }
});
