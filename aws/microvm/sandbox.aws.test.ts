import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CreateMicrovmAuthTokenCommand, LambdaMicrovmsClient } from '@aws-sdk/client-lambda-microvms';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { awsDeps } from '#aws/all-deps.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { Log } from '#core/ports/deps.ts';
import { SystemIds } from '#core/ports/ids.ts';
import type { SandboxSpec } from '#core/ports/sandbox.ts';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { findHostRuntime } from '#runner/host-runtime.ts';
import { ran, sandboxConformance, specOf } from '#test/conformance/sandbox.ts';
import { warmProgramConformance } from '#test/conformance/warm-programs.ts';
import { type FakeMicrovms, startFakeMicrovms } from '#test/helpers/fake-microvms.ts';
import { serveBlobs } from '#test/helpers/runner.ts';
import { zip } from '#test/helpers/zip.ts';
import { parseAwsConfig } from '../config.ts';
import { LIFETIME_GRACE_MS, MAX_VM_MS } from '../runner-job.ts';
import { MicrovmSandbox } from './sandbox.ts';
import { sweepMicrovms } from './sweep.ts';

const IMAGE = 'arn:aws:lambda:eu-west-1:111122223333:microvm-image:platform-test-sandbox';
const TOKEN_LIFE_MS = 3_600_000;

/** Real time that a test can advance. */
class ShiftedClock extends SystemClock {
  shift = 0;
  override now(): number {
    return super.now() + this.shift;
  }
}

const root = mkdtempSync(join(tmpdir(), 'microvm-test-'));
const blobs = new FolderBlobs(join(root, 'blobs'));
const lines: string[] = [];
const say = (message: string, fields?: object) => void lines.push(`${message} ${JSON.stringify(fields)}`);
const log: Log = { debug: say, info: say, warn: say, error: say };
let links: Awaited<ReturnType<typeof serveBlobs>>;
const opened: FakeMicrovms[] = [];

beforeAll(async () => {
  links = await serveBlobs(blobs);
});
afterAll(async () => {
  await Promise.all(opened.map((aws) => aws.close()));
  links.close();
  rmSync(root, { recursive: true });
});

async function setUp() {
  const clock = new ShiftedClock();
  const aws = await startFakeMicrovms(() => clock.now());
  opened.push(aws);
  const client = new LambdaMicrovmsClient({
    region: 'eu-west-1',
    endpoint: aws.url,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    maxAttempts: 1,
  });
  const config = parseAwsConfig({ PLATFORM_MICROVM_IMAGE: IMAGE, PLATFORM_MICROVM_RATE: '100' });
  const sandbox = new MicrovmSandbox({
    config,
    clock,
    ids: new SystemIds(),
    log,
    counters: new SqliteTable(openDatabase(':memory:'), 'counters', clock),
    client,
    links: { get: async (key) => links.linkTo(key) },
  });
  const within = (ms: number, more: Partial<SandboxSpec> = {}) => specOf({ deadline: clock.now() + ms, ...more });
  return { aws, client, clock, sandbox, within };
}

// Each test opens VMs, which are processes: starting twenty takes long on a small machine.
describe('MicroVMs, each with the real runner', { timeout: 120_000 }, () => {
  sandboxConformance(async () => {
    const { sandbox } = await setUp();
    // The VMs are processes of this machine, which may lack programs of the image.
    const { interpreters } = await findHostRuntime(join(root, 'runtime'));
    sandbox.status = async () => ({ kind: 'microvm', interpreters });
    return { sandbox, blobs };
  });
});

