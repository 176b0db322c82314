import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { clientOf, type LocalTarget, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, type Settings, startCommandLine, tempFolder } from './command-line.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

const SOON = { timeout: 30_000 };

let target: LocalTarget;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
});
afterAll(() => target?.close());

const signedIn = (settings: Settings = {}): Settings => ({
  ...settings,
  env: { PLATFORM_API_URL: target.url, PLATFORM_API_KEY: target.key, ...settings.env },
});

function toolFolder(name: string, answer: string, manifest: object = {}): string {
  const folder = tempFolder();
  const body = { name, type: 'tool', description: 'x', supported_providers: ['any'], required_secrets: [] };
  writeFileSync(
    join(folder, 'agent.json'),
    JSON.stringify({ ...body, runtime: { command: 'sh run.sh' }, ...manifest }),
  );
  writeCode(folder, answer);
  return folder;
}
const writeCode = (folder: string, answer: string): void =>
  writeFileSync(join(folder, 'run.sh'), `echo '{"said": "${answer}"}'\n`);

/** Paths of requests without ids: changes and reads. */
function counted() {
  const requests: string[] = [];
  const reads: string[] = [];
  const spy: typeof fetch = (url, init) => {
    const { pathname, search } = new URL(String(url));
    const path = pathname.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, ':id');
    if (init?.method === 'POST') requests.push(`${path}${search.includes('dev=true') ? '?dev' : ''}`);
    else reads.push(path);
    return fetch(url, init);
  };
  return { requests, reads, spy };
}

function startDev(folders: readonly string[], settings: Settings = {}) {
  const started = startCommandLine(['dev', ...folders], signedIn(settings));
  onTestFinished(async () => {
    started.interrupt();
    await started.ended;
  });
  const published = () => started.lines().filter(({ event }) => event === 'published');
  return { ...started, published };
}

const callDev = async (name: string) =>
  await clientOf(target).callAgent({ params: { org: 'main', agent: name, version: 'dev', endpoint: 'run' }, body: {} });

describe('platform dev', () => {
  test('publishes each save with two requests, and nothing without a change', async () => {
    const folder = toolFolder('saved', 'one');
    const { requests, reads, spy } = counted();
    const { published, lines, interrupt, ended, written } = startDev([folder], { fetch: spy });
    await expect.poll(() => published().length, SOON).toBe(1);
    expect(await callDev('saved')).toMatchObject({ data: { said: 'one' } });
    expect(requests).toEqual(['/agents?dev', '/agents/:id/upload']);

    requests.length = 0;
    writeCode(folder, 'two');
    await expect.poll(() => published().length, SOON).toBe(2);
    expect(published()[1]).toMatchObject({ agent: 'saved', changed: ['run.sh'], installed: false, unchanged: false });
    expect(requests.slice(0, 2)).toEqual(['/agents?dev', '/agents/:id/upload']);
    expect(await callDev('saved')).toMatchObject({ data: { said: 'two' } });

    requests.length = 0;
    writeCode(folder, 'two');
    await expect.poll(() => requests.length, SOON).toBeGreaterThan(0);
    // On a busy machine the file watcher may report one save twice, more than 0.1 s apart.
    expect(new Set(requests)).toEqual(new Set(['/agents?dev']));

    // The error is printed, and the previous version stays.
    const manifest = readFileSync(join(folder, 'agent.json'));
    writeFileSync(join(folder, 'agent.json'), '{"name": "saved", ');
    const refusal = { event: 'refused', error: expect.stringContaining('agent.json is not valid JSON') };
    await expect.poll(() => lines().at(-1), SOON).toMatchObject(refusal);
    expect(await callDev('saved')).toMatchObject({ data: { said: 'two' } });
    writeFileSync(join(folder, 'agent.json'), manifest);
    writeCode(folder, 'three');
    await expect.poll(() => published().length, SOON).toBe(3);

    const { metadata } = (await callDev('saved')) as unknown as { metadata: { request_id: string } };
    const isThat = ({ event, run_id }: Record<string, unknown>) =>
      event === 'run' && `req_${String(run_id).replaceAll('-', '')}` === metadata.request_id;
    await expect.poll(() => lines().findLast(isThat), SOON).toMatchObject({ status: 'completed', agent: 'saved' });
    expect(reads.filter((path) => path.endsWith('/runs'))).toEqual([]);
    expect(await clientOf(target).listAgents({})).toEqual([]);
    interrupt();
    expect(await ended).toBe(0);
    expect(written.stderr).not.toContain(target.key);
  });

  test('does not look at what git ignores, at dot files and at node_modules', async () => {
    const folder = toolFolder('quiet', 'one');
    writeFileSync(join(folder, '.gitignore'), 'out/\n');
    for (const name of ['out', 'node_modules', '.cache', 'lib']) mkdirSync(join(folder, name));
    const { requests, spy } = counted();
    const { published } = startDev([folder], { fetch: spy });
    await expect.poll(() => published().length, SOON).toBe(1);
    requests.length = 0;
    for (const name of ['out', 'node_modules', '.cache']) writeFileSync(join(folder, name, 'file.txt'), 'x');
    writeFileSync(join(folder, 'lib/own.txt'), 'x');
    await expect.poll(() => published().length, SOON).toBe(2);
    expect(published()[1]!.changed).toEqual(['lib/own.txt']);
    expect(requests.slice(0, 2)).toEqual(['/agents?dev', '/agents/:id/upload']);
  });

  test('watches several agents, each for itself', async () => {
    const [one, two] = [toolFolder('first', 'one'), toolFolder('second', 'one')];
    const { published } = startDev([one, two]);
    await expect.poll(() => published().length, SOON).toBe(2);
    writeCode(two, 'two');
    await expect.poll(() => published().length, SOON).toBe(3);
    expect(published()[2]).toMatchObject({ agent: 'second' });
    expect(await callDev('first')).toMatchObject({ data: { said: 'one' } });
    expect(await callDev('second')).toMatchObject({ data: { said: 'two' } });
  });

  test('starts a platform of the project where none answers, keeps its data and its key, and ends it', async () => {
    const folder = toolFolder('homely', 'one');
    const url = await freeAddress();
    const env = {
      PATH: process.env.PATH!,
      PLATFORM_API_URL: url,
      PLATFORM_API_KEY: '',
      PLATFORM_SANDBOX_PRESTART: '0',
    };
    for (const isFirst of [true, false]) {
      const { lines, interrupt, ended, written } = startCommandLine(['dev', folder], { env });
      await expect.poll(() => [lines().length, written.stderr], SOON).toEqual([1, expect.any(String)]);
      expect(lines()[0]).toMatchObject({ event: 'published', agent: 'homely', unchanged: !isFirst });
      const key = readFileSync(join(folder, '.platform/local/key'), 'utf8').trim();
      expect(written.stderr).not.toContain(key);
      interrupt();
      expect(await ended).toBe(0);
      await expect(fetch(`${url}/health`)).rejects.toThrow();
      if (!isFirst) continue;
      expect(readFileSync(join(folder, '.platform/local/.gitignore'), 'utf8')).toBe('*\n');
      // A lost key is replaced.
      rmSync(join(folder, '.platform/local/key'));
      expect(existsSync(join(folder, '.platform/local/data'))).toBe(true);
    }
  }, 120_000);
});

