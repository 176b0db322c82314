import { describe, expect, test } from 'vitest';
import type { AgentDefinition } from './definition.ts';
import { checkDependencyGraph, type DependencyNode } from './dependency-graph.ts';
import { checkDefinition } from './parsing/manifest.ts';

/** A program that calls `dependencies`, each `org/agent@v1`. */
function program(dependencies: string[], changes: Record<string, unknown> = {}): AgentDefinition {
  const pins = dependencies.map((ref) => ({ id: ref.split('@')[0], version: ref.split('@')[1] }));
  const { definition, errors } = checkDefinition({
    name: 'self',
    type: 'tool',
    description: 'Calls others.',
    required_secrets: [],
    manifest: { manifest_version: 1, dependencies: pins, max_hops: 3, timeout_ms: 1000 },
    ...changes,
  });
  expect(errors).toEqual([]);
  return definition!;
}

const skill = checkDefinition({ name: 'tone', type: 'skill', description: 'x', prompt: 'x' }).definition!;

/** Checks `acme/self` with `published` as existing agents, and counts the lookups. */
async function check(own: AgentDefinition, published: Record<string, AgentDefinition | DependencyNode>) {
  const lookedUp: string[] = [];
  const errors = await checkDependencyGraph(own, { org: 'acme', name: 'self' }, async ({ org, agent, version }) => {
    const ref = `${org}/${agent}@${version}`;
    lookedUp.push(ref);
    const found = published[ref];
    return found && ('definition' in found ? found : { definition: found, accessible: true });
  });
  return { errors, lookedUp };
}

describe('accepted', () => {
  test.each<[string, AgentDefinition, Record<string, AgentDefinition | DependencyNode>]>([
    ['no section', program([], { manifest: null }), {}],
    ['no dependencies', program([]), {}],
    ['one', program(['a/b@v1']), { 'a/b@v1': program([]) }],
    ['two versions of one', program(['a/b@v1', 'a/b@v2']), { 'a/b@v1': program([]), 'a/b@v2': program([]) }],
    [
      'a diamond',
      program(['a/b@v1', 'a/c@v1']),
      { 'a/b@v1': program(['a/d@v1']), 'a/c@v1': program(['a/d@v1']), 'a/d@v1': program([]) },
    ],
    ['an agent of the same name elsewhere', program(['other/self@v1']), { 'other/self@v1': program([]) }],
    [
      'what is private or gone behind a dependency',
      program(['a/b@v1']),
      {
        'a/b@v1': program(['a/private@v1', 'a/gone@v1', 'a/closed@v1']),
        'a/private@v1': { definition: program([]), accessible: false },
        'a/closed@v1': program([], { callable: false }),
      },
    ],
    [
      'a cycle that the agent is not part of',
      program(['a/b@v1']),
      { 'a/b@v1': program(['a/c@v1']), 'a/c@v1': program(['a/b@v1']) },
    ],
  ])('%s', async (_, own, published) => {
    expect((await check(own, published)).errors).toEqual([]);
  });

  test('a version that several agents call is looked up once', async () => {
    const published = { 'a/b@v1': program(['a/d@v1']), 'a/c@v1': program(['a/d@v1']), 'a/d@v1': program([]) };
    const { lookedUp } = await check(program(['a/b@v1', 'a/c@v1']), published);
    expect(lookedUp).toEqual(['a/b@v1', 'a/c@v1', 'a/d@v1']);
  });
});

describe('refused', () => {
  test('a dependency that wants more calls than it is given', async () => {
    const needy = program([], { manifest: { recommended_min_caller_budget: 51 } });
    const { errors } = await check(program(['a/b@v1']), { 'a/b@v1': needy });
    expect(errors).toEqual([
      {
        field: 'manifest.dependencies[0]',
        message:
          'is a/b@v1, which is called with a budget of at least 51 calls (its recommended_min_caller_budget): per_call_downstream_cap is 50',
      },
    ]);
  });

  const chain = Object.fromEntries(
    Array.from({ length: 20 }, (_, level) => [`a/n${level}@v1`, program([`a/n${level + 1}@v1`])]),
  );
  const fan = Array.from({ length: 50 }, (_, index) => `a/f${index}@v1`);
  const wide = Object.fromEntries(
    fan.map((ref, index) => [ref, program(fan.map((_, other) => `a/g${index}-${other}@v1`))]),
  );

  test.each<[string, AgentDefinition, Record<string, AgentDefinition | DependencyNode>, string]>([
    ['a missing one', program(['a/b@v1']), {}, 'is a/b@v1, which does not exist, or this workspace may not call it'],
    [
      'a private one, in the same words',
      program(['a/b@v1']),
      { 'a/b@v1': { definition: program([]), accessible: false } },
      'is a/b@v1, which does not exist, or this workspace may not call it',
    ],
    [
      'one that agents may not call',
      program(['a/b@v1']),
      { 'a/b@v1': program([], { callable: false }) },
      'is a/b@v1, which no agent may call ("callable" is false)',
    ],
    [
      'a skill',
      program(['a/tone@v1']),
      { 'a/tone@v1': skill },
      'is a/tone@v1, which is a skill; name it in default_skills',
    ],
    ['itself', program(['acme/self@v1']), {}, 'leads back to the agent itself: acme/self -> acme/self@v1'],
    [
      'a cycle of two',
      program(['a/b@v1']),
      { 'a/b@v1': program(['acme/self@v1']) },
      'leads back to the agent itself: acme/self -> a/b@v1 -> acme/self@v1',
    ],
    [
      'a cycle of three',
      program(['a/b@v1']),
      { 'a/b@v1': program(['a/c@v2']), 'a/c@v2': program(['acme/self@v4']) },
      'leads back to the agent itself: acme/self -> a/b@v1 -> a/c@v2 -> acme/self@v4',
    ],
    ['a long chain', program(['a/n0@v1']), chain, 'leads to more dependencies than allowed: at most 16 levels'],
    ['too many', program(fan), wide, 'leads to more dependencies than allowed'],
  ])('%s', async (_, own, published, message) => {
    const { errors, lookedUp } = await check(own, published);
    expect(errors).toEqual([{ field: 'manifest.dependencies[0]', message: expect.stringContaining(message) }]);
    expect(lookedUp.length).toBeLessThanOrEqual(200);
  });

  test('each wrong dependency, with its own index', async () => {
    const own = program(['a/good@v1', 'a/gone@v1', 'a/loop@v1']);
    const { errors } = await check(own, { 'a/good@v1': program([]), 'a/loop@v1': program(['acme/self@v1']) });
    expect(errors.map(({ field }) => field)).toEqual(['manifest.dependencies[1]', 'manifest.dependencies[2]']);
  });
});
