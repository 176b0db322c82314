import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { EXAMPLES_FOLDER } from '#local/demo/examples.ts';
import { modelAnswers } from '../examples/model-answers.ts';
import { clientOf, type LocalTarget, startLocalTarget } from '../helpers/platform.ts';
import { type ScriptedLlm, startScriptedLlm } from '../helpers/scripted-llm/server.ts';
import { commandLine, type Settings, startCommandLine, tempFolder } from './command-line.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

/** Each `platform test` here starts a whole platform in its own process. */
const TIMEOUT_MS = 120_000;
const KEY = 'sk-ant-made-up-and-never-kept';

let llm: ScriptedLlm;
let target: LocalTarget;
beforeAll(async () => {
  llm = await startScriptedLlm();
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
});
afterAll(async () => {
  await llm?.close();
  await target?.close();
});

const env = (more: Record<string, string> = {}) => ({ PATH: process.env.PATH!, HOME: tempFolder(), ...more });
const withModels = () => env({ ...llm.settings, ANTHROPIC_API_KEY: KEY, OPENAI_API_KEY: KEY, GEMINI_API_KEY: KEY });
const platform = (line: string, settings: Settings) => commandLine(line.split(' '), settings);

function folderOf(files: Record<string, unknown>): string {
  const folder = join(tempFolder(), 'agent');
  mkdirSync(join(folder, 'tests'), { recursive: true });
  for (const [path, value] of Object.entries(files)) {
    writeFileSync(join(folder, path), typeof value === 'string' ? value : JSON.stringify(value));
  }
  return folder;
}

const WEATHER_TOOL = {
  name: 'weather',
  description: 'Tells the weather.',
  command: 'curl -s https://weather.example.com/{{city}}',
  input_schema: { type: 'object', required: ['city'], properties: { city: { type: 'string' } } },
};
const LOOP = {
  name: 'forecast',
  type: 'agent',
  description: 'Tells whether to take an umbrella',
  required_secrets: [],
  loop: { max_turns: 4 },
  custom_tools: [WEATHER_TOOL],
};
const MOCK = 'it\'s {{raining}} "hard"\n100%';
const FORECAST = [
  { toolCalls: [{ name: 'weather', input: { city: 'Porto' } }] },
  { toolCalls: [{ name: 'submit_result', input: { umbrella: true } }] },
];

describe('a loop', { timeout: TIMEOUT_MS }, () => {
  test('is recorded once, and replayed without a key and without a model', async ({ skip }) => {
    skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox works on this machine');
    llm.script({ rules: [{ marker: 'umbrella advice', turns: FORECAST }] });
    const fixture = {
      input: { city: 'Porto' },
      mocks: { weather: MOCK },
      expected_output: { umbrella: true },
      expected_tools: ['weather', 'submit_result'],
      max_cost_usd: 1,
    };
    const cwd = folderOf({
      'agent.json': LOOP,
      'prompt.md': 'Give umbrella advice.',
      'schema.json': {
        output: { type: 'object', required: ['umbrella'], properties: { umbrella: { type: 'boolean' } } },
      },
      'tests/fixture-rain.json': fixture,
      'tests/fixture-dear.json': { ...fixture, max_cost_usd: 0, expected_tools: ['radar'] },
    });
    const recorded = await platform('test --llm record', { cwd, env: withModels() });
    expect(recorded.json.tests, JSON.stringify(recorded.json.tests)).toMatchObject([
      { name: 'dear', status: 'failed' },
      { name: 'rain', status: 'passed' },
    ]);
    expect(recorded.json.tests[0].failures.join()).toMatch(/must call radar .* called weather.*cost \$0\.0/s);
    // The tool did not run; the model got its mock verbatim.
    expect(llm.requests.at(-1)!.text).toContain(MOCK);

    const kept = readFileSync(join(cwd, 'tests/rain.llm.json'), 'utf8');
    expect(JSON.parse(kept).answers).toHaveLength(2);
    expect(kept).not.toContain(KEY);

    const asked = llm.asked;
    const replayed = await platform('test', { cwd, env: env() });
    expect(replayed.json.tests[1], replayed.stderr).toMatchObject({ name: 'rain', status: 'passed', failures: [] });
    expect(replayed.json.tests[1].cost_usd).toBeGreaterThan(0);
    expect(llm.asked).toBe(asked);

    writeFileSync(join(cwd, 'prompt.md'), 'Give better umbrella advice.');
    const changed = await platform('test --junit results.xml', { cwd, env: env() });
    expect(changed.status).toBe(1);
    expect(changed.json.tests[1].failures.join()).toContain('tests/rain.llm.json has no recorded answer for');
    expect(readFileSync(join(cwd, 'results.xml'), 'utf8')).toMatch(
      /failures="2".*<failure message="failed with LLM_ERROR/s,
    );
  });
});

