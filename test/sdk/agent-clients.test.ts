import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { clientOf, publishCode, startLocalTarget } from '#test/helpers/platform.ts';
import { agentClient, type ClientLanguage } from '../../cli/typing/agent-client.ts';
import { commandLine, signedInAt } from '../cli/command-line.ts';
import { hostileSchemas } from './hostile-schemas.ts';

/** Clients that `platform client` writes: against a platform, and with hostile schemas. */
const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);
const target = await startLocalTarget();
const folder = mkdtempSync(join(tmpdir(), 'agent-clients-'));
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await target.close();
});

const INPUT = {
  type: 'object',
  properties: { a: { type: 'integer' }, b: { type: 'integer', description: 'The other */ one.' } },
  required: ['a', 'b'],
  additionalProperties: false,
};
const OUTPUT = { type: 'object', properties: { sum: { type: 'integer' } }, required: ['sum'] };
const ADD = `let text = ''; process.stdin.on('data', (part) => { text += part; }).on('end', () => {
  const { a, b } = JSON.parse(text);
  if (a < 0) { console.error('negative'); process.exit(1); }
  console.error('adding');
  console.log(JSON.stringify({ sum: a + b }));
});`;
const manifest = { input_schema: INPUT, output_schema: OUTPUT, default_endpoint: 'add-up' };
await publishCode(clientOf(target), 'daily-sum', { 'main.js': ADD }, manifest);

const write = async (language: ClientLanguage, file: string) => {
  const argv = ['client', language, 'acme/daily-sum', '--out', file];
  const ended = await commandLine(argv, signedInAt(target, { cwd: folder }));
  expect([ended.status, ended.json]).toEqual([0, { agent: 'acme/daily-sum@v1', language, file }]);
};
const environment = { ...process.env, PLATFORM_API_KEY: target.key, PLATFORM_API_URL: '' };

/** What the compiler says. */
function compiled(files: readonly string[]): string {
  const options = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess'];
  const more = ['--target', 'es2023', '--module', 'nodenext', '--allowImportingTsExtensions', '--types', 'node'];
  const types = ['--typeRoots', join(ROOT, 'node_modules/@types'), '--ignoreConfig'];
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const { stdout } = spawnSync(process.execPath, [tsc, ...options, ...more, ...types, ...files], {
    cwd: folder,
    encoding: 'utf8',
  });
  return stdout;
}

const EXPECTED = {
  sum: 3,
  version: 'v1',
  again: true,
  invalid: ['INVALID_INPUT', 400, true, false],
  session: true,
  failed: ['SANDBOX_ERROR', true],
  events: ['answer'],
  streamed: 7,
  background: 11,
  late: 'SANDBOX_ERROR',
  unauthorized: ['UNAUTHORIZED', 401],
  keyless: ['UNAUTHORIZED', true],
  unreachable: ['NETWORK_ERROR', true],
};

test('TypeScript: calls, errors, streams and runs that nobody waits for', { timeout: 180_000 }, async () => {
  await write('ts', 'sum.ts');
  const program = `import { addUp, AgentError, type DailySumInput, run } from './sum.ts';
const failure = async (work: Promise<unknown>): Promise<AgentError> => {
  const error = await work.then(() => undefined, (reason: unknown) => reason);
  if (!(error instanceof AgentError)) throw new Error('no failure: ' + String(error));
  return error;
};
const input: DailySumInput = { a: 1, b: 2 };
const { data, version } = await addUp(input);
const total: number = data.sum;
const once = { idempotencyKey: 'once-ts', tenant: 'ada' };
const [first, second] = [await run(input, once), await run(input, once)];
const { sessionId } = await run(input, { session: 'user-42' });
const invalid = await failure(run({ a: 'x' } as never));
const failed = await failure(run({ a: -1, b: 2 }));
const events: string[] = [];
let streamed = 0;
for await (const event of run.stream({ a: 3, b: 4 })) {
  if (event.type === 'answer') {
    streamed = event.answer.data.sum;
    events.push(event.type);
  } else if (typeof event.progress.type !== 'string') throw new Error('progress without a type');
}
const job = await run.background({ a: 5, b: 6 }, { key: process.env.PLATFORM_API_KEY });
const late = await failure((await run.background({ a: -1, b: 0 })).result());
const unauthorized = await failure(run(input, { key: 'sk_test_made_up' }));
delete process.env.PLATFORM_API_KEY;
const keyless = await failure(run(input));
const unreachable = await failure(run(input, { key: 'k', url: 'http://127.0.0.1:9' }));
const aborted = await run(input, { key: 'k', signal: AbortSignal.abort(new Error('enough')) }).catch((error: Error) => error.message);
if (aborted !== 'enough') throw new Error(String(aborted));
export async function wrong() {
  // @ts-expect-error: b is required.
  await run({ a: 1 });
  // @ts-expect-error: a is a number.
  await addUp({ a: '1', b: 2 });
  // @ts-expect-error: no such member.
  await run({ a: 1, b: 2, c: 3 });
  // @ts-expect-error: the output has none.
  (await run(input)).data.total;
}
console.log(JSON.stringify({
  sum: total, version, again: first.requestId === second.requestId,
  invalid: [invalid.code, invalid.status, invalid.requestId?.startsWith('req_'), invalid.isRetryable],
  session: sessionId !== undefined, failed: [failed.code, failed.runId !== undefined], events, streamed,
  background: (await job.result()).data.sum, late: late.code,
  unauthorized: [unauthorized.code, unauthorized.status], keyless: [keyless.code, keyless.hint !== undefined],
  unreachable: [unreachable.code, unreachable.isRetryable],
}));
`;
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(join(folder, 'program.ts'), program);
  expect(compiled(['program.ts'])).toBe('');
  const { stdout } = await run(process.execPath, [join(folder, 'program.ts')], { env: environment });
  expect(JSON.parse(stdout)).toEqual(EXPECTED);
});

