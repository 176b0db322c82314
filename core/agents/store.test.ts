import { describe, expect, test } from 'vitest';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import { withoutListeners } from '#test/helpers/agents.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { listPublicAgents } from './catalog/store.ts';
import { publish as publishVersion } from './publish.ts';
import { changeDefinition } from './retention/change-definition.ts';
import { AgentStore, findAnyVersion, resolveAgent } from './store.ts';

const WORKSPACE: Workspace = {
  id: '11111111-1111-4111-8111-111111111111',
  slug: 'ann',
  name: 'Ann',
  type: 'personal',
  createdAt: '2035-06-01T12:00:00.000Z',
};

/** Only the members that publishing reads. */
const definition = (name: string, isPublic = false): AgentDefinition =>
  ({ name, is_public: isPublic }) as AgentDefinition;

function setUp() {
  const deps = memoryDeps();
  const publish = (name = 'echo', isPublic = false, runnable = true) =>
    publishVersion(withoutListeners(deps), WORKSPACE, definition(name, isPublic), { runnable });
  return { deps, store: new AgentStore(deps, WORKSPACE.id), publish };
}

describe('finding', () => {
  test('keeps to the workspace', async () => {
    const { deps, publish } = setUp();
    const { id } = await publish();
    expect(await new AgentStore(deps, 'another').find(id)).toBeUndefined();
    expect((await findAnyVersion(deps, id))!.id).toBe(id);
    expect(await findAnyVersion(deps, 'x')).toBeUndefined();
  });

  test.each(['v0', 'v01', 'v', '1', 'V1', 'v1.0', 'v100000', 'latest ', '', 'HEAD'])(
    'knows no version %j',
    async (version) => {
      const { deps, publish } = setUp();
      await deps.main.put({ pk: 'SLUG#ann', sk: 'META', workspace_id: WORKSPACE.id });
      await publish();
      expect(await resolveAgent(deps, 'ann', 'echo', version)).toBeUndefined();
      expect((await resolveAgent(deps, 'ann', 'echo', 'v1'))!.version).toBe(1);
    },
  );

  test('lists the public and runnable, the newest first', async () => {
    const { deps, store, publish } = setUp();
    const names = ['a', 'b', 'c'];
    for (const name of names) {
      await deps.clock.advance(1000);
      await publish(name, true, name !== 'b');
    }
    await publish('private');
    expect((await Array.fromAsync(listPublicAgents(deps))).map(({ name }) => name)).toEqual(['c', 'a']);
    const a = (await store.findVersion('a', 1))!;
    await changeDefinition(deps, a, definition('a'));
    expect((await Array.fromAsync(listPublicAgents(deps))).map(({ name }) => name)).toEqual(['c']);
  });
});
