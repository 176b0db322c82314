import { describe, expect, test } from 'vitest';
import { hostilePattern, newWorkspace, repeated, withLittleTime, withThreads } from '#test/helpers/checks.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { zip } from '#test/helpers/zip.ts';
import { checkBundle, checkDefinition, validate } from './checks.ts';

/** Two references on each of 40 levels are a trillion checks. */
const fanOut = Object.fromEntries(
  repeated(40, (i) => [
    `d${i}`,
    i === 39 ? { type: 'number' } : { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
  ]),
);
const many = repeated(100_000, (i) => ({ i }));

// On this thread each check takes a second, until its own limit ends it.
describe('a hostile value stops nobody', () => {
  test.each<[string, Record<string, unknown>, unknown]>([
    ['a pattern', { pattern: '^(a|a)*$' }, `${'a'.repeat(60)}!`],
    ['a pattern of names', { patternProperties: { '^(a|a)*$': {} } }, { [`${'a'.repeat(60)}!`]: 1 }],
    ['references', { $defs: fanOut, $ref: '#/$defs/d0' }, 1],
    ['unique objects', { uniqueItems: true }, many],
    ['equal objects', { type: 'array', items: { enum: repeated(2_000, (i) => ({ i, x: 1 })) } }, many],
    // Only the last alternative matches, so no value ends the check early.
    [
      'many branches',
      { items: { anyOf: [...repeated(4_000, (i) => ({ const: -1 - i })), { type: 'integer' }] } },
      repeated(500_000, (i) => i),
    ],
  ])('%s', async (_, schema, value) => {
    const deps = memoryDeps();
    await validate(deps, newWorkspace(), { pattern: 'x' }, 'x');
    const { tasks, result } = await withThreads(() => validate(deps, newWorkspace(), schema, value));
    expect(result).toHaveLength(1);
    expect(tasks).toEqual(['validate']);
  });
});

test.each<[string, Record<string, unknown>, unknown]>([
  ['many places', { items: { maxLength: 3 } }, repeated(200_000, () => 'abc')],
  ['a long text', { maxLength: 30_000_000, minLength: 1 }, 'ü'.repeat(10_000_000)],
  ['the format of an address', { format: 'email' }, `${'a.'.repeat(200_000)}@`],
  ['the format of a URI', { format: 'uri' }, `http://${'a%20'.repeat(200_000)} `],
  ['the format of a host', { format: 'hostname' }, `${'a-'.repeat(200_000)}`],
  ['the format of a pattern', { format: 'regex' }, '('.repeat(200_000)],
  ['multiples', { items: { multipleOf: 1e-9 } }, repeated(200_000, (i) => i + 0.1)],
  ['unique texts', { items: { type: 'string' }, uniqueItems: true }, repeated(200_000, String)],
])('%s: checked in a thread, whatever it takes', async (_, schema, value) => {
  const deps = memoryDeps();
  await validate(deps, newWorkspace(), { pattern: 'x' }, 'x');
  const { tasks } = await withThreads(() => validate(deps, newWorkspace(), schema, value));
  expect(tasks).toEqual(['validate']);
});

test('a manifest with many large schemas stops nobody', async () => {
  const schema = (tool: number) => ({
    type: 'object',
    properties: Object.fromEntries(
      repeated(1_000, (i) => [
        `tool_${tool}_property_${i}`,
        { type: 'string', pattern: `^[a-z]{${i}}$`, maxLength: i },
      ]),
    ),
  });
  const manifest = {
    name: 'large',
    type: 'agent',
    description: 'has large schemas',
    prompt: 'Work.',
    required_secrets: [],
    custom_tools: repeated(15, (i) => ({
      name: `tool_${i}`,
      description: 'does something',
      command: 'true',
      input_schema: schema(i),
    })),
  };
  const deps = memoryDeps();
  const { tasks } = await withThreads(() => checkDefinition(deps, newWorkspace(), manifest).catch(() => {}));
  expect(tasks).toEqual(['checkDefinition']);
});

test('a bundle with a large file is read elsewhere, and takes time of its workspace', async () => {
  const deps = withLittleTime();
  const workspace = newWorkspace('free');
  const bytes = zip([{ name: 'main.py' }, { name: 'zeros', content: Buffer.alloc(240 * 1024 * 1024) }]);
  const use = {
    version: { workspaceId: 'w', definition: { execution_engine: 'code_runtime' } as never },
    interpreters: {},
    registries: [],
  };
  const { tasks } = await withThreads(() => checkBundle(deps, workspace, bytes, use));
  expect(tasks).toEqual(['readContents']);
  await expect(checkBundle(deps, workspace, bytes, use)).rejects.toMatchObject({ code: 'RATE_LIMITED' });
});

describe('the time of a workspace', () => {
  test('is the same for checks that were sent at once', async () => {
    const deps = withLittleTime();
    const hostile = newWorkspace('free');
    const check = () =>
      validate(deps, hostile, ...hostilePattern).then(
        () => 'checked',
        (error) => error.code,
      );
    const outcomes = await Promise.all(repeated(300, check));
    expect(outcomes.filter((outcome) => outcome === 'checked')).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === 'RATE_LIMITED')).toHaveLength(299);
  });

  test('others are served between the checks of a workspace', async () => {
    const deps = memoryDeps();
    const hostile = newWorkspace();
    const waiting = repeated(5, () => validate(deps, hostile, ...hostilePattern));
    let ended = 0;
    for (const each of waiting) void each.then(() => ended++);
    await validate(deps, newWorkspace(), { pattern: 'x' }, 'x');
    expect(ended).toBeLessThan(waiting.length);
    await Promise.all(waiting);
  });
});
