import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Ajv } from 'ajv';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TEMPLATES } from '#cli/templates.ts';
import { EXAMPLES_FOLDER } from '#local/demo/examples.ts';
import { testWhere } from '#test/helpers/test-where.ts';
import { modelAnswers } from '../examples/model-answers.ts';
import { clientOf, type LocalTarget, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, tempFolder } from './command-line.ts';

let target: LocalTarget;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  target.llm.script({ rules: [QUIET, ...modelAnswers(shownBy).rules!] });
  const params = { workspace_id: (await clientOf(target).getOrg({})).id };
  await clientOf(target).putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-scripted' } });
  await clientOf(target).putSecret({ params, body: { name: 'SITE_WATCH_KEY', value: target.key } });
});
afterAll(() => target?.close());

/** Returns the answer in the README of an example. */
const shownBy = (name: string) =>
  JSON.parse(/```json\n([\s\S]*?)\n```/.exec(readFileSync(join(EXAMPLES_FOLDER, name, 'README.md'), 'utf8'))![1]!);

/** Log of the loop's fixture without errors. */
const QUIET = {
  marker: 'quiet.log',
  turns: [
    { toolCalls: [{ name: 'count_levels', input: { path: '/tmp/uploads/0_quiet.log' } }] },
    {
      toolCalls: [
        {
          name: 'submit_result',
          input: {
            summary: 'x',
            cause: null,
            confidence: 'high',
            began: null,
            ended: null,
            findings: [],
            next_steps: [],
          },
        },
      ],
    },
  ],
};

const platform = (line: string, cwd: string) =>
  commandLine(line.split(' '), {
    cwd,
    env: { PLATFORM_API_URL: target.url, PLATFORM_API_KEY: target.key },
  });
const offline = (line: string, cwd: string, columns?: number) =>
  commandLine(line.split(' '), {
    cwd,
    columns,
    env: { CI: '1' },
    fetch: () => Promise.reject(new Error('init asked the network')),
  });

const names = Object.keys(TEMPLATES) as (keyof typeof TEMPLATES)[];