describe('MicroVMs whose program stays', { timeout: 120_000 }, () => {
  warmProgramConformance(async () => ({ sandbox: (await setUp()).sandbox, blobs }), { isOfOneProcess: false });

  test('a VM of an earlier call is used once at a time, replaced if it has ended, and ends with its hour', async () => {
    const { aws, clock, sandbox } = await setUp();
    const program =
      'import json, sys\nfor line in sys.stdin: print(json.dumps({"call": json.loads(line)["call"]}), flush=True)\n';
    await blobs.put('bundles/stays.zip', zip([{ name: 'main.py', content: program }]));
    const reuse = { secrets: '', idleMs: 60_000, maxUses: 100, concurrency: 1 };
    const ask = async () => {
      const deadline = clock.now() + 30_000;
      const spec = specOf({ bundle: 'bundles/stays.zip', owner: 'w', kind: async () => 'one', deadline, reuse });
      const session = await sandbox.open(spec);
      const stdin = Buffer.from('{"call": "c", "input": {}, "environment": {}}\n');
      const { exit } = await ran(session, 'python3 main.py', { call: 'c', stdin });
      await session.close();
      expect(exit).toMatchObject({ reason: 'exited', exitCode: 0 });
    };
    await ask();
    await ask();
    expect(aws.vms).toHaveLength(1);
    expect(aws.vms[0]!.maximumDurationInSeconds).toBe(3630);
    await Promise.all([ask(), ask()]);
    expect(aws.vms).toHaveLength(2);
    for (const vm of aws.vms) await aws.kill(vm);
    await ask();
    expect(aws.vms).toHaveLength(3);
    clock.shift += 3_605_000;
    await ask();
    expect(aws.vms).toHaveLength(4);
  });
});

test('is the sandbox of a stage with MicroVMs', async () => {
  const { sandbox } = awsDeps(parseAwsConfig({ PLATFORM_HOSTED_SANDBOX: 'microvm' }));
  expect(await sandbox.status()).toEqual({ kind: 'microvm', interpreters: { python: '3.12', node: '24' } });
});

describe('a session', () => {
  test('is used by any process that knows it, and ends for all', async () => {
    const { aws, sandbox, within } = await setUp();
    const opened = await sandbox.open(within(60_000));
    await opened.writeFile('mark', Buffer.from('first'));
    const again = await sandbox.attach(JSON.parse(JSON.stringify(opened.ref)));
    expect((await ran(again, 'cat mark')).out).toBe('first');
    expect(again.ref).toEqual(opened.ref);
    await again.close();
    expect(aws.vms[0]!.state).toBe('TERMINATED');
    expect((await ran(opened, 'cat mark')).exit.reason).toBe('sandbox_lost');
  });

  test('has a VM of its own, without a role, that ends with it', async () => {
    const { aws, sandbox, within } = await setUp();
    const sessions = await Promise.all([sandbox.open(within(60_000)), sandbox.open(within(60_000))]);
    expect(aws.vms).toHaveLength(2);
    for (const [index, session] of sessions.entries()) {
      await session.writeFile('mark', Buffer.from(String(index)));
      expect((await ran(session, 'cat mark; echo $((6*7))')).out).toBe(`${index}42\n`);
    }
    const [one, other] = aws.vms.map((vm) => vm.request);
    expect(one).toEqual({
      imageIdentifier: IMAGE,
      maximumDurationInSeconds: expect.any(Number),
      egressNetworkConnectors: ['arn:aws:lambda:eu-west-1:aws:network-connector:aws-network-connector:INTERNET_EGRESS'],
      logging: { disabled: {} },
      runHookPayload: expect.stringMatching(/^[0-9a-f]{64}$/),
      clientToken: expect.any(String),
    });
    expect(other!.runHookPayload).not.toBe(one!.runHookPayload);
    expect(one!.maximumDurationInSeconds).toBeGreaterThan(45);
    expect(one!.maximumDurationInSeconds).toBeLessThanOrEqual(90);

    await Promise.all(sessions.map((session) => session.close()));
    await sessions[0]!.close();
    expect(aws.vms.map(({ state }) => state)).toEqual(['TERMINATED', 'TERMINATED']);
    expect(aws.asked.filter((operation) => operation === 'TerminateMicrovm')).toHaveLength(2);
    await expect(sessions[0]!.readFile('mark')).rejects.toMatchObject({ code: 'SANDBOX_FILE' });
    expect((await ran(sessions[1]!, 'true')).exit.reason).toBe('sandbox_lost');
  });

  test('needs the token of the proxy and the token of the session', async () => {
    const { aws, client, sandbox, within } = await setUp();
    const session = await sandbox.open(within(60_000));
    const microvmIdentifier = aws.vms[0]!.id;
    const ask = { microvmIdentifier, expirationInMinutes: 5, allowedPorts: [{ port: 8080 }] };
    const { authToken } = await client.send(new CreateMicrovmAuthTokenCommand(ask));
    const list = async (headers: Record<string, string>) =>
      (await fetch(`${aws.vms[0]!.url}/list?path=.`, { headers })).status;
    expect(await list({})).toBe(403);
    expect(await list({ 'x-aws-proxy-auth': 'x' })).toBe(403);
    expect(await list({ ...authToken, 'x-aws-proxy-port': '9000' })).toBe(403);
    expect(await list({ ...authToken })).toBe(401);
    await session.close();
  });

  test('goes on after a token has expired', async () => {
    const { aws, clock, sandbox, within } = await setUp();
    const session = await sandbox.open(within(2 * TOKEN_LIFE_MS));
    const tokens = () => aws.asked.filter((operation) => operation === 'CreateMicrovmAuthToken').length;
    expect((await ran(session, 'echo 1')).out).toBe('1\n');
    expect(tokens()).toBe(1);
    clock.shift += TOKEN_LIFE_MS - 30_000;
    expect((await ran(session, 'echo 2')).out).toBe('2\n');
    clock.shift += TOKEN_LIFE_MS + 1;
    expect((await ran(session, 'echo 3')).out).toBe('3\n');
    expect(tokens()).toBe(3);
    await session.close();
  });

  test('has no secrets in requests to AWS or in log lines', async () => {
    const { aws, sandbox, within } = await setUp();
    const session = await sandbox.open(within(60_000, { env: { API_KEY: 'hidden-value' } }));
    expect((await ran(session, 'echo $API_KEY')).out).toBe('hidden-value\n');
    expect(JSON.stringify(aws.vms.map((vm) => vm.request))).not.toContain('hidden-value');
    expect(lines.join()).not.toContain('hidden-value');
    await session.close();
  });
});

