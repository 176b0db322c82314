import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { compileCacheVariable } from '#test/helpers/temporary-folder.ts';
import { clientOf, type LocalTarget, publishCode, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, tempFolder } from './command-line.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

/** Network fault that a request meets. */
type Fault = 'pass' | 'cut' | 'delay' | 502 | 503;

let target: LocalTarget;
let between: Server;
let url: string;
let faults: Fault[];
let seen: string[];

beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  between = createServer(async (incoming, outgoing) => {
    seen.push(`${incoming.method} ${incoming.url}`);
    const fault = faults.shift() ?? 'pass';
    if (fault === 'cut') return void incoming.socket.destroy();
    if (fault === 'delay') await sleep(300);
    if (typeof fault === 'number') return void outgoing.writeHead(fault).end('<html>gateway</html>');
    forward(incoming, outgoing);
  });
  await new Promise<void>((resolve) => between.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(between.address() as AddressInfo).port}`;
});
afterAll(async () => {
  between.closeAllConnections();
  between.close();
  await target?.close();
});

function forward(incoming: IncomingMessage, outgoing: ServerResponse): void {
  const { pathname, search } = new URL(incoming.url!, target.url);
  const { method, headers } = incoming;
  const passed = request(`${target.url}${pathname}${search}`, { method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode!, answer.headers);
    answer.pipe(outgoing);
  });
  incoming.pipe(passed);
}

function platform(line: string, given: Fault[] = [], key = target.key) {
  faults = given;
  seen = [];
  return commandLine(line.split(' '), { env: { PLATFORM_API_URL: url, PLATFORM_API_KEY: key } });
}

describe('a broken network', () => {
  test.each<[Fault, Fault]>([
    [503, 502],
    ['cut', 'cut'],
    ['cut', 503],
    ['delay', 'delay'],
  ])('%s and %s hold up what only reads', async (first, second) => {
    const ended = await platform('task list', [first, second]);
    expect(ended.status, ended.stderr).toBe(0);
    expect(ended.json.tasks).toEqual([]);
    expect(seen).toHaveLength(first === 'delay' ? 1 : 3);
  });

  test('three failures are shown, with the status of the platform', async () => {
    expect((await platform('task list', [503, 503, 503])).status).toBe(8);
    expect((await platform('task list', ['cut', 'cut', 'cut'])).status).toBe(9);
    expect(seen).toHaveLength(3);
  });

  test.each<[Fault, number]>([
    ['cut', 9],
    [502, 8],
    [503, 8],
  ])('after %s nothing is sent twice that might happen twice', async (fault, status) => {
    const ended = await platform('task create once', [fault]);
    expect(ended.status).toBe(status);
    expect(ended.stdout).toBe('');
    expect(seen).toEqual(['POST /tasks']);
  });

  test('a call with an idempotency key is sent again', async () => {
    await publishCode(
      clientOf(target),
      'echo',
      { 'main.js': 'console.log(1)' },
      { runtime: { command: 'node main.js' } },
    );
    const ended = await platform('run main/echo --no-stream --idempotency-key once', ['cut', 503]);
    expect(ended.status, ended.stderr).toBe(0);
    expect(seen.filter((line) => line.startsWith('POST'))).toHaveLength(3);
  });
});

test('a wrong key ends with 2, and says what to do', async () => {
  const ended = await platform('task list', [], 'sk_live_made-up-and-wrong');
  expect(ended.status).toBe(2);
  expect(JSON.parse(ended.stderr).error).toMatchObject({
    code: 'UNAUTHORIZED',
    hint: expect.stringContaining('login'),
  });
});

test('a platform that is older says so', async () => {
  const older = async (_: unknown, init: RequestInit = {}) => fetch(`${target.url}/tasks/of/later/times/x`, init);
  const ended = await commandLine(['task', 'list'], {
    env: { PLATFORM_API_URL: target.url, PLATFORM_API_KEY: target.key },
    fetch: older as typeof fetch,
  });
  expect(ended.status).toBe(4);
  expect(JSON.parse(ended.stderr).error.hint).toContain('older');
});

describe('as a process', () => {
  const MAIN = join(import.meta.dirname, '../../cli/main.ts');

  async function run(argv: string[], env: Record<string, string>) {
    const folder = tempFolder();
    const child = spawn(process.execPath, [MAIN, ...argv], {
      cwd: folder,
      env: { ...compileCacheVariable(), HOME: folder, PLATFORM_API_KEY: target.key, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [stdout, stderr, [status]] = await Promise.all([
      child.stdout.setEncoding('utf8').toArray(),
      child.stderr.setEncoding('utf8').toArray(),
      once(child, 'exit'),
    ]);
    return { status, stdout: stdout.join(''), stderr: stderr.join('') };
  }

  test.each([[['--help']], [['agents']], [['agents', '--json']]])(
    'ends without a word when the reader of its output has left: %j',
    async (argv) => {
      const child = spawn(process.execPath, [MAIN, ...argv], {
        env: {
          ...compileCacheVariable(),
          HOME: tempFolder(),
          PLATFORM_API_KEY: target.key,
          PLATFORM_API_URL: target.url,
        },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      child.stdout.destroy();
      const [stderr, [status]] = await Promise.all([child.stderr.setEncoding('utf8').toArray(), once(child, 'exit')]);
      expect([status, stderr.join('')]).toEqual([141, '']);
    },
  );

  test('works with an empty home and no terminal, and prints no colours', async () => {
    const ended = await run(['whoami'], { PLATFORM_API_URL: target.url });
    expect(ended).toMatchObject({ status: 0, stderr: '' });
    expect(JSON.parse(ended.stdout)).toMatchObject({ workspace: 'main' });
    const failed = await run(['agnets'], {});
    expect(failed.status).toBe(5);
    expect(failed.stderr).not.toContain('\u001b');
  });

  test('goes through the proxy of HTTP_PROXY, but not to this machine', async () => {
    const asked: string[] = [];
    const proxy = createServer((incoming, outgoing) => {
      asked.push(incoming.url!);
      forward(incoming, outgoing);
    });
    proxy.on('connect', ({ url: host }: IncomingMessage, socket: Socket) => {
      asked.push(host!);
      const through = connect(Number(new URL(target.url).port), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        through.pipe(socket).pipe(through);
      });
      through.on('error', () => socket.destroy());
      socket.on('error', () => through.destroy());
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const HTTP_PROXY = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    try {
      const through = await run(['whoami'], { HTTP_PROXY, PLATFORM_API_URL: 'http://platform.example.test' });
      expect(through).toMatchObject({ status: 0 });
      expect(asked.join()).toContain('platform.example.test');
      asked.length = 0;
      expect(await run(['whoami'], { HTTP_PROXY, PLATFORM_API_URL: target.url })).toMatchObject({ status: 0 });
      expect(asked).toEqual([]);
    } finally {
      proxy.closeAllConnections();
      proxy.close();
    }
  });
});
