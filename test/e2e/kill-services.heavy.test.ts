import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { clientOf, publishCode, request } from '#test/helpers/platform.ts';
import { dataFolder, kill, startProcess } from '#test/helpers/platform-process.ts';
import { expectOk } from './expect.ts';

/* The platform is killed with a service in each state and restarted; the service must then match its record. */

/** App that reports its process and start; variables make it listen late, end late, or never listen. */
const APP = `
const { LATE_MS, WORD, PORT, STUBBORN } = process.env;
if (STUBBORN) process.on('SIGTERM', () => {});
if (LATE_MS !== 'never') {
  setTimeout(() => {
    require('node:http').createServer((_, response) => response.end(JSON.stringify({ word: WORD, pid: Math.random() }))).listen(PORT);
  }, Number(LATE_MS ?? 0));
}
setInterval(() => {}, 1000);`;

const processesWith = (mark: string): string[] =>
  readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0').includes(mark);
    } catch {
      return false;
    }
  });

const until = <T>(look: () => T) => expect.poll(look, { timeout: 60_000, interval: 100 });

/** Starts a platform with a published app, and returns helpers for its services before and after a kill. */
async function setUp() {
  const folder = dataFolder();
  const settings = { PLATFORM_SANDBOX_PRESTART: '0' };
  let { child, url, key } = await startProcess(folder, settings);
  const owner = key!;
  const mark = `mark-${randomUUID()}`;
  const { id: workspaceId } = await clientOf({ url, key: owner }).getOrg({});
  await publishCode(
    clientOf({ url, key: owner }),
    'bot',
    { 'app.js': APP },
    {
      run_mode: 'always_on',
      runtime: { command: `node app.js ${mark}` },
    },
  );
  const api = (method: string, path: string, json?: unknown) =>
    request({ url }, method, `/workspaces/${workspaceId}${path}`, { key: owner, json });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
  const read = async (id: string): Promise<any> => expectOk(await api('GET', `/services/${id}`)).service;
  return {
    mark,
    api,
    read,
    deploy: async (env: object = {}): Promise<string> =>
      expectOk(await api('POST', '/services', { agent: 'bot', env }), 201).service.id,
    async ask(id: string) {
      const { port } = new URL(url);
      const { host } = new URL((await read(id)).service_url);
      const asked = httpRequest({ host: '127.0.0.1', port, headers: { host }, agent: false });
      asked.end();
      const [answer] = (await once(asked, 'response')) as [IncomingMessage];
      const content = await text(answer);
      return { status: answer.statusCode, ...(content.startsWith('{') && JSON.parse(content)) };
    },
    /** Kills the platform, checks that its apps end with it, and starts it again. */
    async killAndStart() {
      await kill(child);
      await until(() => processesWith(mark)).toEqual([]);
      ({ child, url } = await startProcess(folder, settings));
    },
    /** Returns the total instance runtime reported to the workspace, in milliseconds. */
    async metered(): Promise<number> {
      const usage = await request({ url }, 'GET', '/usage/compute', {
        key: owner,
        headers: { 'x-workspace-id': workspaceId },
      });
      return expectOk(usage).total_service_minutes * 60_000;
    },
  };
}

const canRun = process.platform === 'linux';

