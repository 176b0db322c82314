import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import type { Log } from '#core/ports/deps.ts';
import { SystemIds } from '#core/ports/ids.ts';
import type { ExecEvent, ExecRequest, SandboxSession, SandboxSpec } from '#core/ports/sandbox.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { python, ran, specOf, tarOf } from '#test/conformance/sandbox.ts';
import { warmProgramConformance } from '#test/conformance/warm-programs.ts';
import { type FakeLambda, startFakeLambda } from '#test/helpers/fake-lambda.ts';
import { functionCommand, noContainer, serveBlobs } from '#test/helpers/runner.ts';
import { zip } from '#test/helpers/zip.ts';
import type { Assembly } from '#test/rehearsal/assembly.ts';
import { type Lambda, startLambda } from '#test/rehearsal/lambda.ts';
import { parseAwsConfig } from '../config.ts';
import { ChosenSandbox, MAX_PROGRAM_MS, whyNotLambda } from './choice.ts';
import { LambdaSandbox } from './sandbox.ts';

const root = mkdtempSync(join(tmpdir(), 'lambda-sandbox-test-'));
const blobs = new FolderBlobs(join(root, 'blobs'));
const clock = new SystemClock();
const log: Log = { debug() {}, info() {}, warn() {}, error() {} };
const FUNCTION = 'platform-test-programs';
const MB = 1024 * 1024;

let links: Awaited<ReturnType<typeof serveBlobs>>;
let lambda: Lambda;
let aws: FakeLambda;
let sandbox: LambdaSandbox;
/** Host and port of each environment's Runtime API. */
const runtimeApis: string[] = [];
/** Tenant of each event. */
const tenants: (string | undefined)[] = [];

/** The function of the template, without code: the rehearsal starts the image's program. */
const assembly: Assembly = {
  resources: [],
  of: (type) => (type === 'AWS::Lambda::Function' ? [PROGRAMS] : []),
  versions: new Map(),
  assetFolder: () => root,
};
const PROGRAMS = {
  id: 'programs',
  type: 'AWS::Lambda::Function',
  properties: {
    FunctionName: FUNCTION,
    PackageType: 'Image',
    Code: { ImageUri: 'image' },
    TenancyConfig: { TenantIsolationMode: 'PER_TENANT' },
    MemorySize: 640,
    Timeout: 60,
  },
  arn: `arn:aws:lambda:eu-west-1:111122223333:function:${FUNCTION}`,
  stack: 'test',
};
/** Credentials of the function's role, as Lambda gives them to each environment. */
const CREDENTIALS = { AWS_ACCESS_KEY_ID: 'made-up-id', AWS_SECRET_ACCESS_KEY: 'made-up-key-of-the-role' };

beforeAll(async () => {
  links = await serveBlobs(blobs);
  lambda = startLambda(
    assembly,
    '',
    () => CREDENTIALS,
    () => false,
    (variables) => {
      runtimeApis.push(variables.AWS_LAMBDA_RUNTIME_API!);
      return functionCommand(variables);
    },
  );
  aws = await startFakeLambda((name, event, _, tenantId) => {
    tenants.push(tenantId);
    return lambda.invoke(name, event, undefined, { tenantId });
  });
  const client = new LambdaClient({
    region: 'eu-west-1',
    endpoint: aws.url,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    maxAttempts: 1,
  });
  sandbox = new LambdaSandbox({
    config: parseAwsConfig({ PLATFORM_FUNCTION_PREFIX: 'platform-test-' }),
    ...{ clock, ids: new SystemIds(), log, blobs, lambda: client },
    links: { get: async (key) => links.linkTo(key) },
    background: (work) => work.then(() => {}),
  });
  await blobs.put('bundles/echo.zip', zip([{ name: 'main.py', content: 'import sys\nprint(sys.stdin.read())\n' }]));
  await blobs.put('layers/greeting.tar.gz', tarOf({ 'python/greeting.py': 'text = "from the layer"\n' }));
});
beforeEach(() => {
  tenants.length = 0;
});
afterAll(async () => {
  await aws.close();
  await lambda.close();
  links.close();
  rmSync(root, { recursive: true });
});

