import { expect, test } from 'vitest';
import { RunStore } from '#core/runs/store.ts';
import { addUser } from '#test/helpers/users.ts';
import { type Call, DONE, HOUR_MS, waitingLoop } from '#test/helpers/waiting-loop.ts';

/** Runs that wait for events from outside. */

const url = (event: string): Call => ({ name: 'event_url', input: { event } });
const wait = (event: string, rest: object = {}): Call => ({ name: 'wait', input: { event, ...rest } });
const loop = (...turns: readonly (readonly Call[])[]) =>
  waitingLoop({ loop: { tools: ['wait', 'event_url'] }, durable: { max_wait_seconds: 24 * 3600 } }, turns);
type Loop = Awaited<ReturnType<typeof loop>>;

/** Returns the path of the address that the model got in its first turn, as its `number`th. */
function pathOf(run: Loop, number = 0): string {
  const results = run.asked.at(-1)!.flatMap((message) => (message.role === 'tool' ? message.results : []));
  return results[number]!.text.replace(/^https?:..[^/]+/, '');
}

const happen = (run: Loop, path: string, payload?: object) => run.send('POST', path, payload, '');

test('a run waits for an event, and continues with what it brought', async () => {
  const run = await loop([url('paid')], [wait('paid')], [DONE]);
  const id = await run.call();
  expect(await run.runs.find(id)).toMatchObject({ status: 'waiting' });
  const [waiting] = await run.list();
  expect(waiting).toMatchObject({ id: `${id}.2.1`, kind: 'event', arguments: { event: 'paid' }, on_timeout: 'deny' });
  const sent = await happen(run, pathOf(run), { order: 'A-17', amount: 5 });
  expect(sent).toMatchObject({ status: 200, body: { received: true, waiting: true } });
  await run.next();
  expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
  expect(run.results().at(-1)).toBe('{"order":"A-17","amount":5}');
  const { body } = await run.send('GET', `${run.approvals}/${id}.2.1`);
  expect(body).toMatchObject({ status: 'answered', answer: { order: 'A-17', amount: 5 }, decided_by: 'event' });
  await run.isOver();
});

test('an event that happens early is kept until the run waits for it', async () => {
  const ask: Call = { name: 'ask_human', input: { question: 'Now?' } };
  const run = await waitingLoop({ loop: { tools: ['wait', 'event_url', 'ask_human'] } }, [
    [url('paid')],
    [ask],
    [wait('paid')],
    [DONE],
  ]);
  const id = await run.call();
  expect(await happen(run, pathOf(run))).toMatchObject({ status: 200, body: { waiting: false } });
  await run.decide(`${id}.2.1`, { decision: 'answer', answer: 'yes' });
  await run.next();
  await run.next();
  expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
  expect(run.results().at(-1)).toBe('(no payload)');
  await run.isOver();
});

test('the same event again changes nothing, and another payload is refused', async () => {
  const run = await loop([url('paid')], [wait('paid')], [DONE]);
  const id = await run.call();
  const path = pathOf(run);
  await happen(run, path, { amount: 5 });
  expect(await happen(run, path, { amount: 5 })).toMatchObject({ status: 200, body: { waiting: false } });
  const other = await happen(run, path, { amount: 500 });
  expect(other).toMatchObject({
    status: 409,
    body: { error: { message: expect.stringContaining('another payload') } },
  });
  await run.next();
  expect(run.results().at(-1)).toBe('{"amount":5}');
  // Who repeats a request because the answer was lost gets the answer, also after the end.
  expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
  expect(await happen(run, path, { amount: 5 })).toMatchObject({ status: 200 });
});

test('an address stands for one event of one run', async () => {
  const run = await loop([url('paid'), url('sent'), url('paid')], [wait('paid'), wait('sent')], [DONE]);
  const id = await run.call();
  const [paid, sent, again] = [pathOf(run, 0), pathOf(run, 1), pathOf(run, 2)];
  expect(again).toBe(paid);
  expect(sent).not.toBe(paid);
  const first = await run.call();
  expect(pathOf(run)).not.toBe(paid);
  await happen(run, sent, { tracking: 1 });
  await run.next();
  expect(await run.runs.find(id)).toMatchObject({ status: 'waiting' });
  expect(await run.runs.find(first)).toMatchObject({ status: 'waiting' });
  await happen(run, paid, { amount: 5 });
  await run.next();
  expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
  expect(run.results().slice(-2)).toEqual(['{"amount":5}', '{"tracking":1}']);
});

test('what is stored and shown of a run has no address that works', async () => {
  const run = await loop([url('paid')], [wait('paid')], [DONE]);
  const id = await run.call();
  const path = pathOf(run);
  const token = path.split('/').at(-1)!;
  await happen(run, path, {});
  await run.next();
  const runs = new RunStore(run.deps, run.workspaceId);
  const { body } = await run.send('GET', `/workspaces/${run.workspaceId}/traces/${id}/events?limit=100`);
  const shown = JSON.stringify([await runs.find(id), await runs.body(id), body]);
  expect(shown).not.toContain(token);
});

