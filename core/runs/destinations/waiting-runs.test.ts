import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { deliveryListeners } from '#core/api/listeners.ts';
import { sweepDeliveries } from '#core/outbound/deliveries.ts';
import { settled } from '#test/helpers/durable-histories.ts';
import { type Receiver, startReceiver } from '#test/helpers/receiver.ts';
import { type Call, DONE, PAY, pay, waitingLoop } from '#test/helpers/waiting-loop.ts';
import { announceEnds } from './announce.ts';

/** What is posted and shown of runs that wait (`docs/interface/approvals.md#deliveries`). */

let receiver: Receiver;
beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(() => receiver.close());

type Members = Readonly<Record<string, unknown>>;

async function setUp(turns: readonly (readonly Call[])[], agent: object = {}, settings: object = {}) {
  const dashboardUrl = 'https://agents.example.com/dashboard';
  const run = await waitingLoop({ custom_tools: [{ ...PAY, approval: 'always' }], ...agent }, turns, {
    outboundHosts: ['127.0.0.1'],
    dashboardUrl,
  });
  const { deps, workspaceId } = run;
  const path = `/workspaces/${workspaceId}/destinations`;
  const made = await run.send('POST', path, { url: `${receiver.url}/all`, ...settings });
  expect(made).toMatchObject({ status: 201 });
  const sweep = async () => {
    await deps.clock.advance(20_000);
    await announceEnds(deps);
    await sweepDeliveries(deps, deliveryListeners(deps));
  };
  const posted = (at = '/all') => receiver.at(at).map(({ body }) => body as { type: string; data: Members });
  const listed = async (what: 'tasks' | 'messages') => {
    const { body } = await run.send('GET', `/workspaces/${workspaceId}/${what}`);
    return (body as unknown as Record<string, Members[]>)[what]!;
  };
  return { ...run, sweep, posted, types: (at?: string) => posted(at).map(({ type }) => type), listed };
}

