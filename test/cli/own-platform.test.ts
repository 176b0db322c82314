import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { IN_CONTAINER } from '#cli/commands/start.ts';
import { DATA_VERSION } from '#core/base/data-versions.ts';
import { openDatabase } from '#local/database/database.ts';
import { compileCacheVariable } from '#test/helpers/temporary-folder.ts';
import { commandLine, type Settings } from './command-line.ts';

/** Commands for the machine with the data, against a platform started with `platform start`. */

const PLATFORM = join(import.meta.dirname, '../../cli/package/platform.js');
// Path that is too long for a socket name.
const LONG = 'a-folder-with-a-long-name/'.repeat(5);

let folder: string;
let data: string;
let started: ChildProcess;
let env: Record<string, string>;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'own-platform-'));
  data = join(folder, LONG, 'data');
  env = {
    PLATFORM_DATA: data,
    PLATFORM_PORT: '0',
    PLATFORM_LOG_LEVEL: 'error',
    XDG_CONFIG_HOME: join(folder, 'config'),
  };
  started = spawn(process.execPath, [PLATFORM, 'start', '--no-examples'], {
    env: { PATH: process.env.PATH, ...compileCacheVariable(), ...env },
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const runs = async () => expect((await own('status')).status).toBe(0);
  await vi.waitFor(runs, { timeout: 50_000, interval: 200 });
});
afterAll(async () => {
  if (started?.kill('SIGTERM')) await once(started, 'exit');
  rmSync(folder, { recursive: true, force: true });
});

const own = (line: string, settings: Settings = {}) =>
  commandLine(line.split(' '), { cwd: folder, ...settings, env: { ...env, ...settings.env } });

describe('a platform that runs', () => {
  test('is shown with its address, sandbox and disk', async () => {
    const { json } = await own('status');
    expect(json).toMatchObject({
      running: true,
      data_folder: data,
      data_version: DATA_VERSION,
      url: expect.any(String),
    });
    expect(json.sandbox).toMatchObject({ kind: expect.any(String), running: 0, waiting: 0 });
    expect(json.disk.free_bytes).toBeGreaterThan(0);
    const shown = await own('status', { columns: 80 });
    expect(shown.stdout).toMatch(/^running +yes, process \d+ since/);
    expect(shown.stdout).toContain('last backup');
    expect(await (await fetch(`${json.url}/health`)).json()).toEqual({ status: 'ok' });
  });

  test('keeps a second one out, which says who has the data', async () => {
    const { pid } = (await own('status')).json;
    expect(await own('start')).toMatchObject({ status: 1, stderr: expect.stringContaining(`process ${pid}`) });
    const second = spawnSync(process.execPath, [join(import.meta.dirname, '../../local/start.ts')], {
      env: { ...env, PATH: process.env.PATH },
      encoding: 'utf8',
    });
    expect(second.status).toBe(1);
    expect(second.stderr).toContain(`in use by another process (pid ${pid})`);
  });

  test('is backed up, and the archive makes another one', async () => {
    const yieldProcessors = vi.fn();
    const made = await own('backup saved.tar.gz', { yieldProcessors });
    expect(yieldProcessors).toHaveBeenCalledOnce();
    expect(made).toMatchObject({ status: 0, json: { file: join(folder, 'saved.tar.gz'), has_secrets: false } });
    expect((await own('status')).json.last_backup).toEqual(made.json);
    expect(await own('restore saved.tar.gz --check')).toMatchObject({ status: 0, json: { data_folder: null } });
    expect(await own('restore saved.tar.gz')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('not empty'),
    });
    const other = join(folder, 'other');
    expect(await own(`restore saved.tar.gz --data ${other}`)).toMatchObject({
      status: 0,
      json: { data_folder: other },
    });
    const status = await own(`status --data ${other}`);
    expect(status).toMatchObject({ status: 9, json: { running: false, data_version: DATA_VERSION } });
  });

  test('is not upgraded before it is stopped', async () => {
    expect(await own('upgrade')).toMatchObject({ status: 1, stderr: expect.stringContaining('stop it first') });
  });

  test('passes the doctor, who says when a port is taken or the key of the secrets is missing', async () => {
    const { url } = (await own('status')).json;
    const profile = JSON.parse(readFileSync(join(folder, 'config/agent-platform/profiles.json'), 'utf8')).profiles
      .local;
    const signedIn = {
      PLATFORM_API_URL: url,
      PLATFORM_API_KEY: profile.key,
      HTTPS_PROXY: 'http://user:secret@proxy:3128',
    };
    const well = await own('doctor', { env: signedIn });
    expect(well.json).toMatchObject({ ok: true });
    expect(well.json.checks.map(({ name }: { name: string }) => name)).toEqual(
      expect.arrayContaining([
        'platform',
        'api version',
        'proxy',
        'key',
        'node',
        'data',
        'disk',
        'vault key',
        'sandbox',
      ]),
    );
    expect(well.stdout).not.toContain('secret@');

    const stopped = join(folder, 'stopped');
    await own(`restore saved.tar.gz --data ${stopped}`);
    mkdirSync(join(stopped, 'vault'));
    writeFileSync(join(stopped, 'vault/0a0a0a0a-0000-4000-8000-000000000001.vault'), Buffer.alloc(60, 1));
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const port = String((taken.address() as { port: number }).port);
    const ill = await own(`doctor --data ${stopped}`, { env: { ...signedIn, PLATFORM_PORT: port } });
    taken.close();
    expect(ill.status).toBe(1);
    const bad = ill.json.checks.filter(({ ok }: { ok: boolean }) => !ok).map(({ name }: { name: string }) => name);
    expect(bad).toEqual(['vault key', 'port']);
  });
});

