import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { agentTypes, type TypesLanguage } from '../../cli/typing/agent-types.ts';
import { hostileSchemas } from './hostile-schemas.ts';

const ROOT = join(import.meta.dirname, '../..');

function folderWithSdk(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sdk-types-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(join(ROOT, 'sdk/js'), join(folder, 'node_modules/agent-platform-sdk'));
  return folder;
}

/** What the compiler says. */
function compiled(folder: string, files: readonly string[]): string {
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--allowImportingTsExtensions', '--types', 'node'];
  const types = ['--typeRoots', join(ROOT, 'node_modules/@types')];
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  return spawnSync(process.execPath, [tsc, ...options, ...types, ...files], { cwd: folder, encoding: 'utf8' }).stdout;
}

const sourceOf = (input: unknown, output: unknown, language: TypesLanguage, version = 'acme/daily-report@v3') =>
  agentTypes({ names: [version.split('@')[0]!, version], version, input, output }, language);

const INPUT = {
  type: 'object',
  description: 'What to report.',
  properties: {
    month: { type: 'string', description: 'Such as 2026-10.' },
    kind: { enum: ['short', 'long', 3, true, null] },
    'line-width': { type: 'integer', nullable: true },
    tree: { $ref: '#/$defs/node' },
    rates: { type: 'object', additionalProperties: { type: 'number' } },
    to: { type: ['string', 'null'] },
    from: { anyOf: [{ const: 'start' }, { type: 'object', properties: { at: { type: 'number' } } }] },
    both: { allOf: [{ $ref: '#/$defs/node' }, { properties: { size: { type: 'number' } }, required: ['size'] }] },
    odd: { not: {} },
  },
  required: ['month'],
  additionalProperties: false,
  $defs: {
    node: {
      type: 'object',
      properties: { name: { type: 'string' }, children: { type: 'array', items: { $ref: '#/$defs/node' } } },
      required: ['name'],
    },
  },
};
const OUTPUT = { type: 'object', properties: { total: { type: 'number' } }, required: ['total'] };

test('TypeScript checks calls by the types of an agent', { timeout: 120_000 }, () => {
  const folder = folderWithSdk();
  writeFileSync(join(folder, 'report.types.ts'), sourceOf(INPUT, OUTPUT, 'typescript'));
  writeFileSync(
    join(folder, 'program.ts'),
    `import { Platform } from 'agent-platform-sdk';
import type { DailyReportInput, DailyReportInputNode } from './report.types.ts';
export async function use(platform: Platform): Promise<number> {
  const tree: DailyReportInputNode = { name: 'a', children: [{ name: 'b' }] };
  const input: DailyReportInput = { month: '2026-10', kind: 3, 'line-width': null, tree, rates: { eur: 1 }, to: null,
    from: { at: 1 }, both: { name: 'c', size: 1 }, odd: [] };
  await platform.call('acme/daily-report@v3', input);
  // @ts-expect-error: month is required.
  await platform.call('acme/daily-report', {});
  // @ts-expect-error: not one of the values.
  await platform.call('acme/daily-report', { month: '1', kind: 'wide' });
  // @ts-expect-error: a node has a name.
  await platform.call('acme/daily-report', { month: '1', tree: { name: 'a', children: [{}] } });
  // @ts-expect-error: size is required of both.
  await platform.call('acme/daily-report', { month: '1', both: { name: 'c' } });
  // @ts-expect-error: no such member.
  await platform.call('acme/daily-report', { month: '1', months: 1 });
  const { data } = await platform.call('acme/daily-report', input);
  // @ts-expect-error: the output has none.
  data.sum;
  const chat = platform.session('acme/daily-report', 'user-42');
  // @ts-expect-error: month is required.
  await (await chat.fork(0)).send({});
  const said: number = (await chat.send('October?')).data.total;
  for await (const event of chat.stream(input)) if (event.type === 'result') event.data.total = said;
  return data.total;
}
`,
  );
  expect(compiled(folder, ['program.ts'])).toBe('');
});