describe('when AWS or a VM fails', { timeout: 60_000 }, () => {
  test.each(['InsufficientCapacityException', 'ThrottlingException', 'ServiceQuotaExceededException'])(
    '%s: waits while there is time, then says that it may be tried again',
    async (name) => {
      const { aws, sandbox, within } = await setUp();
      aws.failNext('RunMicrovm', name, name);
      const session = await sandbox.open(within(60_000));
      expect((await ran(session, 'echo on')).out).toBe('on\n');
      await session.close();

      aws.failNext('RunMicrovm', ...Array<string>(50).fill(name));
      await expect(sandbox.open(within(1000))).rejects.toMatchObject({
        code: 'RATE_LIMITED',
        message: expect.stringContaining(name),
        extra: { suggested_wait_time: 5 },
      });
      expect(aws.vms).toHaveLength(1);
    },
  );

  test('a call that is cancelled while it waits leaves no VM', async () => {
    const { aws, clock, sandbox, within } = await setUp();
    aws.failNext('RunMicrovm', ...Array<string>(50).fill('ThrottlingException'));
    const cancel = new AbortController();
    const turn = { owner: 'w', deadline: clock.now() + 60_000 };
    const opening = sandbox.open(within(60_000, { turn, signal: cancel.signal }));
    setImmediate(() => cancel.abort(new Error('cancelled')));
    await expect(opening).rejects.toThrow();
    expect(aws.vms).toEqual([]);
  });

  test('an error that a retry does not mend is not retried', async () => {
    const { aws, sandbox, within } = await setUp();
    aws.failNext('RunMicrovm', 'AccessDeniedException');
    await expect(sandbox.open(within(60_000))).rejects.toMatchObject({ name: 'AccessDeniedException' });
    expect(aws.asked).toEqual(['RunMicrovm']);
  });

  test('a VM that dies before its session is open is replaced', async () => {
    const { aws, sandbox, within } = await setUp();
    const opening = sandbox.open(within(60_000));
    await expect.poll(() => aws.vms).toHaveLength(1);
    await aws.kill(aws.vms[0]!);
    const session = await opening;
    expect((await ran(session, 'echo on')).out).toBe('on\n');
    expect(aws.vms).toHaveLength(2);
    await session.close();
    expect(aws.vms.every(({ state }) => state === 'TERMINATED')).toBe(true);
  });

  test('VMs whose runner does not start: two are tried, and none stays', async () => {
    const { aws, sandbox, within } = await setUp();
    aws.breakNext(2);
    await expect(sandbox.open(within(60_000))).rejects.toMatchObject({ code: 'INTERNAL_ERROR' });
    expect(aws.vms.map(({ state }) => state)).toEqual(['TERMINATED', 'TERMINATED']);
  });

  test('no token: the VM does not stay', async () => {
    const { aws, sandbox, within } = await setUp();
    aws.failNext('CreateMicrovmAuthToken', 'ThrottlingException', 'AccessDeniedException', 'AccessDeniedException');
    await expect(sandbox.open(within(60_000))).rejects.toMatchObject({ code: 'INTERNAL_ERROR' });
    expect(aws.asked.filter((operation) => operation === 'CreateMicrovmAuthToken')).toHaveLength(3);
    expect(aws.vms.map(({ state }) => state)).toEqual(['TERMINATED', 'TERMINATED']);
  });

  test('a missing bundle does not start another VM', async () => {
    const { aws, sandbox, within } = await setUp();
    await expect(sandbox.open(within(60_000, { bundle: 'bundles/gone.zip' }))).rejects.toThrow('bundles/gone.zip');
    expect(aws.vms.map(({ state }) => state)).toEqual(['TERMINATED']);
  });

  test('a VM that dies during the job: the command ends at once as lost', async () => {
    await blobs.put('bundles/dies.zip', zip([{ name: 'main.sh', content: 'echo on; exec sleep 1000' }]));
    const { aws, sandbox, within } = await setUp();
    const session = await sandbox.open(within(60_000, { bundle: 'bundles/dies.zip' }));
    const events = session.exec({ command: 'sh main.sh', timeoutMs: 60_000 });
    expect((await events[Symbol.asyncIterator]().next()).value).toMatchObject({ type: 'stdout' });
    await aws.kill(aws.vms[0]!);
    expect((await events[Symbol.asyncIterator]().next()).value).toMatchObject({ exit: { reason: 'sandbox_lost' } });
    await session.close();
    expect(aws.vms).toHaveLength(1);
  });

  test('a VM that AWS does not end runs no more processes', async () => {
    const { aws, sandbox, within } = await setUp();
    const session = await sandbox.open(within(60_000));
    aws.failNext('TerminateMicrovm', 'ThrottlingException');
    await session.close();
    // Its runner has ended, and the VM with it.
    await aws.vms[0]!.ended;
    expect(lines.join('\n')).toContain(`microvm not terminated {"microvm":"${aws.vms[0]!.id}"`);
  });

  test('the sweep ends only VMs that outlived their time', async () => {
    const { aws, client, clock, sandbox, within } = await setUp();
    await sandbox.open(within(MAX_VM_MS));
    clock.shift += MAX_VM_MS + LIFETIME_GRACE_MS + 1_000;
    const young = await sandbox.open(within(60_000));
    await sweepMicrovms({ client, clock, log }, IMAGE);
    expect(aws.vms.map(({ state }) => state)).toEqual(['TERMINATED', 'RUNNING']);
    await young.close();
    const asked = aws.asked.length;
    await sweepMicrovms({ client, clock, log }, IMAGE);
    expect(aws.asked.slice(asked)).toEqual(['ListMicrovms']);
  });
});
