import { expect, test } from 'vitest';
import { parseConfig } from '#core/base/config.ts';
import { isoTime, SystemClock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { listRuns, type RunFilter } from '#core/runs/listing.ts';
import { emptyResult, endedWith, type NewRun } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';

/** A time far enough ahead that no host's clock expires anything. */
const NOW = Date.parse('2035-06-15T12:30:00Z');
const SCHEDULE = crypto.randomUUID();

/** The listing of runs on the tables of a host: every page is compared with all runs filtered in the test. */
export function runListingSuite(makeTables: (clock: Deps['clock']) => Promise<Pick<Deps, 'runs' | 'blobs'>>): void {
  const clock = Object.assign(new SystemClock(), { now: () => NOW });
  const config = parseConfig({});
  const depsOf = async () => ({ ...(await makeTables(clock)), clock, config });

  function newRun(index: number): NewRun {
    // Several runs start in the same millisecond.
    const startedAt = NOW - 3600_000 + Math.floor(index / 3) * 1000;
    return {
      id: crypto.randomUUID(),
      agentId: crypto.randomUUID(),
      agentWorkspaceId: crypto.randomUUID(),
      agentOrg: 'acme',
      agentName: index % 2 === 0 ? 'even' : 'odd',
      agentVersion: index % 5 === 0 ? 'v2' : 'v1',
      engine: 'direct_llm',
      endpoint: 'run',
      triggerSource: index % 7 === 0 ? 'schedule' : 'api',
      startedAt,
      deadline: NOW + 60_000,
      input: { index },
      ...(index % 7 === 0 && { scheduleId: SCHEDULE }),
      ...(index % 3 === 0 && { tenantId: 'customer' }),
      ...(index % 11 === 0 && { parentRunId: crypto.randomUUID(), rootRunId: crypto.randomUUID() }),
    };
  }

  async function add(deps: Awaited<ReturnType<typeof depsOf>>, workspaceId: string, count: number): Promise<NewRun[]> {
    const store = new RunStore(deps, workspaceId);
    const all = Array.from({ length: count }, (_, index) => newRun(index));
    for (let i = 0; i < count; i += 50) await Promise.all(all.slice(i, i + 50).map((run) => store.start(run)));
    return all;
  }

  test('pages by cursor show each run once, newest first, with every filter', async () => {
    const deps = await depsOf();
    const workspaceId = crypto.randomUUID();
    const all = await add(deps, workspaceId, 90);
    const failed = all.filter((_, index) => index % 4 === 0);
    const end = { ...emptyResult(endedWith(undefined), null), status: 'failed', errorCode: 'LLM_ERROR' } as const;
    for (const run of failed) expect(await new RunStore(deps, workspaceId).finish(run, end)).toBe(true);
    const from = NOW - 3600_000 + 5_000;
    const to = NOW - 3600_000 + 20_000;
    const filters: [RunFilter, (run: NewRun, index: number) => boolean][] = [
      [{}, () => true],
      [{ agentName: 'even' }, (run) => run.agentName === 'even'],
      [{ version: 'v2' }, (run) => run.agentVersion === 'v2'],
      [{ status: 'failed' }, (_, index) => index % 4 === 0],
      [{ status: 'running' }, (_, index) => index % 4 !== 0],
      [{ scheduleId: SCHEDULE }, (run) => run.scheduleId !== undefined],
      [{ scheduleId: SCHEDULE, from, to }, (run) => run.scheduleId !== undefined && in_(run)],
      [{ triggerSource: 'schedule' }, (run) => run.triggerSource === 'schedule'],
      [{ tenantId: 'customer' }, (run) => run.tenantId !== undefined],
      [{ topLevel: true }, (run) => run.parentRunId === undefined],
      [{ topLevel: false }, (run) => run.parentRunId !== undefined],
      [{ from }, (run) => run.startedAt >= from],
      [{ to }, (run) => run.startedAt < to],
      [{ from, to, agentName: 'odd' }, (run) => in_(run) && run.agentName === 'odd'],
      [{ from: to, to: to + 1 }, (run) => run.startedAt === to],
      [{ agentName: 'nobody' }, () => false],
    ];
    const in_ = (run: NewRun): boolean => run.startedAt >= from && run.startedAt < to;
    for (const [filter, isWanted] of filters) {
      const expected = all.filter(isWanted);
      const seen: string[] = [];
      let last = '9';
      let cursor: string | null | undefined;
      let pages = 0;
      do {
        const page = await listRuns(deps, workspaceId, filter, { limit: 7, ...(cursor && { cursor }) });
        expect(page).toMatchObject({ total: expected.length, isExact: true });
        for (const { id, startedAt } of page.runs) {
          expect(startedAt <= last, `${startedAt} after ${last}`).toBe(true);
          last = startedAt;
          seen.push(id);
        }
        cursor = page.nextCursor;
        pages++;
      } while (cursor !== null);
      expect(pages, JSON.stringify(filter)).toBe(Math.max(1, Math.ceil(expected.length / 7)));
      expect(seen.toSorted(), JSON.stringify(filter)).toEqual(expected.map(({ id }) => id).toSorted());
    }
  });

  test('the runs beyond the newest 1,000 are reached by cursor, and counted on the way', async () => {
    const deps = await depsOf();
    const workspaceId = crypto.randomUUID();
    const all = await add(deps, workspaceId, 1100);
    const first = await listRuns(deps, workspaceId, {}, { limit: 200 });
    expect(first).toMatchObject({ total: 1000, isExact: false });
    const ids = first.runs.map(({ id }) => id);
    let last = first;
    while (last.nextCursor !== null) {
      last = await listRuns(deps, workspaceId, {}, { limit: 200, cursor: last.nextCursor });
      ids.push(...last.runs.map(({ id }) => id));
    }
    expect(last).toMatchObject({ total: 1100, isExact: true });
    expect(ids.toSorted()).toEqual(all.map(({ id }) => id).toSorted());
    // The only match is behind the first 1,000 runs: an empty page still has a cursor.
    const oldest = { from: NOW - 3600_000, to: NOW, tenantId: 'customer', agentName: 'even', version: 'v2' } as const;
    const wanted = all.filter(({ tenantId, agentName, agentVersion }) =>
      [tenantId === 'customer', agentName === 'even', agentVersion === 'v2'].every(Boolean),
    );
    const found: string[] = [];
    let cursor: string | null | undefined;
    do {
      const page = await listRuns(deps, workspaceId, oldest, { limit: 20, ...(cursor && { cursor }) });
      found.push(...page.runs.map(({ id }) => id));
      cursor = page.nextCursor;
    } while (cursor !== null);
    expect(found.toSorted()).toEqual(wanted.map(({ id }) => id).toSorted());
    // The offset counts among the newest 1,000 runs, as it did before there were cursors.
    const offset = await listRuns(deps, workspaceId, {}, { limit: 20, offset: 990 });
    expect(offset).toMatchObject({ total: 1000, isExact: false });
    expect(offset.runs).toHaveLength(10);
  });

  test('a cursor of another workspace, another filter or no listing at all is refused', async () => {
    const deps = await depsOf();
    const [own, other] = [crypto.randomUUID(), crypto.randomUUID()];
    await add(deps, own, 5);
    const foreign = await add(deps, other, 5);
    const cursor = (await listRuns(deps, other, {}, { limit: 2 })).nextCursor!;
    const parts = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    const ownCursor = (await listRuns(deps, own, {}, { limit: 2 })).nextCursor!;
    const [ownDigest] = JSON.parse(Buffer.from(ownCursor, 'base64url').toString());
    const forged = (...content: unknown[]) => Buffer.from(JSON.stringify(content)).toString('base64url');
    const refuse = async (bad: string, filter: RunFilter = {}) =>
      expect(listRuns(deps, own, filter, { limit: 2, cursor: bad })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await refuse(cursor);
    await refuse(ownCursor, { agentName: 'even' });
    for (const bad of ['', 'x', 'null', '{}', ownCursor.slice(2)]) await refuse(bad);
    await refuse(forged(ownDigest));
    await refuse(forged(ownDigest, `WS#${other}`, foreign[0]!.id.replaceAll('-', ''), 0, 0, true));
    await refuse(forged(ownDigest, isoTime(NOW), 'zz', 0, 0, true));
    await refuse(forged(ownDigest, isoTime(NOW), 'a'.repeat(32), '1', {}, true));
    // A cursor with the right digest is a position in the workspace's own listing, whatever run it names.
    const page = await listRuns(deps, own, {}, { limit: 9, cursor: forged(ownDigest, ...parts.slice(1)) });
    expect(page.runs.every(({ workspaceId }) => workspaceId === own)).toBe(true);
  });
}
