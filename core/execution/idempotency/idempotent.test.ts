import { describe, expect, test } from 'vitest';
import { PlatformError } from '#core/base/errors.ts';
import type { NewRun, RunResult } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { idempotent, type KeyedCall } from './idempotent.ts';
import type { KeptAnswer } from './stored-answer.ts';

const WORKSPACE = '11111111-1111-4111-8111-111111111111';
const DAY_MS = 24 * 3600 * 1000;

const keyed = (deps: MemoryDeps, changes: Partial<KeyedCall> = {}): KeyedCall => ({
  workspaceId: WORKSPACE,
  key: 'order-17',
  fingerprint: 'f',
  runId: deps.ids.uuid(),
  deadline: deps.clock.now() + 60_000,
  ...changes,
});

const newRun = (deps: MemoryDeps, { runId, deadline }: KeyedCall): NewRun => ({
  id: runId,
  agentId: deps.ids.uuid(),
  agentWorkspaceId: WORKSPACE,
  agentOrg: 'acme',
  agentName: 'echo',
  agentVersion: 'v1',
  engine: 'direct_llm',
  endpoint: 'run',
  triggerSource: 'api',
  startedAt: deps.clock.now(),
  deadline,
  input: {},
});

const completed = (output: string): RunResult => ({
  status: 'completed',
  input: {},
  output,
  stdout: '',
  stderr: '',
  trace: [],
  executionMs: 12,
  exitCode: null,
  errorCode: null,
  errorMessage: null,
  inputTokens: 3,
  outputTokens: 4,
  creditsCents: 0,
});

const failed = (errorCode: 'SANDBOX_ERROR' | 'INTERNAL_ERROR'): RunResult => ({
  ...completed(''),
  status: 'failed',
  errorCode,
  errorMessage: 'It failed.',
});

/** Makes a call as the platform does: begins its run, ends it, and stores its answer. */
async function answer(deps: MemoryDeps, call: KeyedCall, output = 'done') {
  const runs = new RunStore(deps, WORKSPACE);
  return idempotent(deps, call, async (keep) => {
    const run = newRun(deps, call);
    await runs.start(run);
    await runs.finish(run, completed(output));
    return keep({ status: 200, body: JSON.stringify({ data: output, at: deps.clock.now() }) });
  });
}

const neverCalled = async (): Promise<never> => {
  throw new Error('the call was made again');
};
const runHeaders = (runId: string) => ({ 'x-run-id': runId, 'x-platform-run-id': runId });

/** Advances the clock until the promise is settled. */
async function settled<T>(deps: MemoryDeps, promise: Promise<T>, stepMs = 100): Promise<T> {
  let isSettled = false;
  promise.catch(() => {}).finally(() => (isSettled = true));
  while (!isSettled) await deps.clock.advance(stepMs);
  return promise;
}

