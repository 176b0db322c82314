import { describe, expect, test } from 'vitest';
import { leasesOf } from '#core/accounts/limits/admission.ts';
import { settled } from '#test/helpers/durable-histories.ts';
import { addUser } from '#test/helpers/users.ts';
import { type Call, DONE, HOUR_MS, PAY, pay, waitingLoop } from '#test/helpers/waiting-loop.ts';
import { findOrder } from './order.ts';

/** Runs that wait for approvals and answers, in processes that begin, leave and take up. */

const always = (turns: readonly (readonly Call[])[]) =>
  waitingLoop({ custom_tools: [{ ...PAY, approval: 'always' }] }, turns);

describe('an approval', () => {
  test('lets the run wait without a process, a place or a lease, and then the call runs once', async () => {
    const run = await always([[pay(5)], [DONE]]);
    const id = await run.call();
    expect(await run.runs.find(id)).toMatchObject({ status: 'waiting' });
    expect(run.paid).toEqual([]);
    expect(await Array.fromAsync(leasesOf(run.deps, { all: true }))).toEqual([]);
    expect(await run.waiting()).toBe(1);
    const [waiting] = await run.list();
    expect(waiting).toMatchObject({
      ...{ id: `${id}.1.1`, run_id: id, agent_name: 'payer', agent_version: 'v1', kind: 'approve', tool: 'pay' },
      ...{ arguments: { to: 'ann', amount: 5 }, status: 'waiting', decided_by: null, on_timeout: 'deny' },
    });
    await run.deps.clock.advance(20 * HOUR_MS);
    await run.next();
    expect(await run.runs.find(id)).toMatchObject({ status: 'waiting' });

    const decided = await run.decide(waiting!.id, { decision: 'approve' });
    expect(decided).toMatchObject({ status: 200, body: { status: 'approved', decided_by: run.user.userId } });
    await run.next();
    expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
    expect(run.paid).toEqual(['ann 5']);
    expect(run.results()).toEqual(['paid']);
    await run.isOver();
  });

  test('refuses a call for good: the model is told why, and nobody is asked about the same again', async () => {
    const run = await always([[pay(5)], [pay(5)], [pay(6)], [DONE]]);
    const id = await run.call();
    const denied = await run.decide(`${id}.1.1`, { decision: 'deny', reason: 'Ann is paid already.' });
    expect(denied).toMatchObject({ status: 200, body: { status: 'denied', reason: 'Ann is paid already.' } });
    await run.next();
    expect((await run.list()).map((each) => each.id)).toEqual([`${id}.3.1`]);
    await run.decide(`${id}.3.1`, { decision: 'deny' });
    await run.next();
    expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
    expect(run.paid).toEqual([]);
    expect(run.results()).toEqual([
      '[ERROR] A person refused this call, so it was not made. Do not repeat it. The reason: Ann is paid already.',
      '[ERROR] A person has refused this call with the same arguments before, so nobody was asked again. Do not repeat it.',
      '[ERROR] A person refused this call, so it was not made. Do not repeat it.',
    ]);
    await run.isOver();
  });

  test('changes the arguments, and the model learns of it', async () => {
    const run = await always([[pay(5)], [DONE]]);
    const id = await run.call();
    const changed = { to: 'ann', amount: 3 };
    const { body } = await run.decide(`${id}.1.1`, { decision: 'approve', arguments: changed });
    expect(body).toMatchObject({ arguments: { to: 'ann', amount: 5 }, changed_arguments: changed });
    await run.next();
    expect(run.paid).toEqual(['ann 3']);
    expect(run.results()).toEqual([
      '[A person changed the arguments of this call before approving it, to {"to":"ann","amount":3}]\npaid',
    ]);
  });

  test('of the whole run lets later calls of the tool run at once', async () => {
    const run = await always([[pay(5)], [pay(6), pay(7)], [DONE]]);
    const id = await run.call();
    await run.decide(`${id}.1.1`, { decision: 'approve', for: 'run' });
    await run.next();
    expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
    expect(run.paid).toEqual(['ann 5', 'ann 6', 'ann 7']);
  });

  test('is asked for only if the arguments match its condition', async () => {
    const approval = { when: { properties: { amount: { exclusiveMinimum: 100 } } } };
    const run = await waitingLoop({ custom_tools: [{ ...PAY, approval }] }, [[pay(100), pay(101)], [DONE]]);
    const id = await run.call();
    expect(run.paid).toEqual(['ann 100']);
    expect((await run.list()).map((each) => each.id)).toEqual([`${id}.1.2`]);
    await run.decide(`${id}.1.2`, { decision: 'approve' });
    await run.next();
    expect(run.paid).toEqual(['ann 100', 'ann 101']);
  });

  test('is not asked for a call with wrong arguments: the model corrects them', async () => {
    const run = await always([[{ name: 'pay', input: { to: 'ann' } }], [DONE]]);
    expect(await run.runs.find(await run.call())).toMatchObject({ status: 'completed' });
    expect(run.results()[0]).toMatch(/^\[ERROR\] The parameters of pay are not as its schema says: amount/);
  });

  test('of calls in parallel: each is decided by itself, in any order', async () => {
    const run = await always([[pay(1), pay(2), pay(3)], [DONE]]);
    const id = await run.call();
    await run.decide(`${id}.1.3`, { decision: 'approve' });
    await run.next();
    expect(run.paid).toEqual(['ann 3']);
    expect(await run.runs.find(id)).toMatchObject({ status: 'waiting' });
    await run.decide(`${id}.1.1`, { decision: 'deny' });
    await run.decide(`${id}.1.2`, { decision: 'approve' });
    await run.next();
    expect(run.paid).toEqual(['ann 3', 'ann 2']);
    expect(run.results().map((text) => text.slice(0, 7))).toEqual(['[ERROR]', 'paid', 'paid']);
    const decided = (await run.runs.body(id))?.trace.filter(({ event_type }) => event_type === 'approval_decided');
    expect(decided?.map(({ payload }) => payload?.approval_id)).toEqual([`${id}.1.3`, `${id}.1.1`, `${id}.1.2`]);
    await run.isOver();
  });

  test('of a call beside others that wait leaves their times as they were', async () => {
    const manifest = { custom_tools: [{ ...PAY, approval: { timeout_seconds: 7200 } }], loop: { tools: ['wait'] } };
    const run = await waitingLoop(manifest, [[pay(1), { name: 'wait', input: { seconds: 3600 } }, pay(2)], [DONE]]);
    const id = await run.call();
    await run.deps.clock.advance(HOUR_MS / 2);
    await run.decide(`${id}.1.1`, { decision: 'approve' });
    await run.next();
    await run.deps.clock.advance(HOUR_MS / 2);
    await run.next();
    const { approvals } = (await run.send('GET', `${run.approvals}?run_id=${id}`)).body;
    expect(approvals).toMatchObject([
      { status: 'waiting' },
      { kind: 'time', status: 'expired' },
      { status: 'approved' },
    ]);
    await run.deps.clock.advance(HOUR_MS);
    await run.next();
    expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
    expect(run.paid).toEqual(['ann 1']);
    const asked = (await run.runs.body(id))?.trace.filter(({ event_type }) => event_type === 'approval_requested');
    expect(asked).toHaveLength(3);
    await run.isOver();
  });

  test('that comes too late does nothing: the model is told that nobody decided', async () => {
    const approval = { timeout_seconds: 60 };
    const run = await waitingLoop({ custom_tools: [{ ...PAY, approval }] }, [[pay(5)], [DONE]]);
    const id = await run.call();
    await run.deps.clock.advance(60_000);
    const late = await run.decide(`${id}.1.1`, { decision: 'approve' });
    expect(late).toMatchObject({ status: 409, body: { error: { message: expect.stringContaining('too late') } } });
    await run.next();
    expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
    expect(run.paid).toEqual([]);
    expect(run.results()).toEqual(['[ERROR] Nobody decided about this call in time, so it was not made.']);
    expect((await run.send('GET', `${run.approvals}/${id}.1.1`)).body).toMatchObject({
      status: 'expired',
      decided_by: null,
    });
    await run.isOver();
  });

  test('with on_timeout fail ends the run when nobody decides', async () => {
    const approval = { timeout_seconds: 60, on_timeout: 'fail' };
    const run = await waitingLoop({ custom_tools: [{ ...PAY, approval }] }, [[pay(5)], [DONE]]);
    const id = await run.call();
    await run.deps.clock.advance(60_000);
    await run.next();
    const errorMessage = 'Nobody decided in time about a call of the tool pay.';
    expect(await run.runs.find(id)).toMatchObject({ status: 'timeout', errorMessage });
    await run.isOver();
  });

  test('shows no secret, and a changed call still has it', async () => {
    const run = await waitingLoop({ custom_tools: [{ ...PAY, approval: 'always' }], required_secrets: ['ACCOUNT'] }, [
      [pay(5, 'verysecretaccount')],
      [DONE],
    ]);
    await run.send('PUT', `/workspaces/${run.workspaceId}/secrets`, { name: 'ACCOUNT', value: 'verysecretaccount' });
    const id = await run.call();
    const [waiting] = await run.list();
    expect(waiting).toMatchObject({ arguments: { to: '[secret ACCOUNT]', amount: 5 } });
    const moved = { to: 'to [secret ACCOUNT]', amount: 3 };
    const refused = await run.decide(`${id}.1.1`, { decision: 'approve', arguments: moved });
    expect(refused).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringMatching(/^body\.arguments: \[secret ACCOUNT\]/) } },
    });
    await run.decide(`${id}.1.1`, { decision: 'approve', arguments: { to: '[secret ACCOUNT]', amount: 3 } });
    await run.next();
    expect(run.paid).toEqual(['verysecretaccount 3']);
  });
});

