import { expect, test } from 'vitest';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { memoryTables } from '#test/helpers/memory-tables.ts';
import { type ClientPlace, claimClientRun, findClientRun, freeClientRun } from './client-runs.ts';

const DAY_MS = 24 * 3600 * 1000;
const place: ClientPlace = { workspaceId: 'w', sessionId: 'ses_1', clientRunId: 'c' };
const claim = (runId: string) => ({ runId, after: 0, answered: ['x'], asked: 'message m', text: 'words' as const });

function start() {
  const clock = new ManualClock();
  return { ...memoryTables(clock), clock };
}

test('an id is claimed once, for a day, in its session', async () => {
  const deps = start();
  const claims = await Promise.all(['r1', 'r2'].map((id) => claimClientRun(deps, place, claim(id))));
  expect(claims.filter(Boolean)).toHaveLength(1);
  const winner = claims[0] ? 'r1' : 'r2';
  expect(await findClientRun(deps, place)).toEqual({ ...claim(winner), claimedAt: deps.clock.now() });
  expect(await findClientRun(deps, { ...place, sessionId: 'ses_2' })).toBeUndefined();
  expect(await findClientRun(deps, { ...place, workspaceId: 'v' })).toBeUndefined();
  await deps.clock.advance(DAY_MS + 1000);
  expect(await findClientRun(deps, place)).toBeUndefined();
  expect(await claimClientRun(deps, place, claim('r3'))).toBe(true);
});

test('only the run that has the id frees it, and only one replaces a run that never began', async () => {
  const deps = start();
  await claimClientRun(deps, place, claim('r1'));
  await freeClientRun(deps, place, 'r2');
  expect(await findClientRun(deps, place)).toMatchObject({ runId: 'r1' });
  const replaced = await Promise.all(['r2', 'r3'].map((id) => claimClientRun(deps, place, claim(id), 'r1')));
  expect(replaced.filter(Boolean)).toHaveLength(1);
  await freeClientRun(deps, place, (await findClientRun(deps, place))!.runId);
  expect(await findClientRun(deps, place)).toBeUndefined();
});