describe('a call with a key', () => {
  test('gets the first answer, byte for byte, when sent again within a day, and is made again after it', async () => {
    const deps = memoryDeps();
    const call = keyed(deps);
    const { result } = (await answer(deps, call)) as { result: KeptAnswer };
    expect(result.headers).toEqual(runHeaders(call.runId));
    await deps.clock.advance(DAY_MS - 1000);
    expect(await idempotent(deps, keyed(deps), neverCalled)).toEqual({ replayed: result });
    await deps.clock.advance(1000);
    expect(await answer(deps, keyed(deps), 'anew')).toMatchObject({ result: { status: 200 } });
  });

  test('is a conflict if the key came with another request', async () => {
    const deps = memoryDeps();
    await answer(deps, keyed(deps));
    await expect(idempotent(deps, keyed(deps, { fingerprint: 'g' }), neverCalled)).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining('a different path, query or body'),
    });
  });

  test('shares its key with no other workspace', async () => {
    const deps = memoryDeps();
    await answer(deps, keyed(deps));
    const other = keyed(deps, { workspaceId: '22222222-2222-4222-8222-222222222222', fingerprint: 'g' });
    expect(await idempotent(deps, other, async () => 'made')).toEqual({ result: 'made' });
  });

  test('leaves the key free if it was refused before its run began', async () => {
    const deps = memoryDeps();
    const refused = idempotent(deps, keyed(deps), async () => {
      throw new PlatformError('INVALID_INPUT', 'text: is required');
    });
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    expect(await answer(deps, keyed(deps, { fingerprint: 'corrected' }))).toHaveProperty('result');
  });

  test('gets the same error again if its run failed', async () => {
    const deps = memoryDeps();
    const call = keyed(deps);
    const runs = new RunStore(deps, WORKSPACE);
    const failing = idempotent(deps, call, async () => {
      const run = newRun(deps, call);
      await runs.start(run);
      await runs.finish(run, failed('SANDBOX_ERROR'));
      throw new PlatformError('SANDBOX_ERROR', 'It failed.', { stderr_tail: 'line 3' });
    });
    await expect(failing).rejects.toMatchObject({ code: 'SANDBOX_ERROR' });
    const again = await idempotent(deps, keyed(deps), neverCalled);
    expect(again).toMatchObject({ replayed: { status: 500, headers: runHeaders(call.runId) } });
    expect(JSON.parse((again as { replayed: KeptAnswer }).replayed.body)).toEqual({
      error: { code: 'SANDBOX_ERROR', message: 'It failed.', is_retryable: false, stderr_tail: 'line 3' },
      metadata: { request_id: `req_${call.runId.replaceAll('-', '')}` },
    });
  });

  test('keeps large answers', async () => {
    const deps = memoryDeps();
    const output = 'ü'.repeat(1_000_000);
    const { result } = (await answer(deps, keyed(deps), output)) as { result: KeptAnswer };
    expect(await idempotent(deps, keyed(deps), neverCalled)).toEqual({ replayed: result });
  });

  test('is made once when sent 50 times at once, and every sender gets its answer', async () => {
    const deps = memoryDeps();
    let made = 0;
    const calls = Array.from({ length: 50 }, () => {
      const call = keyed(deps);
      return idempotent(deps, call, async (keep) => {
        made += 1;
        const run = newRun(deps, call);
        await new RunStore(deps, WORKSPACE).start(run);
        await deps.clock.sleep(2000);
        await new RunStore(deps, WORKSPACE).finish(run, completed('x'));
        return keep({ status: 200, body: '{"data":"x"}' });
      });
    });
    const answers = await settled(deps, Promise.all(calls));
    expect(made).toBe(1);
    const kept = answers.map((each) => ('result' in each ? each.result : each.replayed));
    expect(kept).toEqual(Array(50).fill(kept[0]));
    expect(answers.filter((each) => 'replayed' in each)).toHaveLength(49);
  });

  test('waits for the first one until its own deadline', async () => {
    const deps = memoryDeps();
    const first = idempotent(deps, keyed(deps), async (keep) => {
      await deps.clock.sleep(50_000);
      return keep({ status: 200, body: '{}' });
    });
    const impatient = idempotent(deps, keyed(deps, { deadline: deps.clock.now() + 5000 }), neverCalled);
    const startedAt = deps.clock.now();
    await expect(settled(deps, impatient)).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining('in progress'),
      extra: { suggested_wait_time: 5 },
    });
    expect(deps.clock.now() - startedAt).toBeLessThanOrEqual(5100);
    await settled(deps, first);
  });
});