describe('a prompt', { timeout: TIMEOUT_MS }, () => {
  test.each(['anthropic', 'openai', 'gemini'])('of %s is recorded and replayed', async (provider) => {
    llm.script({ rules: [{ marker: 'colour of', turns: [{ text: '{"colour": "blue"}' }] }] });
    const cwd = folderOf({
      'agent.json': { name: 'colours', type: 'prompt', description: 'Knows colours', supported_providers: [provider] },
      'prompt.md': 'Name the colour of {{thing}}.',
      'tests/fixture-sky.json': { input: { thing: 'sky' }, expected_output: { colour: 'blue' } },
    });
    const recorded = await platform('test --llm record', { cwd, env: withModels() });
    expect(recorded.json, recorded.stderr).toMatchObject({ ok: true });
    const { answers } = JSON.parse(readFileSync(join(cwd, 'tests/sky.llm.json'), 'utf8'));
    expect(answers).toMatchObject([{ provider, status: 200 }]);
    const replayed = await platform('test', { cwd, env: env() });
    expect(replayed.json, replayed.stderr).toMatchObject({ ok: true });
  });

  test('is not recorded without a key', async () => {
    const cwd = folderOf({
      'agent.json': { name: 'colours', type: 'prompt', description: 'Knows colours' },
      'prompt.md': 'x',
      'tests/fixture-a.json': { input: {} },
    });
    const refused = await platform('test --llm record', { cwd, env: env() });
    expect(refused.status).toBe(5);
    expect(refused.stderr).toContain('ANTHROPIC_API_KEY');
  });
});

test('an orchestrator is tested with the agents beside it', { timeout: TIMEOUT_MS }, async ({ skip }) => {
  skip(target.interpreters.python === undefined, 'no sandbox with Python works on this machine');
  const shown = (name: string) =>
    JSON.parse(/```json\n([\s\S]*?)\n```/.exec(readFileSync(join(EXAMPLES_FOLDER, name, 'README.md'), 'utf8'))![1]!);
  llm.script(modelAnswers(shown));
  const cwd = tempFolder();
  await platform('init digest --example support-digest', { cwd });
  const recorded = await platform('test digest --llm record', { cwd, env: withModels() });
  expect(recorded.json, recorded.stderr).toMatchObject({ ok: true, passed: 1 });
  expect(globSync('digest/tests/*.llm.json', { cwd })).toHaveLength(1);
});

const GREETER = JSON.stringify({
  ...{ name: 'greeter', type: 'tool', description: 'Greets', required_secrets: ['GREETING_TOKEN'] },
  runtime: { command: 'node main.js' },
});
const answering = (text: string) => `console.log(JSON.stringify({ greeting: "${text}" }));`;

test('--watch tests again at each change, on the same platform', { timeout: TIMEOUT_MS }, async ({ skip }) => {
  skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox works on this machine');
  const folder = folderOf({
    'agent.json': GREETER,
    'main.js': answering('Hello'),
    'tests/fixture-first.json': { input: {}, expected_output: { greeting: 'Hello' } },
  });
  const { written, lines, interrupt, ended } = startCommandLine(['test', folder, '--watch'], {
    env: env({ GREETING_TOKEN: 'made-up-token' }),
  });
  const told = () => lines().map(({ passed, failed }) => [passed, failed]);
  await expect.poll(told, { timeout: 60_000 }).toEqual([[1, 0]]);
  writeFileSync(join(folder, 'main.js'), answering('Good morning'));
  await expect.poll(told, { timeout: 30_000 }).toEqual([
    [1, 0],
    [0, 1],
  ]);
  writeFileSync(join(folder, 'agent.json'), '{"name": ');
  await expect.poll(() => written.stderr, { timeout: 30_000 }).toContain('agent.json');
  writeFileSync(join(folder, 'agent.json'), GREETER);
  await expect.poll(told, { timeout: 30_000 }).toEqual([
    [1, 0],
    [0, 1],
    [0, 1],
  ]);
  interrupt();
  expect(await ended).toBe(0);
  expect(written.stderr.match(/Starting a platform/g)).toHaveLength(1);
});

