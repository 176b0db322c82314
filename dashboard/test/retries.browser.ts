import { expect, test } from 'vitest';
import { resumeRuns } from '../../core/execution/durable/resume.ts';
import { describeSite } from './browser.ts';

describeSite('runs that are tried again', (site) => {
  test('show their attempts, and are found when they have failed for good', async () => {
    const { target, client } = site;
    const retry = { max: 1, backoff_seconds: [1] };
    await client.createAgent({ body: { name: 'shaky', type: 'prompt', description: 'x', prompt: 'Try.', retry } });
    const { workspace } = await client.getSession({});
    const params = { workspace_id: workspace.id };
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' };
    await client.putSecret({ params, body: secret });
    target.llm.script({ rules: [{ marker: 'Try.', turns: [{ status: 400, message: 'not today' }] }] });
    const headers = { authorization: `Bearer ${target.key}`, prefer: 'respond-async' };
    const answer = await fetch(`${target.url}/acme/shaky/latest/run`, { method: 'POST', headers });
    const { run_id } = (await answer.json()) as { readonly run_id: string };
    const status = async () => (await client.getRun({ params: { ...params, run_id } })).status;
    await expect.poll(status).toBe('queued');

    const page = await site.open(`/acme/runs/${run_id}`);
    await page.getByText('Next attempt').waitFor();
    await page.getByText('2 of 2').waitFor();
    await expect.poll(() => resumeRuns(target.deps).then(status)).toBe('failed');
    const attempts = page.getByRole('region', { name: 'Failed attempts' });
    await attempts.getByText('LLM_ERROR').waitFor();
    await page.getByText('Failed: tried again (attempt 2)').first().waitFor();

    const list = await site.open('/acme/runs');
    await list.getByRole('button', { name: 'More filters' }).click();
    await list.getByText('Retries used up').click();
    await list.getByRole('row', { name: /shaky/ }).waitFor();
    expect(new URL(list.url()).searchParams.get('exhausted')).toBe('on');
    await client.replayRun({ params: { ...params, run_id }, body: { input: { other: 1 } } });
    await list.reload();
    await list.getByText('No run matches these filters').waitFor();
  });
});
