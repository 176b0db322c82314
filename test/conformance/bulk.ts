import { expect, test } from 'vitest';
import { type Admission, admit } from '#core/accounts/limits/admission.ts';
import { SecretStore } from '#core/accounts/secrets/store.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { publish } from '#core/agents/publish.ts';
import type { Caller } from '#core/base/caller.ts';
import type { Json } from '#core/base/json.ts';
import { continueBulks } from '#core/execution/bulk/continue.ts';
import { checkDefinition } from '#core/manifest/parsing/manifest.ts';
import type { Deps } from '#core/ports/deps.ts';
import { bulkHandlers } from '#core/runs/bulk/handlers.ts';
import { bulkRoutes } from '#core/runs/bulk/routes.ts';
import { listRuns } from '#core/runs/listing.ts';
import { emptyResult, endedWith, type NewRun, newRunOf, type Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { withoutListeners } from '#test/helpers/agents.ts';
import { crashing, type Fuse } from '#test/helpers/crashing.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';

type Tables = Pick<Deps, 'main' | 'runs' | 'counters'>;
// biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
type Body = any;
const MINUTE = 60_000;

/** Bulk actions on the tables of a host: each item is processed exactly once, even if any process dies. */
export function bulkSuite(makeTables: (clock: Deps['clock']) => Promise<Tables | undefined>, everyCall: number): void {
  async function world() {
    const base = memoryDeps();
    /** Model whose answer a test may replace, delay or fail. */
    const model = { asked: 0, answer: async (): Promise<string> => 'ok' };
    const deps: MemoryDeps = {
      ...base,
      ...(await makeTables(base.clock)),
      llm: {
        async generate() {
          model.asked++;
          return { text: await model.answer(), toolCalls: [], usage: { inputTokens: 1, outputTokens: 1 } } as never;
        },
      },
    };
    const user = await addUser(deps, `acme-${crypto.randomUUID().slice(0, 8)}`);
    const { workspaceId, userId } = user;
    const { definition } = checkDefinition({
      name: 'reporter',
      type: 'prompt',
      description: 'x',
      prompt: 'Report.',
      supported_providers: ['anthropic'],
    });
    await new SecretStore(deps, workspaceId).put({ name: 'ANTHROPIC_API_KEY', value: 'sk-x', userId });
    const workspace = (await findWorkspace(deps, workspaceId))!;
    const agent = await publish(withoutListeners(deps), workspace, definition!, { runnable: true });
    const caller: Caller = { userId, keyId: 'key', workspace, role: 'owner' };
    const store = new RunStore(deps, workspaceId);

    async function add(
      count: number,
      changes: Partial<NewRun> = {},
      status?: 'failed' | 'completed',
    ): Promise<string[]> {
      const ids: string[] = [];
      for (let index = 0; index < count; index++) {
        const started = { endpoint: 'run', startedAt: deps.clock.now(), deadline: deps.clock.now() + 60 * MINUTE };
        const run = newRunOf(agent, { id: crypto.randomUUID(), triggerSource: 'api', input: { index }, ...started });
        await store.start({ ...run, ...changes });
        const end = endedWith(undefined);
        if (status) await store.finish({ ...run, ...changes }, { ...emptyResult(end, { index }), status });
        ids.push(run.id);
      }
      return ids;
    }

    async function ask(operation: 'createBulk' | 'getBulk' | 'abortBulk', sent: object, by = caller): Promise<Body> {
      const row = bulkRoutes.find(({ operationId }) => operationId === operation)!;
      const handle = bulkHandlers(deps)[operation] as (incoming: object) => Promise<{ status: 200 | 202; body: Json }>;
      const body = 'request' in row ? row.request.body.parse(sent) : undefined;
      const answer = await handle({ caller: by, body, params: sent });
      return (row.response as Record<number, { parse(body: unknown): Body }>)[answer.status]!.parse(answer.body);
    }

    const create = (sent: object) => ask('createBulk', sent);
    const bulk = (id: string) => ask('getBulk', { bulk_id: id });
    const allRuns = async () => (await listRuns(deps, workspaceId, {}, { limit: 1000 })).runs;
    const replays = async (): Promise<Run[]> => (await allRuns()).filter(({ replayOf }) => replayOf !== null);
    return { deps, model, caller, store, add, ask, create, bulk, allRuns, replays };
  }

  /** Continues the action on the clock of a host until it has ended. */
  async function workUntilEnded({ deps, bulk }: Awaited<ReturnType<typeof world>>, id: string): Promise<Body> {
    for (let tick = 0; tick < 50; tick++) {
      await continueBulks(deps);
      const now = await bulk(id);
      if (now.status !== 'running') return now;
      await deps.clock.advance(2 * MINUTE);
      await sweepLostRuns(deps);
    }
    throw new Error('the bulk action did not end');
  }

  test('a replay by filter repeats what matches, once, and tells first what that is', async () => {
    const here = await world();
    const failed = await here.add(23, {}, 'failed');
    await here.add(2, {}, 'completed');
    await here.add(1, { parentRunId: crypto.randomUUID(), rootRunId: crypto.randomUUID() }, 'failed');
    await here.add(1, { triggerSource: 'install' }, 'failed');
    const sent = { action: 'replay', filter: { status: 'failed' } };
    await here.deps.clock.advance(1000);
    const preview = await here.create({ ...sent, dry_run: true });
    expect(preview).toMatchObject({ dry_run: true, total: 23, total_is_exact: true, filter: { top_level: true } });
    expect(preview.sample).toHaveLength(10);
    expect(await here.replays()).toEqual([]);
    const { id, total } = await here.create(sent);
    expect(total).toBe(23);
    const ended = await workUntilEnded(here, id);
    expect(ended).toMatchObject({ status: 'completed', message: null, done: 23, skipped: 0, failed: 0, failures: [] });
    const replays = await here.replays();
    expect(replays.map(({ replayOf }) => replayOf).toSorted()).toEqual(failed.toSorted());
    expect(replays.every(({ status }) => status === 'completed')).toBe(true);
    await continueBulks(here.deps);
    expect(here.model.asked).toBe(23);
  });

  test('a cancellation ends what runs, and leaves the rest', async () => {
    const here = await world();
    const open = await here.add(5);
    await here.add(3, {}, 'completed');
    await here.add(1, { triggerSource: 'install' });
    await here.deps.clock.advance(1000);
    const { id } = await here.create({ action: 'cancel', filter: { agent_name: 'reporter' } });
    expect(await workUntilEnded(here, id)).toMatchObject({ status: 'completed', total: 5, done: 5, skipped: 0 });
    for (const run of open) expect(await here.store.isCancelled(run)).toBe(true);
    const named = (await here.allRuns()).map((run) => run.id);
    const again = await here.create({ action: 'cancel', run_ids: named });
    expect(await workUntilEnded(here, again.id)).toMatchObject({ total: 9, failed: 0 });
  });

  test('the workspace of the runs and the form of the order are checked', async () => {
    const here = await world();
    const there = await world();
    const [foreign] = await there.add(1, {}, 'failed');
    const [own] = await here.add(1, {}, 'failed');
    const refused = (sent: object, code: string) => expect(here.create(sent)).rejects.toMatchObject({ code });
    await refused({ action: 'replay', run_ids: [own, foreign] }, 'NOT_FOUND');
    await refused({ action: 'replay' }, 'INVALID_INPUT');
    await refused({ action: 'replay', run_ids: [own], filter: {} }, 'INVALID_INPUT');
    await refused({ action: 'cancel', filter: { status: 'failed' } }, 'INVALID_INPUT');
    await refused({ action: 'replay', filter: { status: 'running' } }, 'INVALID_INPUT');
    await refused({ action: 'cancel', run_ids: [own], agent_version: 'v1' }, 'INVALID_INPUT');
    for (const wrong of [
      { action: 'delete', run_ids: [own] },
      { action: 'replay', run_ids: [] },
      { action: 'replay', run_ids: ['x'] },
      { action: 'replay', run_ids: Array.from({ length: 1001 }, () => crypto.randomUUID()) },
      { action: 'replay', filter: { statsu: 'failed' } },
    ]) {
      await expect(here.create(wrong)).rejects.toThrow();
    }
    await here.deps.clock.advance(1000);
    const widest = { from: '1970-01-01T00:00:00Z', to: '2999-12-31T23:59:59.999Z' };
    expect(await here.create({ action: 'replay', filter: widest, dry_run: true })).toMatchObject({ total: 1 });
    const beyond = { from: '0001-01-01T00:00:00Z', to: '9999-12-31T23:59:59Z' };
    await expect(here.create({ action: 'replay', filter: beyond })).rejects.toThrow('must be from 1970-01-01');
    const { id } = await here.create({ action: 'replay', filter: { agent_name: 'nobody' } });
    await expect(here.ask('getBulk', { bulk_id: id }, there.caller)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(here.ask('abortBulk', { bulk_id: id }, there.caller)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    for (let open = 1; open < 5; open++) await here.create({ action: 'replay', filter: {} });
    await refused({ action: 'replay', filter: {} }, 'CONFLICT');
    await here.ask('abortBulk', { bulk_id: id });
    await here.ask('abortBulk', { bulk_id: id });
    await here.create({ action: 'replay', filter: {} });
    await refused({ action: 'replay', filter: {} }, 'CONFLICT');
  });

  test('runs that cannot be repeated are counted and named', async () => {
    const here = await world();
    const [secret] = await here.add(1, { input: { text: 'x [secret TOKEN] y' } }, 'failed');
    const [good] = await here.add(1, {}, 'failed');
    const { id } = await here.create({ action: 'replay', run_ids: [secret, good, good] });
    const ended = await workUntilEnded(here, id);
    // The end of the failed run wrote its body.
    expect(ended).toMatchObject({ total: 2, status: 'completed' });
    const other = await here.create({ action: 'replay', run_ids: [good], agent_version: '7' });
    expect(await workUntilEnded(here, other.id)).toMatchObject({
      done: 0,
      failed: 1,
      agent_version: 'v7',
      failures: [{ run_id: good, code: 'UNPROCESSABLE' }],
    });
  });

  test('an aborted action begins nothing more', async () => {
    const here = await world();
    await here.add(30, {}, 'failed');
    await here.deps.clock.advance(1000);
    const { id } = await here.create({ action: 'replay', filter: {} });
    here.model.answer = async () => {
      await here.ask('abortBulk', { bulk_id: id });
      return 'ok';
    };
    const ended = await workUntilEnded(here, id);
    expect(ended).toMatchObject({ status: 'aborted', total: 30 });
    expect(ended.done).toBe((await here.replays()).length);
    expect(ended.done).toBeLessThan(20);
    const { asked } = here.model;
    await here.deps.clock.advance(2 * MINUTE);
    await continueBulks(here.deps);
    expect(here.model.asked).toBe(asked);
  });

  test('without room for a run the action waits, and goes on later', async () => {
    const here = await world();
    await here.add(6, {}, 'failed');
    await here.deps.clock.advance(1000);
    const { id } = await here.create({ action: 'replay', filter: {} });
    const leases: Admission[] = [];
    const { workspace } = here.caller;
    for (let isFull = false; !isFull; ) {
      const deadline = here.deps.clock.now() + MINUTE;
      const wish = {
        workspace,
        kind: 'llm',
        isPaid: false,
        isCounted: true,
        runId: crypto.randomUUID(),
        deadline,
      } as const;
      await admit(here.deps, wish).then(
        (lease) => leases.push(lease),
        (error) => {
          expect(error).toMatchObject({ code: 'RATE_LIMITED' });
          isFull = true;
        },
      );
    }
    await continueBulks(here.deps);
    expect(await here.bulk(id)).toMatchObject({ status: 'running', done: 0, failed: 0 });
    for (const { release } of leases) await release();
    expect(await workUntilEnded(here, id)).toMatchObject({ status: 'completed', done: 6, failed: 0 });
    expect(await here.replays()).toHaveLength(6);
  });

  test('an action of somebody who has left the workspace ends', async () => {
    const here = await world();
    await here.add(2, {}, 'failed');
    await here.deps.clock.advance(1000);
    const gone = { ...here.caller, userId: crypto.randomUUID() };
    const { id } = await here.ask('createBulk', { action: 'replay', filter: {} }, gone);
    expect(await workUntilEnded(here, id)).toMatchObject({ status: 'failed', done: 0 });
    expect(here.model.asked).toBe(0);
  });

  test('processes that work at the same time repeat each run once', async () => {
    const here = await world();
    const ids = await here.add(25, {}, 'failed');
    const { id } = await here.create({ action: 'replay', run_ids: ids });
    await Promise.all(Array.from({ length: 5 }, () => continueBulks(here.deps)));
    expect(await workUntilEnded(here, id)).toMatchObject({ done: 25, failed: 0 });
    expect(await here.replays()).toHaveLength(25);
  });

  test.each(['replay', 'cancel'] as const)('a process that dies at any call of a %s loses nothing', async (action) => {
    for (let callsLeft = 1, isOver = false; !isOver; callsLeft += everyCall) {
      for (const isAfter of [false, true]) {
        const here = await world();
        const ids = await here.add(3, {}, action === 'replay' ? 'failed' : undefined);
        const { id } = await here.create({ action, run_ids: ids });
        const fuse: Fuse = { callsLeft, isAfter };
        const { main, runs, counters, llm } = here.deps;
        const mortal = {
          ...here.deps,
          main: crashing(main, fuse),
          runs: crashing(runs, fuse),
          counters: crashing(counters, fuse),
          llm: crashing(llm, fuse),
        };
        await continueBulks(mortal).catch(() => {});
        isOver = fuse.callsLeft > 0;
        // Runs of the dead host are past their deadline.
        await here.deps.clock.advance(10 * MINUTE);
        await sweepLostRuns(here.deps);
        const ended = await workUntilEnded(here, id);
        const what = `dead ${isAfter ? 'after' : 'before'} call ${callsLeft}`;
        expect(ended, what).toMatchObject({ status: 'completed', done: 3, skipped: 0, failed: 0 });
        if (action === 'replay') {
          const repeated = (await here.replays()).map(({ replayOf }) => replayOf);
          expect(repeated.toSorted(), what).toEqual(ids.toSorted());
          expect(here.model.asked, what).toBeLessThanOrEqual(3);
        }
      }
    }
  });
}