describe('a decision', () => {
  test('is made once: the same again is no error, another one is refused', async () => {
    const run = await always([[pay(5)], [DONE]]);
    const id = `${await run.call()}.1.1`;
    const first = await run.decide(id, { decision: 'approve' });
    expect(await run.decide(id, { decision: 'approve' })).toEqual(first);
    const other = await run.decide(id, { decision: 'deny' });
    expect(other).toMatchObject({
      status: 409,
      body: { error: { code: 'CONFLICT', message: expect.stringContaining('final') } },
    });
  });

  test('of many at the same time is that of one', async () => {
    const run = await always([[pay(5)], [DONE]]);
    const id = `${await run.call()}.1.1`;
    const sent = Array.from({ length: 50 }, (_, i) => run.decide(id, { decision: 'deny', reason: `number ${i}` }));
    const statuses = (await Promise.all(sent)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status === 409)).toHaveLength(49);
  });

  test.each([
    [{ decision: 'answer', answer: 'yes' }, /^body\.decision: must be "approve" or "deny" here/],
    [{ decision: 'approve', answer: 'yes' }, /^body\.answer: only goes with/],
    [{ decision: 'deny', arguments: {} }, /^body\.arguments: only go with/],
    [{ decision: 'deny', for: 'run' }, /^body\.for: only goes with/],
    [{ decision: 'approve', arguments: { to: 'ann', amount: 'much' } }, /^body\.arguments\.amount: must be integer/],
    [{ decision: 'perhaps' }, /^body\.decision: /],
    [{ decision: 'approve', arguments: 5 }, /^body\.arguments: /],
  ])('%j is refused with the reason, and nothing is done', async (body, message) => {
    const run = await always([[pay(5)], [DONE]]);
    const id = await run.call();
    const refused = await run.decide(`${id}.1.1`, body);
    expect(refused).toMatchObject({ status: 400, body: { error: { message: expect.stringMatching(message) } } });
    expect(await run.list()).toHaveLength(1);
  });

  test('about the run of another workspace, or about none, is not found', async () => {
    const run = await always([[pay(5)], [DONE]]);
    const id = await run.call();
    const stranger = await addUser(run.deps, 'stranger');
    expect(await run.decide(`${id}.1.1`, { decision: 'approve' }, stranger.key)).toMatchObject({ status: 403 });
    const own = `/workspaces/${stranger.workspaceId}/approvals/${id}.1.1/decision`;
    expect(await run.send('POST', own, { decision: 'approve' }, stranger.key)).toMatchObject({ status: 404 });
    expect(await run.decide(`${id}.1.2`, { decision: 'approve' })).toMatchObject({ status: 404 });
    expect(await run.decide('nothing', { decision: 'approve' })).toMatchObject({ status: 404 });
  });

  test('is in the steps of a shared run, without who made it', async () => {
    const run = await always([[pay(5)], [DONE]]);
    const id = await run.call();
    await run.decide(`${id}.1.1`, { decision: 'approve' });
    await run.next();
    const { body } = await run.send('POST', `/workspaces/${run.workspaceId}/runs/${id}/shares`, {});
    const token = (body as unknown as { url: string }).url.split('/').at(-1)!;
    for (const part of ['steps', 'events']) {
      const shared = await run.send('GET', `/public/shares/${token}/${part}`);
      expect(shared.status).toBe(200);
      expect(JSON.stringify(shared.body)).toContain('approval_decided');
      expect(JSON.stringify(shared.body)).not.toContain(run.user.userId);
    }
  });

  test('needs a key with the scope approve or manage', async () => {
    const run = await always([[pay(5)], [DONE]]);
    const id = await run.call();
    const keyOf = async (scope: string) => (await run.send('POST', '/api-keys', { name: scope, scope })).body.key;
    for (const scope of ['read', 'run']) {
      const refused = await run.decide(`${id}.1.1`, { decision: 'approve' }, await keyOf(scope));
      expect(refused).toMatchObject({
        status: 403,
        body: { error: { message: expect.stringContaining('needs "approve"') } },
      });
    }
    const approver = await keyOf('approve');
    expect(
      await run.send('PUT', `/workspaces/${run.workspaceId}/secrets`, { name: 'A', value: 'b' }, approver),
    ).toMatchObject({ status: 403 });
    expect(await run.decide(`${id}.1.1`, { decision: 'approve' }, approver)).toMatchObject({ status: 200 });
  });

  test('after the end of the run is refused', async () => {
    const run = await always([[pay(5)], [DONE]]);
    const id = await run.call();
    await run.send('POST', `/workspaces/${run.workspaceId}/runs/${id}/cancel`);
    await run.next();
    expect(await run.runs.find(id)).toMatchObject({ status: 'cancelled' });
    const late = await run.decide(`${id}.1.1`, { decision: 'approve' });
    expect(late).toMatchObject({ status: 409, body: { error: { message: expect.stringContaining('has ended') } } });
    expect(await run.list()).toEqual([]);
    expect(run.paid).toEqual([]);
    await run.isOver();
  });
});

