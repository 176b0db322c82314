import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { clientOf, type LocalTarget, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, signedInAt, tempFolder } from './command-line.ts';

let target: LocalTarget;
/** The folder of the agent `greeter`, whose model says what its input has. */
const folder = mkdtempSync(join(tmpdir(), 'platform-evals-'));
const said = (text: string) => `[[llm ${JSON.stringify({ text })}]]`;
const manifest = {
  name: 'greeter',
  type: 'prompt',
  description: 'Greets',
  prompt: 'Greet {{text}}',
  supported_providers: ['anthropic'],
};

const platform = (args: readonly string[], cwd = folder, columns?: number) =>
  commandLine(args, signedInAt(target, { cwd, ...(columns !== undefined && { columns }) }));
const suite = (name: string, content: object) => {
  mkdirSync(join(folder, 'evals'), { recursive: true });
  writeFileSync(join(folder, 'evals', name), JSON.stringify(content));
};

beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  const client = clientOf(target);
  const workspace_id = (await client.getOrg({})).id;
  await client.putSecret({ params: { workspace_id }, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-evals' } });
  writeFileSync(join(folder, 'agent.json'), JSON.stringify(manifest));
  await client.createAgent({ body: manifest });
  await client.createAgent({ body: { ...manifest, prompt: 'Greet {{text}} again' } });
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await target?.close();
});

describe('platform publish, of an agent with a gate', () => {
  const gated = (text: string) => {
    const agent = tempFolder();
    const prompt = `${said(text)} {{text}}`;
    const body = { ...manifest, name: 'gated', prompt, evals: { gate: true, baseline: 'latest' } };
    writeFileSync(join(agent, 'agent.json'), JSON.stringify(body));
    mkdirSync(join(agent, 'evals'));
    const assert = [{ type: 'contains', value: 'file://wanted.txt' }];
    writeFileSync(join(agent, 'evals/a.yaml'), JSON.stringify({ tests: [{ vars: { text: 'x' }, assert }] }));
    writeFileSync(join(agent, 'evals/wanted.txt'), 'good');
    return agent;
  };

  test('sends the suites, waits if it is asked to, and ends with the verdict', async () => {
    const good = gated('good');
    const passed = await platform(['publish', '--wait'], good);
    expect(passed, passed.stderr).toMatchObject({
      status: 0,
      json: { agent: { version: 'v1', gate: { status: 'passed' } } },
    });
    expect(passed.json.url).toMatch(/\/gated\/latest\/run$/);
    expect((await platform(['publish'], good)).json).toMatchObject({ unchanged: true });

    const bad = gated('bad');
    const waiting = await platform(['publish'], bad);
    expect(waiting).toMatchObject({ status: 0, json: { agent: { version: 'v2', gate: { status: 'pending' } } } });
    expect(waiting.json.url).toMatch(/\/gated\/v2\/run$/);
    expect(waiting.stderr).toContain('latest waits until v2 has passed its evaluation');
    const held = await platform(['publish', '--wait'], bad);
    expect(held).toMatchObject({ status: 1, json: { unchanged: true } });
    expect(held.stderr).toMatch(/latest stays as it is: The evaluation (failed|regressed)/);
    expect(
      (await platform(['versions', 'gated'])).json.map(({ gate }: { gate: { status: string } }) => gate.status),
    ).toEqual(['failed', 'passed']);
    const again = await platform(['eval', 'gated@v2', '--published']);
    expect(again).toMatchObject({ json: { opens_gate: true, suites: [{ name: 'evals/a.yaml' }] } });
    expect(again.status).toBe(1);

    const copy = tempFolder();
    expect(await platform(['pull', 'gated@v1', 'copy'], copy)).toMatchObject({ status: 0 });
    expect(readFileSync(join(copy, 'copy/evals/wanted.txt'), 'utf8')).toBe('good');
    expect((await platform(['publish', 'copy', '--dry-run'], copy)).json).toMatchObject({ dry_run: true });
  });

  test('names what is missing', async () => {
    const agent = gated('good');
    rmSync(join(agent, 'evals/wanted.txt'));
    const lacking = await platform(['publish'], agent);
    expect(lacking).toMatchObject({ status: 5, stderr: expect.stringContaining('names file://wanted.txt') });
    rmSync(join(agent, 'evals'), { recursive: true });
    const without = await platform(['publish'], agent);
    expect(without.status).not.toBe(0);
    expect(without.stderr).toContain('the version has no suites that it could pass');
  });

  test('publishes a preview beside it', async () => {
    const made = await platform(['publish', '--preview', 'pr-7'], gated('other'));
    expect(made, made.stderr).toMatchObject({ status: 0, json: { agent: { gate: null, preview: { name: 'pr-7' } } } });
    expect(made.json.url).toMatch(/\/gated\/pr-7\/run$/);
    const called = await platform(['run', 'gated@pr-7', '--data', '{"text": "x"}']);
    expect(called, called.stderr).toMatchObject({ status: 0 });
    expect(called.stdout).toContain('other');
    const shown = await platform(['publish', '--preview', 'pr-7', '--dev'], gated('other'));
    expect(shown).toMatchObject({ status: 5 });
  });
});

