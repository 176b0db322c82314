import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { clientOf, request } from '#test/helpers/platform.ts';
import { startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { expectOk } from './expect.ts';

const START = join(import.meta.dirname, '../../local/start.ts');

/** A platform in a process of its own, until it has said where it listens. */
async function startProcess(folder: string, settings: Record<string, string>) {
  const child = spawn(process.execPath, [START, '--no-examples'], {
    env: {
      PATH: process.env.PATH,
      PLATFORM_PORT: '0',
      PLATFORM_DATA: folder,
      PLATFORM_LOG_LEVEL: 'error',
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let key: string | undefined;
  for await (const line of createInterface(child.stdout)) {
    key ??= /sk_live_\S+/.exec(line)?.[0];
    const url = /http:\/\/\S+/.exec(line)?.[0];
    if (url !== undefined) return { child, url, key };
  }
  throw new Error('the platform ended before it listened');
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

test('after kill -9 usage is that of the runs, and a call with a key is made once more', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'platform-kill-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());

  const first = await startProcess(folder, llm.settings);
  const key = first.key!;
  const workspaceId = expectOk(await request(first, 'GET', '/org', { key })).id;
  const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-kill' };
  expectOk(await request(first, 'PUT', `/workspaces/${workspaceId}/secrets`, { key, json: secret }));
  await clientOf({ url: first.url, key }).createAgent({
    body: { name: 'greet', type: 'prompt', description: 'x', prompt: 'Greet.', supported_providers: ['anthropic'] },
  });
  const call = (url: string, json: unknown, headers: Record<string, string> = {}) =>
    request({ url }, 'POST', '/main/greet/v1/run', { key, json, headers: { 'x-platform-tenant': 'eu', ...headers } });
  const hanging = { text: 'will be lost' };
  const keyed = { text: 'will be lost, with a key' };
  llm.script({ rules: [{ marker: hanging.text, turns: [{ hang: true }] }] });
  const asked = () => llm.requests.filter(({ text }) => text.includes(hanging.text)).length;

  await Promise.all(Array.from({ length: 8 }, () => call(first.url, { text: 'quick' })));
  const lost = [
    ...Array.from({ length: 5 }, () => call(first.url, hanging)),
    call(first.url, keyed, { 'idempotency-key': 'once' }),
  ];
  for (const each of lost) each.catch(() => {});
  await expect.poll(asked, { timeout: 10_000 }).toBe(6);
  // Some are on their way to their records in this moment, whichever.
  const racing = Array.from({ length: 20 }, () => call(first.url, { text: 'racing' }));
  for (const each of racing) each.catch(() => {});
  await racing[3];
  await kill(first.child);

  const second = await startProcess(folder, llm.settings);
  const get = async (path: string) => expectOk(await request(second, 'GET', path, { key }));
  const { logs, total } = await get('/usage/logs?limit=200');
  const failed = logs.filter(({ status }: { status: string }) => status === 'failed');
  expect(failed.length).toBeGreaterThanOrEqual(6);
  expect(logs).toHaveLength(total);
  expect(total).toBeGreaterThanOrEqual(8 + 6);
  const { runs } = await get(`/workspaces/${workspaceId}/runs?limit=200`);
  expect(runs.map(({ id }: { id: string }) => id).sort()).toEqual(
    logs.map(({ run_id }: { run_id: string }) => run_id).sort(),
  );
  for (const path of ['/usage', '/usage?tenant_id=eu']) {
    expect(await get(path)).toMatchObject({ total_calls: total, total_errors: failed.length });
  }
  expect((await get('/usage/tenants')).tenants).toMatchObject([{ calls: total, errors: failed.length }]);

  llm.reset();
  const again = await Promise.all(
    Array.from({ length: 5 }, () => call(second.url, keyed, { 'idempotency-key': 'once' })),
  );
  expect(again.map(({ status }) => status)).toEqual(Array(5).fill(200));
  expect(new Set(again.map(({ headers }) => headers.get('x-run-id'))).size).toBe(1);
  expect((await get('/usage')).total_calls).toBe(total + 1);
});
