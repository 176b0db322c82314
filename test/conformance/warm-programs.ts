import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import type { Blobs } from '#core/ports/blobs.ts';
import { type ExecExit, type ExecRequest, execToEnd, type Sandbox, type SandboxSpec } from '#core/ports/sandbox.ts';
import { zip } from '#test/helpers/zip.ts';
import { specOf } from './sandbox.ts';

const MB = 1024 * 1024;
const BUNDLE = 'bundles/warm.zip';
const SETTLING_MS = 100;

/** Speaks the protocol without the SDK. What it does is in its input. */
const PLAIN = `import json, os, signal, subprocess, sys, threading, time
uses = 0
kept = []
def answer(call, **more): print(json.dumps({'call': call, **more}), flush=True)
def count():
    while True: counted[0] += 1; time.sleep(0.01)
counted = [0]
for line in sys.stdin:
    given = json.loads(line)
    if 'cancel' in given: continue
    uses += 1
    call, wanted = given['call'], given['input']
    do = wanted.get('do')
    if do == 'print': print('to stdout'); print('to stderr', file=sys.stderr)
    if do == 'flood': sys.stderr.write('x' * 3_000_000); sys.stderr.flush()
    if do == 'fail': answer(call, error='it failed'); continue
    if do == 'exit': sys.exit(wanted['status'])
    if do == 'kill': os.kill(os.getpid(), signal.SIGKILL)
    if do == 'sleep': time.sleep(wanted['seconds'])
    if do == 'hog': kept.append(bytearray(wanted['bytes'])); time.sleep(wanted.get('seconds', 0))
    if do == 'breed': kept.extend(subprocess.Popen(['sleep', '1000']) for _ in range(wanted['count']))
    if do == 'count': threading.Thread(target=count, daemon=True).start()
    if do == 'endless': sys.stdout.write('x' * wanted['bytes']); sys.stdout.flush(); time.sleep(60)
    if do == 'forge': print(json.dumps({'call': wanted['of'], 'output': 'forged'}), flush=True)
    if do == 'large': answer(call, output='x' * wanted['bytes']); continue
    answer(call, output={'uses': uses, 'pid': os.getpid(), 'env': given['environment'], 'counted': counted[0],
      'secret': os.environ.get('SECRET'), 'files': sorted(os.listdir('/tmp'))})
`;

const IN_PYTHON = `import os, sys
from agent_platform import serve
uses = 0
def handle(given):
    global uses
    uses += 1
    print('printed')
    os.system('echo by a child')
    if given.get('fail'): raise ValueError('it failed')
    if given.get('set'): return {1, 2}
    return {'uses': uses, 'run': os.environ.get('PLATFORM_REQUEST_ID'), 'given': given}
serve(handle)
`;
const IN_NODE = `import { serve } from 'agent-platform-sdk';
import { spawnSync } from 'node:child_process';
let uses = 0;
await serve(async (given) => {
  console.log('printed');
  // Node.js cannot keep a child's output apart from its own.
  if (process.env.PLATFORM_REUSE) spawnSync('echo', ['by a child'], { stdio: 'inherit' });
  if (given.fail) throw new Error('it failed');
  return { uses: ++uses, run: process.env.PLATFORM_REQUEST_ID, given };
});
`;
/** Handlers that work at once: each answers when the last has come. */
const AT_ONCE = {
  'threads.py': `import threading
from agent_platform import serve
from agent_platform._environment import variable
meeting = threading.Barrier(3, timeout=20)
def handle(given):
    meeting.wait()
    return [given, variable('PLATFORM_REQUEST_ID')]
serve(handle)
`,
  'tasks.py': `import asyncio
from agent_platform import serve
from agent_platform._environment import variable
came = []
async def handle(given):
    if given == 'slow':
        await asyncio.sleep(60)
    came.append(given)
    while len(came) < 3: await asyncio.sleep(0.01)
    return [given, variable('PLATFORM_REQUEST_ID')]
serve(handle)
`,
  'tasks.mjs': `import { serve } from 'agent-platform-sdk';
import { setTimeout } from 'node:timers/promises';
let came = 0;
await serve(async (given, { signal }) => {
  if (given === 'slow') await setTimeout(60_000, undefined, { signal });
  came++;
  while (came < 3) await setTimeout(10);
  return [given, came];
});
`,
};

interface Answer {
  // biome-ignore lint/suspicious/noExplicitAny: what it has depends on the input.
  readonly output: any;
  readonly err: string;
  readonly exit: ExecExit;
}

