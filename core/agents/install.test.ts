import { expect, onTestFinished, test } from 'vitest';
import { startLambdaHost } from '#test/helpers/lambda-host.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { clientOf, publishCode } from '#test/helpers/platform.ts';
import { addUser } from '#test/helpers/users.ts';
import { type InstallJob, runInstall } from './install.ts';

const FILES = { 'main.py': 'print("{}")', 'requirements.txt': 'six==1.17.0\n' };

/** A platform whose installations are left to whoever takes the job. */
async function setUp(take: (job: InstallJob) => Promise<void>) {
  const deps = memoryDeps();
  const host = await startLambdaHost(() => ({ deps: { ...deps, startInstall: take } }));
  onTestFinished(() => host.close());
  const { key } = await addUser(deps, 'acme');
  const opened: string[] = [];
  const sandbox = {
    ...deps.sandbox,
    open: () => {
      opened.push('sandbox');
      return deps.sandbox.open({} as never);
    },
  };
  return { deps: { ...deps, sandbox }, opened, client: clientOf({ url: host.url, key }) };
}

test('another process installs, and the upload answers how it ended', async () => {
  const { deps, opened, client } = await setUp((job) => runInstall(deps, job));
  const { upload } = await publishCode(client, 'elsewhere', FILES);
  expect(upload).toMatchObject({ environment_status: 'failed', environment_error: 'there is no sandbox in this test' });
  expect(opened).toHaveLength(1);
});

test('a job that comes twice, late, or for what is no longer there does nothing', async () => {
  const jobs: InstallJob[] = [];
  const { deps, opened, client } = await setUp(async (job) => void jobs.push(job));
  const uploading = publishCode(client, 'twice', FILES);
  await expect.poll(() => jobs.length).toBe(1);
  await runInstall(deps, jobs[0]!);
  await runInstall(deps, jobs[0]!);
  await runInstall(deps, { ...jobs[0]!, runId: crypto.randomUUID() });
  await runInstall(deps, { ...jobs[0]!, versionId: crypto.randomUUID() });
  await expect.poll(() => deps.clock.sleepers).toBe(2);
  await deps.clock.advance(1000);
  expect((await uploading).upload).toMatchObject({ environment_status: 'failed' });
  expect(opened).toHaveLength(1);
});

test('an upload is answered after ten seconds, whatever the installation does', async () => {
  const { deps, client } = await setUp(async () => {});
  const uploading = publishCode(client, 'slow', FILES);
  await expect.poll(() => deps.clock.sleepers).toBe(2);
  await deps.clock.advance(11_000);
  expect((await uploading).upload).toMatchObject({ status: 'processing', environment_status: 'building' });
});
