import { expect, test } from 'vitest';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { countRemoteCall } from './remote-call.ts';

type Call = Parameters<typeof countRemoteCall>[1];

const NOW = Date.UTC(2026, 0, 1);

/** A run below another one, which may make two calls. */
function callOf(lineage: object = {}, manifest: object = {}): Call {
  const agent = { orgSlug: 'acme', name: 'writer', version: 1, workspaceId: 'w1', definition: { manifest } };
  return {
    ...{ agent, workspace: { id: 'w1' }, runId: crypto.randomUUID(), deadline: NOW + 60_000 },
    lineage: { chain: ['acme/top@v1'], maxHops: 3, budgets: [], isStrict: false, foreign: [], ...lineage },
  } as unknown as Call;
}

test('counts against the budgets of the run, as a sub-call does', async () => {
  const deps = memoryDeps();
  const call = callOf({ budgets: [{ id: 'b1', ref: 'acme/writer@v1', cap: 2 }] });
  await countRemoteCall(deps, call, 'translator');
  await countRemoteCall(deps, call, 'translator');
  await expect(countRemoteCall(deps, call, 'translator')).rejects.toMatchObject({ code: 'BUDGET_EXCEEDED' });
});

test('is refused where the chain may not get any longer', async () => {
  const deps = memoryDeps();
  const refused = { code: 'MAX_HOPS_EXCEEDED', message: expect.stringContaining('may not call translator') };
  await expect(countRemoteCall(deps, callOf({ maxHops: 0 }), 'translator')).rejects.toMatchObject(refused);
  await expect(countRemoteCall(deps, callOf({}, { max_hops: 0 }), 'translator')).rejects.toMatchObject(refused);
});

test('of a first run without caps is never refused', async () => {
  await expect(countRemoteCall(memoryDeps(), callOf(), 'translator')).resolves.toBeUndefined();
});
