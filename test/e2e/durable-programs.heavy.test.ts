import { expect, test } from 'vitest';
import { clientOf, publishCode, request } from '#test/helpers/platform.ts';
import { dataFolder, kill, startProcess, startWithGreeter } from '#test/helpers/platform-process.ts';
import { expectOk } from './expect.ts';

/** Programs that do steps on a real platform, whose process is stopped or killed while they work or wait. */

const SETTINGS = { PLATFORM_DEFAULT_PLAN: 'enterprise' };

/** Keeps outside of the sandbox what really happened. */
const PROGRAM = `
import { durable, storage } from 'agent-platform-sdk';
const { step, sleep, askHuman } = durable;
const did = (what) => storage.update('did', 'all', (value) => ({ list: [...(value?.list ?? []), what] }));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
`;

type Platform = Awaited<ReturnType<typeof startProcess>>;

async function startRun(source: string) {
  const folder = dataFolder();
  const { platform, key, workspaceId } = await startWithGreeter(folder, SETTINGS);
  const manifest = { runtime: { command: 'node main.js' }, durable: { steps: true } };
  await publishCode(clientOf({ url: platform.url, key }), 'steps', { 'main.js': PROGRAM + source }, manifest);
  const headers = { prefer: 'respond-async' };
  const { run_id: id } = expectOk(
    await request(platform, 'POST', '/main/steps/latest/run', { key, json: {}, headers }),
    202,
  );
  const send = (at: Platform, method: string, path: string, json?: unknown) =>
    request(at, method, `/workspaces/${workspaceId}${path}`, { key, json });
  const done = async (at: Platform): Promise<string[]> => {
    const headers = { 'x-workspace-id': workspaceId };
    return (await request(at, 'GET', '/storage/did/all', { key, headers })).body.value?.list ?? [];
  };
  const show = async (at: Platform) => expectOk(await send(at, 'GET', `/runs/${id}`));
  return { platform, id, send, done, show, start: () => startProcess(folder, SETTINGS) };
}

test('a program goes on after its platform was killed in a step, stopped in it, and killed while it waited', {
  timeout: 180_000,
}, async () => {
  const run = await startRun(`
    await step('first', () => did('first'));
    await step('slow', async () => {
      await did('begins');
      if (Number(process.env.PLATFORM_ATTEMPT) < 3) await pause(60_000);
      await did('slow');
    });
    const answer = await askHuman('On?');
    await step('last', () => did('last'));
    console.log(JSON.stringify({ answer }));`);
  let { platform } = run;
  const until = (list: string[]) => expect.poll(() => run.done(platform), { timeout: 40_000 }).toEqual(list);
  await until(['first', 'begins']);
  await kill(platform.child);
  platform = await run.start();
  await until(['first', 'begins', 'begins']);
  platform.child.kill('SIGTERM');
  await new Promise((ended) => platform.child.once('exit', ended));
  platform = await run.start();
  await until(['first', 'begins', 'begins', 'begins', 'slow']);
  await expect.poll(async () => (await run.show(platform)).status, { timeout: 40_000 }).toBe('waiting');
  await kill(platform.child);
  platform = await run.start();
  const { approvals } = expectOk(await run.send(platform, 'GET', `/approvals?run_id=${run.id}`));
  expect(approvals).toMatchObject([{ question: 'On?', status: 'waiting' }]);
  const decision = { decision: 'answer', answer: 'yes' };
  expectOk(await run.send(platform, 'POST', `/approvals/${approvals[0].id}/decision`, decision));
  await expect.poll(async () => (await run.show(platform)).status, { timeout: 40_000 }).toBe('completed');
  expect((await run.show(platform)).output_data).toEqual({ answer: 'yes' });
  expect(await run.done(platform)).toEqual(['first', 'begins', 'begins', 'begins', 'slow', 'last']);
  await kill(platform.child);
});

test('a program that sleeps ends, and goes on when the time has come', { timeout: 120_000 }, async () => {
  const run = await startRun(`
    await step('before', () => did('before ' + process.env.PLATFORM_ATTEMPT));
    await sleep(31);
    await step('after', () => did('after ' + process.env.PLATFORM_ATTEMPT));
    console.log('1');`);
  let { platform } = run;
  await expect.poll(async () => (await run.show(platform)).status, { timeout: 40_000 }).toBe('waiting');
  await kill(platform.child);
  platform = await run.start();
  await expect.poll(async () => (await run.show(platform)).status, { timeout: 60_000 }).toBe('completed');
  expect(await run.done(platform)).toEqual(['before 1', 'after 2']);
  await kill(platform.child);
});

test('whenever the platform is killed, what a later step saw of an earlier one is what was kept', {
  timeout: 300_000,
}, async () => {
  const run = await startRun(`
    const seen = [];
    for (let number = 1; number <= 12; number++) {
      const value = await step('number ' + number, async () => {
        const value = Math.random();
        await did(JSON.stringify({ number, value, seen }));
        await pause(100);
        return value;
      });
      seen.push(value);
      if (number % 4 === 0) seen.push(await askHuman('On from ' + number + '?'));
    }
    console.log(JSON.stringify(seen));`);
  let { platform } = run;
  let kills = 0;
  const ends = Date.now() + 240_000;
  const isOver = async () => {
    const { approvals } = expectOk(await run.send(platform, 'GET', `/approvals?run_id=${run.id}&status=waiting`));
    for (const { id } of approvals) {
      const decision = { decision: 'answer', answer: id };
      await run.send(platform, 'POST', `/approvals/${id}/decision`, decision);
    }
    return (await run.show(platform)).completed_at !== null;
  };
  while (Date.now() < ends && !(await isOver())) {
    // Short at first: the run must not be over before it was killed three times.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * (kills < 3 ? 500 : 1500)));
    // A run that is interrupted five times within a step is given up, and a busy machine needs longer to start it.
    if (kills % 3 === 2) {
      const { length } = await run.done(platform);
      const hasStepped = async () => (await isOver()) || (await run.done(platform)).length > length + 1;
      await expect.poll(hasStepped, { timeout: 60_000 }).toBe(true);
    }
    if (await isOver()) break;
    await kill(platform.child);
    kills += 1;
    platform = await run.start();
  }
  const { status, output_data: kept, error_message } = await run.show(platform);
  expect(status, error_message).toBe('completed');
  expect(kills).toBeGreaterThan(2);
  for (const text of await run.done(platform)) {
    const { number, value, seen } = JSON.parse(text);
    expect(seen).toEqual(kept.slice(0, seen.length));
    // A step whose value was not kept ran again.
    if (seen.length === kept.length - 2) expect([number, typeof value]).toEqual([12, 'number']);
  }
  await kill(platform.child);
});
