import { expect, test } from 'vitest';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { authenticate } from '#core/api/auth.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addMember, addUser } from '#test/helpers/users.ts';
import { grantCreditsTo, setPlan, setPlanOf } from './operate.ts';

test('a new plan holds for every member of the workspace', async () => {
  const deps = memoryDeps();
  const [ann, bob] = [await addUser(deps, 'ann'), await addUser(deps, 'bob')];
  await addMember(deps, bob, ann.workspaceId);
  const planOf = async (key: string, workspaceId?: string) =>
    (await authenticate(deps, new Headers({ authorization: `Bearer ${key}` }), workspaceId)).workspace.plan;
  expect(await planOf(ann.key)).toBeUndefined();

  expect(await setPlanOf(deps, 'ann=free')).toBe('The workspace "ann" has the plan "free".');
  expect(await planOf(ann.key)).toBe('free');
  expect(await planOf(bob.key, ann.workspaceId)).toBe('free');
  expect(await planOf(bob.key)).toBeUndefined();
  expect((await findWorkspace(deps, ann.workspaceId))?.plan).toBe('free');
  expect(await setPlan(deps, 'nowhere', 'pro')).toBeUndefined();
});

test('credits are added', async () => {
  const deps = memoryDeps();
  await addUser(deps, 'ann');
  await grantCreditsTo(deps, 'ann=500');
  expect(await grantCreditsTo(deps, 'ann=25')).toBe('The workspace "ann" has 525 cents.');
});

test.each([
  ['ann', '"ann" must be a slug'],
  ['ann=gold', 'There is no plan "gold", only free, pro, team, enterprise.'],
  ['nobody=pro', 'There is no workspace "nobody".'],
])('%s is refused', async (text, message) => {
  const deps = memoryDeps();
  await addUser(deps, 'ann');
  await expect(setPlanOf(deps, text)).rejects.toThrow(message);
  await expect(grantCreditsTo(deps, 'ann=1.5')).rejects.toThrow('whole number of cents');
});