test('Python: the same', { timeout: 180_000 }, async () => {
  await write('python', 'total.py');
  const program = `import json, os
from total import AgentError, Answer, Progress, add_up, run

def failure(call):
    try:
        call()
    except AgentError as error:
        return error
    raise Exception("no failure")

answer = add_up({"a": 1, "b": 2})
first, second = [run({"a": 1, "b": 2}, idempotency_key="once-py", tenant="ada") for _ in range(2)]
session_id = run({"a": 1, "b": 2}, session="user-42").session_id
invalid = failure(lambda: run({"a": "x"}))
failed = failure(lambda: run({"a": -1, "b": 2}))
events, streamed = [], 0
for event in run.stream({"a": 3, "b": 4}):
    if isinstance(event, Answer):
        streamed = event.data["sum"]
        events.append("answer")
    else:
        assert isinstance(event, Progress) and event.type
job = run.background({"a": 5, "b": 6}, key=os.environ["PLATFORM_API_KEY"])
late = failure(lambda: run.background({"a": -1, "b": 0}).result())
unauthorized = failure(lambda: run({"a": 1, "b": 2}, key="sk_test_made_up"))
del os.environ["PLATFORM_API_KEY"]
keyless = failure(lambda: run({"a": 1, "b": 2}))
unreachable = failure(lambda: run({"a": 1, "b": 2}, key="k", url="http://127.0.0.1:9"))
assert failure(lambda: run({"a": 1, "b": 2}, key="k", url="file:///etc")).code == "NETWORK_ERROR"
print(json.dumps({
    "sum": answer.data["sum"], "version": answer.version, "again": first.request_id == second.request_id,
    "invalid": [invalid.code, invalid.status, invalid.request_id.startswith("req_"), invalid.is_retryable],
    "session": session_id is not None, "failed": [failed.code, failed.run_id is not None], "events": events, "streamed": streamed,
    "background": job.result().data["sum"], "late": late.code,
    "unauthorized": [unauthorized.code, unauthorized.status], "keyless": [keyless.code, keyless.hint is not None],
    "unreachable": [unreachable.code, unreachable.is_retryable],
}))
`;
  writeFileSync(join(folder, 'program.py'), program);
  const { stdout } = await run('python3', [join(folder, 'program.py')], { env: environment });
  expect(JSON.parse(stdout)).toEqual(EXPECTED);
});

