import type { Page } from 'playwright-core';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { clientOf } from '../../test/helpers/platform.ts';
import type { ScriptedTurn } from '../../test/helpers/scripted-llm/turns.ts';
import { checkAccess, describeSite } from './browser.ts';

const REFUND = {
  name: 'refund',
  description: 'Refunds an amount of an order, in dollars',
  command: 'echo refunded {{order}} {{amount}}',
  input_schema: {
    type: 'object',
    required: ['order', 'amount'],
    properties: {
      order: { type: 'string' },
      amount: { type: 'number', maximum: 1000 },
      // What the form of a page does not check.
      note: { type: 'string', pattern: '^[a-z ]*$' },
    },
  },
  approval: { when: { properties: { amount: { exclusiveMinimum: 100 } } } },
};
const calls = (...toolCalls: NonNullable<ScriptedTurn['toolCalls']>): ScriptedTurn => ({ toolCalls });
const refund = (order: string, amount: number) => ({ name: 'refund', input: { order, amount } });
const ask = (question: string, more: object = {}) => ({ name: 'ask_human', input: { question, ...more } });
const SUBMIT = calls({ name: 'submit_result', input: { result: 'over' } });

describeSite('approvals', (site) => {
  let workspace_id: string;
  beforeAll(async () => {
    workspace_id = (await site.client.getSession({})).workspace.id;
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' };
    await site.client.putSecret({ params: { workspace_id }, body: secret });
  });

  const begun: string[] = [];
  afterEach(async () => {
    const runs = begun.splice(0);
    await Promise.all(
      runs.map((run_id) => site.client.requestRunCancel({ params: { workspace_id, run_id } }).catch(() => {})),
    );
  });

  /** Publishes an agent that makes these calls, calls it, and returns its run when that waits. */
  async function waitingRun(name: string, ...turns: readonly ScriptedTurn[]): Promise<string> {
    return waitingRunOf(name, { tools: ['ask_human', 'wait', 'event_url'] }, ...turns);
  }
  async function waitingRunOf(name: string, loop: object, ...turns: readonly ScriptedTurn[]): Promise<string> {
    const prompt = `Refund. [[llm ${JSON.stringify([...turns, SUBMIT])}]]`;
    const agent = { type: 'agent', description: 'refunds', required_secrets: [], custom_tools: [REFUND] } as const;
    await site.client.createAgent({ body: { ...agent, name, prompt, loop } as never });
    const headers = { authorization: `Bearer ${site.target.key}`, prefer: 'respond-async' };
    const url = `${site.target.url}/acme/${name}/latest/run`;
    const run_id = ((await (await fetch(url, { method: 'POST', headers })).json()) as { run_id: string }).run_id;
    begun.push(run_id);
    await status(run_id, 'waiting');
    return run_id;
  }
  const status = (run_id: string, expected: string) =>
    expect
      .poll(async () => (await site.client.getRun({ params: { workspace_id, run_id } })).status, { timeout: 20_000 })
      .toBe(expected);
  const approval = (approval_id: string) => site.client.getApproval({ params: { workspace_id, approval_id } });
  const cancel = (run_id: string) => site.client.requestRunCancel({ params: { workspace_id, run_id } });
  const card = (page: Page, name: string) =>
    page.getByRole('article', { name: new RegExp(`^${name} (wants to call|asks)`) });

  /** Opens a page as the user of a key. */
  async function openAs(key: string, path: string): Promise<Page> {
    const page = await site.open('/login', { signedIn: false });
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL(/\/dashboard\/(?!login)/);
    await page.goto(site.at(path));
    return page;
  }

  test('what waits is listed and counted, a call is approved with another argument, and the difference stays', async () => {
    const run_id = await waitingRun('teller', calls(refund('A-17', 250)));
    const other = await waitingRun('waiter', calls({ name: 'wait', input: { seconds: 3600 } }));
    const page = await site.open('/acme/approvals');
    // A run that waits for a time asks nobody.
    await page.getByRole('link', { name: 'Approvals 1 waiting' }).waitFor();
    const teller = card(page, 'teller');
    await teller.getByText('A-17').waitFor();
    expect(await page.getByRole('article').count()).toBe(1);
    await page.getByLabel('Agent').fill('nobody');
    await page.getByText('Nothing of this agent waits for you').waitFor();
    await page.getByRole('link', { name: 'Clear filters' }).click();
    await checkAccess(page, () => teller.getByRole('button', { name: 'Refuse' }).waitFor());

    // By keyboard alone.
    await teller.getByRole('button', { name: 'Approve', exact: true }).focus();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await teller.getByLabel('amount').fill('2000');
    const changes = teller.getByRole('table', { name: 'Changed arguments' });
    await changes.getByRole('row', { name: 'amount 250 2000' }).waitFor();
    await checkAccess(page, () => changes.waitFor());
    await teller.getByRole('button', { name: 'Approve with changes' }).click();
    await teller.getByRole('alert').getByText('amount: must be <= 1000, but is 2000.').waitFor();
    expect(await approval(`${run_id}.1.1`)).toMatchObject({ status: 'waiting' });
    await teller.getByLabel('amount').fill('80');
    await teller.getByRole('alert').waitFor({ state: 'detached' });
    await teller.getByRole('button', { name: 'Approve with changes' }).press('Enter');
    const decided = teller.getByRole('status');
    await decided.getByText('Approved by you').waitFor();
    await decided.getByRole('row', { name: 'amount 250 80' }).waitFor();
    await expect.poll(() => decided.evaluate((element) => element.matches(':focus'))).toBe(true);
    await checkAccess(page, () => decided.waitFor());
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.getByRole('link', { name: 'Approvals', exact: true }).waitFor();
    await status(run_id, 'completed');
    expect(await approval(`${run_id}.1.1`)).toMatchObject({ changed_arguments: { order: 'A-17', amount: 80 } });

    await page.getByRole('link', { name: 'Decided' }).click();
    await card(page, 'teller').getByRole('row', { name: 'amount 250 80' }).waitFor();
    await cancel(other);
  });

  test('a call is refused with a reason, and another one approved for the rest of its run', async () => {
    const run_id = await waitingRun(
      'payer',
      calls(refund('B-1', 300)),
      calls(refund('B-2', 400)),
      calls(refund('B-3', 500)),
    );
    const page = await site.open('/acme/approvals?agent=payer');
    const payer = card(page, 'payer');
    await payer.getByRole('button', { name: 'Refuse' }).click();
    await payer.getByRole('button', { name: 'Back' }).press('Enter');
    await page.keyboard.press('Enter');
    await payer.getByLabel('Reason').fill('It was never paid.');
    await payer.getByRole('button', { name: 'Refuse', exact: true }).click();
    await payer.getByText('Refused by you').waitFor();
    await payer.getByText('Reason: It was never paid.').waitFor();
    const second = page.getByRole('article').filter({ hasText: 'B-2' });
    // What is new does not move what somebody looks at.
    await second.waitFor();
    expect(await page.getByRole('article').first().textContent()).toContain('B-1');
    await second.getByRole('button', { name: 'Approve for the rest of the run' }).click();
    await second.getByText('and all later calls of this tool in this run').waitFor();
    await status(run_id, 'completed');
    expect(await approval(`${run_id}.2.1`)).toMatchObject({ status: 'approved', for_run: true });
  });

  test('questions are answered by an option, a text and a form', async () => {
    const schema = { type: 'object', properties: { count: { type: 'integer', minimum: 1 } }, required: ['count'] };
    const run_id = await waitingRun(
      'asker',
      calls(
        ask('Which colour?', { options: ['red', 'blue'] }),
        ask('Why?'),
        ask('How many?', { schema }),
        ask('How old?', { schema: { type: 'integer' } }),
      ),
    );
    const page = await site.open('/acme/approvals?agent=asker');
    const about = (question: string) => page.getByRole('article').filter({ hasText: question });
    await checkAccess(page, () => about('How many?').getByLabel('count').waitFor());
    await about('Which colour?').getByRole('button', { name: 'blue' }).click();
    await about('Which colour?').getByText('Answered by you').waitFor();
    await about('Why?').getByLabel('Answer').fill('It is the sea.');
    await about('Why?').getByRole('button', { name: 'Answer' }).click();
    await about('How many?').getByLabel('count').fill('0');
    await about('How many?').getByRole('button', { name: 'Answer' }).click();
    await about('How many?').getByRole('alert').getByText('count: must be >= 1').waitFor();
    await about('How many?').getByRole('button', { name: 'Edit as JSON' }).click();
    await about('How many?').getByRole('textbox', { name: 'Answer' }).fill('{"count": 2}');
    await about('How many?').getByRole('button', { name: 'Answer' }).click();
    await about('How many?').getByText('Answered by you').waitFor();
    await about('How old?').getByLabel('answer').fill('7');
    await about('How old?').getByRole('button', { name: 'Answer' }).click();
    await status(run_id, 'completed');
    const answers = [1, 2, 3, 4].map(async (call) => (await approval(`${run_id}.1.${call}`)).answer);
    expect(await Promise.all(answers)).toEqual(['blue', 'It is the sea.', { count: 2 }, 7]);
  });

  test('what an agent says is text, and what a form cannot show is JSON', async () => {
    const markup = '<img src="https://evil.example/x" onerror="alert(1)">';
    const strange = { anyOf: [{ type: 'integer' }, { type: 'array', items: { type: 'string' } }] };
    const hidden = { type: 'object', title: markup, properties: { a: { type: 'string', description: markup } } };
    const run_id = await waitingRun(
      'hostile',
      calls(
        ask(`${markup} \u202Eslaipel`, { options: [markup, 'no'] }),
        ask('Strange?', { schema: strange }),
        ask('Hidden?', { schema: hidden }),
        refund('Z-1\u202E', 999),
      ),
    );
    const page = await site.open('/acme/approvals?agent=hostile');
    const about = (text: string) => page.getByRole('article').filter({ hasText: text });
    await about('Hidden?').getByLabel('a', { exact: true }).waitFor();
    expect(await page.locator('main img').count()).toBe(0);
    // Characters that turn a text around are visible.
    expect(await page.locator('main').textContent()).not.toContain('\u202E');
    await about('Strange?').getByRole('textbox', { name: 'Answer' }).fill('["a", "b"]');
    await about('Strange?').getByRole('button', { name: 'Answer' }).click();
    await about('Strange?').getByText('Answered by you').waitFor();
    expect((await approval(`${run_id}.1.2`)).answer).toEqual(['a', 'b']);
  });

  test('what another person decided meanwhile is shown instead', async () => {
    const run_id = await waitingRun('hurried', calls(refund('C-1', 300)));
    const ann = await site.target.addUser('ann');
    await site.target.addMember(ann, workspace_id);
    const page = await site.open('/acme/approvals?agent=hurried');
    const hurried = card(page, 'hurried');
    await hurried.getByRole('button', { name: 'Change arguments' }).click();
    // The page does not hear of it before it sends its own decision.
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route(/\/approvals\?/, async (route) => {
      await held;
      await route.continue();
    });
    await hurried.getByLabel('amount').fill('200');
    const decision = { decision: 'deny', reason: 'Not this one.', for: 'this' } as const;
    const params = { workspace_id, approval_id: `${run_id}.1.1` };
    await clientOf(site.target, ann.key).decideApproval({ params, body: decision });
    await hurried.getByRole('button', { name: 'Approve with changes' }).click();
    await hurried.getByText('A decision is final').waitFor();
    release();
    await hurried.getByText('This was decided meanwhile, so your decision was not used.').waitFor();
    await hurried.getByText('Refused by ann').waitFor();
    await hurried.getByText('Reason: Not this one.').waitFor();
    expect(await hurried.getByRole('button', { name: /Approve/ }).count()).toBe(0);
    await status(run_id, 'completed');
  });

  test('a key that only reads sees what waits, and one that approves decides', async () => {
    const run_id = await waitingRun('guarded', calls(refund('D-1', 300)));
    const withScope = async (scope: 'read' | 'approve') => {
      const { key } = await site.client.createApiKey({ body: { name: scope, scope } });
      return openAs(key, '/acme/approvals?agent=guarded');
    };
    const reader = await withScope('read');
    await card(reader, 'guarded').getByText('You can only read this').waitFor();
    expect(
      await card(reader, 'guarded')
        .getByRole('button', { name: /Approve|Refuse|Change|link/ })
        .count(),
    ).toBe(0);
    await checkAccess(reader, () => card(reader, 'guarded').waitFor());
    const approver = await withScope('approve');
    await card(approver, 'guarded').getByRole('button', { name: 'Approve', exact: true }).click();
    // The page of the reader follows.
    await card(reader, 'guarded').getByText('Approved by you').waitFor();
    await status(run_id, 'completed');
  });

  test('members read what only owners decide', async () => {
    const headers = { 'x-workspace-id': workspace_id };
    const setApprovers = (approvers: 'members' | 'owners') =>
      site.client.updateOrg({ body: { approvers }, headers } as never);
    await setApprovers('owners');
    const run_id = await waitingRun('owned', calls(refund('F-1', 300), ask('Which day?')));
    const bob = await site.target.addUser('bob');
    await site.target.addMember(bob, workspace_id);
    const member = await openAs(bob.key, '/acme/approvals?agent=owned');
    const cards = card(member, 'owned');
    await cards.getByText('only owners of the workspace decide').nth(1).waitFor();
    await cards.getByText('F-1').waitFor();
    expect(await cards.getByRole('button', { name: /Approve|Refuse|Change|Answer|link/ }).count()).toBe(0);
    await checkAccess(member, () => cards.first().waitFor());
    const owner = await site.open('/acme/approvals?agent=owned');
    await card(owner, 'owned').getByRole('button', { name: 'Approve', exact: true }).click();
    await card(owner, 'owned').getByText('Approved by you').waitFor();
    await setApprovers('members');
    await member.reload();
    await cards.getByLabel('Answer').fill('Monday');
    await cards.getByRole('button', { name: 'Answer' }).click();
    await cards.getByText('Answered by you').waitFor();
    await status(run_id, 'completed');
  });

  test('a link is shown once, and whoever has it decides once', async () => {
    const run_id = await waitingRun('linker', calls(refund('G-1', 300), ask('Which day?')));
    const page = await site.open('/acme/approvals?agent=linker');
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const about = (text: string) => page.getByRole('article').filter({ hasText: text });
    const linkAbout = async (text: string, expiry?: string) => {
      await about(text).getByRole('button', { name: 'Create link' }).click();
      const dialog = page.getByRole('dialog', { name: 'Create a link to decide' });
      await dialog.getByText('can decide once, without an account').waitFor();
      if (expiry === undefined) {
        await checkAccess(page, () => dialog.waitFor());
      } else {
        await dialog.getByRole('button', { name: /Link expires/ }).click();
        await page.getByRole('option', { name: expiry }).click();
      }
      await dialog.getByRole('button', { name: 'Create link' }).click();
      const shown = page.getByRole('dialog', { name: 'Link to decide' });
      await shown.getByText('Whoever has this link can decide once.').waitFor();
      if (expiry === undefined) await checkAccess(page, () => shown.waitFor());
      const url = (await shown.locator('code').textContent())!;
      await shown.getByRole('button', { name: 'Copy' }).click();
      await shown.getByRole('button', { name: 'Copied' }).waitFor();
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(url);
      await shown.getByRole('button', { name: 'Done' }).click();
      await shown.waitFor({ state: 'detached' });
      expect(await page.evaluate('document.documentElement.outerHTML')).not.toContain(url);
      return url;
    };
    const toAnswer = await linkAbout('Which day?');
    const toApprove = await linkAbout('G-1', 'After 1 hour');
    const left = async (url: string) => {
      const answer = await fetch(url, { headers: { accept: 'application/json' } });
      return { status: answer.status, body: (await answer.json()) as { agent_name: string } };
    };
    expect(await left(toApprove)).toMatchObject({ status: 200, body: { agent_name: 'linker' } });
    const send = (url: string, body: object) =>
      fetch(url, {
        method: 'POST',
        headers: { accept: 'application/json', 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    expect((await send(toApprove, { decision: 'approve' })).status).toBe(200);
    await about('G-1').getByText('Approved by somebody with a link').waitFor();
    expect((await left(toApprove)).status).toBe(404);
    expect((await send(toAnswer, { decision: 'answer', answer: 'Monday' })).status).toBe(200);
    await about('Which day?').getByText('Answered by somebody with a link').waitFor();
    await status(run_id, 'completed');
  });

  test('the page of a run decides, and draws the wait until then', async () => {
    const run_id = await waitingRun('runner', calls(refund('E-1', 300), ask('Really?', { options: ['yes', 'no'] })));
    const page = await site.open(`/acme/runs/${run_id}`);
    await page.getByRole('heading', { name: 'Waiting for you' }).waitFor();
    await page.getByRole('row', { name: /approval of refund \(waiting\)/ }).waitFor();
    await checkAccess(page, () => card(page, 'runner').first().waitFor());
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.getByRole('button', { name: 'yes' }).click();
    await page.getByText('Answered by you').waitFor();
    await page.getByRole('button', { name: 'Refuse' }).click();
    await page.getByRole('button', { name: 'Refuse', exact: true }).click();
    await page.getByText('Refused by you').waitFor();
    await status(run_id, 'completed');
    await page.getByText('Completed').first().waitFor();
    await page.getByRole('row', { name: /approval of refund \(refused\)/ }).click();
    const details = page.getByRole('heading', { name: 'approval of refund' }).locator('xpath=ancestor::section[1]');
    await details.getByText('Refused by you').waitFor();
    await checkAccess(page, () => details.waitFor());
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.getByRole('link', { name: 'Turns' }).click();
    await page
      .getByRole('row', { name: /Turn 1/ })
      .getByText('refund (refused), ask_human (answered)')
      .waitFor();
  });

  test('a run that waits for an event says for which, and nobody is asked', async () => {
    const event = { event: 'paid' };
    const run_id = await waitingRun(
      'eventful',
      calls({ name: 'event_url', input: event }),
      calls({ name: 'wait', input: event }),
    );
    const page = await site.open(`/acme/runs/${run_id}`);
    await page.getByText('Waiting for the event “paid”').waitFor();
    await page.getByRole('row', { name: /wait for an event \(waiting\)/ }).waitFor();
    expect(await page.getByRole('article').count()).toBe(0);
    const body = { decision: 'answer', answer: { amount: 80 }, for: 'this' } as const;
    await site.client.decideApproval({ params: { workspace_id, approval_id: `${run_id}.2.1` }, body });
    await status(run_id, 'completed');
    await page.getByRole('row', { name: /wait for an event \(answered\)/ }).click();
    await page.getByText('Answered by you').waitFor();
  });

  test('a run that would cost too much asks, and gets another limit', async () => {
    const loop = { tools: ['ask_human'], max_cost_usd: 0.001, on_max_cost: 'ask' };
    const run_id = await waitingRunOf('costly', loop, calls({ name: 'look', input: {} }));
    const page = await site.open('/acme/approvals?agent=costly');
    const costly = page.getByRole('article', { name: 'costly wants to cost more' });
    await costly.getByText('May it cost more?').waitFor();
    await costly.getByRole('button', { name: 'Change arguments' }).click();
    await costly.getByLabel('max_cost_usd').fill('3');
    await costly.getByRole('button', { name: 'Approve with changes' }).click();
    await costly.getByRole('row', { name: 'max_cost_usd 0.002 3' }).waitFor();
    await status(run_id, 'completed');
    await page.goto(site.at(`/acme/runs/${run_id}`));
    await page.getByRole('row', { name: /approval of more cost \(approved\)/ }).waitFor();
    await page.getByRole('link', { name: 'Turns' }).click();
    await page
      .getByRole('row', { name: /Turn 1/ })
      .getByText('more cost (approved)')
      .waitFor();
  });

  test('a run that waits for a time says until when, and the overview lists what waits for people', async () => {
    const timed = await waitingRun('sleeper', calls({ name: 'wait', input: { seconds: 3600 } }));
    const asked = await waitingRun('waited', calls(ask('May I?')));
    const page = await site.open(`/acme/runs/${timed}`);
    await page.getByText('Waiting for a time: continues').waitFor();
    expect(await page.getByRole('heading', { name: 'Waiting for you' }).count()).toBe(0);
    await page.goto(site.at('/acme'));
    await page.getByRole('table', { name: 'Waiting for you' }).getByText('May I?').waitFor();
    await page.goto(site.at('/acme/runs?status=waiting'));
    await page.getByRole('row', { name: /sleeper.*Waiting/ }).waitFor();
    for (const id of [timed, asked]) await cancel(id);
    await page.goto(site.at('/acme/approvals'));
    await page.getByText('Nothing waits for you').waitFor();
    await checkAccess(page, () => page.getByRole('link', { name: 'How agents ask' }).waitFor());
  });
});