let kinds = 0;
/** Each session is of a kind of its own unless it names one. */
const programSpec = (more: Partial<SandboxSpec> = {}, kind: unknown = kinds++): SandboxSpec =>
  specOf({
    owner: 'acme',
    isOneCommand: true,
    deadline: clock.now() + 60_000,
    kind: async () => kind,
    ...more,
  });
const open = (more?: Partial<SandboxSpec>, kind?: unknown) => sandbox.open(programSpec(more, kind));
const once = async (command: string, more?: Partial<SandboxSpec>, kind?: unknown, request?: Partial<ExecRequest>) => {
  const session = await open(more, kind);
  try {
    return await ran(session, command, request);
  } finally {
    await session.close();
  }
};

// Bubblewrap creates the environment; the tests are skipped if it cannot.
const problem = await noContainer();
describe.skipIf(problem !== undefined)(
  `a program in a Lambda function${problem ? ` (${problem})` : ''}`,
  { timeout: 60_000 },
  () => {
    test('gets bundle, layer, files, input and variables, and returns output and exit status', async () => {
      const session = await open({
        bundle: 'bundles/echo.zip',
        layer: 'layers/greeting.tar.gz',
        env: { NAME: 'Ada', PYTHONPATH: '/layer/python' },
      });
      await session.writeFile('/tmp/uploads/a.txt', Buffer.from('upload'));
      const { out, err, exit } = await ran(
        session,
        'python3 main.py; cat /tmp/uploads/a.txt; python3 -c "import greeting; print(greeting.text)"; echo $NAME >&2; exit 3',
        { stdin: Buffer.from('in') },
      );
      expect({ out, err }).toEqual({ out: 'in\nuploadfrom the layer\n', err: 'Ada\n' });
      expect(exit).toEqual({ reason: 'exited', exitCode: 3, durationMs: expect.any(Number) });
      await expect(session.readFile('main.py')).rejects.toMatchObject({ code: 'SANDBOX_FILE', isLost: true });
      await session.close();
    });

    test('streams its output while it runs', async () => {
      const until = 'transfers/go';
      const session = await open({ egress: 'open', env: { GO: links.linkTo(until) } });
      const waits = `import os, time, urllib.request
print('first', flush=True)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
while True:
    try: opener.open(os.environ['GO']); break
    except urllib.error.HTTPError: time.sleep(0.05)
print('last')`;
      let text = '';
      const request = { command: 'python3 -', stdin: Buffer.from(waits), timeoutMs: 30_000 };
      for await (const event of session.exec(request)) {
        if (event.type === 'stdout') text += Buffer.from(event.data).toString();
        if (text === 'first\n') await blobs.put(until, new Uint8Array());
      }
      expect(text).toBe('first\nlast\n');
      await session.close();
    });

    test('gets input and files that exceed an event', async () => {
      const session = await open();
      const large = Buffer.alloc(5 * MB, 'x');
      await session.writeFile('large', large);
      const { out } = await ran(session, 'wc -c < large; wc -c', { stdin: large });
      expect(out).toBe(`${5 * MB}\n${5 * MB}\n`);
      await session.close();
    });

    test('is stopped at its deadline, at 10 MB of output, and when it uses too much memory', async () => {
      const late = await once('trap "" TERM; echo on; sleep 100', {}, undefined, { timeoutMs: 500 });
      expect(late).toMatchObject({ out: 'on\n', exit: { reason: 'timeout' } });
      expect((await once('yes')).exit.reason).toBe('output_limit');
      const limits = { ...specOf().limits, memoryBytes: 128 * MB };
      const hungry = await open({ limits });
      expect((await python(hungry, 'a = []\nwhile True: a.append(bytearray(1 << 20))\n')).exit.reason).toBe(
        'memory_limit',
      );
      await hungry.close();
    });

    test('ends when its call is cancelled', async () => {
      const session = await open({ egress: 'open' }, 'cancelled');
      const stop = new AbortController();
      const events: ExecEvent[] = [];
      for await (const event of session.exec({
        command: 'echo on; sleep 1000',
        timeoutMs: 60_000,
        signal: stop.signal,
      })) {
        events.push(event);
        stop.abort();
      }
      expect(events.at(-1)).toMatchObject({ exit: { reason: 'aborted' } });
      await session.close();
      await lambda.settled();
      // The environment has ended with the command that was killed, and the next event gets a new runner.
      expect((await once('echo again', {}, 'cancelled')).out).toBe('again\n');
    });

    test('has an environment that only runs of its kind get, and that leaves nothing to them', async () => {
      const leave = 'echo left > ~/left; echo left > /tmp/left; echo $$ $PPID';
      await once(leave, {}, 'one');
      expect((await once('ls ~ /tmp/left 2>&1; true', {}, 'one')).out).toContain("cannot access '/tmp/left'");
      await once('true', {}, 'two');
      const owners = { owner: 'other' };
      await once('true', owners, 'one');
      const bundle = { bundle: 'bundles/echo.zip' };
      await once('true', bundle, 'one');
      expect(tenants[0]).toBe(tenants[1]);
      expect(new Set(tenants).size).toBe(4);
      expect(tenants.every((tenant) => /^[0-9a-f]{64}$/.test(tenant!))).toBe(true);
    });

    test('uses an environment again only if its command ended by itself and in its limits', async () => {
      const runner = 'cat /proc/[0-9]*/comm | sort | uniq -c | grep -c MainThread; cut -d" " -f22 /proc/2/stat';
      // The answer comes before the environment is idle again.
      const settled = async (command: string, timeoutMs?: number) => {
        const { out } = await once(command, {}, 'warm', timeoutMs === undefined ? {} : { timeoutMs });
        await lambda.settled();
        return out;
      };
      const first = await settled(runner);
      expect(await settled(runner)).toBe(first);
      await settled('sleep 100', 200);
      expect(await settled(runner)).not.toBe(first);
    });

    test('sees neither the credentials of the role nor the token of its session', async () => {
      const session = await open({ env: { OWN: 'x' } }, 'looks');
      const { out } = await python(
        session,
        `import glob, os
wanted, own = bytes.fromhex('${Buffer.from(CREDENTIALS.AWS_SECRET_ACCESS_KEY).toString('hex')}'), str(os.getpid())
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/mem'):
    pid = path.split('/')[2]
    if pid in (own, '1'): continue
    try:
        if wanted in open(path, 'rb').read(1 << 16): print('found', path)
    except OSError: pass
print(sorted(name for name in os.environ if name.startswith(('AWS', '_', 'LAMBDA'))))
`,
      );
      expect(out).toBe("['_']\n");
      await session.close();
    });

    test('that asks the Runtime API for the next event gets none, and the next event its own answer', async () => {
      await once('true', {}, 'thief');
      const thief = `import os, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for path, body in (('next', None), ('made-up/response', b'forged'), ('made-up/error', b'{}')):
    try: print(path, opener.open(f'http://{os.environ["API"]}/2018-06-01/runtime/invocation/{path}', body, 5).read())
    except urllib.error.HTTPError as error: print(path, error.code)
`;
      const session = await open({ egress: 'open', env: { API: runtimeApis.at(-1)! } }, 'thief');
      expect((await python(session, thief)).out).toBe('next 403\nmade-up/response 400\nmade-up/error 400\n');
      await session.close();
      expect((await once('echo mine', {}, 'thief')).out).toBe('mine\n');
    });

    test('that ends its runner, or leaves processes that wait, harms only its own run', async () => {
      const killed = await once('kill -9 -1; sleep 10', {}, 'bad');
      expect(killed.exit.reason).toBe('sandbox_lost');
      expect((await once('echo on', {}, 'bad')).out).toBe('on\n');
      // Two forks and a session of its own, without any open file of its parents.
      const hides = `python3 -c "
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for fd in range(3): os.close(fd)
time.sleep(1000)"; echo left`;
      expect((await once(hides, {}, 'bad')).out).toBe('left\n');
      const seen = await once('cat /proc/[0-9]*/cmdline | tr "\\0" " "', {}, 'bad');
      expect(seen.out).not.toContain('time.sleep(1000)');
    });

    test('without network has no sockets at all, not even to the Runtime API', async () => {
      const session = await open({ egress: 'none' });
      const tries = `import socket
try: socket.socket(); print('has one')
except OSError as error: print(error.errno)`;
      expect((await python(session, tries)).out).toBe('97\n');
      await session.close();
    });

    test('whose layer is not what was installed does not start, and its kind is served again', async () => {
      const layer = { layer: 'layers/greeting.tar.gz', layerSha256: '0'.repeat(64) };
      await expect(once('true', layer, 'layer')).rejects.toMatchObject({ code: 'SANDBOX_LAYER' });
      await lambda.settled();
      await expect(once('true', { bundle: 'bundles/gone.zip' }, 'layer')).rejects.toThrow('bundles/gone.zip');
    });

    // Last, because a program that stays keeps the fixed port of its egress proxy.
    warmProgramConformance(async () => ({ sandbox, blobs }), { isOfOneProcess: false });
  },
);

