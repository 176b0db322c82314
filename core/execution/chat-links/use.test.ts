import { expect, test } from 'vitest';
import { planOf } from '#core/base/plans.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import type { ChatLink } from './link.ts';
import { dropUse, endUse, takeUse, usedToday } from './use.ts';

const MINUTE = 60_000;
const CENT = 10_000;

function world(changes: Partial<ChatLink> = {}) {
  const deps = memoryDeps();
  const link: ChatLink = {
    id: 'link-1',
    workspaceId: 'ws-1',
    agent: 'acme/helper',
    version: null,
    kind: 'form',
    title: null,
    welcome: null,
    suggestions: [],
    messagesPerDay: 100,
    messagesPerVisitor: 50,
    budgetCents: 100,
    createdBy: 'user-1',
    createdAt: deps.clock.now(),
    expires: 4_000_000_000,
    ...changes,
  };
  // Visitors have five of its ten concurrent calls, and one link three.
  const plan = planOf(deps, { plan: 'free' });
  const take = async (runId: string, of = link) => {
    const until = deps.clock.now() + MINUTE;
    await takeUse(deps, of, { runId, plan, quota: 'llm', priceMicro: 0, until });
  };
  const taken = (runId: string, of = link) =>
    take(runId, of).then(
      () => true,
      (error) => error.message,
    );
  const today = async () => (await usedToday(deps, link.workspaceId))(link.id);
  return { deps, link, taken, today };
}

const uuids = (count: number): string[] => Array.from({ length: count }, () => crypto.randomUUID());

test('messages at the same moment take no more places than there are', async () => {
  const { link, taken, today } = world();
  const answers = await Promise.all(uuids(20).map((id) => taken(id)));
  expect(answers.filter((each) => each === true)).toHaveLength(3);
  const others = await Promise.all(uuids(20).map((id) => taken(id, { ...link, id: 'link-2' })));
  expect(others.filter((each) => each === true)).toHaveLength(2);
  expect(await today()).toEqual({ messages: 3, micro: 6 * CENT });
});

test('a message that does not run counts for nothing, and its places are free', async () => {
  const { deps, link, taken, today } = world();
  const [first, ...others] = uuids(4);
  for (const id of [first!, ...others.slice(0, 2)]) expect(await taken(id)).toBe(true);
  expect(await taken(others[2]!)).toContain('busy');
  await dropUse(deps, link.workspaceId, first!);
  await dropUse(deps, link.workspaceId, first!);
  expect(await today()).toEqual({ messages: 2, micro: 4 * CENT });
  expect(await taken(others[2]!)).toBe(true);
});

test('a message whose run is not recorded yet keeps its places, until its time is over', async () => {
  const { deps, link, taken, today } = world();
  const ids = uuids(3);
  for (const id of ids) expect(await taken(id)).toBe(true);
  // Otherwise a visitor who reads while it writes would not be counted.
  for (const id of ids) expect(await endUse(deps, link.workspaceId, id)).toBe(false);
  expect(await taken(crypto.randomUUID())).toContain('busy');
  await deps.clock.advance(2 * MINUTE);
  expect(await taken(crypto.randomUUID())).toBe(true);
  expect(await today()).toEqual({ messages: 1, micro: 2 * CENT });
});

test('a repeated write takes one place', async () => {
  const { taken, today } = world();
  const id = crypto.randomUUID();
  expect([await taken(id), await taken(id)]).toEqual([true, true]);
  expect((await today()).messages).toBe(1);
});

test('a raised limit counts at once, although the day was used up', async () => {
  const { link, taken } = world({ messagesPerDay: 1 });
  expect(await taken(crypto.randomUUID())).toBe(true);
  expect(await taken(crypto.randomUUID())).toContain('tomorrow');
  expect(await taken(crypto.randomUUID(), { ...link, messagesPerDay: 2 })).toBe(true);
});