describe('a question', () => {
  const asks = (question: object, turns: readonly (readonly Call[])[] = []) =>
    waitingLoop({ loop: { tools: ['ask_human'] }, durable: { max_wait_seconds: 24 * 3600 } }, [
      [{ name: 'ask_human', input: question as Call['input'] & {} }],
      ...turns,
      [DONE],
    ]);

  test('gets its answer', async () => {
    const run = await asks({ question: 'Which colour?', options: ['red', 'blue'] });
    const id = await run.call();
    const [waiting] = await run.list();
    expect(waiting).toMatchObject({ kind: 'answer', question: 'Which colour?', options: ['red', 'blue'] });
    expect(await run.decide(`${id}.1.1`, { decision: 'answer', answer: 'green' })).toMatchObject({ status: 400 });
    expect(await run.decide(`${id}.1.1`, { decision: 'approve' })).toMatchObject({ status: 400 });
    expect(await run.decide(`${id}.1.1`, { decision: 'answer' })).toMatchObject({ status: 400 });
    expect(await run.decide(`${id}.1.1`, { decision: 'answer', answer: 'blue' })).toMatchObject({ status: 200 });
    await run.next();
    expect(run.results()).toEqual(['blue']);
  });

  test('with a schema gets an answer that matches it', async () => {
    const schema = { type: 'object', properties: { count: { type: 'integer' } }, required: ['count'] };
    const run = await asks({ question: 'How many?', schema });
    const id = await run.call();
    const wrong = await run.decide(`${id}.1.1`, { decision: 'answer', answer: { count: 'two' } });
    expect(wrong).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringMatching(/^body\.answer\.count: /) } },
    });
    await run.decide(`${id}.1.1`, { decision: 'answer', answer: { count: 2 } });
    await run.next();
    expect(run.results()).toEqual(['{"count":2}']);
  });

  test('that nobody answers ends with the time that the run may wait', async () => {
    const run = await asks({ question: 'Anybody?' });
    const id = await run.call();
    await run.deps.clock.advance(24 * HOUR_MS);
    await run.next();
    expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
    expect(run.results()).toEqual(['[ERROR] Nobody answered in time.']);
  });
});

