import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { bootstrap } from '#core/accounts/workspaces/bootstrap.ts';
import { createClient } from '#core/api/client.ts';
import { validateAgainst } from '#core/manifest/json-schema/schema-validation.ts';
import { parseLocalConfig } from '#local/config.ts';
import { EXAMPLES_FOLDER, listExamples, publishExamples } from '#local/demo/examples.ts';
import { type LocalServer, startLocalServer } from '#local/server.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { testWhere } from '#test/helpers/test-where.ts';
import { modelAnswers } from './model-answers.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

/** Differs from the manifests' org: dependencies must be rewritten. */
const ORG = 'bakery';
const NODE_FOLDER = dirname(process.execPath);
/** The SDK of this repository, for authors who installed nothing. */
const PYTHONPATH = join(EXAMPLES_FOLDER, '..', 'sdk', 'python');
const hasPython = spawnSync('python3', ['--version']).status === 0;

const read = (...path: string[]): string => readFileSync(join(EXAMPLES_FOLDER, ...path), 'utf8');
const has = (...path: string[]): boolean => existsSync(join(EXAMPLES_FOLDER, ...path));
const examples = listExamples();
const agents = examples.filter(({ type, isService }) => type !== 'skill' && !isService);
/** Its sample waits for a person. */
const WAITS = 'refund-desk';
const isPython = ({ command }: (typeof examples)[number]): boolean => command?.startsWith('python3') ?? false;
const fixturesOf = (name: string): string[] =>
  readdirSync(join(EXAMPLES_FOLDER, name, 'tests')).filter((file) => /^fixture-.*\.json$/.test(file));
const samplesOf = (name: string): string[] => readdirSync(join(EXAMPLES_FOLDER, name, 'sample-files')).sort();
/** The answer that the README shows. */
const shownBy = (name: string) => JSON.parse(/```json\n([\s\S]*?)\n```/.exec(read(name, 'README.md'))![1]!);

function expectAnswer(name: string, answer: unknown): void {
  const { output } = JSON.parse(read(name, 'schema.json'));
  expect(validateAgainst(output, answer)).toEqual([]);
  expect(answer).toEqual(shownBy(name));
}

interface Fixture {
  readonly input: unknown;
  readonly expected_output?: unknown;
  readonly expected_contains?: readonly string[];
  /** Answers of custom tools, which only a client's own test runs can use. */
  readonly mocks?: Readonly<Record<string, string>>;
}
const fixture = (name: string, file: string): Fixture => JSON.parse(read(name, 'tests', file));

function expectFixture({ expected_output: expected, expected_contains: parts = [] }: Fixture, answer: unknown): void {
  if (expected) expect(answer).toEqual(expected);
  for (const part of parts) expect(JSON.stringify(answer)).toContain(part);
}

describe.each(agents)('$name, as its author has it', ({ name, command }) => {
  const schemas = JSON.parse(read(name, 'schema.json'));

  test('the answer in its README, and all inputs beside it, fit its schemas', () => {
    expect(validateAgainst(schemas.output, shownBy(name))).toEqual([]);
    if (!schemas.input) return;
    const inputs = fixturesOf(name).map((file) => fixture(name, file).input);
    if (has(name, 'sample-input.json')) inputs.push(JSON.parse(read(name, 'sample-input.json')));
    for (const input of inputs) expect(validateAgainst(schemas.input, input)).toEqual([]);
  });

  testWhere(command === undefined)('its prompt and its tools name what there is', () => {
    const { custom_tools: tools = [] } = JSON.parse(read(name, 'agent.json'));
    const placeholders = [...read(name, 'prompt.md').matchAll(/\{\{(\w+)\}\}/g)].map((match) => match[1]!);
    expect(schemas.input?.required ?? []).toEqual(expect.arrayContaining(placeholders));
    for (const file of fixturesOf(name)) {
      const mocked = Object.keys(fixture(name, file).mocks ?? {});
      expect(tools.map((tool: { name: string }) => tool.name)).toEqual(expect.arrayContaining(mocked));
    }
  });
});