describe('platform eval', () => {
  test('runs the suites of a folder, and its status tells the verdict', async () => {
    suite('good.yaml', {
      tests: [
        { description: 'greets', vars: { text: said('Hello Ann') }, assert: [{ type: 'contains', value: 'Ann' }] },
      ],
    });
    const passed = await platform(['eval', '--junit', 'results.xml']);
    expect(passed).toMatchObject({ status: 0, json: { verdict: 'passed', version: 'v2', cases: [{ passed: true }] } });
    expect(passed.stderr).toContain('1 runs');
    expect(readFileSync(join(folder, 'results.xml'), 'utf8')).toContain('testcase classname="greeter" name="greets"');

    suite('bad.yaml', { tests: [{ vars: { text: said('Hello Bob') }, assert: [{ type: 'contains', value: 'Ann' }] }] });
    const failed = await platform([
      'eval',
      'greeter@v1',
      '--suite',
      'evals/bad.yaml',
      '--repeat',
      '2',
      '--budget',
      '1',
    ]);
    expect(failed).toMatchObject({
      status: 1,
      json: { verdict: 'failed', version: 'v1', budget_usd: 1, counts: { runs: 2 } },
    });
    expect(failed.stderr).toContain('0 of 1 cases passed');

    const compared = await platform(['eval', '--suite', 'evals/good.yaml', '--baseline', 'v1']);
    expect(compared).toMatchObject({ status: 0, json: { baseline: 'v1', comparison: { pairs: 1, worse: 0 } } });

    const latest = await platform([
      ...['eval', '--suite', 'evals/bad.yaml', '--baseline', 'latest', '--markdown', 'table.md'],
    ]);
    expect(latest).toMatchObject({ status: 1, json: { version: 'v2', baseline: 'v1', verdict: 'failed' } });
    const table = readFileSync(join(folder, 'table.md'), 'utf8');
    expect(table).toContain('### ❌ greeter@v2: failed');
    expect(table).toContain('| case | v1 | v2 | why |');
    expect(table).toContain(`](${target.url}/dashboard/main/agents/greeter/evals/${latest.json.eval_id})`);
    expect(table).toContain(`](${target.url}/dashboard/main/runs/${latest.json.cases[0].runs[0].run_id})`);

    const spent = await platform([
      'eval',
      '--suite',
      'evals/good.yaml',
      'evals/bad.yaml',
      '--repeat',
      '5',
      '--budget',
      '0.0000001',
    ]);
    expect(spent).toMatchObject({ status: 10, json: { verdict: 'inconclusive' } });
  });

  test('sends the files that asserts name, and says which it lacks', async () => {
    mkdirSync(join(folder, 'checks'), { recursive: true });
    writeFileSync(join(folder, 'checks/schema.json'), '{"type": "object", "required": ["name"]}');
    const assert = (value: string) => ({
      tests: [{ vars: { text: said('{"name": 1}') }, assert: [{ type: 'is-json', value }] }],
    });
    suite('schema.yaml', assert('file://checks/schema.json'));
    expect(await platform(['eval', '--suite', 'evals/schema.yaml'])).toMatchObject({ status: 0 });
    suite('schema.yaml', assert('file://checks/other.json'));
    const lacking = await platform(['eval', '--suite', 'evals/schema.yaml']);
    expect(lacking).toMatchObject({ status: 5, stderr: expect.stringContaining('names file://checks/other.json') });
    const empty = await platform(['eval'], tempFolder());
    expect([empty.status, empty.stderr]).toEqual([5, expect.stringContaining('agent.json')]);
    expect(await platform(['eval', 'greeter'], tempFolder())).toMatchObject({
      status: 5,
      stderr: expect.stringContaining('No suites in'),
    });
    expect(await platform(['eval', '--suite', 'evals/good.yaml', '--repeat', 'x'])).toMatchObject({
      status: 5,
      stderr: expect.stringContaining('--repeat must be a number'),
    });
  });
});

