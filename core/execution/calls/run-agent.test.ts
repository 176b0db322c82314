import { expect, test } from 'vitest';
import { type Sandbox, SandboxLostError, type SandboxSession } from '#core/ports/sandbox.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import { Trace } from '#core/runs/trace/trace.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
// Imported here because the engine is otherwise loaded during the first run, for which the manual clock does not wait.
import '../engines/code-runtime.ts';
import '../engines/readiness.ts';
import type { ProgressEvent } from '../engines/progress.ts';
import { noPlaceError } from '../fair-queue.ts';
import type { PreparedCall } from './prepare.ts';
import { runAgent } from './run-agent.ts';

const MINUTE = 60_000;

/** A program with a sandbox that rejects the first `refused` attempts, each after half a minute. */
function world({
  refused = 0,
  mayBeginForMs,
  lost = 0,
  lostEarly = 0,
  ...more
}: {
  refused?: number;
  mayBeginForMs?: number;
  /** Number of attempts that lose their sandbox. */
  lost?: number;
  /** Number of attempts that lose it while it opens. */
  lostEarly?: number;
  isRetried?: boolean;
  isUnattended?: boolean;
}) {
  const deps = memoryDeps();
  const startedAt = deps.clock.now();
  const deadlines: number[] = [];
  const opened: { attempt: string | undefined; isInterruptible: boolean | undefined }[] = [];
  let sessions = 0;
  const session: Partial<SandboxSession> = {
    async *exec() {
      sessions++;
      yield { type: 'stdout', data: Buffer.from(`{"n":${sessions}}`) } as const;
      const reason = sessions > lost ? 'exited' : 'sandbox_lost';
      yield { type: 'exit', exit: { reason, exitCode: sessions > lost ? 0 : 137, durationMs: 10 ** sessions } };
    },
    close: async () => {},
  };
  const sandbox: Partial<Sandbox> = {
    async open({ deadline, env, isInterruptible }) {
      opened.push({ attempt: env.PLATFORM_ATTEMPT, isInterruptible });
      deadlines.push(deadline! - deps.clock.now());
      if (deadlines.length <= lostEarly) throw new SandboxLostError('the sandbox was lost');
      if (deadlines.length > refused) return session as SandboxSession;
      await deps.clock.sleep(MINUTE / 2);
      throw noPlaceError(MINUTE / 2);
    },
  };
  const definition = {
    ...{ execution_engine: 'code_runtime', runtime: { command: 'true' }, default_endpoint: 'run' },
    retry_on_interruption: more.isRetried,
  };
  const call = {
    agent: { definition, bundle: { sha256: 'x', entrypoint: 'main.sh' }, runnable: true },
    workspace: { id: deps.ids.uuid() },
    runId: deps.ids.uuid(),
    lineage: {},
    input: { document: {}, uploads: [] },
    document: {},
    skills: [],
    secrets: {},
    models: [],
    mask: new SecretMask({}),
    timeoutMs: MINUTE,
    deadline: startedAt + (mayBeginForMs ?? 0) + MINUTE,
    isUnattended: more.isUnattended,
    ...(mayBeginForMs && { mayBeginUntil: startedAt + mayBeginForMs }),
  } as unknown as PreparedCall;
  const trace = new Trace(deps.clock);
  const shown: ProgressEvent[] = [];
  const emit = (event: ProgressEvent) => void shown.push(event);
  const ended = runAgent({ ...deps, sandbox: sandbox as Sandbox }, call, { trace, emit });
  const after = async (minutes: number) => {
    for (let seconds = 0; seconds < minutes * 60; seconds++) await deps.clock.advance(1000);
    return ended;
  };
  return { after, ended, deadlines, opened, trace, shown };
}

test('a run that may begin late waits for a sandbox, and then has its full timeout', async () => {
  const { after, deadlines } = world({ refused: 3, mayBeginForMs: 5 * MINUTE });
  expect(await after(4)).toMatchObject({ stdout: '{"n":1}', exitCode: 0 });
  expect(deadlines).toHaveLength(4);
  for (const ms of deadlines) expect(ms).toBeGreaterThan(0.9 * MINUTE);
});

test('it fails if no sandbox is available until then', async () => {
  const { after, deadlines } = world({ refused: 100, mayBeginForMs: 5 * MINUTE });
  expect((await after(7)).error).toMatchObject({ code: 'RATE_LIMITED' });
  expect(deadlines.length).toBeGreaterThan(5);
  expect(deadlines.length).toBeLessThan(12);
});

test('any other run tries once: its caller decides', async () => {
  const { after, deadlines } = world({ refused: 1 });
  expect((await after(1)).error).toMatchObject({ code: 'RATE_LIMITED' });
  expect(deadlines).toHaveLength(1);
});

const interruptions = ({ events }: Trace) =>
  events.filter(({ event_type }) => event_type === 'interrupted').map(({ payload }) => payload);

test('a run that loses its sandbox is retried if its manifest says so', async () => {
  const { ended, opened, trace, shown } = world({ lost: 1, isRetried: true });
  // Both attempts count as used: 10 ms and 100 ms.
  expect(await ended).toMatchObject({ data: { n: 2 }, exitCode: 0, executionMs: 110 });
  expect(opened.map(({ attempt }) => attempt)).toEqual(['1', '2']);
  expect(interruptions(trace)).toEqual([{ attempt: 1, begins_again: true }]);
  expect(trace.events.map(({ event_type }) => event_type)).toContain('sandbox_failed');
  expect(shown.filter(({ type }) => /^(interrupted|done)$/.test(type))).toMatchObject([
    { type: 'interrupted', attempt: 2 },
    { type: 'done', exit_code: 0 },
  ]);
});

test('a run that loses its sandbox while it opens is retried as well', async () => {
  const { ended, trace } = world({ lostEarly: 1, isRetried: true });
  expect(await ended).toMatchObject({ data: { n: 1 }, exitCode: 0 });
  expect(interruptions(trace)).toEqual([{ attempt: 1, begins_again: true }]);
});

test.each([
  ['its manifest does not say so', { isRetried: false }, 1],
  ['it has begun again already', { isRetried: true }, 2],
])('it ends there when %s', async (_, given, tries) => {
  const { ended, opened, trace } = world({ lost: 9, ...given });
  const { error, executionMs } = await ended;
  expect(error).toMatchObject({ code: 'INTERNAL_ERROR', extra: { cause: 'interrupted' } });
  expect(executionMs).toBe(tries === 1 ? 10 : 110);
  expect(opened).toHaveLength(tries);
  expect(interruptions(trace).at(-1)).toEqual({ attempt: tries, begins_again: false });
});

test.each([
  [{ isRetried: true, isUnattended: true }, [true, false]],
  [{ isRetried: true, isUnattended: false }, [false, false]],
  [{ isRetried: false, isUnattended: true }, [false]],
])('%j: only a first attempt that nobody waits for may have a place that is taken away', async (given, places) => {
  const { ended, opened } = world({ lost: 1, ...given });
  await ended;
  expect(opened.map(({ isInterruptible }) => isInterruptible)).toEqual(places);
});