test('the lines that log-investigator shows are in its sample files', () => {
  const evidence = shownBy('log-investigator').findings.flatMap((finding: { evidence: object[] }) => finding.evidence);
  expect(evidence.length).toBeGreaterThan(5);
  for (const { file, line, text } of evidence) {
    expect(read('log-investigator', 'sample-files', file).split('\n')[line - 1]).toBe(text);
  }
});

const programs = agents.filter(({ command }) => command !== undefined);

describe.each(programs)('$name, as its author runs it', (example) => {
  const { name, command, needs_model_key: asksModel } = example;
  const fixtures = asksModel ? [] : fixturesOf(name);
  const { dependencies } = has(name, 'package.json') ? JSON.parse(read(name, 'package.json')) : {};
  let folder = join(EXAMPLES_FOLDER, name);
  /** Where the SDK finds the agents that it calls, without a platform. */
  let agentsFolder: string | undefined;
  let lacks: string | undefined;

  beforeAll(() => {
    if (isPython(example) && !hasPython) lacks = 'there is no python3 on this machine';
    if (!asksModel && example.needs.length > 0) {
      agentsFolder = mkdtempSync(join(tmpdir(), `${name}-calls-`));
      for (const need of example.needs) {
        mkdirSync(join(agentsFolder, 'main', need), { recursive: true });
        symlinkSync(join(EXAMPLES_FOLDER, need), join(agentsFolder, 'main', need, 'v1'));
      }
    }
    if (!dependencies) return;
    folder = mkdtempSync(join(tmpdir(), `${name}-`));
    // Without a manual installation: the lock file must suffice.
    const filter = (path: string) => basename(path) !== 'node_modules';
    cpSync(join(EXAMPLES_FOLDER, name), folder, { recursive: true, filter });
    const { status } = start('npm ci --no-audit --no-fund --prefer-offline --fetch-retries=0');
    if (status !== 0) lacks = 'no npm registry in reach';
  });
  afterAll(() => {
    if (dependencies) rmSync(folder, { recursive: true, force: true });
    if (agentsFolder) rmSync(agentsFolder, { recursive: true, force: true });
  });

  function start(line: string, input = '') {
    const PATH = `${NODE_FOLDER}:${process.env.PATH}`;
    const local = agentsFolder && { PLATFORM_LOCAL_EXECUTION: '1', PLATFORM_AGENTS_DIR: agentsFolder };
    const env = { ...process.env, PATH, PYTHONPATH, PYTHONDONTWRITEBYTECODE: '1', ...local };
    return spawnSync('sh', ['-c', line], { cwd: folder, input, env, encoding: 'utf8' });
  }

  function run(input: unknown): unknown {
    const { status, stdout, stderr } = start(command!, JSON.stringify(input));
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    return JSON.parse(stdout);
  }

  test('its own tests pass', ({ skip }) => {
    skip(lacks !== undefined, lacks);
    const { status, stdout, stderr } = start(isPython(example) ? 'python3 -m unittest' : 'node --test');
    expect(status, `${stdout}${stderr}`).toBe(0);
  });

  testWhere(!asksModel)('its sample has the answer that the README shows', ({ skip }) => {
    skip(lacks !== undefined, lacks);
    if (has(name, 'sample-input.json')) return expectAnswer(name, run(JSON.parse(read(name, 'sample-input.json'))));
    const files = samplesOf(name).map((file) => ({ path: join('sample-files', file), original_name: file }));
    expectAnswer(name, run({ files }));
  });

  test.for(fixtures)('%s', (file, { skip }) => {
    skip(lacks !== undefined, lacks);
    const given = fixture(name, file);
    expectFixture(given, run(given.input));
  });
});