test('a run becomes a case of a suite, whose comments stay', async () => {
  rmSync(join(folder, 'evals/new.yaml'), { force: true });
  const made = await platform(['run', 'greeter', '--data', JSON.stringify({ text: said('Hi') })]);
  expect(made.status).toBe(0);
  writeFileSync(join(folder, 'evals/found.yaml'), '# Found by users.\nthreshold: 0.5\ntests:\n  - vars: { text: x }\n');
  const added = await platform(['runs', 'add-case', 'greeter', '--suite', 'evals/found.yaml', '--expect']);
  expect(added).toMatchObject({ status: 0, json: { file: 'evals/found.yaml' } });
  const text = readFileSync(join(folder, 'evals/found.yaml'), 'utf8');
  expect(text).toContain('# Found by users.');
  expect(parse(text)).toEqual({
    threshold: 0.5,
    tests: [
      { vars: { text: 'x' } },
      {
        description: expect.stringMatching(/^run [0-9a-f]{8}$/),
        vars: { text: said('Hi') },
        run: added.json.run_id,
        assert: [{ type: 'equals', value: 'Hi' }],
      },
    ],
  });
  expect(
    await platform(['runs', 'add-case', 'greeter', '--suite', 'evals/new.yaml', '--description', 'new']),
  ).toMatchObject({ status: 0 });
  expect(parse(readFileSync(join(folder, 'evals/new.yaml'), 'utf8')).tests).toEqual([
    { description: 'new', vars: { text: said('Hi') }, run: added.json.run_id },
  ]);
  expect((await platform(['runs', '--limit', '1'])).json.runs).toHaveLength(1);

  const compared = await platform([
    ...['eval', 'greeter', '--suite', 'evals/found.yaml', '--baseline', 'observed', '--junit', 'lanes.xml'],
  ]);
  expect(compared.json).toMatchObject({
    baseline: 'observed',
    comparison: { pairs: 1, worse: 0 },
    observed_cases: { passed: 1 },
  });
  const shown = await platform(
    ['eval', 'greeter@v1', '--suite', 'evals/found.yaml', '--baseline', 'v2'],
    ...([folder, 120] as const),
  );
  expect(shown.stdout).toMatch(/case +recorded +v2 +asserts/);
  expect(readFileSync(join(folder, 'lanes.xml'), 'utf8')).toContain('<system-out>recorded: ✓</system-out>');
});

