import { beforeAll, expect, test } from 'vitest';
import { request } from '../../test/helpers/platform.ts';
import { checkAccess, describeSite } from './browser.ts';

const HOSTILE = '<img src=x onerror=alert(1)> \u202egnp.exe';

describeSite('scores', (site) => {
  let workspace_id: string;
  let run_id: string;
  const list = async () => (await site.client.listRunScores({ params: { workspace_id, run_id } })).scores;
  beforeAll(async () => {
    const { client } = site;
    workspace_id = (await client.listWorkspaces({})).workspaces.find(({ slug }) => slug === 'acme')!.id;
    await client.putSecret({ params: { workspace_id }, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' } });
    const agent = { name: 'rated', type: 'prompt', description: 'x', prompt: 'Say it.' };
    await client.createAgent({ body: { ...agent, supported_providers: ['anthropic'] } } as never);
    const answer = await request(site.target, 'POST', '/acme/rated/v1/run', { key: site.target.key, json: {} });
    run_id = answer.headers.get('x-run-id')!;
  });

  test('a run is scored and the score deleted, on its page', async () => {
    const page = await site.open(`/acme/runs/${run_id}`);
    await page.getByRole('button', { name: 'Score', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Score this run' });
    await dialog.getByLabel('Name', { exact: true }).fill('Not a name');
    await dialog.getByLabel('Score', { exact: true }).fill('0.5');
    await dialog.getByRole('button', { name: 'Save score' }).click();
    await dialog.getByRole('alert').getByText('begin with a letter').waitFor();
    await dialog.getByLabel('Name', { exact: true }).fill('helpful');
    await dialog.getByLabel('Comment').fill(HOSTILE);
    await dialog.getByRole('button', { name: 'Save score' }).click();
    const scores = page.getByRole('region', { name: 'Scores' });
    await scores.getByText('helpful: 0.5').waitFor();
    await scores.getByText('<img src=x onerror=alert(1)> \\u{202e}gnp.exe').waitFor();
    expect(await list()).toMatchObject([{ name: 'helpful', source: 'dashboard', value: 0.5, comment: HOSTILE }]);
    await checkAccess(page, () => scores.waitFor());

    await page.getByRole('button', { name: 'Score', exact: true }).click();
    await dialog.getByLabel('Score', { exact: true }).fill('Too short');
    await dialog.getByText('This is a label').waitFor();
    await dialog.getByRole('button', { name: 'Save score' }).click();
    await scores.getByText('helpful: Too short').waitFor();
    await scores.getByRole('button', { name: 'Delete the score helpful by dashboard' }).click();
    await scores.waitFor({ state: 'detached' });
    expect(await list()).toEqual([]);
  });

  test('the page of an agent compares its versions by their scores', async () => {
    const page = await site.open('/acme/agents/rated?tab=scores');
    await page.getByText('No scores yet').waitFor();
    const params = { workspace_id, run_id };
    await site.client.scoreRun({ params, body: { name: 'helpful', value: 0.25 } });
    await site.client.scoreRun({ params, body: { name: 'tone', source: 'judge', label: 'kind' } });
    await page.reload();
    const versions = page.getByRole('table', { name: 'Scores by version' });
    await versions.getByRole('row', { name: 'helpful api v1 1 0.25' }).waitFor();
    await versions.getByRole('row', { name: 'tone judge v1 1 – kind 1' }).waitFor();
    await checkAccess(page, () => versions.waitFor());
    await page.getByRole('link', { name: run_id.slice(0, 8) }).click();
    await page.getByRole('region', { name: 'Scores' }).getByText('tone: kind').waitFor();
  });
});
