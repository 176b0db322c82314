import { expect, test } from 'vitest';
import type { Sandbox, SandboxSession } from '#core/ports/sandbox.ts';
import { SecretMask } from '#core/runs/masking.ts';
import { Trace } from '#core/runs/trace.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
// The engine is loaded with the first run, for which the manual clock would not wait.
import '../engines/code-runtime.ts';
import '../engines/readiness.ts';
import { noPlaceError } from '../turns.ts';
import type { PreparedCall } from './prepare.ts';
import { runAgent } from './run-agent.ts';

const MINUTE = 60_000;

/** A program in a sandbox that has no place for the first `refused` tries, each of which waits for half a minute. */
function world({ refused, mayBeginForMs }: { refused: number; mayBeginForMs?: number }) {
  const deps = memoryDeps();
  const startedAt = deps.clock.now();
  const deadlines: number[] = [];
  const session: Partial<SandboxSession> = {
    async *exec() {
      yield { type: 'stdout', data: Buffer.from('{"n":1}') } as const;
      yield { type: 'exit', exit: { exitCode: 0, durationMs: 1 } } as never;
    },
    close: async () => {},
  };
  const sandbox: Partial<Sandbox> = {
    async open({ deadline }) {
      deadlines.push(deadline! - deps.clock.now());
      if (deadlines.length > refused) return session as SandboxSession;
      await deps.clock.sleep(MINUTE / 2);
      throw noPlaceError(MINUTE / 2);
    },
  };
  const definition = { execution_engine: 'code_runtime', runtime: { command: 'true' }, default_endpoint: 'run' };
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
    ...(mayBeginForMs && { mayBeginUntil: startedAt + mayBeginForMs }),
  } as unknown as PreparedCall;
  const ended = runAgent({ ...deps, sandbox: sandbox as Sandbox }, call, { trace: new Trace(deps.clock) });
  const after = async (minutes: number) => {
    for (let seconds = 0; seconds < minutes * 60; seconds++) await deps.clock.advance(1000);
    return ended;
  };
  return { after, deadlines };
}

test('a run that may begin late waits for a sandbox, and then has its whole time', async () => {
  const { after, deadlines } = world({ refused: 3, mayBeginForMs: 5 * MINUTE });
  expect(await after(4)).toMatchObject({ stdout: '{"n":1}', exitCode: 0 });
  expect(deadlines).toHaveLength(4);
  for (const ms of deadlines) expect(ms).toBeGreaterThan(0.9 * MINUTE);
});

test('it ends when there is none until then', async () => {
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