async function freeAddress(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}`;
}

describe('platform publish', () => {
  const publish = (folder: string, ...flags: string[]) => commandLine(['publish', folder, ...flags], signedIn());

  test('publishes nothing without a change, from any folder that holds the same', async () => {
    const folder = toolFolder('same', 'one');
    expect(await publish(folder)).toMatchObject({ status: 0, json: { agent: { version: 'v1' }, unchanged: false } });
    expect(await publish(folder)).toMatchObject({ status: 0, json: { agent: { version: 'v1' }, unchanged: true } });
    const checkout = toolFolder('same', 'one');
    const code = readFileSync(join(checkout, 'run.sh'), 'utf8');
    writeFileSync(join(checkout, 'run.sh'), code.replaceAll('\n', '\r\n'));
    expect((await publish(checkout)).json).toMatchObject({ agent: { version: 'v1' }, unchanged: true });
    writeCode(folder, 'two');
    expect((await publish(folder)).json).toMatchObject({ agent: { version: 'v2' }, unchanged: false });
  });

  test('warns of what a run would miss, and says which schedules moved', async () => {
    const folder = toolFolder('lacking', 'one', { required_secrets: ['API_TOKEN'] });
    writeFileSync(join(folder, 'main.py'), 'import os\nos.environ["API_TOKEN"]\nos.environ["REGION"]\n');
    const dry = await publish(folder, '--dry-run');
    expect(dry.json).toMatchObject({
      dry_run: true,
      next_version: 'v1',
      files: ['main.py', 'run.sh'],
      missing_secrets: ['API_TOKEN'],
      undeclared_variables: { REGION: 'main.py' },
    });
    const first = await publish(folder);
    expect(first.stderr).toMatch(/required secret API_TOKEN is missing/);
    expect(first.stderr).toMatch(/main\.py reads REGION/);
    const org = await clientOf(target).getOrg({});
    await clientOf(target).createSchedule({
      params: { workspace_id: org.id },
      body: { agent: 'lacking', cron_expression: '0 0 1 1 *' },
    });
    writeCode(folder, 'two');
    expect((await publish(folder)).json).toMatchObject({ agent: { version: 'v2' }, schedules_updated: 1 });
  });

  test('into dev spends no version, and run and schedule reach it', async () => {
    const folder = toolFolder('mine', 'one');
    expect((await publish(folder, '--dev')).json).toMatchObject({ agent: { version: 'dev' }, unchanged: false });
    const run = await commandLine(['run', 'mine@dev'], signedIn());
    expect(run.json).toMatchObject({ data: { said: 'one' } });
    expect((await publish(folder)).json).toMatchObject({ agent: { version: 'v1' } });
  });
});
