import { expect, test } from 'vitest';
import type { AgentCaller, Caller } from '#core/base/caller.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { findReadableRun } from './readable-run.ts';
import { newRunOf } from './run.ts';
import { RunStore } from './store.ts';

const HOME = '11111111-1111-4111-8111-111111111111';
const AWAY = '22222222-2222-4222-8222-222222222222';

async function begin(deps: MemoryDeps, parentRunId?: string, workspaceId = HOME): Promise<string> {
  const id = deps.ids.uuid();
  const agent = { id: 'a', workspaceId, orgSlug: 'ann', name: 'a', version: 1 };
  const startedAt = deps.clock.now();
  const run = { id, endpoint: 'run', triggerSource: 'api', startedAt, deadline: startedAt + 60_000, input: {} };
  await new RunStore(deps, workspaceId).start(newRunOf(agent, { ...run, ...(parentRunId && { parentRunId }) }));
  return id;
}

const by = (agent?: Partial<AgentCaller>) => ({ agent }) as Caller;

test('the key of a run reads the runs that it started, and no others', async () => {
  const deps = memoryDeps();
  const runs = new RunStore(deps, HOME);
  const top = await begin(deps);
  const own = await begin(deps, top);
  const grandchild = await begin(deps, own);
  const sibling = await begin(deps);
  // The same id as a parent, in another workspace.
  const away = await begin(deps, top, AWAY);
  const caller = by({ kind: 'run', runId: top });

  expect(await findReadableRun(runs, caller, own)).toMatchObject({ id: own, parentRunId: top });
  const requestId = `req_${own.replaceAll('-', '')}`;
  const others = [top, grandchild, sibling, away, deps.ids.uuid(), own.slice(0, 13), requestId, own.toUpperCase(), ''];
  const messages = new Set<string>();
  for (const other of others) {
    const error = await findReadableRun(runs, caller, other).then(
      () => expect.fail(other),
      (thrown) => thrown,
    );
    expect(error.code).toBe('NOT_FOUND');
    messages.add(error.message.replace(`"${other}"`, ''));
  }
  // Whether a run exists is not told.
  expect(messages.size).toBe(1);
});

test('other keys of agents read no run, and users read every run of the workspace', async () => {
  const deps = memoryDeps();
  const runs = new RunStore(deps, HOME);
  const top = await begin(deps);
  for (const kind of ['static', 'service'] as const) {
    await expect(findReadableRun(runs, by({ kind }), top)).rejects.toMatchObject({ code: 'FORBIDDEN' });
  }
  expect((await findReadableRun(runs, by(), top.slice(0, 13))).id).toBe(top);
});