describe.skipIf(!canRun)('after kill -9 of the platform', { timeout: 180_000 }, () => {
  test('a service that was being provisioned runs', async () => {
    const { deploy, read, ask, killAndStart, mark } = await setUp();
    const id = await deploy({ LATE_MS: '1500' });
    expect((await read(id)).current_state).toBe('provisioning');
    await killAndStart();
    await until(() => ask(id)).toMatchObject({ status: 200 });
    await until(() => read(id)).toMatchObject({ current_state: 'running', consecutive_restart_failures: 0 });
    expect(processesWith(mark)).toHaveLength(1);
  });

  test('one that ran runs again, as one instance, and its time counts once', async () => {
    const { deploy, read, ask, killAndStart, mark, metered, api } = await setUp();
    const begun = Date.now();
    const id = await deploy({ WORD: 'one' });
    await until(() => ask(id)).toMatchObject({ status: 200, word: 'one' });
    const { pid } = await ask(id);
    for (let kills = 0; kills < 3; kills++) {
      await killAndStart();
      await until(() => ask(id)).toMatchObject({ status: 200, word: 'one' });
    }
    expect((await ask(id)).pid).not.toBe(pid);
    expect(processesWith(mark)).toHaveLength(1);
    // The end of the platform does not count as a crash of the app.
    expect(await read(id)).toMatchObject({ desired_state: 'running', consecutive_restart_failures: 0 });
    expectOk(await api('PATCH', `/services/${id}`, { desired_state: 'stopped' }));
    await until(() => processesWith(mark)).toEqual([]);
    await until(metered).toBeGreaterThan(0);
    // Only one instance runs at a time, so the metered time may not exceed the elapsed time, apart from rounding.
    expect(await metered()).toBeLessThanOrEqual(Date.now() - begun + 1000);
  });

  test('a paused one stays paused, and starts when it is told to', async () => {
    const { deploy, read, ask, killAndStart, mark, api } = await setUp();
    const id = await deploy();
    await until(() => ask(id)).toMatchObject({ status: 200 });
    expectOk(await api('PATCH', `/services/${id}`, { desired_state: 'stopped' }));
    await killAndStart();
    await until(() => ask(id)).toMatchObject({ status: 503 });
    expect(await read(id)).toMatchObject({ current_state: 'paused' });
    expect(processesWith(mark)).toEqual([]);
    expectOk(await api('PATCH', `/services/${id}`, { desired_state: 'running', env: { WORD: 'two' } }));
    await until(() => ask(id)).toMatchObject({ status: 200, word: 'two' });
  });

  test('one that was being deleted is deleted', async () => {
    const { deploy, read, ask, killAndStart, mark, api } = await setUp();
    const id = await deploy({ STUBBORN: '1' });
    await until(() => ask(id)).toMatchObject({ status: 200 });
    // The app ignores SIGTERM, so the deletion stays in progress.
    api('DELETE', `/services/${id}`).catch(() => {});
    await until(async () => (await read(id)).current_state).toBe('deleting');
    await killAndStart();
    await until(async () => (await read(id)).current_state).toBe('deleted');
    expect(processesWith(mark)).toEqual([]);
    expect(expectOk(await api('GET', '/services')).total).toBe(0);
  });

  test('one that was being changed has the change, and no old instance is left', async () => {
    const { deploy, read, ask, killAndStart, mark, api } = await setUp();
    const id = await deploy({ WORD: 'old' });
    await until(() => ask(id)).toMatchObject({ status: 200, word: 'old' });
    // The new instance is not ready yet, and the old one still serves.
    expectOk(await api('PATCH', `/services/${id}`, { env: { WORD: 'new', LATE_MS: '3000' } }));
    await until(() => processesWith(mark).length).toBe(2);
    expect(await ask(id)).toMatchObject({ status: 200, word: 'old' });
    await killAndStart();
    await until(() => ask(id)).toMatchObject({ status: 200, word: 'new' });
    expect(processesWith(mark)).toHaveLength(1);
    await until(() => read(id)).toMatchObject({ current_state: 'running', consecutive_restart_failures: 0 });
  });

  test('one that crashed again and again stays paused with its count', async () => {
    const { deploy, read, killAndStart, mark, api } = await setUp();
    const id = await deploy({ LATE_MS: 'never' });
    expectOk(await api('PATCH', `/services/${id}`, { command: 'exit 7', max_restart_failures: 1 }));
    await until(async () => (await read(id)).current_state).toBe('paused');
    await killAndStart();
    expect(await read(id)).toMatchObject({
      current_state: 'paused',
      auto_paused_at: expect.any(String),
      consecutive_restart_failures: 1,
    });
    expect(processesWith(mark)).toEqual([]);
  });
});