describe('a wait', () => {
  const waits = (input: object) =>
    waitingLoop({ loop: { tools: ['wait'] }, durable: { max_wait_seconds: 24 * 3600 } }, [
      [{ name: 'wait', input: input as Call['input'] & {} }],
      [DONE],
    ]);

  test('ends at its time', async () => {
    const run = await waits({ seconds: 3600 });
    const id = await run.call();
    expect(await run.runs.find(id)).toMatchObject({ status: 'waiting' });
    await run.deps.clock.advance(HOUR_MS - 1000);
    await run.next();
    expect(await run.runs.find(id)).toMatchObject({ status: 'waiting' });
    await run.deps.clock.advance(1000);
    await run.next();
    expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
    expect(run.results()[0]).toMatch(/^The time has come: it is 20/);
    await run.isOver();
  });

  test.each([
    [{}, /^\[ERROR\] Give seconds, until or event/],
    [{ seconds: 1, until: '2035-12-01T09:00:00Z' }, /^\[ERROR\] Give either seconds or until/],
    [{ until: 'tomorrow' }, /^\[ERROR\] until must be a time with an offset/],
    [{ until: '2020-12-01T09:00:00Z' }, /^\[ERROR\] until must be in the future/],
    [{ seconds: 3 * 24 * 3600 }, /^\[ERROR\] This run may wait for 8\d+ more seconds, not so long/],
  ])('%j is an error for the model', async (input, message) => {
    const run = await waits(input);
    expect(await run.runs.find(await run.call())).toMatchObject({ status: 'completed' });
    expect(run.results()[0]).toMatch(message);
  });
});

