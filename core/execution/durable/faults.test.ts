import { describe, expect, test } from 'vitest';
import { leasesOf } from '#core/accounts/limits/admission.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { Sandbox } from '#core/ports/sandbox.ts';
import { queryAll } from '#core/ports/table.ts';
import { headKey, journalPartition, newRunFrom } from '#core/runs/items.ts';
import { dueLeases } from '#core/runs/leases.ts';
import { emptyResult, endedWith } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { IMMORTAL, interruptedRun, processOf, settled, setUp } from '#test/helpers/durable-histories.ts';
import { runHeads } from '#test/helpers/run-heads.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { resumeRuns } from './resume.ts';

/** What may have happened to a run, or to what is stored of it, while no process worked on it. */

/** The process dies in the second turn. */
const IN_SECOND_TURN = 3;

const HOUR_MS = 3_600_000;

/** Changes one stored item of the journal: the order, or a step. */
async function damage(
  { world: { deps }, workspaceId, runId }: Awaited<ReturnType<typeof interruptedRun>>,
  name: string,
  set: { readonly [attribute: string]: string | number },
): Promise<void> {
  const items = await Array.fromAsync(queryAll(deps.runs, { pk: journalPartition(workspaceId, runId) }));
  const item = items.find(({ sk }) => sk === name)!;
  await deps.runs.put({ ...item, ...set });
}

