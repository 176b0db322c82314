import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { bootstrap } from '#core/accounts/workspaces/bootstrap.ts';
import { listAgentRuns } from '#core/runs/agent-logs/store.ts';
import { parseLocalConfig } from '#local/config.ts';
import { localDeps } from '#local/deps.ts';
import { startLocalServer } from '#local/server.ts';
import { clientOf, publishCode } from '#test/helpers/platform.ts';

let count = 0;

const isRunning = (commandLine: string): boolean =>
  readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8') === commandLine;
    } catch {
      return false;
    }
  });

/** Starts a server and a call that lasts this number of seconds, and disconnects once the program runs. */
async function startWithRun(wholeSeconds: number) {
  const dataFolder = mkdtempSync(join(tmpdir(), 'platform-shutdown-'));
  const config = { ...parseLocalConfig({ PLATFORM_LOG_LEVEL: 'error' }), port: 0, dataFolder, sandboxPrestart: 0 };
  const server = await startLocalServer(config);
  const key = (await bootstrap(server.deps))!;
  // The sandboxed program is visible among this machine's processes by its arguments.
  const seconds = `${wholeSeconds}.${process.pid}${count++}`;
  const command = `sleep ${seconds}; echo 1`;
  const { agent } = await publishCode(
    clientOf({ url: server.url, key }),
    'slow',
    { 'run.sh': '' },
    { runtime: { command } },
  );
  const headers = { authorization: `Bearer ${key}` };
  const call = httpRequest(`${server.url}/main/slow/v1/run`, { method: 'POST', headers });
  call.on('error', () => {}).end();
  await expect.poll(() => isRunning(`sleep\0${seconds}\0`), { interval: 20 }).toBe(true);
  call.destroy();

  /** Returns the statuses of the runs after the next start. */
  const statusesAfter = async () => {
    const deps = await localDeps(config, config);
    const found = await listAgentRuns(deps, agent.id, { limit: 10 });
    await deps.close();
    rmSync(dataFolder, { recursive: true });
    return found.map(({ status }) => status);
  };
  return { server, statusesAfter };
}

test('a stopping server waits for the run of a disconnected client', async () => {
  const { server, statusesAfter } = await startWithRun(2);
  await server.close();
  expect(await statusesAfter()).toEqual(['completed']);
});

test('a server that stops at once ends the run and records the reason', async () => {
  const { server, statusesAfter } = await startWithRun(600);
  await server.close(true);
  expect(await statusesAfter()).toEqual(['failed']);
});