describe('limits', () => {
  test('a run beyond the waiting runs of the plan asks nobody, and the model is told', async () => {
    const run = await always([[pay(5)], [DONE]]);
    for (let count = 0; count < 10; count++) await run.call();
    const last = await run.call();
    expect(await run.runs.find(last)).toMatchObject({ status: 'completed' });
    expect(run.results()[0]).toMatch(/^\[ERROR\] Too many runs of the workspace wait already/);
    expect(run.paid).toEqual([]);
  });

  test('50 calls of a run wait at the same time, and the model is told to make the others later', async () => {
    const run = await always([Array.from({ length: 60 }, (_, i) => pay(i)), [DONE]]);
    const id = await run.call();
    const { body } = await run.send('GET', `${run.approvals}?run_id=${id}&limit=200`);
    expect(body.approvals).toHaveLength(50);
    await run.send('POST', `/workspaces/${run.workspaceId}/runs/${id}/cancel`);
    await run.next();
    await run.isOver();
  });
});

test('the list is paged, and filtered by status, kind, agent and run', async () => {
  const run = await always([[pay(1), pay(2), pay(3)], [DONE]]);
  const id = await run.call();
  const first = await run.send('GET', `${run.approvals}?limit=2`);
  expect(first.body.approvals).toHaveLength(2);
  const rest = await run.send('GET', `${run.approvals}?limit=2&cursor=${first.body.next_cursor}`);
  expect(rest.body).toMatchObject({ approvals: [{ run_id: id }], next_cursor: null });
  const ids = [...first.body.approvals, ...rest.body.approvals].map((each) => each.id);
  expect(ids.sort()).toEqual([`${id}.1.1`, `${id}.1.2`, `${id}.1.3`]);
  const foreign = await run.send('GET', `${run.approvals}?limit=2&status=waiting&cursor=${first.body.next_cursor}`);
  expect(foreign).toMatchObject({ status: 400, body: { error: { message: expect.stringContaining('query.cursor') } } });
  await run.decide(`${id}.1.2`, { decision: 'deny' });
  const listed = async (query: string) => (await run.send('GET', `${run.approvals}?${query}`)).body.approvals.length;
  expect(await listed('status=waiting')).toBe(2);
  expect(await listed('status=denied')).toBe(1);
  expect(await listed('kinds=approve,answer')).toBe(3);
  expect(await listed('kinds=answer,time')).toBe(0);
  expect(await listed(`run_id=${id}&kinds=answer`)).toBe(0);
  expect(await run.send('GET', `${run.approvals}?kinds=people`)).toMatchObject({ status: 400 });
  expect(await listed('agent_name=payer')).toBe(3);
  expect(await listed('agent_name=other')).toBe(0);
  expect(await listed(`run_id=${id}&status=denied`)).toBe(1);
});