describe('platform import-evals', () => {
  const out = mkdtempSync(join(folder, 'out-'));
  const imported = (name: string) => parse(readFileSync(join(out, 'evals', name), 'utf8'));

  test('takes over a file of promptfoo, and says what it leaves', async () => {
    writeFileSync(
      join(out, 'promptfooconfig.yaml'),
      `
description: Translations
prompts: ['Translate {{text}}']
providers: ['openai:gpt-5']
defaultTest:
  options: { provider: 'anthropic:messages:claude-opus-4-5' }
  assert: [{ type: cost, threshold: 0.1 }]
evaluateOptions: { repeat: 3 }
tests:
  - description: greets
    vars: { text: Hello }
    assert:
      - { type: icontains, value: bonjour, weight: 2 }
      - { type: similar, value: bonjour }
      - { type: llm-rubric, value: is French }
      - { type: contains, value: '{{ text | upper }}' }
  - file://more.csv
`,
    );
    const { status, json } = await platform(['import-evals', 'promptfooconfig.yaml'], out);
    expect([status, json.cases]).toEqual([0, 1]);
    expect(json.left).toEqual([
      'prompts and providers: the agent has them; its input is vars',
      'tests[0].assert[1]: the platform has no asserts of the type similar',
      'tests[0].assert[3].value: filters, calls and blocks of templates stay as they are',
      'tests[1]: only cases in the file itself are taken over',
    ]);
    expect(imported('promptfooconfig.yaml')).toEqual({
      description: 'Translations',
      repeat: 3,
      judge: { model: 'anthropic/claude-opus-4-5' },
      defaultTest: { assert: [{ type: 'cost', threshold: 0.1 }] },
      tests: [
        {
          description: 'greets',
          vars: { text: 'Hello' },
          assert: [
            { type: 'icontains', value: 'bonjour', weight: 2 },
            { type: 'llm-rubric', value: 'is French' },
            { type: 'contains', value: '{{ text | upper }}' },
          ],
        },
      ],
    });
    const again = await platform(['import-evals', 'promptfooconfig.yaml'], out);
    expect(again).toMatchObject({ status: 5, stderr: expect.stringContaining('exists') });
  });

  test("takes over OpenAI's items and criteria", async () => {
    const lines = [
      { item: { ticket: 'My invoice', label: 'billing' } },
      { item: { ticket: 'It crashed', label: 'bug' } },
    ];
    writeFileSync(join(out, 'tickets.jsonl'), lines.map((line) => JSON.stringify(line)).join('\n'));
    const output = '{{ sample.output_text }}';
    const criteria = [
      { type: 'string_check', name: 'Right', input: output, reference: '{{ item.label }}', operation: 'eq' },
      {
        type: 'text_similarity',
        input: output,
        reference: '{{ item.label }}',
        evaluation_metric: 'fuzzy_match',
        pass_threshold: 0.5,
      },
      { type: 'text_similarity', input: output, reference: 'x', evaluation_metric: 'bleu', pass_threshold: 0.5 },
      {
        ...{ type: 'label_model', model: 'gpt-5', labels: ['good', 'bad'], passing_labels: ['good'] },
        input: [{ role: 'developer', content: `Is it polite? ${output}` }],
      },
      {
        ...{ type: 'score_model', model: 'gpt-5', range: [0, 10], pass_threshold: 7 },
        input: [{ role: 'user', content: { type: 'input_text', text: 'Rate {{ item.ticket }}' } }],
      },
      {
        type: 'python',
        source: 'def grade(sample, item):\n    return len(sample["output_text"]) / len(item["label"])',
        pass_threshold: 1,
      },
    ];
    writeFileSync(join(out, 'eval.json'), JSON.stringify({ testing_criteria: criteria }));
    const line = ['import-evals', 'tickets.jsonl', '--criteria', 'eval.json', '--input', 'ticket'];
    const { status, json } = await platform(line, out);
    expect([status, json.cases]).toEqual([0, 2]);
    expect(json.left).toEqual([
      'testing_criteria[1] (text_similarity): its measure is now the distance of Levenshtein, which is stricter',
      'testing_criteria[2] (text_similarity): the platform has no asserts with the measure bleu',
    ]);
    const { judge, tests } = imported('tickets.yaml');
    expect(judge).toEqual({ model: 'openai/gpt-5' });
    expect(tests[0]).toEqual({
      vars: { ticket: 'My invoice' },
      assert: [
        { type: 'equals', value: 'billing', metric: 'Right' },
        { type: 'levenshtein', value: 'billing', threshold: 4 },
        {
          type: 'llm-rubric',
          value: 'Is it polite? (the output)\n\nThe labels are: good, bad. It passes if the label is one of: good.',
        },
        { type: 'llm-rubric', value: expect.stringMatching(/^Rate My invoice\n/), threshold: 0.7 },
        { type: 'python', value: expect.stringContaining('def grade(sample, item):'), threshold: 1 },
      ],
    });
    // The program is what it was there: it gets the text of the output, and the item with what the agent does not get.
    const program = { vars: { text: said('billings') }, assert: [tests[0].assert[4]] };
    suite('imported.yaml', { tests: [program, { ...program, vars: { text: said('bill') } }], threshold: 0.5 });
    const graded = await platform(['eval', '--suite', 'evals/imported.yaml']);
    expect(graded.json.cases.map(({ runs: [run] }: { runs: [{ score: number }] }) => run.score)).toEqual([
      8 / 7,
      4 / 7,
    ]);
    expect(existsSync(join(out, 'evals/eval.yaml'))).toBe(false);
    writeFileSync(join(out, 'none.jsonl'), 'no json');
    expect(await platform(['import-evals', 'none.jsonl'], out)).toMatchObject({
      status: 5,
      stderr: expect.stringContaining('line 1 is not JSON'),
    });
  });
});