describe('a session', () => {
  test('starts nothing before its command', async () => {
    const session = await open();
    await session.writeFile('x', Buffer.from('y'));
    await session.close();
    expect(tenants).toEqual([]);
  });

  test('whose function was lost is lost, and nothing is sent twice', async () => {
    aws.throttle(2);
    aws.fail(1);
    const session = await open();
    expect((await ran(session, 'true')).exit.reason).toBe('sandbox_lost');
    expect(tenants).toHaveLength(1);
    await session.close();
  });

  test('is refused with a time to wait where Lambda has no room', async () => {
    aws.throttle(1000);
    const session = await open({ deadline: clock.now() + 3000 });
    await expect(ran(session, 'true')).rejects.toMatchObject({ code: 'RATE_LIMITED' });
    expect(tenants).toEqual([]);
    aws.throttle(-1000);
  });

  test('is opened only for one command of runs that have a kind', async () => {
    for (const more of [{ isOneCommand: false }, { kind: undefined }, { owner: undefined }, { deadline: undefined }]) {
      await expect(sandbox.open({ ...programSpec(), ...more } as SandboxSpec)).rejects.toThrow('one command');
    }
  });
});

describe('what serves a session', () => {
  const now = 1_000_000;
  const short = { ...programSpec(), deadline: now + 30_000 };
  const MEMORY = 640;

  test.each<[string, Partial<SandboxSpec>, RegExp]>([
    ['an installation', { purpose: 'install' }, /installation/],
    ['several commands', { isOneCommand: false }, /several commands/],
    ['runs of no kind', { kind: undefined }, /same kind/],
    ['a long program', { deadline: now + MAX_PROGRAM_MS + 1 }, /14 minutes/],
    ['no deadline', { deadline: undefined }, /14 minutes/],
    ['more memory', { limits: { ...short.limits, memoryBytes: 513 * MB } }, /memory/],
    ['private addresses', { egressTargets: { targets: ['db:5432'], privateRanges: ['10.0.0.0/8'] } }, /private/],
  ])('not Lambda: %s', (_, more, reason) => {
    expect(whyNotLambda({ ...short, ...more }, now, MEMORY)).toMatch(reason);
  });

  test('Lambda: one command of at most 14 minutes that fits', () => {
    expect(whyNotLambda(short, now, MEMORY)).toBeUndefined();
  });

  test('is told with its reason, and others attach to their own sessions', async () => {
    const session = (ref: string) => ({ ref, close: async () => {} }) as unknown as SandboxSession;
    const of = (kind: 'lambda' | 'microvm') => ({
      open: async () => session(kind),
      attach: async () => session(`${kind} again`),
      status: async () => ({ kind, interpreters: {} }),
      close: async () => {},
    });
    const chosen = new ChosenSandbox({ lambda: of('lambda'), others: of('microvm'), memoryMb: MEMORY, clock });
    const open = programSpec();
    expect(await chosen.open(open)).toMatchObject({
      ref: 'lambda',
      place: { kind: 'lambda', why: 'one short command' },
    });
    expect(await chosen.open({ ...open, isOneCommand: false })).toMatchObject({
      ref: 'microvm',
      place: { kind: 'microvm', why: expect.stringContaining('several commands') },
    });
    expect((await chosen.attach('x')).ref).toBe('microvm again');
    expect((await chosen.status()).kind).toBe('microvm');
  });
});

test('the rehearsed function refuses an event without a tenant, as Lambda does', async () => {
  await expect(lambda.invoke(FUNCTION, {})).rejects.toMatchObject({ code: 'InvalidParameterValueException' });
});