describe('a call whose host died', () => {
  /** Claims a key for a call whose host dies after `upTo`, so that it never ends. */
  async function abandoned(deps: MemoryDeps, upTo?: (run: NewRun, runs: RunStore) => Promise<unknown>) {
    const call = keyed(deps);
    await new Promise<void>((reached, failed) => {
      void idempotent(deps, call, async () => {
        const run = newRun(deps, call);
        await upTo?.(run, new RunStore(deps, WORKSPACE)).catch(failed);
        reached();
        return new Promise(() => {});
      });
    });
    return call;
  }

  test('is answered from the record of its run if that ended', async () => {
    const deps = memoryDeps();
    const dead = await abandoned(deps, async (run, runs) => {
      await runs.start(run);
      await deps.clock.advance(70);
      await runs.finish(run, completed('kept'));
    });
    const again = await settled(deps, idempotent(deps, keyed(deps), neverCalled));
    expect(again).toMatchObject({ replayed: { status: 200, headers: runHeaders(dead.runId) } });
    expect(JSON.parse((again as { replayed: KeptAnswer }).replayed.body)).toEqual({
      data: 'kept',
      metadata: {
        request_id: `req_${dead.runId.replaceAll('-', '')}`,
        processing_time_ms: 70,
        version: 'v1',
        execution_time_ms: 12,
        usage: { input_tokens: 3, output_tokens: 4 },
      },
    });
    expect(await idempotent(deps, keyed(deps), neverCalled)).toEqual(again);
  });

  test('is answered with the error of its run if that failed', async () => {
    const deps = memoryDeps();
    await abandoned(deps, async (run, runs) => {
      await runs.start(run);
      await runs.finish(run, failed('SANDBOX_ERROR'));
    });
    const again = await settled(deps, idempotent(deps, keyed(deps), neverCalled));
    expect(again).toMatchObject({ replayed: { status: 500, body: expect.stringContaining('"SANDBOX_ERROR"') } });
  });

  test('is made again, once, when the sweep records its run as lost', async () => {
    const deps = memoryDeps();
    let lost!: NewRun;
    await abandoned(deps, async (run, runs) => {
      lost = run;
      await runs.start(run);
    });
    const impatient = idempotent(deps, keyed(deps, { deadline: deps.clock.now() + 3000 }), neverCalled);
    await expect(settled(deps, impatient)).rejects.toMatchObject({ code: 'CONFLICT' });
    // The sweep does this after the next start.
    await new RunStore(deps, WORKSPACE).finish(lost, failed('INTERNAL_ERROR'));
    const answers = await settled(
      deps,
      Promise.all(Array.from({ length: 20 }, () => answer(deps, keyed(deps), 'anew'))),
    );
    expect(answers.filter((each) => 'result' in each)).toHaveLength(1);
  });

  test('is made again past the deadline of its run, before any sweep', async () => {
    const deps = memoryDeps();
    await abandoned(deps, (run, runs) => runs.start(run));
    await deps.clock.advance(100_000);
    expect(await settled(deps, answer(deps, keyed(deps), 'anew'))).toHaveProperty('result');
  });

  test.each([
    ['completed', completed('kept')],
    ['failed', failed('SANDBOX_ERROR')],
    ['was lost', failed('INTERNAL_ERROR')],
  ])('is never made again if `answerFrom` answers from its run, which %s', async (_, end) => {
    const deps = memoryDeps();
    const dead = await abandoned(deps, async (run, runs) => {
      await runs.start(run);
      await runs.finish(run, end);
    });
    const answerFrom: KeyedCall['answerFrom'] = ({ id, status }, output) => ({
      status: 200,
      body: JSON.stringify({ id, status, output }),
    });
    await deps.clock.advance(100_000);
    const again = await settled(deps, idempotent(deps, keyed(deps, { answerFrom }), neverCalled));
    const body = JSON.stringify({ id: dead.runId, status: end.status, output: end.output });
    expect(again).toMatchObject({ replayed: { status: 200, body, headers: runHeaders(dead.runId) } });
  });

  test('is made again once its run is prevented from beginning, and the first host gets a conflict', async () => {
    const deps = memoryDeps();
    const first = keyed(deps);
    const asleep = Promise.withResolvers<void>();
    const slow = idempotent(deps, first, async () => {
      await asleep.promise;
      throw new PlatformError('NOT_FOUND', 'Its run was prevented.');
    });
    const prevented: string[] = [];
    const prevent = async (runId: string) => prevented.push(runId) > 1;
    const start = deps.clock.now();
    const again = keyed(deps, { prevent });
    expect(
      await settled(
        deps,
        idempotent(deps, again, async () => 'made again'),
      ),
    ).toEqual({ result: 'made again' });
    // The first attempt to prevent the run failed, as for a run that has begun.
    expect(prevented).toEqual([first.runId, first.runId]);
    expect(deps.clock.now() - start).toBeGreaterThan(10_000);
    expect(deps.clock.now() - start).toBeLessThan(12_000);
    asleep.resolve();
    await expect(slow).rejects.toMatchObject({ code: 'CONFLICT' });
  });

  test('is made again past its deadline if its run never began', async () => {
    const deps = memoryDeps();
    await abandoned(deps);
    const impatient = idempotent(deps, keyed(deps, { deadline: deps.clock.now() + 60_000 }), neverCalled);
    await expect(settled(deps, impatient)).rejects.toMatchObject({ code: 'CONFLICT' });
    await deps.clock.advance(40_000);
    expect(await settled(deps, answer(deps, keyed(deps), 'anew'))).toHaveProperty('result');
  });
});

test('an answer that cannot be stored is sent, and retries get one made from the record of the run', async () => {
  const deps = memoryDeps();
  const call = keyed(deps);
  const counters = new Proxy(deps.counters, {
    get: (table, method) =>
      method === 'update' ? () => Promise.reject(new Error('the table is away')) : table[method as 'get'].bind(table),
  });
  const first = await answer({ ...deps, counters }, call, 'x');
  expect(first).toMatchObject({ result: { body: expect.stringContaining('"x"') } });
  const again = await settled(deps, idempotent(deps, keyed(deps), neverCalled));
  expect(again).toMatchObject({ replayed: { status: 200, body: expect.stringContaining('"data":"x"') } });
});