describe('on the platform', () => {
  let server: LocalServer;
  let llm: ScriptedLlm;
  let key: string;
  let folder: string;
  const lines: string[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'platform-examples-'));
    llm = await startScriptedLlm();
    llm.script(modelAnswers(shownBy));
    const settings = { PLATFORM_DATA: folder, PLATFORM_PORT: '0', PLATFORM_WORKSPACE: ORG, ...llm.settings };
    server = await startLocalServer(parseLocalConfig(settings));
    key = (await bootstrap(server.deps))!;
    await publishExamples(server, (line) => lines.push(line));
    const client = createClient({ baseUrl: server.url, key });
    const { id } = await client.getOrg({});
    await client.putSecret({
      params: { workspace_id: id },
      body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-scripted-0123456789' },
    });
  });
  afterAll(async () => {
    await server.close(true);
    await llm.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test('each is published once, after what it needs', async () => {
    const published = examples.map(({ name }) => `publishing examples/${name}`);
    expect(lines.filter((line) => line.startsWith('publishing'))).toEqual(published);
    await publishExamples(server, (line) => lines.push(line));
    expect(lines.filter((line) => line.startsWith('publishing'))).toEqual(published);
    const versions = await createClient({ baseUrl: server.url, key }).listAgents({});
    expect(versions.map(({ name }) => name).sort()).toEqual(examples.map(({ name }) => name).sort());
    const digest = versions.find(({ name }) => name === 'support-digest')!;
    expect(digest.manifest?.dependencies).toContainEqual({ id: `${ORG}/ticket-triage`, version: 'v1' });
  });

  test.for(agents)('$name answers its sample as its README and its schema say', async (example, { skip }) => {
    await skipIfLacking(example, skip);
    const { name } = example;
    const { status, body } = name === WAITS ? await approved() : await call(name, sampleOf(name));
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.warnings).toBeUndefined();
    expectAnswer(name, body.data);
  });

  const asking = agents.filter(({ needs_model_key: asksModel }) => asksModel);
  const cases = asking
    .flatMap((example) => fixturesOf(example.name).map((file) => ({ ...example, file })))
    // Otherwise the platform runs the tools itself.
    .filter(({ name, file }) => fixture(name, file).mocks === undefined);
  test.for(cases)('$name: $file', async (example, { skip }) => {
    await skipIfLacking(example, skip);
    const given = fixture(example.name, example.file);
    const { status, body } = await call(example.name, JSON.stringify(given.input));
    expect(status, JSON.stringify(body)).toBe(200);
    expectFixture(given, body.data);
  });

  test("ticket-triage is told the house style, unless the caller doesn't want it", async () => {
    const asked = () => llm.requests.at(-1)!.text;
    const sample = sampleOf('ticket-triage');
    await call('ticket-triage', sample);
    expect(asked()).toMatch(/^\s*# How we answer customers[\s\S]*\n---\n[\s\S]*You sort the support tickets/);
    await call('ticket-triage', sample, { 'x-platform-no-skills': 'true' });
    expect(asked()).not.toContain('How we answer customers');
  });

  test('the tools of log-investigator show the model what is in the files', async ({ skip }) => {
    await skipIfLacking(agents.find(({ name }) => name === 'log-investigator')!, skip);
    await call('log-investigator', sampleOf('log-investigator'));
    const { text } = llm.requests.findLast((asked) => asked.text.includes('You find out from log files'))!;
    for (const seen of [
      /^ *133\n +\d+ INFO/m,
      / 35 ERROR http request=ID POST \/orders N/,
      / 3 2026-11-17T09:58/,
      /^18:2026-11-17T09:52:04.210Z INFO +settings pool.max=50/m,
      /^25:2026-11-17T09:54:30.000Z INFO +pool used=21/m,
    ]) {
      expect(text).toMatch(seen);
    }
    expect(text).not.toContain('[ERROR]');
  });

  test('support-digest says which tickets failed, and fails itself when all did', async ({ skip }) => {
    await skipIfLacking(agents.find(({ name }) => name === 'support-digest')!, skip);
    const input = JSON.parse(read('support-digest', 'sample-input.json'));
    const refused = { marker: 'fonts', turns: [{ status: 500, message: 'down' }] };
    llm.script({ rules: [refused] });
    const { body } = await call('support-digest', JSON.stringify(input));
    expect(body.data).toMatchObject({
      complete: false,
      failed: [
        { id: '1003', error: { code: 'LLM_ERROR' } },
        { id: '1004', error: { code: 'EMPTY' } },
      ],
    });
    expect(body.data.tickets).toHaveLength(3);

    llm.script({ rules: [{ ...refused, marker: 'Larder' }] });
    const none = await call('support-digest', JSON.stringify(input));
    expect(none).toMatchObject({ status: 500, body: { error: { code: 'SANDBOX_ERROR', category: 'code_error' } } });
    expect(none.body.error.message).toContain('none of the 5 tickets could be sorted; LLM_ERROR');
  });

  /** Calls the example that asks a person, approves what it asks for, and returns its answer. */
  async function approved() {
    const { status, body } = await call(WAITS, sampleOf(WAITS), { prefer: 'respond-async' });
    expect(status, JSON.stringify(body)).toBe(202);
    const client = createClient({ baseUrl: server.url, key });
    const workspace_id = (await client.getOrg({})).id;
    const params = { workspace_id, run_id: body.run_id };
    const until = (wanted: string) =>
      expect.poll(async () => (await client.getRun({ params })).status, { timeout: 30_000 }).toBe(wanted);
    await until('waiting');
    const [asked] = (await client.listApprovals({ params, query: { run_id: body.run_id } })).approvals;
    expect(asked).toMatchObject({ tool: 'refund', status: 'waiting', arguments: { order: 'A-17', amount: 250 } });
    const decision = { decision: 'approve', for: 'this' } as const;
    await client.decideApproval({ params: { workspace_id, approval_id: asked!.id }, body: decision });
    await until('completed');
    const { messages } = await client.listWorkspaceMessages({ params, query: { agent_name: WAITS } });
    // The second message asks for the approval; a repetition of the test has more.
    expect(messages[0]!.title).toBe('Refunded 250 USD of order A-17');
    return { status: 200, body: { data: (await client.getRun({ params })).output_data, warnings: undefined } };
  }

  async function skipIfLacking(example: (typeof examples)[number], skip: (condition: boolean, note: string) => void) {
    skip(isPython(example) && !hasPython, 'there is no python3 on this machine');
    const needsSandbox = example.command !== undefined || example.kind === 'loop';
    const { kind } = await server.deps.sandbox.status();
    skip(needsSandbox && kind === 'none', 'no sandbox works on this machine');
    // The e2e suite covers the platform's answer without a registry.
    const isUnpublished = lines.some((line) => line.includes('not published'));
    skip(example.name === 'html-to-markdown' && isUnpublished, 'no npm registry in reach');
  }

  async function call(name: string, body: string | FormData, more: Record<string, string> = {}) {
    const headers = {
      authorization: `Bearer ${key}`,
      ...(typeof body === 'string' && { 'content-type': 'application/json' }),
      ...more,
    };
    const response = await fetch(`${server.url}/${ORG}/${name}/latest/run`, { method: 'POST', headers, body });
    // biome-ignore lint/suspicious/noExplicitAny: answers of many agents.
    return { status: response.status, body: (await response.json()) as any };
  }

  function sampleOf(name: string): string | FormData {
    if (has(name, 'sample-input.json')) return read(name, 'sample-input.json');
    const form = new FormData();
    for (const file of samplesOf(name)) {
      form.append('files[]', new Blob([readFileSync(join(EXAMPLES_FOLDER, name, 'sample-files', file))]), file);
    }
    return form;
  }
});
