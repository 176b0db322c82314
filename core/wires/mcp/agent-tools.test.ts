import { expect, test } from 'vitest';
import type { AgentVersion } from '#core/manifest/version.ts';
import { agentNamesOf, structuredOf, toolNameOf, toolOf } from './agent-tools.ts';

const agent = (definition: object = {}, name = 'echo'): AgentVersion =>
  ({
    id: 'x',
    workspaceId: 'w',
    orgSlug: 'acme',
    name,
    version: 3,
    definition: {
      ...{ description: 'Says it.', timeout_seconds: 0, price_per_call_cents: null },
      ...{ input_schema: null, output_schema: null },
      ...definition,
    },
  }) as unknown as AgentVersion;
const OPEN = { type: 'object' };

test('a long name has its agent whole, and stays unique', () => {
  const name = 'a'.repeat(50);
  const tools = ['x', 'y', 'y'.repeat(50)].map((end) => toolNameOf({ orgSlug: `organization-${end}`, name }));
  expect(new Set(tools).size).toBe(3);
  for (const tool of tools) {
    expect(tool).toMatch(/^organ-[0-9a-f]{6}__a{50}$/);
    expect(agentNamesOf(tool)?.agent).toBe(name);
  }
  expect(toolNameOf({ orgSlug: 'b'.repeat(12), name })).toBe(`${'b'.repeat(12)}__${name}`);
  expect(agentNamesOf('acme__echo')).toEqual({ org: 'acme', agent: 'echo' });
  for (const name of ['acme', 'acme__', '__echo', 'acme__a__b', 'Acme__echo', 'acme__../x']) {
    expect(agentNamesOf(name)).toBeUndefined();
  }
});

test('the description has the version, the time limit and the price, and is short', () => {
  const { description } = toolOf(agent({ timeout_seconds: 30, price_per_call_cents: 5 }));
  expect(description).toBe('Says it.\n\nv3 · at most 30 s · 5 ¢ a call');
  expect(toolOf(agent({ description: null })).description).toBe('v3');
  expect(toolOf(agent({ description: 'x'.repeat(5000) })).description.length).toBeLessThan(1010);
});

test('schemas are shown as they are, as objects', () => {
  const schema = { properties: { id: { type: 'string' }, $id: { type: 'string' } }, required: ['id'] };
  expect(toolOf(agent({ input_schema: { $schema: 'https://made-up.example', ...schema } })).inputSchema).toEqual({
    ...schema,
    type: 'object',
  });
  const linked = { type: 'object', properties: { next: { $ref: '#' } } };
  expect(toolOf(agent({ input_schema: linked, output_schema: linked }))).toMatchObject({
    inputSchema: linked,
    outputSchema: linked,
  });
  expect(toolOf(agent()).inputSchema).toEqual(OPEN);
  expect(toolOf(agent())).not.toHaveProperty('outputSchema');
});

test.each([
  ['a foreign document', { properties: { a: { $ref: 'https://attacker.example/schema.json' } } }],
  ['a local file', { properties: { a: { $ref: 'file:///etc/passwd' } } }],
  ['an id that clashes', { $id: 'https://example.com/a', type: 'object' }],
  ['an id below', { properties: { a: { $id: 'a', type: 'object' } } }],
  ['an anchor', { $defs: { a: { $anchor: 'a' } } }],
  ['a header', { properties: { a: { type: 'string', 'x-mcp-header': 'authorization' } } }],
  ['a large text', { description: 'x'.repeat(40_000) }],
])('a schema with %s is not shown', (_, schema) => {
  const tool = toolOf(agent({ input_schema: schema, output_schema: schema }));
  expect(tool.inputSchema).toEqual(OPEN);
  expect(tool.description).toContain('cannot be shown');
  expect(tool).not.toHaveProperty('outputSchema');
});

test('another output than an object is the member output, in the schema and in the result', () => {
  const list = agent({
    output_schema: { type: 'array', items: { $ref: '#/$defs/a' }, $defs: { a: { type: 'string' } } },
  });
  expect(toolOf(list).outputSchema).toEqual({
    type: 'object',
    properties: { output: { type: 'array', items: { $ref: '#/$defs/a' } } },
    required: ['output'],
    $defs: { a: { type: 'string' } },
  });
  expect(structuredOf(list, ['b'])).toEqual({ output: ['b'] });
  expect(structuredOf(agent(), { a: 1 })).toEqual({ a: 1 });
  expect(structuredOf(agent(), 'text')).toEqual({ output: 'text' });
  expect(structuredOf(agent(), null)).toEqual({ output: null });
  // References to the root would point elsewhere.
  const rooted = { type: 'array', items: { anyOf: [{ type: 'string' }, { $ref: '#' }] } };
  expect(toolOf(agent({ output_schema: rooted }))).not.toHaveProperty('outputSchema');
});
