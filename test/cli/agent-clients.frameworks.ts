import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { agentClient } from '../../cli/typing/agent-client.ts';
import { fetchMypy } from '../../scripts/fetch-test-tools.ts';
import { hostileSchemas } from '../sdk/hostile-schemas.ts';

/** Reads clients for Python as a type checker does; `test/sdk/agent-clients.test.ts` runs them. */
const folder = mkdtempSync(join(tmpdir(), 'agent-clients-'));
let python: string;
beforeAll(() => {
  python = fetchMypy();
}, 600_000);
afterAll(() => rmSync(folder, { recursive: true }));

const write = (file: string, input: unknown, output: unknown): void => {
  const agent = { version: 'acme/report@v3', called: 'latest', endpoints: ['run'], url: 'https://agents.example.org' };
  writeFileSync(join(folder, file), agentClient({ ...agent, input, output }, 'python'));
};

/** What mypy says. */
function checked(files: readonly string[]): string {
  const options = ['--strict', '--python-version', '3.10', '--no-error-summary'];
  return spawnSync(python, ['-m', 'mypy', ...options, ...files], { cwd: folder, encoding: 'utf8' }).stdout;
}

test('input and output have types', { timeout: 300_000 }, () => {
  const item = { type: 'object', properties: { count: { type: 'integer' }, inner: { $ref: '#/$defs/item' } } };
  const items = { type: 'array', items: { $ref: '#/$defs/item' } };
  const input = { type: 'object', properties: { items }, required: ['items'], $defs: { item } };
  write('report.py', input, { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] });
  // An ignored error that is none is an error of `--strict`.
  writeFileSync(
    join(folder, 'use.py'),
    `from report import Answer, ReportInput, ReportOutput, run

value: ReportInput = {"items": [{"count": 1, "inner": {}}]}
ok: bool = run(value).data["ok"]
for event in run.stream({"items": []}):
    if isinstance(event, Answer):
        ok = event.data["ok"]
answer: Answer[ReportOutput] = run.background(value).result()
run({"items": 1})  # type: ignore[typeddict-item]
run({})  # type: ignore[typeddict-item]
run(value).data["sum"]  # type: ignore[typeddict-item]
`,
  );
  expect(checked(['use.py'])).toBe('');
});

test.each([
  ['null', { type: 'null' }],
  ['a constant null', { const: null }],
  ['null alone or null', { anyOf: [{ type: 'null' }, { enum: [null] }] }],
  ['a name of null', { $ref: '#/$defs/none', $defs: { none: { type: 'null' } } }],
  ['anything', {}],
])('%s is a type', { timeout: 300_000 }, (_name, schema) => {
  write('report.py', schema, schema);
  writeFileSync(
    join(folder, 'use.py'),
    `from report import ReportInput, ReportOutput, run

value: ReportInput = None
output: ReportOutput = run(value).data
`,
  );
  expect(checked(['use.py'])).toBe('');
});

// What random values show is a fault, not the machine's.
test('hostile schemas are no errors', { timeout: 300_000, retry: 0 }, () => {
  const files = fc.sample(fc.tuple(hostileSchemas, hostileSchemas), 100).map(([input, output], index) => {
    write(`drawn${index}.py`, input, output);
    return `drawn${index}.py`;
  });
  expect(checked(files)).toBe('');
});