test('data of an older version is backed up and upgraded; newer data is refused', async () => {
  const old = join(folder, 'old');
  await openDatabase(join(old, 'platform.sqlite')).close();
  const setVersion = (version: number) => {
    const db = new DatabaseSync(join(old, 'platform.sqlite'));
    db.exec(`PRAGMA user_version = ${version}`);
    db.close();
  };
  setVersion(0);
  const planned = await own(`upgrade --check --data ${old}`);
  expect(planned).toMatchObject({ status: 0, json: { from_version: 0, to_version: DATA_VERSION, done: false } });
  const done = await own(`upgrade --data ${old}`);
  expect(done).toMatchObject({ status: 0, json: { done: true, problems: [] } });
  expect(existsSync(done.json.backup.file)).toBe(true);
  expect((await own(`status --data ${old}`)).json.data_version).toBe(DATA_VERSION);
  expect(await own(`upgrade --data ${old}`)).toMatchObject({ status: 0, json: { done: false } });

  setVersion(DATA_VERSION + 1);
  expect(await own(`upgrade --data ${old}`)).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('newer platform'),
  });
  expect(await own(`start --data ${old} --no-examples`)).toMatchObject({ status: 1 });
});

describe('is refused with what to do', () => {
  test('where there is no data, or a file', async () => {
    expect(await own(`backup --data ${join(folder, 'nothing')}`)).toMatchObject({ status: 4 });
    writeFileSync(join(folder, 'file'), '');
    expect(await own(`status --data ${join(folder, 'file')}`)).toMatchObject({ status: 5 });
    expect(await own('restore no-such-file.tar.gz --data new')).toMatchObject({ status: 1 });
    writeFileSync(join(folder, 'junk.tar.gz'), 'junk');
    expect(await own('restore junk.tar.gz --data new')).toMatchObject({
      status: 5,
      stderr: expect.stringContaining('damaged'),
    });
    expect(existsSync(join(folder, 'new'))).toBe(false);
    expect(await own('backup nowhere/b.tar.gz')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('nowhere'),
    });
  });

  test('for a platform elsewhere, unless a folder of this machine is named', async () => {
    const remote = { PLATFORM_DATA: '', PLATFORM_API_URL: 'https://agents.example.com' };
    for (const line of ['status', 'backup', 'restore saved.tar.gz', 'upgrade']) {
      const ended = await own(line, { env: remote });
      expect(ended).toMatchObject({ status: 5, stderr: expect.stringContaining('https://agents.example.com') });
    }
    expect((await own(`status --data ${data}`, { env: remote })).status).toBe(0);
  });

  test.each([
    ['darwin', 'macOS'],
    ['win32', 'Windows'],
  ] as const)('on %s, where programs need the container', async (platform, name) => {
    const { status, stdout, stderr } = await own('start --data elsewhere', { platform });
    expect({ status, stdout }).toEqual({ status: 5, stdout: '' });
    expect(stderr).toContain(`on ${name} the platform needs its container`);
    const [line = ''] = /docker run .*agent-platform(?= *$)/m.exec(JSON.parse(stderr).error.hint) ?? [];
    expect(line).toBe(IN_CONTAINER);
    // The options are those of the page.
    const page = readFileSync(join(import.meta.dirname, '../../docs/self-host.md'), 'utf8');
    for (const option of line.match(/--\S+( [^-]\S*)?/g)!)
      if (!option.endsWith(' agent-platform')) expect(page).toContain(option);
    expect(existsSync(join(folder, 'elsewhere'))).toBe(false);
  });

  test.skipIf(process.getuid?.() !== 0)('for another user than the owner of the data', () => {
    const readable = mkdtempSync('/tmp/own-platform-owner-');
    try {
      const script = `process.setuid(1234); process.argv = ['node', 'platform', 'status', '--data', ${JSON.stringify(readable)}]; await import(${JSON.stringify(join(import.meta.dirname, '../../cli/main.ts'))})`;
      const run = () =>
        execFileSync(process.execPath, ['--input-type=module', '-e', script], {
          env: { PATH: process.env.PATH, HOME: '/tmp' },
          stdio: 'pipe',
        });
      expect(run).toThrow('belongs to user 0, and you are user 1234');
    } finally {
      rmSync(readable, { recursive: true });
    }
  });
});

test('a unit of systemd runs the platform that printed it', async () => {
  const { status, json } = await own('systemd-unit agent-platform.service');
  expect(status).toBe(0);
  expect(readFileSync(join(folder, 'agent-platform.service'), 'utf8')).toBe(json.unit);
  expect(json.unit).toContain(`ExecStart=${process.execPath} `);
  const verified = spawnSync('systemd-analyze', ['verify', join(folder, 'agent-platform.service')], {
    encoding: 'utf8',
  });
  // This test needs systemd.
  if (!verified.error) expect(verified).toMatchObject({ status: 0, stderr: '' });
});

test('ends with SIGTERM, and leaves nothing open', async () => {
  started.kill('SIGTERM');
  expect((await once(started, 'exit'))[0]).toBe(0);
  expect(await own('status')).toMatchObject({ status: 9, json: { running: false } });
  expect(existsSync(join(data, 'platform.sock'))).toBe(false);
});
