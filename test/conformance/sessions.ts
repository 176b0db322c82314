import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Workspace } from '#core/base/workspace.ts';
import { inNextTurn } from '#core/execution/sessions/begin-turn.ts';
import type { SessionOfCall } from '#core/execution/sessions/join.ts';
import type { Blobs } from '#core/ports/blobs.ts';
import { type Clock, SystemClock } from '#core/ports/clock.ts';
import { queryAll, type Table } from '#core/ports/table.ts';
import { journalBlobKey, journalPartition } from '#core/runs/items.ts';
import { emptyResult, endedWith, type NewRun } from '#core/runs/run.ts';
import { eraseExpiredSessions, eraseSession } from '#core/runs/sessions/erase.ts';
import { historyOf } from '#core/runs/sessions/history.ts';
import { sessionIdOf, sessionPartition, turnBlobKey } from '#core/runs/sessions/items.ts';
import { listSessions } from '#core/runs/sessions/listing.ts';
import type { Session } from '#core/runs/sessions/session.ts';
import { countBytes, usedBytes } from '#core/runs/sessions/space.ts';
import { SessionStore } from '#core/runs/sessions/store.ts';
import { RunStore } from '#core/runs/store.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';

const DAY_MS = 24 * 3600_000;

/** Sessions (`core/runs/sessions`), on the tables of a host. */
export function sessionsSuite(makeRuns: (clock: Clock) => Promise<Table>): void {
  /** A clock that runs ahead by what `pass` adds. */
  async function world() {
    const system = new SystemClock();
    let ahead = 0;
    const clock: Clock = {
      now: () => system.now() + ahead,
      sleep: (ms, signal) => system.sleep(ms, signal),
      after: (ms, work) => system.after(ms, work),
    };
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const deps = { ...memoryDeps(), clock, runs: await makeRuns(clock), log };
    const workspaceId = randomUUID();
    const workspace = { id: workspaceId, slug: 'acme', plan: 'free' } as unknown as Workspace;
    const store = new SessionStore(deps, workspaceId);
    const runs = new RunStore(deps, workspaceId);
    const sessionWith = (more: Partial<Session> = {}): Session => ({
      id: sessionIdOf(randomUUID()),
      workspaceId,
      agentWorkspaceId: workspaceId,
      agentOrg: 'acme',
      agentName: 'helper',
      metadata: {},
      busy: 'enqueue',
      ttlDays: 30,
      createdAt: clock.now(),
      ...more,
    });
    const runOf = (input: object = {}): NewRun => ({
      id: randomUUID(),
      agentId: randomUUID(),
      agentWorkspaceId: workspaceId,
      agentOrg: 'acme',
      agentName: 'helper',
      agentVersion: 'v1',
      engine: 'direct_llm',
      endpoint: 'run',
      triggerSource: 'api',
      startedAt: clock.now(),
      deadline: clock.now() + 60_000,
      input: { ...input } as NewRun['input'],
    });
    /** Begins a run in the next turn of a session, as a process that knows nothing of its turns. */
    const begin = (id: string, more: Partial<SessionOfCall> = {}, run = runOf()) => {
      const session = { id, busy: 'enqueue', ttlDays: 30, newest: [], ...more } as const;
      return inNextTurn(deps, { workspace, session }, run, (inTurn) => runs.start(inTurn));
    };
    const end = (run: NewRun, output: object, said?: string) =>
      runs.finish(run, {
        ...emptyResult(endedWith(undefined), run.input),
        output: { ...output } as NewRun['input'],
        ...(said !== undefined && { said }),
      });
    const pass = (ms: number) => {
      ahead += ms;
    };
    const rawText = async (id: string) => {
      const items = await Array.fromAsync(queryAll(deps.runs, { pk: sessionPartition(workspaceId, id) }));
      return JSON.stringify(items);
    };
    return { deps, workspace, workspaceId, store, runs, sessionWith, runOf, begin, end, pass, rawText };
  }

  test('messages of several processes at the same time get different turns, in an order', async () => {
    const { store, sessionWith, begin, end } = await world();
    const { id } = await store.open(sessionWith());
    const begun = await Promise.all(Array.from({ length: 6 }, () => begin(id)));
    expect(begun.map(({ session }) => session!.number).sort()).toEqual([1, 2, 3, 4, 5, 6]);
    for (const run of begun) expect(await end(run, { number: run.session!.number })).toBe(true);
    const turns = await store.turns(id, { after: 0, limit: 10, reverse: false });
    expect(turns.map(({ number, end, content }) => [number, end?.status, content?.output])).toEqual(
      [1, 2, 3, 4, 5, 6].map((number) => [number, 'completed', { number }]),
    );
  });

  test('a session that rejects takes one message at a time', async () => {
    const { store, sessionWith, begin, end } = await world();
    const { id } = await store.open(sessionWith());
    const tries = await Promise.allSettled(Array.from({ length: 4 }, () => begin(id, { busy: 'reject' })));
    const begun = tries.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    expect(begun).toHaveLength(1);
    const refused = tries.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
    for (const error of refused) {
      expect(error).toMatchObject({ code: 'CONFLICT', message: expect.stringContaining(begun[0]!.id) });
    }
    await end(begun[0]!, {});
    expect((await begin(id, { busy: 'reject' })).session!.number).toBe(2);
  });

  test('a name opens one session, whoever comes first, until that is erased', async () => {
    const { deps, workspaceId, store, sessionWith } = await world();
    const opened = await Promise.all(
      Array.from({ length: 5 }, () => store.open(sessionWith({ externalId: 'chat', tenantId: 'a' }))),
    );
    const ids = new Set(opened.map(({ id }) => id));
    expect(ids.size).toBe(1);
    expect(opened.filter(({ isNew }) => isNew)).toHaveLength(1);
    const [id] = [...ids];
    expect((await store.open(sessionWith({ externalId: 'chat', tenantId: 'b' }))).id).not.toBe(id);
    expect((await store.open(sessionWith({ externalId: 'chat' }))).id).not.toBe(id);
    expect(await eraseSession(deps, workspaceId, id!)).toBe(true);
    const again = await store.open(sessionWith({ externalId: 'chat', tenantId: 'a' }));
    expect(again).toMatchObject({ isNew: true });
    expect(again.id).not.toBe(id);
  });

  test('the sweep ends the turn of a run whose process died, with its message', async () => {
    const { deps, store, sessionWith, runOf, begin, end } = await world();
    const { id } = await store.open(sessionWith());
    const lost = await begin(id, {}, runOf({ message: 'lost' }));
    await sweepLostRuns(deps, { all: true });
    const [turn] = await store.turns(id, { after: 0, limit: 1, reverse: false });
    expect(turn).toMatchObject({
      runId: lost.id,
      end: { status: 'failed', errorCode: 'INTERNAL_ERROR' },
      content: { input: { message: 'lost' }, output: null },
    });
    // The process comes back and changes nothing.
    expect(await end(lost, { late: true })).toBe(false);
    expect((await store.turn(id, 1))!.content!.output).toBeNull();
    expect((await begin(id)).session!.number).toBe(2);
  });

  test('a model gets the newest turns, whose beginning moves in large steps', async () => {
    const { deps, workspaceId, store, sessionWith, begin, end } = await world();
    const { id } = await store.open(sessionWith());
    const begins = new Set<number>();
    const text = 'x'.repeat(20 * 1024);
    for (let number = 1; number <= 60; number++) {
      const newest = await store.turns(id, { after: number, limit: 1, reverse: true });
      const { turns, leftOut } = await historyOf(deps, { workspaceId, id, number }, newest);
      expect(turns.map((turn) => turn.number)).toEqual(
        Array.from({ length: number - 1 - leftOut }, (_, index) => leftOut + index + 1),
      );
      expect(turns.reduce((sum, turn) => sum + turn.text!.length, 0)).toBeLessThanOrEqual(400 * 1024);
      begins.add(leftOut);
      const run = await begin(id, { newest });
      await end(run, {}, text);
    }
    expect(begins.size).toBeLessThanOrEqual(6);
    expect(Math.max(...begins)).toBeGreaterThan(30);
  });

  test('what was said in a long turn is a blob; one that is damaged fails where it is needed, and nowhere else', async () => {
    const { deps, workspaceId, store, sessionWith, runOf, begin, end, rawText } = await world();
    const { id } = await store.open(sessionWith());
    const long = 'long text '.repeat(5_000);
    await end(await begin(id, {}, runOf({ message: long })), { reply: 'short' }, long);
    await end(await begin(id), { reply: 'second' });
    expect(await rawText(id)).not.toContain('long text');
    const { turns } = await historyOf(deps, { workspaceId, id, number: 3 });
    expect(turns).toMatchObject([{ input: { message: long }, text: long }, { output: { reply: 'second' } }]);
    for (const damage of [Buffer.from('{"input'), Buffer.from('[]'), undefined]) {
      const key = turnBlobKey(workspaceId, id, 1);
      if (damage === undefined) await deps.blobs.delete(key);
      else await deps.blobs.put(key, damage);
      await expect(historyOf(deps, { workspaceId, id, number: 3 })).rejects.toMatchObject({
        code: 'INTERNAL_ERROR',
        message: expect.stringContaining('Message 1'),
      });
    }
    expect((await store.turns(id, { after: 1, limit: 5, reverse: false }))[0]!.content!.output).toEqual({
      reply: 'second',
    });
  });

  test('an erased session holds nothing of what was said, also not of a run that ends later', async () => {
    const { deps, workspaceId, store, runs, sessionWith, runOf, begin, end, rawText } = await world();
    const { id } = await store.open(sessionWith({ title: 'MARKER' }));
    const ended = await begin(id, {}, runOf({ message: 'MARKER' }));
    await end(ended, { reply: `MARKER ${'x'.repeat(150_000)}` }, 'MARKER');
    const open = await begin(id, {}, runOf({ message: 'MARKER' }));
    expect(await eraseSession(deps, workspaceId, id)).toBe(true);
    expect(await store.find(id, 1)).toBeUndefined();
    expect(await end(open, { reply: 'MARKER' }, 'MARKER')).toBe(false);
    expect(await runs.find(open.id)).toMatchObject({ status: 'cancelled', sessionId: id });
    for (const { id: runId } of [ended, open]) {
      expect(await runs.body(runId)).toMatchObject({ input: null, output: null });
    }
    await expect(begin(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(await rawText(id)).not.toContain('MARKER');
    for await (const key of deps.blobs.list('')) {
      expect(Buffer.from((await deps.blobs.get(key))!).toString()).not.toContain('MARKER');
    }
    expect(await eraseSession(deps, workspaceId, id)).toBe(false);
  });

  test('the sweep goes on with an erasure whose process died', async () => {
    const { deps, workspaceId, store, runs, sessionWith, runOf, begin, end, rawText } = await world();
    const { id } = await store.open(sessionWith({ externalId: 'chat' }));
    const said: string[] = [];
    for (let number = 0; number < 3; number++) {
      const run = await begin(id, {}, runOf({ message: 'MARKER' }));
      await end(run, { reply: 'MARKER' }, 'MARKER');
      said.push(run.id);
    }
    let left = 2;
    const blobs = {
      ...deps.blobs,
      put: deps.blobs.put.bind(deps.blobs),
      get: deps.blobs.get.bind(deps.blobs),
      list: deps.blobs.list.bind(deps.blobs),
      async delete(key: string) {
        if (left-- <= 0) throw new Error('the process died');
        await deps.blobs.delete(key);
      },
    } as typeof deps.blobs;
    await expect(eraseSession({ ...deps, blobs }, workspaceId, id)).rejects.toThrow('the process died');
    expect(await store.find(id, 1)).toBeUndefined();
    await expect.poll(() => eraseExpiredSessions(deps).then(() => rawText(id))).not.toContain('MARKER');
    for (const runId of said) expect(await runs.body(runId)).toMatchObject({ input: null, output: null });
    expect(await store.open(sessionWith({ externalId: 'chat' }))).toMatchObject({ isNew: true });
  });

  test.each([0, 1, 2, 3, 4, 5, 6])(
    'the journal of a durable run is erased too, if the process dies at its deletion %d',
    async (left) => {
      const { deps, workspaceId, store, runs, sessionWith, begin, end } = await world();
      const { id } = await store.open(sessionWith());
      const run = await begin(id);
      await end(run, { reply: 'on it' });
      const pk = journalPartition(workspaceId, run.id);
      for (let step = 0; step < 2; step++) {
        await deps.runs.put({ pk, sk: `STEP#${step}`, text: 'MARKER' });
        await deps.blobs.put(journalBlobKey(workspaceId, run.id, `step-${step}`), Buffer.from('MARKER'));
      }
      const dying = <Port extends Pick<Table, 'delete'> | Pick<Blobs, 'delete'>>(port: Port): Port =>
        new Proxy(port, {
          get(_, name) {
            const member = Reflect.get(port, name, port);
            if (typeof member !== 'function') return member;
            return (...args: unknown[]) => {
              const isOfJournal = name === 'delete' && /JOURNAL|journals/.test(JSON.stringify(args[0]));
              if (isOfJournal && left-- <= 0) throw new Error('the process died');
              return member.apply(port, args);
            };
          },
        });
      const dies = { ...deps, runs: dying(deps.runs), blobs: dying(deps.blobs) };
      await eraseSession(dies, workspaceId, id).catch(() => {});
      await eraseExpiredSessions(deps);
      expect((await deps.runs.query({ pk })).items).toEqual([]);
      expect(await Array.fromAsync(deps.blobs.list(journalBlobKey(workspaceId, run.id, '')))).toEqual([]);
      expect(await runs.find(run.id)).toMatchObject({ status: 'completed' });
    },
  );

  test('sessions are erased when their time is over, which each message begins anew', async () => {
    const { deps, workspace, workspaceId, store, sessionWith, begin, end, pass } = await world();
    const { id } = await store.open(sessionWith({ ttlDays: 3 }));
    const { id: idle } = await store.open(sessionWith({ ttlDays: 3 }));
    await countBytes(deps, workspace, (await store.find(id, 1))!);
    expect(await usedBytes(deps, workspaceId)).toBeGreaterThan(0);
    pass(2 * DAY_MS);
    const found = (await store.find(id, 1))!;
    await store.touch(found);
    await end(await begin(id), { reply: 'kept' });
    pass(2.5 * DAY_MS);
    await eraseExpiredSessions(deps);
    expect(await store.find(idle, 1)).toBeUndefined();
    expect((await store.find(id, 1))!.newest).toHaveLength(1);
    pass(2 * DAY_MS);
    expect(await store.find(id, 1)).toBeUndefined();
    await eraseExpiredSessions(deps);
    pass(2 * DAY_MS);
    await eraseExpiredSessions(deps);
    expect(await usedBytes(deps, workspaceId)).toBe(0);
    expect((await listSessions(deps, workspaceId, {}, { limit: 10, turns: 1 })).found).toEqual([]);
  });

  test('sessions hold at most what the plan allows', async () => {
    const { deps, workspace, store, sessionWith } = await world();
    const { id } = await store.open(sessionWith());
    const found = (await store.find(id, 1))!;
    const turn = { number: 1, runId: randomUUID(), agentVersion: 'v1', createdAt: 0, said: 0, ownSaid: 0 };
    await countBytes(deps, workspace, { ...found, newest: [{ ...turn, bytes: 9 * 1024 * 1024 }] });
    const other = (await store.find((await store.open(sessionWith())).id, 1))!;
    await expect(
      countBytes(deps, workspace, { ...other, newest: [{ ...turn, bytes: 2 * 1024 * 1024 }] }),
    ).rejects.toMatchObject({ code: 'STORAGE_QUOTA_EXCEEDED', message: expect.stringContaining('session_bytes') });
  });

  test('lists are paged, newest first, by agent and tenant', async () => {
    const { deps, workspaceId, store, sessionWith, pass } = await world();
    const ids: string[] = [];
    for (let index = 0; index < 7; index++) {
      pass(1);
      const tenantId = index % 2 === 0 ? 'even' : 'odd';
      ids.unshift((await store.open(sessionWith({ tenantId, agentName: index < 3 ? 'first' : 'helper' }))).id);
    }
    const read = async (filter: { agent?: string; tenantId?: string }) => {
      const found: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await listSessions(deps, workspaceId, filter, { limit: 2, cursor, turns: 1 });
        found.push(...page.found.map(({ session }) => session.id));
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined);
      return found;
    };
    await expect.poll(() => read({})).toEqual(ids);
    expect(await read({ tenantId: 'odd' })).toEqual([ids[1], ids[3], ids[5]]);
    expect(await read({ agent: 'acme/first' })).toEqual(ids.slice(4));
    await expect(listSessions(deps, workspaceId, {}, { limit: 2, cursor: 'x', turns: 1 })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });
}