describe('whenever a process dies', () => {
  /** Every fifth call of a port. */
  const STEP = 5;

  test('a run that waits is asked for once, and what was approved runs once', async () => {
    const turns = [[pay(1), { name: 'look', input: {} }], [pay(2)], [DONE]];
    const tools = [
      { ...PAY, approval: 'always' },
      { name: 'look', description: 'x', command: 'look' },
    ];
    for (let lifetime = 1, isOver = false; !isOver; lifetime += STEP) {
      const run = await waitingLoop({ custom_tools: tools }, turns);
      const id = await run.call();
      const where = `died at ${lifetime}`;
      await run.decide(`${id}.1.1`, { decision: 'approve' });
      const { recover, death } = run.begin({ lifetime, lastOneHappens: (lifetime / STEP) % 2 < 1 });
      await settled(run.deps, Promise.race([recover(), death.died]));
      isOver = death.asked < lifetime;
      await run.next();
      expect(
        (await run.list()).map((each) => each.id),
        where,
      ).toEqual([`${id}.2.1`]);
      expect(await run.waiting(), where).toBe(1);
      await run.decide(`${id}.2.1`, { decision: 'approve' });
      const second = run.begin({ lifetime, lastOneHappens: (lifetime / STEP) % 2 >= 1 });
      await settled(run.deps, Promise.race([second.recover(), second.death.died]));
      await run.next();
      expect(await run.runs.find(id), where).toMatchObject({ status: 'completed' });
      const sent = run.paid;
      expect(new Set(sent).size, `${where}: ${sent}`).toBe(sent.length);
      const results = run.results().filter((text) => text.includes('is unknown'));
      expect(sent.length + results.length, where).toBeGreaterThanOrEqual(2);
      await run.isOver();
    }
  });
});

test('the stored call of a run that waits holds no secret of its workspace', async () => {
  const run = await always([[pay(5)], [DONE]]);
  const id = await run.call();
  const order = (await findOrder(run.deps, run.workspaceId, id))!;
  expect(order.call.agent.name).toBe('payer');
  expect(JSON.stringify(order.call)).not.toContain('sk-made-up');
});
