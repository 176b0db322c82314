import { spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Ajv } from 'ajv';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { TEMPLATES } from '#cli/templates.ts';
import { EXAMPLES_FOLDER, listExamples } from '#local/demo/examples.ts';
import { testWhere } from '#test/helpers/test-where.ts';
import { clientOf, type LocalTarget, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, signedInAt, tempFolder } from './command-line.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

let target: LocalTarget;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  target.llm.script({ rules: MODEL });
  const params = { workspace_id: (await clientOf(target).getOrg({})).id };
  await clientOf(target).putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-scripted' } });
});
afterAll(() => target?.close());

const tool = (name: string, input: object) => ({ toolCalls: [{ name, input: input as Record<string, unknown> }] });
const NOTES = '/tmp/uploads/0_notes.txt';
const SHIFTS = '/tmp/uploads/0_shifts.txt';
const ANSWERS = {
  prompt: { summary: 'The bakery opens at seven from Monday.', language: 'en' },
  chat: { result: 'Flour, water and time.' },
  loop: { answer: 'The oven failed on Wednesday.', lines: [3] },
  'long-loop': { summary: 'The second oven is cold.', sent: ['Call a technician'] },
  approval: { refunded: 80 },
  orchestrator: { greetings: ['Hello, Ada!', 'Hello, Grace!'] },
  'durable-orchestrator': { greetings: ['Hello, Ada!', 'Hello, Grace!'] },
} as const;
const HELLO = { greeting: 'Hello, Ada!' };

/** The scripted model's answers to the samples and the fixtures. */
const MODEL = [
  { marker: 'Bäckerei', turns: [{ text: JSON.stringify({ summary: 'Sie öffnet um sieben.', language: 'de' }) }] },
  { marker: 'waited in the rain', turns: [{ text: JSON.stringify(ANSWERS.prompt) }] },
  { marker: 'good bread', turns: [{ text: ANSWERS.chat.result }] },
  {
    marker: 'closes at noon',
    turns: [{ text: JSON.stringify({ summary: 'The market closes at noon today.', language: 'en' }) }],
  },
  {
    marker: '0_missing.txt',
    turns: [
      tool('read_lines', { path: '/tmp/uploads/0_missing.txt', from: 1 }),
      tool('submit_result', { summary: 'The file is not there.', sent: [] }),
    ],
  },
  { marker: 'Wie viele Minuten', turns: [{ text: 'Eine Stunde hat 60 Minuten.' }] },
  {
    marker: 'notes.txt',
    turns: [
      tool('count_lines', { path: NOTES }),
      tool('find_lines', { path: NOTES, word: 'failed' }),
      tool('submit_result', ANSWERS.loop),
    ],
  },
  {
    marker: 'arrived broken',
    turns: [tool('refund', { order: 'A-17', amount: 80 }), tool('submit_result', ANSWERS.approval)],
  },
  {
    marker: 'shifts.txt',
    turns: [
      tool('read_lines', { path: SHIFTS, from: 1 }),
      tool('send_message', { title: 'Call a technician', body: 'The second oven is cold.' }),
      tool('submit_result', ANSWERS['long-loop']),
    ],
  },
];

const platform = (line: string, cwd: string) => commandLine(line.split(' '), signedInAt(target, { cwd }));
const offline = (line: string, cwd: string, columns?: number) =>
  commandLine(line.split(' '), {
    cwd,
    columns,
    env: { CI: '1' },
    fetch: () => Promise.reject(new Error('init asked the network')),
  });

const names = Object.keys(TEMPLATES) as (keyof typeof TEMPLATES)[];

/** Publishes the agents that `init` created beside the named one: a manifest is only valid with its dependencies. */
async function publishOthers(made: readonly string[], name: string, cwd: string): Promise<void> {
  const others = new Set(made.map((path) => path.split('/')[0]!).filter((folder) => folder !== name));
  for (const other of others) {
    const published = await platform(`publish ${other}`, cwd);
    expect(published.status, published.stderr).toBe(0);
  }
}