describe('platform run --local', { timeout: TIMEOUT_MS }, () => {
  const program = `process.stdin.on('data', (text) => {
    if (JSON.parse(text).fail) throw new Error('as it was told');
    console.error('greets');
    console.log(JSON.stringify({ greeting: 'Hello', token: process.env.GREETING_TOKEN.length }));
  });`;

  test('runs the agent of a folder in a sandbox, without a server', async ({ skip }) => {
    skip((await target.deps.sandbox.status()).kind === 'none', 'no sandbox works on this machine');
    const folder = folderOf({ 'agent.json': GREETER, 'main.js': program });
    const settings = { env: env({ GREETING_TOKEN: 'made-up-token' }), stdin: '' };
    const good = await commandLine(['run', folder, '--local', '--data', '{}'], settings);
    expect(good).toMatchObject({ status: 0, stderr: expect.stringContaining('greets') });
    expect(JSON.parse(good.stdout)).toMatchObject({ data: { greeting: 'Hello', token: 13 } });
    const failed = await commandLine(['run', folder, '--local', '--data', '{"fail": 1}'], settings);
    // A failing program is answered with 500, as on any platform.
    expect([failed.status, failed.stdout]).toEqual([8, '']);
    expect(failed.stderr).toContain('as it was told');
  });

  test('is refused for a folder that is no agent', async () => {
    const { status, stderr } = await commandLine(['run', tempFolder(), '--local'], { env: env(), stdin: '{}' });
    expect([status, stderr]).toEqual([5, expect.stringContaining('agent.json')]);
    expect(stderr).not.toContain('Starting');
  });
});

describe('on the platform that one is signed in to', () => {
  test('the published agent is called, and mocks are skipped', async ({ skip }) => {
    skip(target.interpreters.node === undefined, 'no sandbox with Node works on this machine');
    const cwd = folderOf({
      'agent.json': {
        name: 'echo',
        type: 'tool',
        description: 'Echoes',
        required_secrets: [],
        runtime: { command: 'node main.js' },
      },
      'main.js': 'process.stdin.pipe(process.stdout)',
      'tests/fixture-same.json': {
        input: { a: [1] },
        expected_output: { a: [1] },
        expected_contains: ['"a":[1]'],
        expected_schema: { type: 'object', required: ['a'] },
      },
      'tests/fixture-other.json': {
        input: { a: [1] },
        expected_output: { a: [2] },
        expected_schema: { required: ['b'] },
      },
      'tests/fixture-mocked.json': { input: {}, mocks: { weather: 'sun' } },
    });
    const signedIn = { PLATFORM_API_URL: target.url, PLATFORM_API_KEY: target.key };
    expect((await platform('publish', { cwd, env: signedIn })).status).toBe(0);
    const ended = await platform('test --live', { cwd, env: signedIn });
    expect(ended.status).toBe(1);
    expect(ended.json).toMatchObject({
      ok: false,
      tests: [
        { name: 'mocked', status: 'skipped' },
        {
          name: 'other',
          status: 'failed',
          failures: [expect.stringContaining('at a.0 must be 2, but is 1'), expect.stringContaining('b')],
        },
        { name: 'same', status: 'passed' },
      ],
    });
    const shown = await platform('test --live', { cwd, env: signedIn, columns: 80 });
    expect(shown.stdout).toMatch(
      /^- mocked .*\n.*\n✗ other .*\n {4}the output at a\.0.*\n.*\n✓ same .*\n1 passed, 1 failed, 1 skipped\n$/,
    );
    expect((await clientOf(target).listAgents({})).filter(({ name }) => name === 'echo')).toHaveLength(1);
  });
});

describe('files that cannot be used', () => {
  test.each([
    ['a member that is none', { input: {}, expected_ouput: 1 }, 'did you mean "expected_output"'],
    ['a wrong value', { input: {}, max_seconds: 'soon' }, 'max_seconds must be a number'],
    ['no object', [], 'must be an object'],
  ])('%s: %o', async (_, fixture, words) => {
    const cwd = folderOf({
      'agent.json': { name: 'colours', type: 'prompt', description: 'Knows colours' },
      'tests/fixture-a.json': fixture,
    });
    const ended = await platform('test', { cwd });
    expect(ended.status).toBe(5);
    expect(JSON.parse(ended.stderr).error.message).toContain(words);
    expect(ended.stderr).toContain('fixture-a.json');
  });

  test('no fixture at all', async () => {
    const cwd = folderOf({ 'agent.json': { name: 'colours', type: 'prompt', description: 'Knows colours' } });
    expect(await platform('test', { cwd })).toMatchObject({
      status: 5,
      stderr: expect.stringContaining('fixture-first'),
    });
  });
});
