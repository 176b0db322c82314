import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { Client } from '../../core/api/client.ts';
import { request } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite, expectAccessible } from './browser.ts';

const HOSTILE = '<img src=x onerror="window.deceived=1"> \u202egnp.exe';
const ESCAPED = '<img src=x onerror="window.deceived=1"> \\u{202e}gnp.exe';

const said = (text: string) => `[[llm ${JSON.stringify({ text })}]]`;

describeSite('evaluations', (site) => {
  const ids = new Map<string, string>();
  const publish = async (name: string, prompt: string) => {
    const manifest = { name, type: 'prompt', description: name, prompt, supported_providers: ['anthropic'] };
    const { agent } = await site.client.createAgent({ body: manifest as never });
    ids.set(`${name}@${agent.version}`, agent.id);
  };
  const pageOf = (agent: string, evalId: string, query = '') =>
    `/acme/agents/${agent.split('@')[0]}/evals/${evalId}${query}`;
  const start = (agent: string, suite: object, more: object = {}) =>
    site.client.createEval({
      params: { id: ids.get(agent)! },
      body: { suites: { 'evals/first.yaml': JSON.stringify(suite) }, ...more },
    });
  const evaluate = async (agent: string, suite: object, more: object = {}): ReturnType<Client['getEval']> => {
    const { eval_id } = await start(agent, suite, more);
    const params = { id: ids.get(agent)!, eval_id };
    await expect
      .poll(async () => (await site.client.getEval({ params })).status, { timeout: 20_000 })
      .not.toBe('running');
    return site.client.getEval({ params });
  };

  beforeAll(async () => {
    const workspace_id = (await site.client.getSession({})).workspace.id;
    const body = { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' };
    await site.client.putSecret({ params: { workspace_id }, body });
    await publish('echo', 'Answer {{text}}');
    await publish('many', 'Answer {{text}}');
    for (const answer of ['good', 'bad']) await publish('graded', `Work on {{text}}. ${said(answer)}`);
  });

  test('suites are chosen in the browser, what is wrong with them is said, and the result is shown', async () => {
    const page = await site.open('/acme/agents/echo?tab=evals');
    await page.getByText('No evaluations yet').waitFor();
    await page.getByText('eval echo').waitFor();
    expect(await page.getByRole('link', { name: 'How evaluations work' }).getAttribute('href')).toBe(
      `${site.target.url}/docs/evals`,
    );
    await page.getByRole('button', { name: 'Evaluate' }).click();
    const dialog = page.getByRole('dialog', { name: 'Evaluate echo' });
    const [files, folder] = [dialog.locator('input[type=file]').first(), dialog.locator('input[type=file]').last()];
    const begin = dialog.getByRole('button', { name: 'Start evaluation' });
    expect(await begin.isDisabled()).toBe(true);
    const textFile = (name: string, content: unknown) => ({
      name,
      mimeType: 'text/plain',
      buffer: Buffer.from(typeof content === 'string' ? content : JSON.stringify(content)),
    });
    await files.setInputFiles(textFile('notes.txt', 'x'));
    await dialog.getByRole('alert').getByText('No suite is among the files').waitFor();
    await files.setInputFiles(textFile('wrong.yaml', 'tests: [{ assert: [{ type: similar, value: x }] }]'));
    await begin.click();
    await dialog.getByRole('alert').getByText('wrong.yaml: tests[0].assert[0].type: "similar" is not a type').waitFor();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Clear' }).click();
    expect(await dialog.getByRole('alert').count()).toBe(0);

    const root = join(mkdtempSync(join(tmpdir(), 'suites-')), 'echo');
    mkdirSync(join(root, 'evals'), { recursive: true });
    writeFileSync(join(root, 'agent.json'), '{}');
    writeFileSync(join(root, 'label.json'), '{"type": "object", "required": ["label"]}');
    const greets = { description: 'labels', vars: { text: said('{"label": "refund"}') } };
    const isJson = { type: 'is-json', value: 'file://label.json' };
    writeFileSync(join(root, 'evals/first.yaml'), JSON.stringify({ tests: [{ ...greets, assert: [isJson] }] }));
    await folder.setInputFiles(root);
    await dialog.getByText('evals/first.yaml').waitFor();
    await dialog.getByText('label.json').waitFor();
    expect(await dialog.getByText('agent.json').count()).toBe(0);
    await dialog.getByLabel('Runs of each case').fill('two');
    await dialog.getByText('Enter a whole number').waitFor();
    await dialog.getByLabel('Runs of each case').fill('2');
    await begin.click();
    await page.getByText('v1 passed.', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Run 2 of case 1, v1 candidate: passed, score 1' }).waitFor();

    await page.getByRole('link', { name: 'All evaluations of echo' }).click();
    const list = page.getByRole('table', { name: 'Evaluations' });
    await list.getByRole('row', { name: 'v1 Passed 100% (21% to 100%) 0' }).waitFor();
    await checkAccess(page, () => list.waitFor());
  });

  test('files that are dropped are taken', async () => {
    const page = await site.open('/acme/agents/echo?tab=evals');
    await page.getByRole('button', { name: 'Evaluate' }).click();
    await page.evaluate(`(() => {
      const data = new DataTransfer();
      data.items.add(new File(['tests: [{}]'], 'dropped.yaml'));
      document.querySelector('[data-drop]').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true }));
    })()`);
    await page.getByRole('dialog').getByText('dropped.yaml').waitFor();
  });

  test('a version that is worse than another, with hostile texts, and the runs behind its cells', async () => {
    site.target.llm.script({
      rules: [{ marker: 'is polite', turns: [{ text: JSON.stringify({ reason: HOSTILE, score: 0.1, pass: false }) }] }],
    });
    const contains = { type: 'contains', value: 'good', metric: HOSTILE };
    const { eval_id } = await evaluate(
      'graded@v2',
      {
        threshold: 0,
        judge: { model: 'anthropic/claude-haiku-4-5' },
        description: HOSTILE,
        tests: [
          ...Array.from({ length: 5 }, (_, n) => ({
            ...{ description: `${HOSTILE} ${n}`, vars: { text: `${HOSTILE} ${'long '.repeat(100)}` } },
            ...{ must: n === 0, assert: [contains] },
          })),
          { vars: { text: 'x' }, assert: [contains, { type: 'llm-rubric', value: 'is polite' }] },
          { vars: { text: 'y' } },
        ],
      },
      { baseline: 'v1' },
    );
    const page = await site.open(pageOf('graded', eval_id));
    await page.getByText('v2 is worse than v1, and this is unlikely to be chance.').waitFor();
    const results = page.getByLabel('Results', { exact: true });
    await results.getByText('5 worse, 0 better').waitFor();
    await results.getByText('of 7 pairs of runs, p = 0.031').waitFor();
    await results.getByText('1 of 7 cases, 95% interval').waitFor();
    await results.getByText('v1 passed (baseline)').waitFor();
    await page.getByLabel('Summary').getByText(ESCAPED).waitFor();
    await page.getByText('Judge prompt').waitFor();

    const table = page.getByRole('table', { name: 'Cases' });
    expect(await table.getByRole('columnheader').allTextContents()).toEqual(['Case', 'v2 candidate', 'v1 baseline']);
    await table.getByText('Must pass').waitFor();
    await page.getByText('Only not passed').click();
    const last = table.getByRole('button', { name: '7. case 7' });
    await last.waitFor({ state: 'detached' });
    expect(new URL(page.url()).searchParams.get('only')).toBe('not-passed');

    await table.getByRole('button', { name: `1. ${ESCAPED} 0` }).click();
    const details = page.getByLabel('Results of case 1');
    await details.getByText(ESCAPED).first().waitFor();
    await details.getByText('"bad"').or(details.getByText('must contain')).first().waitFor();
    await checkAccess(page, () => details.waitFor());
    await table.getByRole('button', { name: '6. case 6' }).click();
    const judged = page.getByLabel('Results of case 6');
    await judged.getByText(ESCAPED).first().waitFor();
    const judge = judged.getByRole('link', { name: 'Run of the judge' }).first();
    await judge.click();
    await page
      .getByRole('heading', { name: 'graded' })
      .or(page.getByText('eval', { exact: true }))
      .first()
      .waitFor();
    await page.goBack();
    await judged.waitFor();
    await page.getByRole('link', { name: 'Run 1 of case 2, v2 candidate: failed, score 0' }).click();
    await page.waitForURL(/\/acme\/runs\/[0-9a-f-]{36}/);
    expect(await page.evaluate('window.deceived ?? null')).toBeNull();

    const listed = await site.open('/acme/agents/graded?tab=evals');
    await listed.getByRole('link', { name: 'v2 against v1' }).click();
    await listed.getByText('v2 is worse than v1, and this is unlikely to be chance.').waitFor();
  });

  test('recorded runs are a column, and what a version is compared with', async () => {
    const { target } = site;
    const json = { text: 'recorded' };
    const run = (await request(target, 'POST', '/acme/graded/v1/run', { key: target.key, json })).headers.get(
      'x-run-id',
    )!;
    const assert = [{ type: 'contains', value: 'good' }];
    const tests = [
      { vars: json, run, assert },
      { vars: json, assert },
    ];
    const { eval_id } = await evaluate('graded@v2', { threshold: 0, tests }, { baseline: 'observed' });
    const page = await site.open(pageOf('graded', eval_id));
    await page.getByText('v2 against the recorded runs').waitFor();
    const results = page.getByLabel('Results', { exact: true });
    await results.getByText('Recorded runs passed').waitFor();
    await results.getByText('1 worse, 0 better').waitFor();
    const titles = page.getByRole('table', { name: 'Cases' }).getByRole('columnheader');
    expect(await titles.allTextContents()).toEqual(['Case', 'v1 observed', 'v2 candidate']);
    await page.getByRole('link', { name: 'Run 1 of case 1, v1 observed: passed, score 1' }).click();
    await page.waitForURL(site.at(`/acme/runs/${run}`));
  });

  test('an inconclusive one says what would decide it', async () => {
    const tests = [1, 2].map((n) => ({ vars: { text: `${n}` }, assert: [{ type: 'contains', value: 'good' }] }));
    const { eval_id } = await evaluate('graded@v2', { threshold: 0, tests }, { baseline: 'v1' });
    const page = await site.open(pageOf('graded', eval_id));
    await page.getByText('These runs do not decide about v2.').waitFor();
    await page.getByText('3 repeats of each case would decide').waitFor();
    const needed = page.getByLabel('Results', { exact: true }).getByText('Repeats needed');
    await checkAccess(page, () => needed.waitFor());
  });

  test('a running one refreshes by itself, and is aborted', async () => {
    const name = `slow ${crypto.randomUUID()}`;
    const slow = { vars: { text: `[[llm ${JSON.stringify({ waitFor: name })}]]` } };
    const { eval_id } = await start('echo@v1', { tests: [{ vars: { text: said('yes') } }, slow] });
    const page = await site.open(pageOf('echo', eval_id));
    await page.getByText('1 of 2 runs are done.').waitFor();
    await page.getByRole('link', { name: 'Run 1 of case 1, v1 candidate: passed, score 1' }).waitFor();
    await page.getByRole('link', { name: 'Run 1 of case 2, v1 candidate: running' }).waitFor();
    const progress = page.getByRole('progressbar', { name: 'Progress' });
    await checkAccess(page, () => progress.waitFor());
    const listed = await site.open('/acme/agents/echo?tab=evals');
    await listed.getByText('1 of 2 runs').waitFor();
    await page.getByRole('button', { name: 'Abort' }).click();
    await page.getByRole('button', { name: 'Abort evaluation' }).click();
    await page.getByText('The evaluation was aborted, and has no verdict.').waitFor();
    await page.getByRole('link', { name: /^Run 1 of case 2, v1 candidate: (cancelled|error)/ }).waitFor();
    expect(await page.getByRole('button', { name: 'Abort' }).count()).toBe(0);
    await listed.getByText('Aborted').waitFor();
  });

  test('cases and evaluations are read page by page, by the keyboard, too', async () => {
    const tests = Array.from({ length: 45 }, (_, n) => ({
      ...{ description: `number ${n + 1}`, vars: { text: said('yes') } },
      assert: [{ type: 'equals', value: n === 44 ? 'no' : 'yes' }],
    }));
    const { eval_id } = await evaluate('many@v1', { tests });
    const page = await site.open(pageOf('many', eval_id));
    await page.getByText('v1 failed.').waitFor();
    await page.getByText('20 of 45').waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.getByLabel('Results of case 2').waitFor();
    expect(new URL(page.url()).searchParams.get('case')).toBe('2');
    await page.keyboard.press('Enter');
    await page.getByLabel('Results of case 2').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Show more cases' }).click();
    await page.getByText('40 of 45').waitFor();
    await page.getByText('Only not passed').click();
    await page.getByRole('button', { name: '45. number 45' }).waitFor();
    expect(await page.getByRole('button', { name: /number/ }).count()).toBe(1);
    const linked = await site.open(pageOf('many', eval_id, '?case=45'));
    await linked.getByLabel('Results of case 45').waitFor();

    for (let n = 0; n < 20; n++) await evaluate('many@v1', { tests: [{ vars: { text: said('yes') } }] });
    await page.goto(site.at('/acme/agents/many?tab=evals'));
    await page.getByText('Failed').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Show older ones' }).click();
    await page.getByRole('row', { name: /v1 Failed/ }).waitFor();
  });

  test('an evaluation that is not there says so', async () => {
    const page = await site.open(pageOf('echo', crypto.randomUUID()));
    await page.getByRole('alert').getByText('has no evaluation').waitFor();
    await page.goto(site.at(pageOf('nothing', crypto.randomUUID())));
    await page.getByText('This workspace has no agent “nothing”').waitFor();
  });
});