test('the command prints it, replaces only what it wrote, and knows what has no client', async () => {
  const signedIn = signedInAt(target, { cwd: folder });
  const printed = await commandLine(['client', 'python', 'daily-sum@v1'], signedIn);
  expect(printed.stdout).toContain('Endpoint("/acme/daily-sum/v1/add-up")');
  const json = await commandLine(['client', 'ts', 'daily-sum', '--json'], signedIn);
  expect(json.json).toMatchObject({ agent: 'acme/daily-sum@v1', language: 'ts' });
  expect(json.json.source).toContain('endpointOf("/acme/daily-sum/latest/run")');
  writeFileSync(join(folder, 'mine.ts'), 'export const mine = 1;\n');
  const refused = await commandLine(['client', 'ts', 'daily-sum', '--out', 'mine.ts'], signedIn);
  expect(refused.stderr).toContain('mine.ts was not written by `platform client`');
  expect(readFileSync(join(folder, 'mine.ts'), 'utf8')).toBe('export const mine = 1;\n');
  const skill = { name: 'manners', type: 'skill', description: 'x', prompt: 'Be kind.', required_secrets: [] };
  await clientOf(target).createAgent({ body: { ...skill, supported_providers: ['any'] } });
  expect((await commandLine(['client', 'ts', 'manners'], signedIn)).stderr).toContain('is a skill: it is not called');
  expect((await commandLine(['client', 'ruby', 'daily-sum'], signedIn)).status).not.toBe(0);
});

const sourceOf = (language: ClientLanguage, input: unknown, output: unknown, more: object = {}) =>
  agentClient(
    {
      ...{ version: 'acme/daily-report@v3', called: 'latest', endpoints: ['run'], url: 'https://agents.example.org' },
      ...{ input, output, ...more },
    },
    language,
  );

/** Compiles modules of Python, runs them, and returns for each whether a name comes from a schema. */
function pwnedIn(sources: readonly string[]): boolean[] {
  const program = `import ast, json, sys
results = []
for source in json.load(sys.stdin):
    tree = ast.parse(source)
    names = [getattr(node, part) for node in ast.walk(tree) for part in ("id", "attr", "name", "arg") if hasattr(node, part)]
    exec(compile(tree, "client", "exec"), {"__name__": "__main__"})
    results.append(any("pwned" in name for name in names if isinstance(name, str)))
print(json.dumps(results))`;
  return JSON.parse(
    execFileSync('python3', ['-c', program], { input: JSON.stringify(sources), encoding: 'utf8', maxBuffer: 1 << 26 }),
  );
}

const SLASHED = ['evil\n@v1', 'pwned()', '*/ pwned() /*', '"""', '\u2028pwned()'];

test('no text of a schema, a name or an address breaks out, in either language', { timeout: 180_000 }, () => {
  const drawn = fc.sample(fc.tuple(hostileSchemas, hostileSchemas, fc.constantFrom(...SLASHED)), 40);
  const sources = (language: ClientLanguage) =>
    drawn.map(([input, output, text]) =>
      sourceOf(language, input, output, {
        version: `acme/daily-report@${text}`,
        called: text,
        url: `https://x.test/${text}`,
        endpoints: [text, 'run'],
      }),
    );
  expect(pwnedIn(sources('python')).length).toBe(40);
  const files = sources('ts').map((source, index) => {
    writeFileSync(join(folder, `drawn${index}.ts`), source);
    return `drawn${index}.ts`;
  });
  expect(compiled(files)).toBe('');
});

test('endpoints whose names are words of the language, or of the client', { timeout: 120_000 }, () => {
  const endpoints = [
    'class',
    'def',
    'fetch',
    'endpointOf',
    'AgentError',
    'Answer',
    'json',
    '3d',
    'a-b',
    'a_b',
    'None',
    'match',
  ];
  writeFileSync(join(folder, 'words.ts'), sourceOf('ts', {}, {}, { endpoints }));
  expect(compiled(['words.ts'])).toBe('');
  const python = sourceOf('python', {}, {}, { endpoints });
  expect(pwnedIn([python])).toEqual([false]);
  expect([...python.matchAll(/^(\w+): Endpoint\[/gm)].map(([, name]) => name)).toEqual([
    ...[
      'class2',
      'def2',
      'fetch',
      'endpointof',
      'agenterror',
      'answer',
      'json2',
      'call_3d',
      'a_b',
      'a_b2',
      'none',
      'match2',
    ],
  ]);
});

test('an input of 5,000 members', { timeout: 120_000 }, () => {
  const properties = Object.fromEntries(
    Array.from({ length: 5000 }, (_, n) => [`m${n}'`, { enum: ['a"', n], description: '*/' }]),
  );
  const schema = { type: 'object', properties, required: Object.keys(properties) };
  writeFileSync(join(folder, 'large.ts'), sourceOf('ts', schema, schema));
  expect(compiled(['large.ts'])).toBe('');
  expect(pwnedIn([sourceOf('python', schema, schema)])).toEqual([false]);
});