describe.each(names)('the template %s', (template) => {
  const name = `my-${template}`;
  const isService = ['web-app', 'worker'].includes(template);
  const isPython = ['hello-python', 'orchestrator', 'durable-orchestrator', 'worker'].includes(template);
  let cwd: string;
  let made: string[];

  async function make(): Promise<void> {
    cwd = tempFolder();
    const ended = await offline(`init ${name} --template ${template}`, cwd);
    expect(ended.status, ended.stderr).toBe(0);
    made = ended.json.files;
  }

  test('is small, complete without a network, valid, and checked by the schema beside it', async () => {
    await make();
    expect(made.filter((path) => !existsSync(join(cwd, path)))).toEqual([]);
    const seen = made.filter((path) => path.startsWith(`${name}/`) && !path.startsWith(`${name}/.`));
    expect(seen).toContain(`${name}/AGENTS.md`);
    expect(seen.length).toBeGreaterThanOrEqual(3);
    expect(seen.length).toBeLessThanOrEqual(6);
    expect(readFileSync(join(cwd, name, 'AGENTS.md'), 'utf8')).not.toMatch(/undefined|false|examples\//);
    for (const path of made.filter((file) => file.endsWith('/agent.json'))) {
      const value = JSON.parse(readFileSync(join(cwd, path), 'utf8'));
      const schema = JSON.parse(readFileSync(join(cwd, dirname(path), value.$schema), 'utf8'));
      const validate = new Ajv({ strict: false }).compile(schema);
      expect(validate(value), `${path}: ${JSON.stringify(validate.errors)}`).toBe(true);
    }
    await publishOthers(made, name, cwd);
    const validated = await platform(`validate ${name}`, cwd);
    expect(validated.status, validated.stderr).toBe(0);
  });

  testWhere(template !== 'skill')('passes its own tests', { timeout: 120_000 }, async ({ skip }) => {
    skip(target.interpreters.python === undefined, 'no sandbox with Python works on this machine');
    await make();
    if (isService) {
      const [command, args] = isPython ? ['python3', ['-m', 'unittest']] : [process.execPath, ['--test']];
      const tested = spawnSync(command as string, args as string[], { cwd: join(cwd, name), encoding: 'utf8' });
      expect(tested.status, tested.stdout + tested.stderr).toBe(0);
      return;
    }
    const env = { PATH: process.env.PATH!, HOME: cwd, ...target.llm.settings, ANTHROPIC_API_KEY: 'sk-ant-scripted' };
    const tested = await commandLine(['test', name, '--llm', 'record'], { cwd, env });
    expect(tested.status, tested.stdout + tested.stderr).toBe(0);
    expect(tested.json).toMatchObject({ ok: true, passed: 1 });
  });

  test('is published, answers, and passes its evaluation', { timeout: 120_000 }, async ({ skip }) => {
    skip(
      !['prompt', 'chat', 'skill'].includes(template) && target.interpreters.python === undefined,
      'no sandbox with Python works on this machine',
    );
    await make();
    const folders = [...new Set(made.map((path) => path.split('/')[0]!))];
    for (const folder of folders) {
      const published = await platform(`publish ${folder}`, cwd);
      expect(published.status, published.stderr).toBe(0);
      expect(published.json.agent).toMatchObject({ name: folder, is_public: false });
    }
    if (template === 'skill') return;
    const folder = join(cwd, name);
    if (isService) {
      const deployed = await platform(`service deploy ${name} --body @sample-deploy.json`, folder);
      expect(deployed.status, deployed.stderr).toBe(0);
      const { id } = deployed.json.service;
      const logs = async () => (await platform(`service logs ${id}`, cwd)).stdout;
      await expect.poll(logs, { timeout: 30_000 }).toContain(isPython ? 'INFO turn 2' : 'INFO listens on port');
      if (!isPython) {
        const page = async () => (await fetch(`${target.url}/services/${id}/?name=Ada`)).text();
        await expect.poll(page, { timeout: 30_000 }).toContain('<h1>Hello, Ada!</h1>');
        expect(await page()).toContain('<title>My first page</title>');
      }
      expect((await platform(`service delete ${id} --yes`, cwd)).status).toBe(0);
      return;
    }
    const samples = globSync('sample-files/*', { cwd: folder }).sort();
    const input = samples.length > 0 ? samples.map((path) => `--file ${path}`).join(' ') : 'sample-input.json';
    const ran = await platform(`run ${name} ${input}`, folder);
    expect(ran.status, ran.stderr).toBe(0);
    expect(ran.json.data).toEqual(template in ANSWERS ? ANSWERS[template as keyof typeof ANSWERS] : HELLO);
    const evaluated = await platform(`eval ${name}`, cwd);
    expect(evaluated.status, evaluated.stderr).toBe(0);
    expect(evaluated.json).toMatchObject({ verdict: 'passed', counts: { errors: 0 } });
    // A program answers at once: nothing is installed.
    expect((await platform(`info ${name}`, cwd)).json.environment_status).not.toBe('building');
  });
});

describe.each(listExamples().map(({ name }) => name))('the example %s', (example) => {
  test('is copied whole, private, and valid', async () => {
    const cwd = tempFolder();
    const made = await offline(`init my-copy --example ${example}`, cwd);
    expect(made.status, made.stderr).toBe(0);
    expect(made.json).toMatchObject({ name: 'my-copy', example });
    const left = /^README\.md$|node_modules\/|__pycache__\//;
    const there = globSync('**', { cwd: join(EXAMPLES_FOLDER, example), withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(join(EXAMPLES_FOLDER, example).length + 1))
      .filter((path) => !left.test(path));
    for (const path of there) {
      expect(existsSync(join(cwd, 'my-copy', path)), path).toBe(true);
      if (/\.(png|jpg|pdf|csv|log)$/.test(path)) {
        expect(readFileSync(join(cwd, 'my-copy', path))).toEqual(readFileSync(join(EXAMPLES_FOLDER, example, path)));
      }
    }
    await publishOthers(made.json.files, 'my-copy', cwd);
    const validated = await platform('validate my-copy', cwd);
    expect(validated.status, validated.stderr).toBe(0);
    if (existsSync(join(cwd, 'my-copy/agent.json'))) {
      expect(JSON.parse(readFileSync(join(cwd, 'my-copy/agent.json'), 'utf8')).is_public).toBeUndefined();
    }
  });
});

describe('platform init', () => {
  test('overwrites nothing', async () => {
    const cwd = tempFolder();
    mkdirSync(join(cwd, 'greeter'));
    writeFileSync(join(cwd, 'greeter/main.py'), 'print("mine")');
    const refused = await offline('init greeter --template hello-python', cwd);
    expect(refused.status).toBe(5);
    expect(refused.stderr).toContain('greeter/main.py');
    expect(readFileSync(join(cwd, 'greeter/main.py'), 'utf8')).toBe('print("mine")');
    expect(existsSync(join(cwd, 'greeter/agent.json'))).toBe(false);
  });

  test('leaves the agents that an orchestrator calls as they are', async () => {
    const cwd = tempFolder();
    expect((await offline('init csv-insights --template hello-python', cwd)).status).toBe(0);
    writeFileSync(join(cwd, 'csv-insights/main.py'), '# mine');
    const made = await offline('init digest --example support-digest', cwd);
    expect(made.status, made.stderr).toBe(0);
    expect(readFileSync(join(cwd, 'csv-insights/main.py'), 'utf8')).toBe('# mine');
    expect(existsSync(join(cwd, 'ticket-triage/agent.json'))).toBe(true);
  });

  test.each([
    ['a name that no agent may have', 'init My_Agent --template prompt', 'lower-case'],
    ['an unknown template', 'init greeter --template robot', 'hello-python'],
    ['an unknown example', 'init greeter --example robot', 'csv-insights'],
    ['an example that is no folder of its own', 'init greeter --example ../templates', 'csv-insights'],
    ['a template and an example', 'init greeter --template prompt --example csv-insights', 'not both'],
    ['no template without a terminal', 'init greeter', '--template: hello-python, hello-node'],
    ['no folder without a terminal', 'init --template prompt', 'platform init greeter'],
  ])('refuses %s', async (_, line, words) => {
    const cwd = tempFolder();
    const ended = await offline(line, cwd);
    expect(ended.status).toBe(5);
    expect(ended.stderr).toContain(words);
    expect(readdirSync(cwd)).toEqual([]);
  });

  test('lists the templates and the examples', async () => {
    const { templates, examples } = (await offline('init --list', tempFolder())).json;
    expect(templates.map((each: { name: string }) => each.name)).toEqual(names);
    const known = listExamples();
    expect(examples.map((each: { name: string }) => each.name)).toEqual(known.map(({ name }) => name).sort());
    for (const { name, summary, features } of examples) {
      expect(summary, name).not.toBe('');
      expect(features.length, name).toBeGreaterThan(0);
    }
    const asking = examples.filter((each: { needs_model_key: boolean }) => each.needs_model_key);
    expect(asking.map((each: { name: string }) => each.name)).toEqual([
      'log-investigator',
      'refund-desk',
      'support-digest',
      'ticket-triage',
    ]);
  });

  test('the schema that it writes is the one that a platform serves', async () => {
    const cwd = tempFolder();
    await offline('init greeter --template prompt', cwd);
    const served = await fetch(`${target.url}/schemas/agent.json`);
    expect(served.headers.get('cache-control')).toContain('public');
    expect(await served.json()).toEqual(
      JSON.parse(readFileSync(join(cwd, 'greeter/.platform/agent.schema.json'), 'utf8')),
    );
  });
});
