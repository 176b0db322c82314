import { expect, test } from 'vitest';
import { agentListeners } from '#core/api/agent-listeners.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { PACKING_MS } from '#core/manifest/version.ts';
import type { InstallJob } from '#core/ports/deps.ts';
import type { Sandbox } from '#core/ports/sandbox.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { bundleForm, zipOf } from '#test/helpers/platform.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { runInstall } from './install.ts';

const BUNDLE = zipOf({ 'main.py': 'print("{}")', 'requirements.txt': 'six==1.17.0\n' });

/** Creates a platform that passes its installation jobs to `take`. */
async function setUp(take: (job: InstallJob) => Promise<void>) {
  const deps = memoryDeps();
  const host = { ...deps, startInstall: take };
  const app = createWebApp(host, routes, allHandlers(host));
  const { key } = await addUser(deps, 'acme');
  const ask = async (path: string, init: RequestInit = {}): Promise<unknown> => {
    const headers = { authorization: `Bearer ${key}`, ...init.headers };
    return (await app(new Request(`http://platform.test${path}`, { ...init, headers }))).json();
  };
  const post = (path: string, body: string | FormData, headers = {}) => ask(path, { method: 'POST', body, headers });
  /** Publishes a program and returns the answer to the upload of its code. */
  const publish = async (name: string) => {
    const agent = { name, type: 'tool', description: 'x', required_secrets: [] };
    const made = await post('/agents', JSON.stringify(agent), { 'content-type': 'application/json' });
    const { id } = (made as { agent: { id: string } }).agent;
    return post(`/agents/${id}/upload`, bundleForm(BUNDLE));
  };
  const opened: string[] = [];
  const sandbox: Sandbox = {
    status: () => deps.sandbox.status(),
    close: () => deps.sandbox.close(),
    open: (spec) => {
      opened.push('sandbox');
      return deps.sandbox.open(spec);
    },
  };
  return { deps: { ...deps, sandbox }, opened, publish, ask, post };
}

test('an upload waits for the installation in another process and returns its result', async () => {
  const { deps, opened, publish } = await setUp((job) => runInstall({ ...deps, listeners: agentListeners(deps) }, job));
  expect(await publish('elsewhere')).toMatchObject({
    environment_status: 'failed',
    environment_error: 'there is no sandbox in this test',
  });
  expect(opened).toHaveLength(1);
});

test('a job that is repeated, outdated or for a deleted version does nothing', async () => {
  const jobs: InstallJob[] = [];
  const { deps, opened, publish } = await setUp(async (job) => void jobs.push(job));
  const uploading = publish('twice');
  await expect.poll(() => jobs.length).toBe(1);
  await runInstall({ ...deps, listeners: agentListeners(deps) }, jobs[0]!);
  await runInstall({ ...deps, listeners: agentListeners(deps) }, jobs[0]!);
  await runInstall({ ...deps, listeners: agentListeners(deps) }, { ...jobs[0]!, runId: crypto.randomUUID() });
  await runInstall({ ...deps, listeners: agentListeners(deps) }, { ...jobs[0]!, versionId: crypto.randomUUID() });
  await expect.poll(() => deps.clock.sleepers).toBe(2);
  await deps.clock.advance(1000);
  expect(await uploading).toMatchObject({ environment_status: 'failed' });
  expect(opened).toHaveLength(1);
});

test('an upload is answered after ten seconds even if the installation still runs', async () => {
  const { deps, publish } = await setUp(async () => {});
  const uploading = publish('slow');
  await expect.poll(() => deps.clock.sleepers).toBe(2);
  await deps.clock.advance(11_000);
  expect(await uploading).toMatchObject({ status: 'processing', environment_status: 'building' });
});

test('an installation whose process died has failed once its time is up, and may be repeated', async () => {
  const jobs: InstallJob[] = [];
  const { deps, publish, ask, post } = await setUp(async (job) => void jobs.push(job));
  const uploading = publish('died');
  await expect.poll(() => deps.clock.sleepers).toBe(2);
  await deps.clock.advance(11_000);
  expect(await uploading).toMatchObject({ environment_status: 'building', environment_error: null });
  const [{ versionId } = { versionId: '' }] = jobs;

  // The installer would have written the reason by then.
  await deps.clock.advance(deps.config.installTimeoutMs + PACKING_MS);
  const failed = {
    environment_status: 'failed',
    environment_error: expect.stringMatching(/^The installation was interrupted: .* Upload the bundle again\.$/),
  };
  expect(await ask(`/agents/${versionId}`)).toMatchObject(failed);
  expect(await ask('/agents')).toMatchObject([failed]);
  const call = await post('/acme/died/v1/run', '{}', { 'content-type': 'application/json' });
  expect(call).toMatchObject({
    error: { code: 'SANDBOX_ERROR', message: expect.stringContaining('The installation was interrupted') },
  });
  // Late writes of the dead process change nothing.
  await runInstall({ ...deps, listeners: agentListeners(deps) }, jobs[0]!);
  expect(await ask(`/agents/${versionId}`)).toMatchObject(failed);

  const again = post(`/agents/${versionId}/upload`, bundleForm(BUNDLE));
  await expect.poll(() => jobs.length).toBe(2);
  await runInstall({ ...deps, listeners: agentListeners(deps) }, jobs[1]!);
  await expect.poll(() => deps.clock.sleepers).toBeGreaterThan(0);
  await deps.clock.advance(1000);
  expect(await again).toMatchObject({ environment_error: 'there is no sandbox in this test' });
});
