import { describe, expect, test } from 'vitest';
import { listEntries } from '#core/accounts/audit/log.ts';
import { removeMember } from '#core/accounts/workspaces/members.ts';
import { queryAll } from '#core/ports/table.ts';
import { settled } from '#test/helpers/durable-histories.ts';
import { addUser } from '#test/helpers/users.ts';
import { type Call, DONE, PAY, pay, waitingLoop } from '#test/helpers/waiting-loop.ts';

/** Who decides what a run asks: members, and people with a link (`docs/interface/approvals.md#links`). */

const FORM = 'application/x-www-form-urlencoded';
const HTML = { accept: 'text/html,*/*' };
const BROWSER = { ...HTML, 'sec-fetch-site': 'same-origin' };

async function setUp(turns: readonly (readonly Call[])[], agent: object = {}) {
  const baseUrl = 'https://agents.example.com';
  const run = await waitingLoop({ custom_tools: [{ ...PAY, approval: 'always' }], ...agent }, turns, { baseUrl });
  const { deps, app, send, approvals } = run;
  const runId = await run.call();
  const link = async (body: object = {}, id = `${runId}.1.1`, key?: string) =>
    send('POST', `${approvals}/${id}/link`, body, key) as unknown as Promise<{
      readonly status: number;
      readonly body: { readonly url: string; readonly expires_at: string };
    }>;
  const pathOf = async (body?: object) => new URL((await link(body)).body.url).pathname;
  const open = (path: string, method = 'GET', headers: Readonly<Record<string, string>> = HTML) =>
    settled(deps, app(new Request(`http://127.0.0.1${path}`, { method, headers })));
  const post = (path: string, fields: Record<string, string>, headers: Readonly<Record<string, string>> = BROWSER) => {
    const body = new URLSearchParams(fields).toString();
    const sent = { method: 'POST', headers: { ...headers, 'content-type': FORM }, body };
    return settled(deps, app(new Request(`http://127.0.0.1${path}`, sent)));
  };
  const postJson = async (path: string, json: unknown) => {
    const sent = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(json) };
    const response = await settled(deps, app(new Request(`http://127.0.0.1${path}`, sent)));
    return { status: response.status, body: await response.json() };
  };
  const state = async (id = `${runId}.1.1`) => (await send('GET', `${approvals}/${id}`)).body;
  return { ...run, runId, link, pathOf, open, post, postJson, state };
}