describe('a run that asks', () => {
  test('is announced to destinations and to the address of its call, once', async () => {
    const { call, decide, next, posted, types, sweep, user, workspaceId } = await setUp([[pay(5)], [DONE]]);
    const id = await call({ 'x-platform-webhook': `${receiver.url}/call` });
    expect(types().sort()).toEqual(['approval.requested', 'run.waiting']);
    expect(posted().find(({ type }) => type === 'run.waiting')!.data).toMatchObject({
      ...{ run_id: id, status: 'waiting', agent_version: 'v1', waits_until: expect.any(String) },
    });
    expect(posted().find(({ type }) => type === 'approval.requested')!.data).toMatchObject({
      ...{ approval_id: `${id}.1.1`, run_id: id, workspace_id: workspaceId, agent: 'asker/payer', kind: 'approve' },
      ...{ tool: 'pay', arguments: { to: 'ann', amount: 5 }, arguments_omitted: false, question: null },
      ...{ status: 'waiting', url: `https://agents.example.com/dashboard/asker/runs/${id}` },
    });
    const changed = { to: 'ann', amount: 3 };
    await decide(`${id}.1.1`, { decision: 'approve', arguments: changed, reason: 'less' });
    await next();
    const ends = ['approval.decided', 'approval.requested', 'run.completed', 'run.waiting'];
    expect(types().sort()).toEqual(ends);
    expect(posted().find(({ type }) => type === 'approval.decided')!.data).toMatchObject({
      ...{ status: 'approved', edited: true, for_run: false, reason: 'less', decided_by: user.userId },
    });
    await sweep();
    expect(types().sort()).toEqual(ends);
    expect(types('/call').sort()).toEqual(ends);
    const ids = receiver.at('/').map(({ headers }) => headers['webhook-id']);
    expect(new Set(ids).size).toBe(8);
  });

  test('is announced by the sweep where its process died', async () => {
    const { call, decide, deps, sweep, begin, types, listed } = await setUp([[pay(5)], [pay(6)], [DONE]]);
    const id = await call();
    await decide(`${id}.1.1`, { decision: 'deny' });
    const { recover, death } = begin({ lifetime: 40, lastOneHappens: true });
    await settled(deps, Promise.race([recover(), death.died]));
    await sweep();
    await sweep();
    expect(types().filter((type) => type === 'approval.decided')).toHaveLength(1);
    expect((await listed('tasks')).filter(({ status }) => status === 'done')).toHaveLength(1);
  });

  test('that nobody answers in time is announced as expired, a cancelled one only as ended', async () => {
    const turns = [[pay(5)], [pay(6)], [DONE]];
    const { call, deps, next, types, send, workspaceId, sweep, listed } = await setUp(turns, {
      custom_tools: [{ ...PAY, approval: { timeout_seconds: 60 } }],
    });
    const id = await call();
    await deps.clock.advance(60_000);
    await next();
    expect(types().filter((type) => type === 'approval.expired')).toHaveLength(1);
    await send('POST', `/workspaces/${workspaceId}/runs/${id}/cancel`);
    await next();
    await sweep();
    expect(
      types()
        .filter((type) => !type.startsWith('run.'))
        .sort(),
    ).toEqual([...['approval.expired', 'approval.requested', 'approval.requested']]);
    expect((await listed('tasks')).map(({ status }) => status)).toEqual(['cancelled', 'cancelled']);
  });

  test('is announced without secrets, and without arguments that are too long', async () => {
    const { call, posted, send, workspaceId, listed } = await setUp(
      [[pay(1, 'verysecretaccount'), pay(2, 'a'.repeat(20_000))], [DONE]],
      { required_secrets: ['ACCOUNT'] },
      { events: ['approval.requested'] },
    );
    await send('PUT', `/workspaces/${workspaceId}/secrets`, { name: 'ACCOUNT', value: 'verysecretaccount' });
    await call();
    const found = posted().map(({ data }) => [data.arguments, data.arguments_omitted]);
    expect(found).toHaveLength(2);
    expect(found).toEqual(
      expect.arrayContaining([
        [{ to: '[secret ACCOUNT]', amount: 1 }, false],
        [null, true],
      ]),
    );
    expect(JSON.stringify([await listed('tasks'), await listed('messages')])).not.toMatch(/secret|aaaa/);
  });

  test('that waits for a time asks nobody', async () => {
    const { call, types, listed } = await setUp([[{ name: 'wait', input: { seconds: 60 } }], [DONE]], {
      loop: { tools: ['wait'] },
    });
    await call();
    expect(types()).toEqual(['run.waiting']);
    expect(await listed('tasks')).toEqual([]);
  });

  test.each([
    [{ events: ['approval.decided'] }, []],
    [{ events: ['run.waiting', 'run.failed'] }, ['run.waiting']],
    [{ statuses: ['failed'] }, []],
    [{ events: ['approval.requested', 'run.failed'], statuses: ['failed'] }, ['approval.requested']],
    [{ agents: ['asker/other'] }, []],
  ])('is announced to a destination with %j as it chooses', async (settings, expected) => {
    const { call, types } = await setUp([[pay(5)], [DONE]], {}, settings);
    await call();
    expect(types()).toEqual(expected);
  });

  test('has a task and a message until it is decided, and a task decides nothing', async () => {
    const { call, decide, list, next, listed, send } = await setUp([[pay(5)], [DONE]]);
    const id = await call();
    const [task] = await listed('tasks');
    expect(task).toMatchObject({ title: 'payer asks for approval of pay', project: 'Approvals', status: 'open' });
    expect(task).toMatchObject({ created_by: 'payer', priority: 'high' });
    expect(await listed('messages')).toMatchObject([
      {
        title: 'payer asks for approval of pay',
        level: 'warning',
        metadata: { approval_id: `${id}.1.1`, task_id: task!.id },
      },
    ]);
    expect(await send('PATCH', `/tasks/${task!.id}`, { status: 'done' })).toMatchObject({ status: 200 });
    expect(await list()).toHaveLength(1);
    await send('PATCH', `/tasks/${task!.id}`, { status: 'in_progress' });
    await decide(`${id}.1.1`, { decision: 'approve' });
    await next();
    expect(await listed('tasks')).toMatchObject([{ id: task!.id, status: 'done' }]);
    expect(await listed('messages')).toHaveLength(1);
  });

  test('has the question as the title of its task, in one line', async () => {
    const question = { question: 'Which\ncolour?', options: ['red', 'blue'] };
    const { call, listed } = await setUp([[{ name: 'ask_human', input: question }], [DONE]], {
      loop: { tools: ['ask_human'] },
    });
    const id = await call();
    expect(await listed('tasks')).toMatchObject([
      { title: 'payer asks: Which colour?', description: expect.stringContaining(`approve ${id}.1.1 --answer`) },
    ]);
  });

  test('is shown again by the sweep while showing it fails', async () => {
    const { call, deps, sweep, listed, types } = await setUp([[pay(5)], [DONE]]);
    const { main } = deps;
    const transact = main.transact.bind(main);
    let isFull = true;
    Object.assign(main, {
      transact: async (writes: Parameters<typeof transact>[0]) => {
        const isTask = writes.some((write) => write.op === 'put' && write.item.pk.endsWith('#TASKS'));
        if (isFull && isTask) throw new Error('no space');
        return transact(writes);
      },
    });
    await call();
    await sweep();
    expect(await listed('tasks')).toEqual([]);
    isFull = false;
    await sweep();
    await sweep();
    expect(await listed('tasks')).toHaveLength(1);
    expect(types().filter((type) => type === 'approval.requested')).toHaveLength(1);
  });

  test('500 times at once asks 50 times, and tells the model about the others', async () => {
    const all = Array.from({ length: 500 }, (_, amount) => pay(amount));
    const { call, sweep, types, listed, list, decide, next, send, workspaceId, results } = await setUp([all, [DONE]]);
    await call();
    for (let minute = 0; minute < 3; minute++) await sweep();
    expect(types().filter((type) => type === 'approval.requested')).toHaveLength(50);
    expect(await listed('tasks')).toHaveLength(50);
    const waiting = await list();
    expect(waiting).toHaveLength(50);
    await Promise.all(waiting.map((each) => decide(each.id, { decision: 'deny' })));
    await next();
    for (let minute = 0; minute < 3; minute++) await sweep();
    expect(types().filter((type) => type === 'approval.decided')).toHaveLength(50);
    const { body } = await send('GET', `/workspaces/${workspaceId}/tasks?status=done&limit=200`);
    expect(body).toMatchObject({ total: 50 });
    expect(await list()).toEqual([]);
    expect(results().filter((text) => text.includes('At most 50 calls wait at the same time'))).toHaveLength(450);
  });
});
