import { expect, test } from 'vitest';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { treeOf } from './tree.ts';

interface Given {
  readonly calls?: readonly string[];
  readonly skills?: readonly string[];
  readonly locked?: boolean;
}

/** A version with only the members that the tree reads. `ref` is `org/agent@v1`. */
function version(ref: string, { calls = [], skills = [], locked = false }: Given): AgentVersion {
  const [, orgSlug, name, number] = /^(.*)\/(.*)@v(\d+)$/.exec(ref)!;
  const dependencies = calls.map((call) => ({ id: call.split('@')[0]!, version: call.split('@')[1]! }));
  const definition = { type: 'tool', default_skills: skills, skills_locked: locked, manifest: { dependencies } };
  return {
    orgSlug,
    name,
    version: Number(number),
    definition: definition as unknown as AgentDefinition,
  } as AgentVersion;
}

const treeAmong = (published: Readonly<Record<string, Given>>) => {
  const find = async ({ org, agent, version: wanted }: { org: string; agent: string; version: string }) => {
    const ref = `${org}/${agent}@${wanted}`;
    return published[ref] && version(ref, published[ref]);
  };
  return treeOf(version('a/root@v2', published['a/root@v2']!), find);
};
const node = (agent: string, more: object = {}) => ({
  agent,
  accessible: true,
  type: 'tool',
  skills: [],
  skills_locked: false,
  dependencies: [],
  ...more,
});

test('an agent without dependencies is a tree of one', async () => {
  expect(await treeAmong({ 'a/root@v2': { skills: ['tone', 'b/facts@v1'] } })).toEqual({
    agent: 'a/root@v2',
    type: 'tool',
    skills: ['a/tone', 'b/facts@v1'],
    skills_locked: false,
    dependencies: [],
    summary: { total_agents: 1, total_skills: 2, max_depth: 0, has_locked_skills: false },
  });
});

test('a repeated agent has no dependencies of its own, and an inaccessible one is marked', async () => {
  const tree = await treeAmong({
    'a/root@v2': { calls: ['a/left@v1', 'b/right@v3', 'c/hidden@v1'], skills: ['tone'] },
    'a/left@v1': { calls: ['b/right@v3', 'a/leaf@v1'] },
    'b/right@v3': { calls: ['a/leaf@v1'], skills: ['tone'], locked: true },
    'a/leaf@v1': { skills: ['tone'] },
  });
  const right = { skills: ['b/tone'], skills_locked: true };
  expect(tree.dependencies).toEqual([
    node('a/left@v1', {
      dependencies: [node('b/right@v3', { ...right, repeated: true }), node('a/leaf@v1', { skills: ['a/tone'] })],
    }),
    node('b/right@v3', { ...right, dependencies: [node('a/leaf@v1', { skills: ['a/tone'], repeated: true })] }),
    node('c/hidden@v1', { accessible: false, type: null }),
  ]);
  expect(tree.summary).toEqual({ total_agents: 5, total_skills: 2, max_depth: 2, has_locked_skills: true });
});

test('a cycle ends', async () => {
  const tree = await treeAmong({ 'a/root@v2': { calls: ['a/leaf@v1'] }, 'a/leaf@v1': { calls: ['a/root@v2'] } });
  expect(tree.dependencies).toEqual([node('a/leaf@v1', { dependencies: [node('a/root@v2', { repeated: true })] })]);
});

test('agents that share everything make a small tree', async () => {
  const levels = Array.from({ length: 16 }, (_, level) => [`a/x${level}@v1`, `a/y${level}@v1`]);
  const published = Object.fromEntries(
    levels.flatMap((pair, level) => pair.map((ref) => [ref, { calls: levels[level + 1] ?? [] }])),
  );
  const tree = await treeAmong({ 'a/root@v2': { calls: levels[0]! }, ...published });
  expect(tree.summary).toMatchObject({ total_agents: 33, max_depth: 16 });
  expect(JSON.stringify(tree).length).toBeLessThan(20_000);
});