describe('a link', () => {
  test('shows what is asked, and approves it once', async () => {
    const { pathOf, open, post, state, next, paid, deps, workspaceId } = await setUp([[pay(5)], [DONE]]);
    const path = await pathOf();
    const shown = await open(path);
    expect(shown.status).toBe(200);
    const headers = Object.fromEntries(shown.headers);
    expect(headers).toMatchObject({
      ...{ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer', 'x-robots-tag': 'noindex' },
      'content-security-policy': expect.stringMatching(
        /^default-src 'none'; style-src 'sha256-[^']+'; .*frame-ancestors 'none'; base-uri 'none'$/,
      ),
    });
    const html = await shown.text();
    expect(html).toContain('&quot;amount&quot;: 5');
    expect(html).not.toMatch(/<script|https?:\/\//);

    const approved = await post(path, { decision: 'approve', reason: 'fine' });
    expect([approved.status, await approved.text()]).toEqual([200, expect.stringContaining('<h1>Approved</h1>')]);
    expect(await state()).toMatchObject({ status: 'approved', decided_by: 'link', reason: 'fine' });
    await next();
    expect(paid).toEqual(['ann 5']);
    const { entries } = await listEntries(deps, workspaceId, { userId: 'link' }, { limit: 10 });
    expect(entries).toMatchObject([{ operation: 'decideByLink', outcome: 'done', target: { decision: 'approve' } }]);
    expect(JSON.stringify(entries)).not.toContain(path.split('/').at(-1));
  });

  test('decides although its agent was deleted while the run waits, and the audit log has every decision', async () => {
    const { pathOf, post, send, decide, deps, next, runs, runId, workspaceId, paid, user } = await setUp([
      [pay(5), pay(6)],
      [DONE],
    ]);
    const path = await pathOf();
    const { id } = ((await send('GET', '/agents')).body as unknown as { id: string }[])[0]!;
    const query = 'mode=all_versions&confirmation_name=payer';
    expect(await send('DELETE', `/agents/${id}?${query}`)).toMatchObject({ status: 200 });
    expect((await post(path, { decision: 'approve' })).status).toBe(200);
    const changed = { decision: 'approve', arguments: { to: 'ann', amount: 1 } };
    expect(await decide(`${runId}.1.2`, changed)).toMatchObject({ status: 200, body: { edited: true } });
    await next();
    expect(await runs.find(runId)).toMatchObject({ status: 'completed' });
    expect(paid.toSorted()).toEqual(['ann 1', 'ann 5']);
    const { entries } = await listEntries(deps, workspaceId, {}, { limit: 50 });
    expect(entries.find(({ operation }) => operation === 'decideApproval')).toMatchObject({
      ...{ userId: user.userId, outcome: 'done' },
      target: { approval_id: `${runId}.1.2`, decision: 'approve', tool: 'pay', edited: true },
    });
  });

  test('is not stored, only its hash is', async () => {
    const { pathOf, deps } = await setUp([[pay(5)], [DONE]]);
    const token = (await pathOf()).split('/').at(-1)!;
    const { hash } = await import('node:crypto');
    const found = await Array.fromAsync(
      queryAll(deps.runs, { pk: `APPROVAL_LINK#${hash('sha256', token)}`, limit: 10 }),
    );
    expect(found).toHaveLength(1);
    expect(JSON.stringify([found, deps.lines])).not.toContain(token);
  });

  test('decides nothing by what scanners of mail send', async () => {
    const { pathOf, open, list } = await setUp([[pay(5)], [DONE]]);
    const path = await pathOf();
    const statuses = [];
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']) statuses.push((await open(path, method)).status);
    for (const query of ['?decision=approve', '?decision=deny&answer=yes']) await open(path + query);
    expect((await open(path, 'POST', { 'content-type': FORM, ...HTML })).status).toBe(400);
    expect(statuses).toEqual([200, 200, 405, 405, 405]);
    expect(await list()).toHaveLength(1);
  });

  test('that was used, has expired or is forged gets one and the same answer', async () => {
    const { pathOf, open, post, postJson, deps, list } = await setUp([[pay(5), pay(6)], [DONE]]);
    const [used, other, short] = [await pathOf(), await pathOf(), await pathOf({ expires_in_seconds: 60 })];
    await post(used, { decision: 'deny' });
    await deps.clock.advance(61_000);
    const forged = `/auth/approvals/${'A'.repeat(43)}`;
    const pages = new Set<string>();
    for (const path of [used, other, short, forged, '/auth/approvals/x']) {
      const shown = await open(path);
      expect(shown.status, path).toBe(404);
      expect(shown.headers.get('content-security-policy'), path).toMatch(/^default-src 'none'; style-src 'sha256-/);
      pages.add(await shown.text());
      const again = await post(path, { decision: 'approve' });
      expect(again.status, path).toBe(404);
      pages.add(await again.text());
      expect(await postJson(path, { decision: 'approve' })).toMatchObject({
        status: 404,
        body: { error: { message: 'This link does not exist, was used, or has expired.' } },
      });
    }
    expect(pages.size).toBe(1);
    expect(await list()).toHaveLength(1);
  });

  test('says when somebody else has decided, or the run has ended, and names nobody', async () => {
    const { pathOf, link, open, post, decide, send, runId, workspaceId, next, user } = await setUp([
      [pay(5), pay(6)],
      [DONE],
    ]);
    const first = await pathOf();
    const second = new URL((await link({}, `${runId}.1.2`)).body.url).pathname;
    await decide(`${runId}.1.1`, { decision: 'deny' });
    for (const response of [await open(first), await post(first, { decision: 'approve' })]) {
      expect(response.status).toBe(409);
      const text = await response.text();
      expect(text).toContain('Somebody else has decided already: it was denied.');
      expect(text).not.toContain(user.userId);
    }
    await send('POST', `/workspaces/${workspaceId}/runs/${runId}/cancel`);
    await next();
    for (const response of [await open(second), await post(second, { decision: 'approve' })]) {
      expect([response.status, await response.text()]).toEqual([409, expect.stringContaining('the run has ended')]);
    }
    expect(await link({}, `${runId}.1.1`)).toMatchObject({ status: 409 });
  });

  test('of 50 that are opened at the same time decides once', async () => {
    const { pathOf, postJson, state } = await setUp([[pay(5)], [DONE]]);
    const path = await pathOf();
    const sent = Array.from({ length: 50 }, (_, i) => postJson(path, { decision: 'deny', reason: `number ${i}` }));
    const statuses = (await Promise.all(sent)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(await state()).toMatchObject({ status: 'denied' });
  });

  test('asks a question: options are buttons, a schema is checked', async () => {
    const ask = (input: object): Call => ({ name: 'ask_human', input: input as Call['input'] & {} });
    const schema = { type: 'object', properties: { count: { type: 'integer' } }, required: ['count'] };
    const { link, open, post, state, runId, next, results } = await setUp(
      [[ask({ question: 'Which?', options: ['red', 'b<l>ue'] }), ask({ question: 'How many?', schema })], [DONE]],
      { loop: { tools: ['ask_human'] } },
    );
    const pathOf = async (id: string) => new URL((await link({}, `${runId}.1.${id}`)).body.url).pathname;
    const [colour, count] = [await pathOf('1'), await pathOf('2')];
    expect(await (await open(colour)).text()).toContain('<button name="answer" value="b&#60;l&#62;ue">');
    expect((await post(colour, { decision: 'answer', answer: 'green' })).status).toBe(400);
    expect((await post(colour, { decision: 'answer', answer: 'b<l>ue' })).status).toBe(200);
    for (const [json, problem] of [
      ['{"count": "two"}', 'body.answer.count'],
      ['{"count": ', 'answer is not valid JSON'],
    ]) {
      const wrong = await post(count, { decision: 'answer', answer_json: json! });
      expect(wrong.status).toBe(400);
      expect(await wrong.text()).toContain(problem);
    }
    expect((await post(count, { decision: 'answer', answer_json: '{"count": 2}' })).status).toBe(200);
    expect(await state(`${runId}.1.2`)).toMatchObject({ status: 'answered', answer: { count: 2 } });
    await next();
    expect(results()).toEqual(['b<l>ue', '{"count":2}']);
  });

  test('shows hidden characters, and no text of the model as markup', async () => {
    const to = '<img src=x onerror=alert(1)>\u202Eevil\u200B';
    const { pathOf, open } = await setUp([[pay(5, to)], [DONE]]);
    const html = await (await open(await pathOf())).text();
    expect(html).toContain('&lt;img src=x onerror=alert(1)&gt;\\u202eevil\\u200b');
    expect(html).not.toContain('<img');
  });

  test.each([
    [{ decision: 'approve', for: 'run' }, 'for'],
    [{ decision: 'approve', arguments: { to: 'eve', amount: 5 } }, 'arguments'],
    [{ decision: 'answer', answer: 'yes' }, 'body.decision'],
    [{ decision: 'perhaps' }, 'body.decision'],
    [{}, 'body.decision'],
    [[], 'body'],
  ])('does not decide with %j', async (body, named) => {
    const { pathOf, postJson, list } = await setUp([[pay(5)], [DONE]]);
    expect(await postJson(await pathOf(), body)).toMatchObject({
      status: 400,
      body: { error: { code: 'INVALID_INPUT', message: expect.stringContaining(named) } },
    });
    expect(await list()).toHaveLength(1);
  });

  test.each([
    [{ 'sec-fetch-site': 'cross-site' }],
    [{ 'sec-fetch-site': 'same-site' }],
    [{ origin: 'https://evil.example' }],
    [{ origin: 'null' }],
  ])('does not decide for another page, with %j', async (headers) => {
    const { pathOf, post, list } = await setUp([[pay(5)], [DONE]]);
    const path = await pathOf();
    expect((await post(path, { decision: 'approve' }, { ...HTML, ...headers })).status).toBe(403);
    expect((await post(path, { decision: 'approve' }, headers)).status).toBe(403);
    expect(await list()).toHaveLength(1);
    expect((await post(path, { decision: 'approve' }, { origin: 'https://agents.example.com' })).status).toBe(200);
  });

  test('is answered in JSON for programs, without ids of the workspace', async () => {
    const { pathOf, open, workspaceId, runId } = await setUp([[pay(5)], [DONE]]);
    const response = await open(await pathOf(), 'GET', {});
    const text = await response.text();
    expect(JSON.parse(text)).toMatchObject({ agent_name: 'payer', tool: 'pay', arguments: { to: 'ann', amount: 5 } });
    expect(text).not.toContain(workspaceId);
    expect(text).not.toContain(runId);
  });

  test('ends with its question at the latest, and a question has at most 20', async () => {
    const { link, runId, approvals, send } = await setUp([[pay(5)], [DONE]]);
    const { expires_at } = (await send('GET', `${approvals}/${runId}.1.1`)).body as unknown as { expires_at: string };
    const made = [await link({ expires_in_seconds: 2_592_000 })];
    expect(Date.parse(made[0]!.body.expires_at)).toBeLessThanOrEqual(Date.parse(expires_at));
    while (made.length < 20) made.push(await link());
    expect(made.map(({ status }) => status)).toEqual(Array(20).fill(201));
    expect(await link()).toMatchObject({ status: 409, body: { error: { code: 'CONFLICT' } } });
    for (const expires_in_seconds of [59, 2_592_001, 1.5]) {
      expect(await link({ expires_in_seconds })).toMatchObject({ status: 400 });
    }
  });

  test('is not made for a wait, for the run of another workspace, or with a key that may not decide', async () => {
    const { link, runId, send, deps, workspaceId } = await setUp([[{ name: 'wait', input: { seconds: 60 } }], [DONE]], {
      loop: { tools: ['wait'] },
    });
    expect(await link()).toMatchObject({ status: 400, body: { error: { code: 'INVALID_INPUT' } } });
    const stranger = await addUser(deps, 'stranger');
    expect(await link({}, `${runId}.1.1`, stranger.key)).toMatchObject({ status: 403 });
    const own = `/workspaces/${stranger.workspaceId}/approvals/${runId}.1.1/link`;
    expect(await send('POST', own, {}, stranger.key)).toMatchObject({ status: 404 });
    const { key } = (await send('POST', '/api-keys', { name: 'runner', scope: 'run' })).body;
    expect(await link({}, `${runId}.1.1`, key)).toMatchObject({ status: 403 });
    expect(workspaceId).not.toBe(stranger.workspaceId);
  });
});

describe('members of a workspace', () => {
  test('decide, unless its setting says that only owners do', async () => {
    const { deps, decide, link, send, runId, workspaceId, user } = await setUp([[pay(5), pay(6)], [DONE]]);
    const member = await addUser(deps, 'member');
    const { findWorkspace, memberItem } = await import('#core/accounts/workspaces/store.ts');
    const workspace = (await findWorkspace(deps, workspaceId))!;
    await deps.main.put(memberItem(workspace, member.userId, 'member', workspace.createdAt));
    const inWorkspace = { 'x-workspace-id': workspaceId };
    expect(await send('PATCH', '/org', { approvers: 'owners' }, member.key, inWorkspace)).toMatchObject({
      status: 403,
    });
    expect(await send('PATCH', '/org', { approvers: 'owners' }, user.key, inWorkspace)).toMatchObject({
      status: 200,
      body: { approvers: 'owners' },
    });
    const refused = { status: 403, body: { error: { message: expect.stringContaining('Only an owner') } } };
    expect(await decide(`${runId}.1.1`, { decision: 'approve' }, member.key)).toMatchObject(refused);
    expect(await link({}, `${runId}.1.1`, member.key)).toMatchObject(refused);
    expect(await decide(`${runId}.1.1`, { decision: 'deny' })).toMatchObject({ status: 200 });
    await send('PATCH', '/org', { approvers: 'members' }, user.key, inWorkspace);
    const decided = await decide(`${runId}.1.2`, { decision: 'deny' }, member.key);
    expect(decided).toMatchObject({ status: 200, body: { decided_by: member.userId } });
    expect(await send('PATCH', '/org', { approvers: 'nobody' }, user.key, inWorkspace)).toMatchObject({ status: 400 });
  });

  test('who were removed decide no more, with no key; what they decided stays theirs', async () => {
    const { deps, decide, link, runId, workspaceId, state, post } = await setUp([[pay(5), pay(6), pay(7)], [DONE]]);
    const member = await addUser(deps, 'member');
    const { findWorkspace, memberItem } = await import('#core/accounts/workspaces/store.ts');
    const workspace = (await findWorkspace(deps, workspaceId))!;
    await deps.main.put(memberItem(workspace, member.userId, 'member', workspace.createdAt));
    expect(await decide(`${runId}.1.1`, { decision: 'deny' }, member.key)).toMatchObject({ status: 200 });
    const made = await link({}, `${runId}.1.3`, member.key);
    await removeMember(deps, { workspace, userId: member.userId });
    expect(await decide(`${runId}.1.2`, { decision: 'approve' }, member.key)).toMatchObject({ status: 403 });
    expect(await decide(`${runId}.1.1`, { decision: 'deny' }, member.key)).toMatchObject({ status: 403 });
    expect(await state()).toMatchObject({ decided_by: member.userId });
    // A link is for whoever has it.
    expect((await post(new URL(made.body.url).pathname, { decision: 'deny' })).status).toBe(200);
  });
});
