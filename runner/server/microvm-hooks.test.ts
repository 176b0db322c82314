import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { serveHooks } from './microvm-hooks.ts';

const PREFIX = '/aws/lambda-microvms/runtime/v1';

/** Starts the listener of one VM; `code` is the program of its runner. */
async function start(code: string) {
  const said: { message: string; port?: number }[] = [];
  const program = { command: process.execPath, args: ['-e', code], env: { PATH: process.env.PATH } };
  const ended = serveHooks(0, program, (message, more) => void said.push({ message, ...more }));
  await expect.poll(() => said[0]?.message).toBe('hooks');
  const url = `http://127.0.0.1:${said[0]!.port}`;
  const call = async (path: string, method = 'POST') =>
    (await fetch(url + path, { method, ...(method === 'POST' && { body: '{"microvmId":"m","runHookPayload":"ab"}' }) }))
      .status;
  return { said, ended, call };
}

/** Reports that it listens and the requested port; exits with 7 on a signal. */
const RUNNER = `
  console.log(JSON.stringify({ message: 'listening', asked: process.env.PLATFORM_RUNNER_LISTEN }));
  const timer = setInterval(() => {}, 1000);
  process.on('SIGTERM', () => clearInterval(timer));
`;

test('the hook "run" starts one runner, and the listener ends with it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'microvm-hooks-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const end = join(folder, 'end');
  // A second runner would write to the file, too.
  const asked = join(folder, 'asked');
  const { ended, call } = await start(`${RUNNER}
    const { appendFileSync, existsSync } = require('node:fs');
    appendFileSync(${JSON.stringify(asked)}, 'started ');
    setInterval(() => existsSync(${JSON.stringify(end)}) && process.exit(7), 20);`);
  expect(await call(`${PREFIX}/ready`)).toBe(200);
  expect(await Promise.all([call(`${PREFIX}/run`), call(`${PREFIX}/run`)])).toEqual([200, 200]);
  writeFileSync(end, '');
  expect(await ended).toBe(7);
  expect(readFileSync(asked, 'utf8')).toBe('started ');
});

test('the hook "validate" starts a trial runner and ends it', async () => {
  const { ended, call } = await start(`${RUNNER} if (process.env.PLATFORM_RUNNER_LISTEN !== '0') process.exit(3);`);
  expect(await call(`${PREFIX}/validate`)).toBe(200);
  // A VM that resumes from here starts a runner on its fixed port.
  await call(`${PREFIX}/run`);
  expect(await ended).toBe(3);
});

test('a runner that does not start fails the hook and ends the VM', async () => {
  const { said, ended, call } = await start('process.exit(2)');
  expect(await call(`${PREFIX}/run`)).toBe(500);
  expect(await ended).toBe(2);
  expect(said.at(-1)).toMatchObject({ message: 'hook failed', hook: 'run' });
});

test('other requests are not found', async () => {
  const { ended, call } = await start('process.exit(0)');
  for (const path of ['/ready', `${PREFIX}/terminate`, `${PREFIX}/constructor`, `${PREFIX}/`, '/']) {
    expect([path, await call(path)]).toEqual([path, 404]);
  }
  expect(await call(`${PREFIX}/ready`, 'GET')).toBe(404);
  await call(`${PREFIX}/run`);
  await ended;
});
