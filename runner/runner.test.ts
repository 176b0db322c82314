import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { ran, specOf } from '#test/conformance/sandbox.ts';
import { jobFor, type RunnerProcess, serveBlobs, startRunner } from '#test/helpers/runner.ts';
import { zip } from '#test/helpers/zip.ts';
import { RunnerSession, runnerHealth } from './server/client.ts';
import { encodeExec, type RunnerProblem } from './server/protocol.ts';

const root = mkdtempSync(join(tmpdir(), 'runner-test-'));
const blobs = new FolderBlobs(join(root, 'blobs'));
let links: Awaited<ReturnType<typeof serveBlobs>>;
beforeAll(async () => {
  links = await serveBlobs(blobs);
});
afterAll(() => {
  links.close();
  rmSync(root, { recursive: true });
});

const none = (key: string): string => {
  throw new Error(`no server has ${key}`);
};

describe('a runner', { timeout: 120_000 }, () => {
  const runners: RunnerProcess[] = [];
  const start = async (env?: Record<string, string>) => {
    const runner = await startRunner(env);
    runners.push(runner);
    return runner;
  };
  afterEach(async () => {
    await Promise.all(runners.splice(0).map((runner) => runner.kill()));
  });
  const scratchOf = ({ pid }: RunnerProcess) =>
    readdirSync(tmpdir()).filter((name) => name.startsWith(`platform-sandbox-${pid}-`));

  test('serves one session, ends with it, and leaves nothing behind', async () => {
    const runner = await start();
    const target = { baseUrl: runner.url };
    expect(await runnerHealth(target, 5_000)).toMatchObject({
      state: 'idle',
      interpreters: { node: expect.any(String) },
    });
    const session = await RunnerSession.open(target, jobFor(specOf(), none));
    expect((await runnerHealth(target, 5_000)).state).toBe('claimed');
    await expect(RunnerSession.open(target, jobFor(specOf(), none))).rejects.toMatchObject({ code: 'CLAIMED' });
    expect((await ran(session, 'echo on')).out).toBe('on\n');
    await session.close();
    await session.close();
    expect(await runner.ended).toBe(0);
    expect(scratchOf(runner)).toEqual([]);
    await expect(session.readFile('x')).rejects.toMatchObject({ code: 'SANDBOX_FILE' });
  });

  test('gives its session to only one of two clients that race', async () => {
    const { url } = await start();
    const tries = await Promise.allSettled(
      [1, 2, 3, 4].map(() => RunnerSession.open({ baseUrl: url }, jobFor(specOf(), none))),
    );
    expect(tries.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected']);
  });

  test('does nothing without the token', async () => {
    const { url } = await start();
    const session = await RunnerSession.open({ baseUrl: url }, jobFor(specOf(), none));
    await session.writeFile('mine', Buffer.from('x'));
    const body = encodeExec({ command: 'rm mine', timeoutMs: 1000 });
    for (const headers of [{}, { authorization: 'Bearer ' }, { authorization: `Bearer ${'0'.repeat(64)}` }]) {
      for (const [method, path] of [
        ['POST', '/exec'],
        ['PUT', '/files?path=mine'],
        ['GET', '/files?path=mine'],
        ['GET', '/list?path=.'],
        ['DELETE', '/session'],
      ]) {
        const response = await fetch(url + path, { method, headers, ...(method![0] === 'P' && { body }) });
        expect([path, response.status]).toEqual([path, 401]);
      }
    }
    expect(await session.listFiles('.')).toEqual([{ path: 'mine', isFolder: false, sizeBytes: 1 }]);
  });

  test('names the wrong field of a request without its value', async () => {
    const { url } = await start();
    const post = async (body: string) => {
      const response = await fetch(`${url}/session`, { method: 'POST', body });
      return [response.status, ((await response.json()) as RunnerProblem).error.message];
    };
    expect(await post('{')).toEqual([400, 'the body is not JSON']);
    const job = jobFor(specOf({ env: { 'A=': 'hidden' } }), none);
    const [status, message] = await post(JSON.stringify(job));
    expect([status, message]).toEqual([400, expect.stringContaining('env.A=')]);
    expect(message).not.toContain('hidden');
    const link = { key: 'bundles/a.zip', url: 'file:///etc/passwd' };
    expect(await post(JSON.stringify({ ...jobFor(specOf(), none), bundle: link }))).toEqual([
      400,
      expect.stringContaining('bundle.url'),
    ]);
    // None of these requests claimed the runner.
    const session = await RunnerSession.open({ baseUrl: url }, jobFor(specOf(), none));
    await expect(ran(session, 'a\0b')).rejects.toMatchObject({ code: 'BAD_REQUEST' });
    expect((await fetch(`${url}/nothing`)).status).toBe(401);
  });

  test('that cannot open its session says why, and ends', async () => {
    await blobs.put('bundles/bad.zip', zip([{ name: '../out', content: 'x' }]));
    for (const [bundle, reason] of [
      ['bundles/gone.zip', /there is no bundle bundles\/gone.zip/],
      ['bundles/bad.zip', /\.\.\/out/],
    ] as const) {
      const runner = await start();
      const job = jobFor(specOf({ bundle }), (key) => links.linkTo(key));
      await expect(RunnerSession.open({ baseUrl: runner.url }, job)).rejects.toThrow(reason);
      expect(await runner.ended).toBe(0);
    }
  });

  test('ends when it is not claimed in time, and when its lifetime is over', async () => {
    const unclaimed = await start({ PLATFORM_RUNNER_LEASE_SECONDS: '0.2' });
    expect(await unclaimed.ended).toBe(0);
    const claimed = await start();
    const session = await RunnerSession.open({ baseUrl: claimed.url }, jobFor(specOf(), none, { lifetimeMs: 4000 }));
    const { exit } = await ran(session, 'trap "" TERM; sleep 1000');
    expect(exit.reason).toBe('sandbox_lost');
    expect(await claimed.ended).toBe(0);
  });

  test('that is killed takes its job along, and the session is lost', async () => {
    const runner = await start();
    const session = await RunnerSession.open({ baseUrl: runner.url }, jobFor(specOf(), none));
    const mark = `63${process.pid}`;
    const events = session.exec({ command: `echo on; setsid --wait sleep ${mark}`, timeoutMs: 60_000 });
    expect((await events.next()).value).toMatchObject({ type: 'stdout' });
    await runner.kill();
    expect((await events.next()).value).toMatchObject({ exit: { reason: 'sandbox_lost', exitCode: 137 } });
    expect((await ran(session, 'true')).exit.reason).toBe('sandbox_lost');
    await session.close();
    const isThere = () => readdirSync('/proc').some((name) => commandLineOf(name) === `sleep ${mark} `);
    await expect.poll(isThere, { interval: 20 }).toBe(false);
  });

  test('ends at SIGTERM, which ECS sends to stop a task', async () => {
    const runner = await start();
    await RunnerSession.open({ baseUrl: runner.url }, jobFor(specOf(), none));
    await runner.kill('SIGTERM');
    expect(await runner.ended).toBe(0);
    expect(scratchOf(runner)).toEqual([]);
  });
});

function commandLineOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}