/** Runs sources of modules in Python, and returns what the last expression gives for each. */
function inPython(sources: readonly string[], expression: string): unknown[] {
  const program = `import ast, json, sys, typing
results = []
for source in json.load(sys.stdin):
    for node in ast.parse(source).body:
        assert isinstance(node, (ast.ImportFrom, ast.Assign, ast.ClassDef)), ast.dump(node)
    space = {"__name__": "types_of_agent"}
    exec(source, space)
    results.append(eval(${JSON.stringify(expression)}, {**space, "space": space, "typing": typing}))
print(json.dumps(results))`;
  const answer = execFileSync('python3', ['-c', program], { input: JSON.stringify(sources), encoding: 'utf8' });
  return JSON.parse(answer);
}

test('Python has them as typed dictionaries', () => {
  const [result] = inPython(
    [sourceOf(INPUT, OUTPUT, 'python')],
    `[sorted(DailyReportInput.__required_keys__), sorted(DailyReportInput.__optional_keys__), DailyReportInput.__doc__,
      {name: str(kind) for name, kind in typing.get_type_hints(DailyReportInput, space).items()},
      sorted(DailyReportInputBoth.__required_keys__), typing.get_type_hints(DailyReportOutput, space) == {"total": float}]`.replaceAll(
      /\s+/g,
      ' ',
    ),
  ) as [[string[], string[], string, Record<string, string>, string[], boolean]];
  const [required, optional, description, kinds, both, isOutput] = result;
  expect(required).toEqual(['month']);
  expect(optional).toEqual(['both', 'from', 'kind', 'line-width', 'odd', 'rates', 'to', 'tree']);
  expect(description).toBe('What to report.');
  expect(kinds.kind).toContain("Literal['short']");
  expect(kinds.rates).toBe('typing.Dict[str, float]');
  expect(kinds.odd).toBe('typing.Any');
  expect(both).toEqual(['name', 'size']);
  expect(isOutput).toBe(true);
});

test('a file without schemas accepts every object', () => {
  expect(sourceOf(null, null, 'typescript', 'acme/3d@v1')).toContain(
    'export type Agent3dInput = object;\n\nexport type Agent3dOutput = unknown;\n',
  );
  expect(inPython([sourceOf(null, null, 'python')], 'DailyReportInput is typing.Any')).toEqual([true]);
});

test('no schema breaks out of its file, in either language', { timeout: 120_000 }, () => {
  const sources = fc.sample(fc.tuple(hostileSchemas, hostileSchemas), 150);
  const python = sources.map(([input, output]) => sourceOf(input, output, 'python'));
  const hints = '[typing.get_type_hints(kind, space) and None for kind in space.values() if isinstance(kind, type)]';
  expect(inPython(python, hints)).toHaveLength(150);
  // Code from a schema would name what does not exist, or be no TypeScript.
  const folder = folderWithSdk();
  const files = sources.map(([input, output], index) => {
    writeFileSync(join(folder, `${index}.ts`), sourceOf(input, output, 'typescript', `acme/a${index}@v1`));
    return `${index}.ts`;
  });
  expect(compiled(folder, files)).toBe('');
});

test('deep, circular and multiplying schemas end soon', () => {
  let deep: object = { type: 'string' };
  for (let depth = 0; depth < 5_000; depth++) deep = { type: 'array', items: deep };
  const chain = Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`d${n}`, { $ref: `#/$defs/d${n + 1}` }]));
  const entries = Object.keys(chain).map((name) => [name, { $ref: `#/$defs/${name}` }]);
  const doubling = Object.fromEntries(
    Array.from({ length: 40 }, (_, n) => {
      const before = { $ref: `#/$defs/m${n - 1}` };
      return [`m${n}`, { allOf: [before, before, { properties: { [`p${n}`]: { allOf: [before, before] } } }] }];
    }),
  );
  const schemas = [
    deep,
    { $defs: chain, type: 'object', properties: Object.fromEntries(entries.reverse()) },
    { $defs: doubling, $ref: '#/$defs/m39' },
    { $ref: '#' },
    { allOf: [{ $ref: '#' }, { $ref: '#/$defs/a' }], $defs: { a: { anyOf: [{ $ref: '#/$defs/a' }, { $ref: '#' }] } } },
  ];
  const began = Date.now();
  for (const schema of schemas) expect(sourceOf(schema, schema, 'typescript').length).toBeLessThan(20_000_000);
  const python = schemas.map((schema) => sourceOf(schema, schema, 'python'));
  expect(inPython(python, 'len(space) > 0')).toEqual(schemas.map(() => true));
  expect(Date.now() - began).toBeLessThan(30_000);
});