test.each([
  ['/webhooks/events/forged', {}, 404, 'No run waits'],
  [`/webhooks/events/${'A'.repeat(44)}`, {}, 404, 'No run waits'],
  ['here', { text: 'x'.repeat(70_000) }, 413, ''],
])('%s with %o is refused with %i', async (path, payload, status, message) => {
  const run = await loop([url('paid')], [wait('paid')], [DONE]);
  await run.call();
  const refused = await happen(run, path === 'here' ? pathOf(run) : path, payload);
  expect(refused).toMatchObject({ status, body: { error: { message: expect.stringContaining(message) } } });
  expect(await run.list()).toHaveLength(1);
});

test('an event after the end of the run is refused', async () => {
  const run = await loop([url('paid')], [wait('paid')], [DONE]);
  const id = await run.call();
  await run.send('POST', `/workspaces/${run.workspaceId}/runs/${id}/cancel`);
  await run.next();
  const late = await happen(run, pathOf(run), {});
  expect(late).toMatchObject({ status: 409, body: { error: { message: expect.stringContaining('has ended') } } });
});

test('the model is told when an event does not happen in time', async () => {
  const run = await loop([url('paid')], [wait('paid', { seconds: 3600 })], [DONE]);
  const id = await run.call();
  await run.deps.clock.advance(HOUR_MS);
  await run.next();
  expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
  expect(run.results().at(-1)).toBe('[ERROR] The event did not happen in time.');
  await run.isOver();
});

test('without a time, the run waits for as long as it may', async () => {
  const run = await loop([url('paid')], [wait('paid')], [DONE]);
  await run.call();
  const [waiting] = (await run.list()) as unknown as { asked_at: string; expires_at: string }[];
  expect(Date.parse(waiting!.expires_at) - Date.parse(waiting!.asked_at)).toBe(24 * HOUR_MS);
});

test('a member says what an event brought that never came', async () => {
  const run = await loop([url('paid')], [wait('paid')], [DONE]);
  const id = await run.call();
  expect(await run.decide(`${id}.2.1`, { decision: 'approve' })).toMatchObject({ status: 400 });
  expect(await run.decide(`${id}.2.1`, { decision: 'answer', answer: { amount: 7 } })).toMatchObject({ status: 200 });
  await run.next();
  expect(run.results().at(-1)).toBe('{"amount":7}');
});

test.each([
  [[wait('paid')], /^\[ERROR\] The event paid has no address yet/],
  [[wait('Not a name')], /^\[ERROR\] The parameters of wait are not as its schema says/],
  [[url('')], /^\[ERROR\] The parameters of event_url are not as its schema says/],
])('%j is an error for the model', async (turn, message) => {
  const run = await loop(turn, [DONE]);
  expect(await run.runs.find(await run.call())).toMatchObject({ status: 'completed' });
  expect(run.results()[0]).toMatch(message);
});

test('a run has addresses for 50 events', async () => {
  const run = await loop(
    Array.from({ length: 50 }, (_, number) => url(`event-${number}`)),
    [url('event-60'), url('event-3')],
    [DONE],
  );
  await run.call();
  const results = run.asked.at(-1)!.flatMap((message) => (message.role === 'tool' ? message.results : []));
  expect(results[49]!.text).toMatch(/\/webhooks\/events\//);
  expect(results[50]!.text).toMatch(/^\[ERROR\] This run has addresses for as many events as it may/);
  expect(results[51]!.text).toBe(results[3]!.text);
});

test.each([true, false])('an event is not lost with the process that receives it (read: %s)', async (isRepeated) => {
  const run = await loop([url('paid')], [wait('paid', { seconds: 3600 })], [DONE]);
  const id = await run.call();
  const path = pathOf(run);
  // The event is written, and then the process dies.
  const { transact } = run.deps.runs;
  run.deps.runs.transact = () => Promise.reject(new Error('died'));
  expect(await happen(run, path, { amount: 5 })).toMatchObject({ status: 500 });
  run.deps.runs.transact = transact;
  if (isRepeated) expect(await happen(run, path, { amount: 5 })).toMatchObject({ body: { waiting: true } });
  else await run.deps.clock.advance(HOUR_MS);
  await run.next();
  expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
  expect(run.results().at(-1)).toBe('{"amount":5}');
});

test('an event of another run is not found by the key of a stranger', async () => {
  const run = await loop([url('paid')], [wait('paid')], [DONE]);
  const id = await run.call();
  const stranger = await addUser(run.deps, 'stranger');
  const own = `/workspaces/${stranger.workspaceId}/approvals/${id}.2.1/decision`;
  expect(await run.send('POST', own, { decision: 'answer', answer: 1 }, stranger.key)).toMatchObject({ status: 404 });
});

test('the address of an event stays the same in the next process', async () => {
  const run = await loop([url('paid')], [wait('paid')], [url('paid'), url('sent')], [wait('sent')], [DONE]);
  const id = await run.call();
  const path = pathOf(run);
  await happen(run, path, {});
  await run.next();
  expect(run.results().slice(-2)[0]).toContain(path);
  await happen(run, run.results().at(-1)!, { tracking: 1 });
  await run.next();
  expect(await run.runs.find(id)).toMatchObject({ status: 'completed' });
});