describe('a run that cannot continue fails with the reason', () => {
  test.each([
    ['a damaged step', 'STEP#000002', { data: 'bm90IHRoZSBzdGVw' }, /^STEP#000002 of the run .* is damaged\.$/],
    [
      'a step of another version',
      'STEP#000003',
      { version: 2 },
      /journal of the run .* was written by another version/,
    ],
    ['a damaged order', 'ORDER', { data: 'bm90IHRoZSBvcmRlcg==' }, /^ORDER of the run .* is damaged\.$/],
    ['an order of another version', 'ORDER', { version: 2 }, /order of the run .* was written by another version/],
  ])('%s', async (_, name, set, message) => {
    const run = await interruptedRun(IN_SECOND_TURN);
    await damage(run, name, set);
    const ended = await run.resume();
    expect(ended).toMatchObject({
      status: 'failed',
      errorCode: 'INTERNAL_ERROR',
      errorMessage: expect.stringMatching(message),
    });
    await run.isOver();
  });

  test('a missing step', async () => {
    const run = await interruptedRun(IN_SECOND_TURN);
    const { deps } = run.world;
    await deps.runs.delete({ pk: journalPartition(run.workspaceId, run.runId), sk: 'STEP#000002' });
    const message = expect.stringMatching(/^Step 2 of the journal of the run .* is missing\.$/);
    expect(await run.resume()).toMatchObject({ status: 'failed', errorMessage: message });
    await run.isOver();
  });

  test('a missing order', async () => {
    const run = await interruptedRun(IN_SECOND_TURN);
    await run.world.deps.runs.delete({ pk: journalPartition(run.workspaceId, run.runId), sk: 'ORDER' });
    expect(await run.resume()).toMatchObject({ status: 'failed', errorCode: 'INTERNAL_ERROR' });
    await run.isOver();
  });

  test('the key of the model provider was removed', async () => {
    const run = await interruptedRun(IN_SECOND_TURN);
    await run.send('DELETE', `/workspaces/${run.workspaceId}/secrets/ANTHROPIC_API_KEY`);
    expect(await run.resume()).toMatchObject({ status: 'failed', errorCode: 'LLM_KEY_REQUIRED' });
    await run.isOver();
  });

  test('a budget was used up', async () => {
    const run = await interruptedRun(IN_SECOND_TURN);
    const budget = { scope_type: 'workspace', window: 'daily', hard_limit_usd: 1 };
    const action_on_hard_limit = 'block_new_runs';
    await run.send('POST', `/workspaces/${run.workspaceId}/budgets`, { ...budget, action_on_hard_limit });
    // Another run has spent it.
    const { deps } = run.world;
    const runs = new RunStore(deps, run.workspaceId);
    const { retries: _, ...begun } = newRunFrom((await deps.runs.get(headKey(run.workspaceId, run.runId)))!);
    const other = { ...begun, id: crypto.randomUUID(), startedAt: deps.clock.now() };
    await runs.start(other);
    const costs = [{ provider: 'anthropic', model: 'made-up', costUsd: 5 }] as const;
    await runs.finish(other, { ...emptyResult(endedWith(undefined), null), costs });
    await deps.clock.advance(2_000);
    expect(await run.resume()).toMatchObject({ status: 'failed', errorCode: 'BUDGET_EXCEEDED' });
    await run.isOver();
  });

  test('a process dies five times in the same turn', async () => {
    const run = await interruptedRun(IN_SECOND_TURN);
    for (let count = 0; count < 5; count++) {
      expect(await run.resume({ dies: true })).toMatchObject({ status: 'running' });
    }
    const ended = await run.resume();
    const message = 'The run was interrupted 5 times without finishing a turn, and was given up.';
    expect(ended).toMatchObject({ status: 'failed', errorMessage: message });
    await run.isOver();
  });
});

describe('a run continues', () => {
  test('after its agent was deleted', async () => {
    const run = await interruptedRun(IN_SECOND_TURN);
    const recorded = await new RunStore(run.world.deps, run.workspaceId).find(run.runId);
    await run.send('DELETE', `/agents/${recorded!.agentId}`);
    expect(await run.resume()).toMatchObject({ status: 'completed' });
    await run.isOver();
  });

  test('after an outage that was longer than its time limit: only the time of its work counts', async () => {
    const run = await interruptedRun(IN_SECOND_TURN);
    run.world.deps.clock.jump(24 * HOUR_MS);
    expect(await run.resume()).toMatchObject({ status: 'completed' });
    await run.isOver();
  });

  test('after the clock was set back by an hour', async () => {
    const run = await interruptedRun(IN_SECOND_TURN);
    run.world.deps.clock.jump(-HOUR_MS);
    expect(await run.resume()).toMatchObject({ status: 'completed' });
    await run.isOver();
  });
});

test('a run that was cancelled while no process worked on it ends as cancelled', async () => {
  const run = await interruptedRun(IN_SECOND_TURN);
  await run.send('POST', `/workspaces/${run.workspaceId}/runs/${run.runId}/cancel`);
  expect(await run.resume()).toMatchObject({ status: 'cancelled', errorCode: 'RUN_CANCELLED' });
  await run.isOver();
});

test('a run is not taken from a process whose lease has not ended', async () => {
  const run = await interruptedRun(IN_SECOND_TURN);
  expect(await run.resume({ all: false })).toMatchObject({ status: 'running' });
  run.world.deps.clock.jump(60_000);
  expect(await run.resume({ all: false })).toMatchObject({ status: 'completed' });
  await run.isOver();
});

test('a run that leaves its process after each turn loses nothing', async () => {
  const run = await interruptedRun(IN_SECOND_TURN);
  run.world.deps.clock.jump(60_000);
  // The rest of the second turn with the third one, and the last one.
  expect(await run.pass()).toBe(2);
  expect(await new RunStore(run.world.deps, run.workspaceId).find(run.runId)).toMatchObject({ status: 'completed' });
  expect(run.world.sent.length).toBe(13);
  await run.isOver();
});

test.each([
  ['was not written', false],
  ['was written despite the error', true],
])('a call whose record %s is answered an error, and no process takes its run up', async (_, isWritten) => {
  const { world, workspaceId, call } = await setUp();
  const { deps } = world;
  const { process, idle } = processOf(world, IMMORTAL);
  const put: typeof deps.runs.put = async (item, condition) => {
    const isStart = item.pk.startsWith(`WS#${workspaceId}#RUN#`);
    const written = isStart && !isWritten ? { ok: true } : await deps.runs.put(item, condition);
    if (isStart) throw new Error('the connection to the table was lost');
    return written;
  };
  const runs: typeof deps.runs = Object.assign(Object.create(process.runs), { put });
  const failing = { ...process, runs };
  const response = await settled(deps, createWebApp(failing, routes, allHandlers(failing))(call()));
  expect(response.status).toBe(500);
  await idle();
  await deps.clock.advance(HOUR_MS);
  expect(await Array.fromAsync(dueLeases(deps, { all: true }))).toEqual([]);
  await settled(deps, sweepLostRuns(process, { all: true }));
  await settled(deps, resumeRuns(process, { all: true }).then(idle));
  const [head] = await runHeads(deps, workspaceId);
  expect(head?.status).toBe(isWritten ? 'failed' : undefined);
  expect(await Array.fromAsync(leasesOf(deps, { all: true }))).toEqual([]);
  expect(world.asked).toEqual([]);
});

test('a call of a tool that loses its sandbox twice is repeated twice, each time in a new sandbox', async () => {
  const { world, workspaceId, call } = await setUp();
  const { process, idle } = processOf(world, IMMORTAL);
  let opened = 0;
  let looks = 0;
  const sandbox: Sandbox = {
    ...process.sandbox,
    async open(options) {
      const session = await process.sandbox.open(options);
      opened += 1;
      return {
        ...session,
        async *exec(request) {
          if (request.command.includes('look')) looks += 1;
          if (request.command.includes('look') && looks <= 2) {
            yield { type: 'exit', exit: { reason: 'sandbox_lost', exitCode: 137, durationMs: 1 } };
          } else yield* session.exec(request);
        },
      };
    },
  };
  const losing = { ...process, sandbox };
  await settled(world.deps, createWebApp(losing, routes, allHandlers(losing))(call()).then(idle));
  const [head] = await runHeads(world.deps, workspaceId);
  expect(head?.status).toBe('completed');
  // Two turns look.
  expect([opened, looks]).toEqual([3, 4]);
});