export interface WarmHarness {
  readonly sandbox: Sandbox;
  readonly blobs: Blobs;
}

/** Returns a function that adds a test, or none where a host does not promise it: tests may not be skipped in CI. */
const testOf = (isPromised: boolean): ((name: string, run: () => Promise<void>) => void) =>
  isPromised ? (name, run) => test(name, run) : () => {};

/** Rules for every host whose programs stay ({@link SandboxSpec.reuse}). */
export function warmProgramConformance(
  setUp: () => Promise<WarmHarness>,
  {
    isOfOneProcess = true,
    hasLimits = true,
  }: {
    /** Whether it limits and pauses programs. */
    readonly hasLimits?: boolean;
    /** Whether one process decides about all programs: then one can take several inputs, and ends once its secrets change. */
    readonly isOfOneProcess?: boolean;
  } = {},
): void {
  let harness: WarmHarness;
  beforeAll(async () => {
    harness = await setUp();
    const files = { 'plain.py': PLAIN, 'serve.py': IN_PYTHON, 'serve.mjs': IN_NODE, ...AT_ONCE };
    await harness.blobs.put(BUNDLE, zip(Object.entries(files).map(([name, content]) => ({ name, content }))));
  });
  afterAll(() => harness.sandbox.close());

  /** An agent of its own, so that tests share no program. */
  function agent(command = 'python3 plain.py', of: Partial<SandboxSpec> = {}) {
    const name = randomUUID();
    const base = { idleMs: 60_000, maxUses: 1000, concurrency: 1, secrets: 'a', ...of.reuse };
    return async (
      input: Json,
      more: Partial<Omit<SandboxSpec, 'reuse'>> & { readonly reuse?: Partial<SandboxSpec['reuse']> } = {},
      request: Partial<ExecRequest> & { readonly environment?: Record<string, string> } = {},
    ): Promise<Answer> => {
      const session = await harness.sandbox.open(
        specOf({
          ...{ bundle: BUNDLE, owner: 'payer', kind: async () => name, isOneCommand: true },
          ...{ deadline: Date.now() + 300_000 },
          ...of,
          ...more,
          reuse: { ...base, ...more.reuse },
        }),
      );
      const { environment = {}, ...exec } = request;
      const call = randomUUID();
      const stdin = Buffer.from(`${JSON.stringify({ call, input, environment })}\n`);
      try {
        const ended = await execToEnd(session, { command, timeoutMs: 30_000, ...exec, call, stdin });
        const text = Buffer.from(ended.stdout).toString();
        return { output: text && JSON.parse(text), err: Buffer.from(ended.stderr).toString(), exit: ended.exit };
      } finally {
        await session.close();
        // Where another process serves it, it is there again a moment later.
        if (!isOfOneProcess) await pause(SETTLING_MS);
      }
    };
  }

  describe('warm programs', { timeout: 60_000 }, () => {
    test('a program answers one input after another, each with variables of its own', async () => {
      const ask = agent();
      const first = await ask({}, {}, { environment: { RUN: '1' } });
      const second = await ask({}, {}, { environment: { RUN: '2' } });
      expect([first.exit, second.exit]).toMatchObject(Array(2).fill({ reason: 'exited', exitCode: 0 }));
      expect(second.output).toMatchObject({ uses: 2, pid: first.output.pid, env: { RUN: '2' } });
    });

    test('what is printed belongs to the input at which it was, in its order', async () => {
      const ask = agent();
      expect((await ask({ do: 'print' })).err.split('\n').sort()).toEqual(['', 'to stderr', 'to stdout']);
      expect((await ask({})).err).toBe('');
      const { err } = await ask({ do: 'flood' });
      expect(err.length).toBeGreaterThan(1_000_000);
      expect(err.length).toBeLessThan(1_300_000);
      expect((await ask({})).err).toBe('');
    });

    test('an error fails one input, and the program stays', async () => {
      const ask = agent();
      expect(await ask({ do: 'fail' })).toMatchObject({ output: { error: 'it failed' }, exit: { exitCode: 1 } });
      expect((await ask({})).output.uses).toBe(2);
    });

    test.each([
      ['ends', { do: 'exit', status: 0 }, 1],
      ['fails', { do: 'exit', status: 7 }, 7],
      ['is killed', { do: 'kill' }, 137],
    ])('a program that %s fails its input, and the next one gets another program', async (_, input, exitCode) => {
      const ask = agent();
      await ask({});
      expect((await ask(input)).exit).toMatchObject({ reason: 'exited', exitCode });
      expect((await ask({})).output.uses).toBe(1);
    });

    test('one that works too long, or whose caller has left, is ended', async () => {
      const ask = agent();
      await ask({});
      const slow = { do: 'sleep', seconds: 30 };
      expect((await ask(slow, {}, { timeoutMs: 200 })).exit.reason).toBe('timeout');
      expect((await ask({})).output.uses).toBe(1);
      expect((await ask(slow, {}, { signal: AbortSignal.timeout(200) })).exit.reason).toBe('aborted');
      expect((await ask({})).output.uses).toBe(1);
    });

    test('it ends after its number of inputs, and when it was idle for its time', async () => {
      const ask = agent(undefined, { reuse: { maxUses: 2, idleMs: 3000 } as SandboxSpec['reuse'] });
      const uses = [];
      for (let n = 0; n < 3; n++) uses.push((await ask({})).output.uses);
      expect(uses).toEqual([1, 2, 1]);
      await pause(4500);
      expect((await ask({})).output.uses).toBe(1);
    });

    testOf(hasLimits)(
      'one that is near its limits between inputs is replaced, one that exceeds them is ended',
      async () => {
        const ask = agent('python3 plain.py', { limits: { ...specOf().limits, memoryBytes: 256 * MB, processes: 20 } });
        const isReplaced = () => expect.poll(async () => (await ask({})).output.uses, { timeout: 20_000 }).toBe(1);
        await ask({ do: 'hog', bytes: 220 * MB });
        await isReplaced();
        // Where no kernel enforces the limit, a watcher looks several times a second.
        expect((await ask({ do: 'hog', bytes: 400 * MB, seconds: 20 })).exit.reason).toBe('memory_limit');
        expect((await ask({})).output.uses).toBe(1);
        await ask({ do: 'breed', count: 15 });
        await isReplaced();
      },
    );

    testOf(hasLimits)('between inputs it does not work', async () => {
      const ask = agent();
      await ask({ do: 'count' });
      const { counted } = (await ask({ do: 'sleep', seconds: 1 })).output;
      await pause(3000);
      const after = (await ask({})).output;
      expect(after.uses).toBe(3);
      // It counts until it is paused.
      expect(after.counted - counted).toBeLessThan(counted * 2);
    });

    test('an output of more than its limit, or a line without end, ends it', async () => {
      const ask = agent();
      expect((await ask({ do: 'large', bytes: 2 * MB }, {}, { maxOutputBytes: MB })).exit.reason).toBe('output_limit');
      expect((await ask({ do: 'endless', bytes: 2 * MB }, {}, { maxOutputBytes: MB })).exit.reason).toBe(
        'output_limit',
      );
      expect((await ask({ do: 'large', bytes: 2 * MB })).output.length).toBe(2 * MB);
    });

    test('it cannot answer an input of another program', async () => {
      const ask = agent();
      expect((await ask({ do: 'forge', of: randomUUID() })).output.uses).toBe(1);
    });

    describe('are never shared', () => {
      test.each([
        ['by workspaces', { owner: 'another' }],
        ['by tenants, agents, sessions or grants', { kind: async () => randomUUID() }],
        ['by versions', { bundle: 'bundles/warm-2.zip' }],
        ['by rules for the network', { egress: 'open' as const }],
      ])('%s', async (_, other) => {
        await harness.blobs.put('bundles/warm-2.zip', zip([{ name: 'plain.py', content: `${PLAIN}#` }]));
        const ask = agent();
        await ask({});
        expect((await ask({}, other)).output.uses).toBe(1);
        expect((await ask({})).output.uses).toBe(2);
      });

      test('after a secret has changed', async () => {
        const ask = agent();
        const withSecret = (value: string) => ({ reuse: { secrets: value }, env: { SECRET: value } });
        expect((await ask({}, withSecret('a'))).output).toMatchObject({ uses: 1, secret: 'a' });
        expect((await ask({}, withSecret('b'))).output).toMatchObject({ uses: 1, secret: 'b' });
        const uses = isOfOneProcess ? 1 : 2;
        expect((await ask({}, withSecret('a'))).output).toMatchObject({ uses, secret: 'a' });
      });

      test('by inputs at the same time, unless it handles several', async () => {
        const ask = agent();
        const answers = await Promise.all([1, 2, 3].map(() => ask({ do: 'sleep', seconds: 0.5 })));
        expect(answers.map(({ output }) => output.uses)).toEqual([1, 1, 1]);
        expect(new Set(answers.map(({ output }) => output.pid)).size).toBeGreaterThan(0);
      });
    });

    const several = () => {
      const three = { reuse: { concurrency: 3 } as SandboxSpec['reuse'] };
      const env = { PLATFORM_REUSE: 'process', PLATFORM_CONCURRENCY: '3' };

      test.each(['python3 threads.py', 'python3 tasks.py', 'node tasks.mjs'])('%s', async (command) => {
        const ask = agent(command, { ...three, env });
        const inputs = ['a', 'b', 'c'];
        const answers = await Promise.all(
          inputs.map((input) => ask(input, {}, { environment: { PLATFORM_REQUEST_ID: `of ${input}` } })),
        );
        expect(answers.map(({ output }) => output[0])).toEqual(inputs);
        if (command.startsWith('python3'))
          expect(answers.map(({ output }) => output[1])).toEqual(['of a', 'of b', 'of c']);
      });

      test.each(['python3 tasks.py', 'node tasks.mjs'])('%s stops working on a cancelled one', async (command) => {
        const ask = agent(command, { ...three, env });
        const others = [ask('a'), ask('b')];
        expect((await ask('slow', {}, { timeoutMs: 1000 })).exit.reason).toBe('timeout');
        // Until then another program would take the next one.
        await pause(500);
        const last = await ask('c');
        expect([...(await Promise.all(others)), last].map(({ output }) => output[0])).toEqual(['a', 'b', 'c']);
      });

      testOf(hasLimits)('one that is done with a cancelled input does not work either', async () => {
        const ask = agent('python3 plain.py', three);
        await ask({ do: 'count' });
        const { counted } = (await ask({})).output;
        expect((await ask({ do: 'sleep', seconds: 1 }, {}, { timeoutMs: 300 })).exit.reason).toBe('timeout');
        await pause(4000);
        const after = (await ask({})).output;
        expect(after.uses).toBe(4);
        // A hundred a second, for hardly more than the second that it slept.
        expect(after.counted - counted).toBeLessThan(250);
      });

      test('one that goes on with a cancelled input takes no further ones, and finishes the others', async () => {
        const ask = agent('python3 plain.py', three);
        await ask({});
        const given = ask({ do: 'sleep', seconds: 5 }, {}, { timeoutMs: 300 });
        const other = ask({});
        expect((await given).exit.reason).toBe('timeout');
        expect((await other).output.uses).toBe(3);
      });
    };
    if (isOfOneProcess) describe('that handle several inputs at once', several);

    describe.each([
      ['Python', 'python3 serve.py'],
      ['Node.js', 'node serve.mjs'],
    ])('with the SDK for %s', (language, command) => {
      const env = { PLATFORM_REUSE: 'process', PLATFORM_CONCURRENCY: '1' };

      test('answers, errors and what is printed', async () => {
        const ask = agent(command, { env });
        const of = { environment: { PLATFORM_REQUEST_ID: 'first' } };
        expect(await ask({ a: 'é"' }, {}, of)).toMatchObject({
          output: { uses: 1, run: 'first', given: { a: 'é"' } },
          err: expect.stringMatching(/printed[\s\S]*by a child|by a child[\s\S]*printed/),
        });
        const failed = await ask({ fail: true });
        expect(failed).toMatchObject({ output: { error: 'it failed' }, exit: { exitCode: 1 } });
        expect(failed.err).toContain('Error: it failed');
        const next = (await ask({})).output;
        expect(next.uses).toBeGreaterThan(1);
        expect(next.run ?? null).toBe(null);
        if (language === 'Python') expect((await ask({ set: true })).output.error).toContain('not JSON serializable');
      });

      test('without reuse it answers once and ends', async () => {
        const own = { owner: 'payer', kind: async () => randomUUID(), isOneCommand: true };
        const session = await harness.sandbox.open(specOf({ bundle: BUNDLE, ...own, deadline: Date.now() + 60_000 }));
        const { stdout, stderr, exit } = await execToEnd(session, {
          ...{ command, timeoutMs: 30_000, stdin: Buffer.from('{"b": 1}') },
        });
        await session.close();
        expect(JSON.parse(Buffer.from(stdout).toString())).toMatchObject({ uses: 1, given: { b: 1 } });
        expect(Buffer.from(stderr).toString()).toContain('printed');
        expect(exit.exitCode).toBe(0);
      });
    });
  });
}