describe.each(names)('the template %s', (template) => {
  const name = `my-${template}`;
  let cwd: string;
  let made: string[];

  async function make(): Promise<void> {
    cwd = tempFolder();
    const ended = await offline(`init ${name} --template ${template}`, cwd);
    expect(ended.status, ended.stderr).toBe(0);
    made = ended.json.files;
  }

  test('is complete without a network, and checked by the schemas beside it', async () => {
    await make();
    expect(made.filter((path) => !existsSync(join(cwd, path)))).toEqual([]);
    expect(made).toContain(`${name}/AGENTS.md`);
    expect(readFileSync(join(cwd, name, 'AGENTS.md'), 'utf8')).not.toMatch(/undefined|false|examples\//);
    const checked = made.filter((path) => /\/(agent|schema|tests\/fixture-[\w-]+)\.json$/.test(path));
    expect(checked.length).toBeGreaterThan(template === 'skill' ? -1 : 0);
    for (const path of checked) {
      const value = JSON.parse(readFileSync(join(cwd, path), 'utf8'));
      const schema = JSON.parse(readFileSync(join(cwd, dirname(path), value.$schema), 'utf8'));
      const validate = new Ajv({ strict: false }).compile(schema);
      expect(validate(value), `${path}: ${JSON.stringify(validate.errors)}`).toBe(true);
    }
    const settings = globSync('*/.vscode/settings.json', { cwd }).map((path) => join(cwd, path));
    for (const file of settings) {
      for (const { url } of JSON.parse(readFileSync(file, 'utf8'))['json.schemas']) {
        expect(existsSync(join(dirname(file), '..', url))).toBe(true);
      }
    }
  });

  const isCalled = template !== 'skill' && template !== 'service';
  testWhere(isCalled)(
    'passes its own tests',
    async ({ skip }) => {
      skip(template !== 'prompt' && target.interpreters.python === undefined, 'no sandbox works on this machine');
      await make();
      const env = { PATH: process.env.PATH!, HOME: cwd, ...target.llm.settings, ANTHROPIC_API_KEY: 'sk-ant-scripted' };
      const tested = await commandLine(['test', name, '--llm', 'record'], { cwd, env });
      skip(template === 'tool-node' && tested.stderr.includes('could not be installed'), 'no npm registry in reach');
      expect(tested.status, tested.stdout + tested.stderr).toBe(0);
    },
    120_000,
  );

  test('is published and answers', async ({ skip }) => {
    const needs = template.startsWith('tool') || ['orchestrator', 'loop', 'service'].includes(template);
    skip(needs && target.interpreters.python === undefined, 'no sandbox with Python works on this machine');
    await make();
    const folders = [...new Set(made.map((path) => path.split('/')[0]!))];
    for (const folder of [...folders.filter((each) => each !== name), name]) {
      const published = await platform(`publish ${folder}`, cwd);
      expect(published.status, published.stderr).toBe(0);
      expect(published.json.agent).toMatchObject({ name: folder, is_public: false });
    }
    if (template === 'skill') return;
    if (template === 'service') {
      const body = JSON.stringify({ agent: name, env: { SITES: `${target.url}/health` } });
      const deployed = await commandLine(['service', 'deploy', name, '--body', body], {
        env: { PLATFORM_API_URL: target.url, PLATFORM_API_KEY: target.key },
      });
      expect(deployed.status, deployed.stderr).toBe(0);
      const { id } = deployed.json.service;
      await expect
        .poll(async () => (await platform(`service logs ${id}`, cwd)).stdout)
        .toContain('INFO watches 1 addresses');
      expect((await platform(`service delete ${id} --yes`, cwd)).status).toBe(0);
      return;
    }
    const environment = async () => (await platform(`info ${name}`, cwd)).json.environment_status;
    await expect.poll(environment).not.toBe('building');
    skip((await environment()) === 'failed' && template === 'tool-node', 'no npm registry in reach');
    const folder = join(cwd, name);
    const samples = globSync('sample-files/*', { cwd: folder }).sort();
    const input = samples.length > 0 ? samples.map((path) => `--file ${path}`).join(' ') : 'sample-input.json';
    const ran = await platform(`run ${name} ${input}`, folder);
    expect(ran.status, ran.stderr).toBe(0);
    expect(ran.json.data).toEqual(shownBy(TEMPLATES[template].example));
  });
});

describe('platform init', () => {
  test('overwrites nothing', async () => {
    const cwd = tempFolder();
    mkdirSync(join(cwd, 'greeter'));
    writeFileSync(join(cwd, 'greeter/main.py'), 'print("mine")');
    const refused = await offline('init greeter --template tool-python', cwd);
    expect(refused.status).toBe(5);
    expect(refused.stderr).toContain('greeter/main.py');
    expect(readFileSync(join(cwd, 'greeter/main.py'), 'utf8')).toBe('print("mine")');
    expect(existsSync(join(cwd, 'greeter/agent.json'))).toBe(false);
  });

  test('leaves the agents that an orchestrator calls as they are', async () => {
    const cwd = tempFolder();
    expect((await offline('init csv-insights --template tool-python', cwd)).status).toBe(0);
    writeFileSync(join(cwd, 'csv-insights/main.py'), '# mine');
    const made = await offline('init digest --template orchestrator', cwd);
    expect(made.status, made.stderr).toBe(0);
    expect(readFileSync(join(cwd, 'csv-insights/main.py'), 'utf8')).toBe('# mine');
    expect(existsSync(join(cwd, 'ticket-triage/agent.json'))).toBe(true);
  });

  test.each([
    ['a name that no agent may have', 'init My_Agent --template prompt', 'lower-case'],
    ['a template that is none', 'init greeter --template robot', 'tool-python'],
    ['no template where nobody can be asked', 'init greeter', '--template'],
    ['no folder where nobody can be asked', 'init --template prompt', 'platform init greeter'],
  ])('refuses %s', async (_, line, words) => {
    const ended = await offline(line, tempFolder());
    expect(ended.status).toBe(5);
    expect(ended.stderr).toContain(words);
  });

  test('lists the templates', async () => {
    expect((await offline('init --list', tempFolder())).json.map(({ name }: { name: string }) => name)).toEqual(names);
  });

  test('the schemas that it writes are those that a platform serves', async () => {
    const cwd = tempFolder();
    await offline('init greeter --template prompt', cwd);
    const served = await fetch(`${target.url}/schemas/agent.json`);
    expect(served.headers.get('cache-control')).toContain('public');
    expect(await served.json()).toEqual(
      JSON.parse(readFileSync(join(cwd, 'greeter/.platform/agent.schema.json'), 'utf8')),
    );
  });
});
