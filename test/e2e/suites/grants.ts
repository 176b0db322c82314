import { beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '#core/api/client.ts';
import { type Answer, clientOf, needsModel, publishCode, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME, UUID } from '../expect.ts';
import type { Languages } from '../languages.ts';

/**
 * Sends the requests in its input with the run's key, and shows the variables of the run. With `seconds` it first
 * stores its key in a document, reversed to avoid masking, and waits.
 */
const PROGRAM = `
import json, os, sys, time, urllib.error, urllib.request
E = os.environ

def send(call):
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + E["PLATFORM_SERVICE_KEY"]}
    headers.update(call.get("headers", {}))
    method = call.get("method", "POST")
    data = None if method in ("GET", "DELETE") else json.dumps(call.get("json", {})).encode()
    request = urllib.request.Request(E["PLATFORM_GATEWAY_URL"] + call["path"], data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return {"status": response.status, "body": json.load(response)}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": json.load(error)}

given = json.load(sys.stdin)
if "seconds" in given:
    send({"method": "PUT", "path": "/storage/box/key", "json": {"key": E["PLATFORM_SERVICE_KEY"][::-1]}})
    time.sleep(given["seconds"])
names = [n for n in ("TOKEN", "OTHER", "ANTHROPIC_API_KEY") if n in E]
print(json.dumps({"has": names, "results": [send(call) for call in given.get("calls", [])]}))
`;
const FILES = { 'main.py': PROGRAM };

interface Sent {
  readonly path: string;
  readonly method?: string;
  readonly json?: unknown;
  readonly headers?: Record<string, string>;
}
const get = (path: string): Sent => ({ method: 'GET', path });
const put = (path: string, json: unknown): Sent => ({ method: 'PUT', path, json });
const codes = (answer: Answer): string[] =>
  expectOk(answer).data.results.map(({ body }: Answer) => body.error?.code ?? 'ok');

/** Access of other workspaces' agents to the caller's resources (`docs/interface/grants.md`). */
export function grantsSuite(target: () => Target, { python: hasPython }: Languages): void {
  describe('grants', () => {
    /** The workspace that pays. */
    let payer: TestUser;
    let member: TestUser;
    let author: TestUser;
    let mine: Client;
    let theirs: Client;

    const api = (method: string, path: string, json?: unknown, key = payer.key, headers: Record<string, string> = {}) =>
      request(target(), method, path, { key, json, headers });
    const grants = (method: string, path = '', json?: unknown, key = payer.key, headers: Record<string, string> = {}) =>
      api(method, `/workspaces/${payer.workspaceId}/grants${path}`, json, key, headers);
    const grant = async (agent: string, json: object) => expectOk(await grants('PUT', `/${agent}`, json)).grant;
    /** Calls an agent as the paying workspace. */
    const run = (agent: string, json: unknown = {}, headers: Record<string, string> = {}) =>
      api('POST', `/${agent}/v1/run`, json, payer.key, headers);
    const prompt = (name: string, more: object = {}) => ({
      body: { name, type: 'prompt', description: 'x', prompt: 'x', is_public: true, ...more },
    });

    beforeAll(async () => {
      needsModel(target());
      [payer, member, author] = await Promise.all([
        target().addUser('grant-payer'),
        target().addUser('grant-member'),
        target().addUser('grant-author'),
      ]);
      await target().addMember(member, payer.workspaceId);
      [mine, theirs] = [clientOf(target(), payer.key), clientOf(target(), author.key)];
      const params = { workspace_id: payer.workspaceId };
      for (const [name, value] of Object.entries({
        TOKEN: 'tok-grants-5f21',
        OTHER: 'other-grants-77aa',
        ANTHROPIC_API_KEY: 'sk-ant-grants-0123456789',
      })) {
        await mine.putSecret({ params, body: { name, value } });
      }
    });

    test('are put, shown, listed, replaced and deleted by owners', async () => {
      await theirs.createAgent(prompt('listed'));
      expectError(await grants('GET', '/grant-author/listed'), 404, 'NOT_FOUND', 'grant-author/listed');
      const body = { secrets: ['TOKEN', 'OTHER', 'TOKEN'], scopes: ['tasks'], version: 'v1' };
      const created = await grants('PUT', '/grant-author/listed', body);
      const first = {
        agent: 'grant-author/listed',
        version: 'v1',
        secrets: ['OTHER', 'TOKEN'],
        scopes: ['tasks'],
        egress: [],
        granted_by: payer.userId,
        granted_at: expect.stringMatching(ISO_TIME),
        revision: expect.stringMatching(UUID),
      };
      expect(expectOk(created)).toEqual({ grant: first, created: true });
      expect(created.headers.get('etag')).toBe(`"${created.body.grant.revision}"`);
      // Repeating the request changes nothing.
      expect(expectOk(await grants('PUT', '/grant-author/listed', body))).toEqual({ ...created.body, created: false });
      expect(expectOk(await grants('GET', '/grant-author/listed'))).toEqual({ grant: created.body.grant });
      expect(expectOk(await grants('GET')).grants).toContainEqual(created.body.grant);

      const wider = { secrets: [], scopes: ['messages', 'storage', 'tasks'], version: 'all' };
      const stale = { 'if-match': `"${crypto.randomUUID()}"` };
      expectError(
        await grants('PUT', '/grant-author/listed', wider, payer.key, stale),
        409,
        'CONFLICT',
        'read the grant again',
      );
      expectError(await grants('DELETE', '/grant-author/listed', undefined, payer.key, stale), 409, 'CONFLICT');
      const fresh = { 'if-match': created.headers.get('etag')! };
      const replaced = expectOk(await grants('PUT', '/grant-author/listed', wider, payer.key, fresh));
      expect(replaced).toMatchObject({ grant: wider, created: false });
      expect(replaced.grant.revision).not.toBe(created.body.grant.revision);

      for (const [method, path, json] of [
        ['GET', '', undefined],
        ['GET', '/grant-author/listed', undefined],
        ['PUT', '/grant-author/listed', body],
        ['DELETE', '/grant-author/listed', undefined],
      ] as const) {
        expectError(await grants(method, path, json, member.key), 403, 'FORBIDDEN', 'Only an owner');
        expectError(await grants(method, path, json, author.key), 403, 'FORBIDDEN', 'not a member');
      }
      expect(expectOk(await grants('DELETE', '/grant-author/listed'))).toEqual({ deleted: true });
      expectError(await grants('DELETE', '/grant-author/listed'), 404, 'NOT_FOUND');
    });

    test('name an agent of another workspace that can be run, and what there is to grant', async () => {
      await mine.createAgent(prompt('mine'));
      await theirs.createAgent(prompt('hidden', { is_public: false }));
      await theirs.createAgent({
        body: { name: 'advice', type: 'skill', description: 'x', prompt: 'x', is_public: true },
      });
      await theirs.createAgent({
        body: { name: 'codeless', type: 'tool', description: 'x', required_secrets: [], is_public: true },
      });
      const good = { version: 'v1', secrets: ['TOKEN'] };
      const own = await grants('PUT', '/grant-payer/mine', good);
      expectError(own, 400, 'INVALID_INPUT', 'belongs to this workspace');
      for (const path of ['/grant-author/hidden', '/grant-author/nothing', '/nobody/nothing']) {
        expectError(await grants('PUT', path, good), 404, 'NOT_FOUND', path.slice(1));
      }
      expectError(await grants('PUT', '/grant-author/advice', good), 400, 'INVALID_INPUT', 'is a skill');
      // An agent without code cannot be granted, because its code could still become anything.
      expectError(await grants('PUT', '/grant-author/codeless', good), 400, 'INVALID_INPUT', 'body.version');
      await theirs.createAgent(prompt('checked'));
      for (const [body, field] of [
        [{ secrets: ['TOKEN'] }, 'body.version'],
        [{ version: 'latest' }, 'body.version'],
        [{ version: 'v0' }, 'body.version'],
        [{ version: 'all', secrets: ['lower'] }, 'body.secrets.0'],
        [{ version: 'all', secrets: 'TOKEN' }, 'body.secrets'],
        [{ version: 'all', scopes: ['secrets'] }, 'body.scopes.0'],
        [{ version: 'all', scope: ['tasks'] }, 'body'],
      ] as const) {
        expectError(await grants('PUT', '/grant-author/checked', body), 400, 'INVALID_INPUT', field);
      }
      expectError(await grants('PUT', '/grant-author/checked', { version: 'v2' }), 404, 'NOT_FOUND', 'v2');
    });

    test("a foreign prompt is asked with the caller's key and needs no grant", async () => {
      await theirs.createAgent(prompt('poet', { supported_providers: ['anthropic'] }));
      expectOk(await run('grant-author/poet'));
      expectError(await api('POST', '/grant-author/poet/v1/run', {}, author.key), 400, 'LLM_KEY_REQUIRED');
    });

    test('schedules and webhooks of a foreign agent need its grants when they are made or changed', async () => {
      const path = `/workspaces/${payer.workspaceId}/schedules`;
      await theirs.createAgent(prompt('reporter', { required_secrets: ['TOKEN'], supported_providers: ['anthropic'] }));
      const cron = { agent: 'grant-author/reporter', cron_expression: '0 0 1 1 *' };
      const hook = { agent: 'grant-author/reporter', webhook: true };
      for (const body of [cron, hook]) {
        const { hint } = expectError(await api('POST', path, body), 400, 'MISSING_SECRETS', 'in workspace: TOKEN.');
        expect(hint).toContain(`PUT /workspaces/${payer.workspaceId}/grants/grant-author/reporter`);
      }
      await grant('grant-author/reporter', { version: 'v1', secrets: ['TOKEN'] });
      const schedules = [];
      for (const body of [cron, hook]) schedules.push(expectOk(await api('POST', path, body), 201).schedule);
      const [timed, hooked] = schedules;
      await theirs.createAgent(prompt('reporter', { required_secrets: ['TOKEN'], supported_providers: ['anthropic'] }));
      const move = { agent_version: 'v2' };
      expectError(await api('PATCH', `${path}/${timed.id}`, move), 400, 'MISSING_SECRETS', 'in workspace: TOKEN.');
      await grant('grant-author/reporter', { version: 'all', secrets: ['TOKEN'] });
      expectOk(await api('PATCH', `${path}/${timed.id}`, move));

      const runNow = async () => expectOk(await api('POST', `${path}/${timed.id}/trigger`, {}));
      const events = async () => {
        const { events } = expectOk(await api('GET', `${path}/${timed.id}/events`));
        return events.filter(({ event_type: type }: { event_type: string }) => type === 'grant_missing');
      };
      expect(await runNow()).toMatchObject({ status: 'success' });
      expect(await events()).toEqual([]);
      expectOk(await grants('DELETE', '/grant-author/reporter'));
      for (const _ of [1, 2]) {
        expect(await runNow()).toMatchObject({ status: 'error', error: expect.stringContaining('workspace: TOKEN.') });
      }
      // The event is written once, not with every run.
      expect(await events()).toMatchObject([{ message: expect.stringContaining('grant-author/reporter@v2') }]);
      expect((await events())[0].message).toContain('TOKEN');

      const change = { input_data: { a: 1 } };
      expectError(await api('PATCH', `${path}/${timed.id}`, change), 400, 'MISSING_SECRETS');
      expectError(await api('PATCH', `${path}/${hooked.id}`, change), 400, 'MISSING_SECRETS');
      expectOk(await api('PATCH', `${path}/${timed.id}`, { ...change, enabled: false }));
      expectError(await api('PATCH', `${path}/${timed.id}`, { enabled: true }), 400, 'MISSING_SECRETS');
      await grant('grant-author/reporter', { version: 'all', secrets: ['TOKEN'] });
      expectOk(await api('PATCH', `${path}/${timed.id}`, { enabled: true }));
      expect(await runNow()).toMatchObject({ status: 'success' });
      expect(await events()).toHaveLength(1);
    });

    test('a schedule stays enabled however often its runs lack a grant', async () => {
      const path = `/workspaces/${payer.workspaceId}/schedules`;
      await theirs.createAgent(prompt('patient', { required_secrets: ['TOKEN'], supported_providers: ['anthropic'] }));
      await grant('grant-author/patient', { version: 'v1', secrets: ['TOKEN'] });
      const body = { agent: 'grant-author/patient', cron_expression: '0 0 1 1 *', max_consecutive_failures: 2 };
      const { id } = expectOk(await api('POST', path, body), 201).schedule;
      expectOk(await grants('DELETE', '/grant-author/patient'));
      for (const _ of [1, 2, 3]) expectOk(await api('POST', `${path}/${id}/trigger`, { n: _ }));
      expect(expectOk(await api('GET', `${path}/${id}`)).schedule).toMatchObject({
        enabled: true,
        consecutive_failures: 3,
      });
    });

    describe.skipIf(!hasPython)('of programs (skipped without Python in the sandbox)', () => {
      const publish = (by: Client, name: string, more: object = {}) =>
        publishCode(by, name, FILES, { is_public: true, ...more });
      const calling = (...ids: string[]) => ({
        manifest: {
          manifest_version: 1,
          max_hops: 5,
          timeout_ms: 60_000,
          dependencies: ids.map((id) => ({ id, version: 'v1' })),
        },
      });
      const hasOf = (answer: Answer): string[] => expectOk(answer).data.has;

      test('a foreign program gets no secret and no provider key that it was not granted', async () => {
        const more = { required_secrets: ['TOKEN'], optional_secrets: ['OTHER'], supported_providers: ['anthropic'] };
        await publish(theirs, 'taker', more);
        const refused = expectError(await run('grant-author/taker'), 400, 'MISSING_SECRETS');
        expect(refused.message).toMatch(/not found in workspace: TOKEN\./);
        expect(refused.hint).toContain(
          `PUT /workspaces/${payer.workspaceId}/grants/grant-author/taker with {"version":"v1","secrets":["TOKEN"],"scopes":[]}`,
        );
        // A grant for the previous version, or one without the required rights, is not enough.
        await publish(theirs, 'taker', more);
        await grant('grant-author/taker', { version: 'v2', secrets: ['TOKEN', 'OTHER'] });
        expectError(await run('grant-author/taker'), 400, 'MISSING_SECRETS', 'in workspace: TOKEN.');
        await grant('grant-author/taker', { version: 'v1', secrets: ['OTHER'] });
        const { hint } = expectError(await run('grant-author/taker'), 400, 'MISSING_SECRETS', 'in workspace: TOKEN.');
        expect(hint).toContain('"secrets":["OTHER","TOKEN"]');

        await grant('grant-author/taker', { version: 'v1', secrets: ['TOKEN'] });
        const answer = await run('grant-author/taker');
        expect(hasOf(answer)).toEqual(['TOKEN']);
        const latest = await api('POST', '/grant-author/taker/latest/run', {});
        expectError(latest, 400, 'MISSING_SECRETS', 'in workspace: TOKEN.');
        await grant('grant-author/taker', { version: 'all', secrets: ['TOKEN', 'OTHER', 'ANTHROPIC_API_KEY'] });
        expect(hasOf(await api('POST', '/grant-author/taker/latest/run', {}))).toEqual([
          'TOKEN',
          'OTHER',
          'ANTHROPIC_API_KEY',
        ]);
        // A replay is a new run.
        expectOk(await grants('DELETE', '/grant-author/taker'));
        const replay = `/workspaces/${payer.workspaceId}/runs/${answer.headers.get('x-run-id')}/replay`;
        expectError(await api('POST', replay), 400, 'MISSING_SECRETS', 'in workspace: TOKEN.');
        // The caller may send a key of its own with the call.
        await publish(theirs, 'asker', { supported_providers: ['anthropic'] });
        expect(hasOf(await run('grant-author/asker'))).toEqual([]);
        const llm_credentials = { api_key: 'sk-ant-sent-along', provider: 'anthropic' };
        expect(hasOf(await run('grant-author/asker', { llm_credentials }))).toEqual(['ANTHROPIC_API_KEY']);
      });

      test('a grant ends with the agent: one of the same name that comes after it has none', async () => {
        const { agent } = await publish(theirs, 'mortal', { required_secrets: ['TOKEN'] });
        await grant('grant-author/mortal', { version: 'all', secrets: ['TOKEN'] });
        expect(hasOf(await run('grant-author/mortal'))).toEqual(['TOKEN']);
        await theirs.deleteAgent({ params: { id: agent.id }, query: { mode: 'all_versions' } });
        await publish(theirs, 'mortal', { required_secrets: ['TOKEN'] });
        const path = '/grant-author/mortal/v2/run';
        expectError(await api('POST', path, {}), 400, 'MISSING_SECRETS', 'in workspace: TOKEN.');
        await grant('grant-author/mortal', { version: 'all', secrets: ['TOKEN'] });
        expect(hasOf(await api('POST', path, {}))).toEqual(['TOKEN']);
      });

      test("a run's key reaches nothing of the workspace but documents of its own, until it is granted", async () => {
        const { workspaceId } = payer;
        await mine.putDocument({ params: { namespace: 'box', key: 'plans' }, body: { secret: true } });
        const task = await mine.createTask({ body: { title: 'do not show' } });
        await mine.sendMessage({ body: { title: 'do not show', body: 'x' } });
        const nowhere = [
          get('/tasks'),
          get(`/tasks/${task.id}`),
          get(`/workspaces/${workspaceId}/tasks`),
          { path: '/tasks', json: { title: 'from outside' } },
          { ...get(`/tasks/${task.id}`), method: 'DELETE' },
          get('/messages'),
          get(`/workspaces/${workspaceId}/messages`),
          { path: '/messages', json: { title: 'Your key expired', body: 'Send it to me.' } },
        ];
        const documents = [
          get('/storage/box/plans'),
          put('/storage/box/note', { from: 'visitor' }),
          get('/storage/box/note'),
          get('/storage/box'),
          get('/storage'),
          { ...get('/storage/box'), method: 'DELETE' },
          put('/storage/box/note', { from: 'visitor' }),
        ];
        const forged = [
          { 'X-Workspace-Id': workspaceId },
          { 'X-Workspace-Id': author.workspaceId },
          { 'X-Platform-Call-Chain': 'grant-payer/mine@v1', 'X-Platform-Call-Chain-Sig': '0'.repeat(64) },
        ].map((headers) => ({ ...get('/tasks'), headers }));
        await publish(theirs, 'visitor');
        const used = async (user: TestUser) => {
          const shown = await api('GET', '/storage', undefined, user.key);
          const { limits } = expectOk(await api('GET', `/workspaces/${user.workspaceId}/limits`, undefined, user.key));
          expect(shown.headers.get('x-storage-used')).toBe(String(limits.storage_bytes.used));
          return limits.storage_bytes.used;
        };
        const before = [await used(payer), await used(author)];
        const answer = await run('grant-author/visitor', { calls: [...nowhere, ...documents, ...forged] });
        // The documents count for the workspace that stores them, not for the agent's.
        expect([await used(payer), await used(author)]).toEqual([before[0] + '{"from":"visitor"}'.length, before[1]]);
        expect(codes(answer)).toEqual([
          ...nowhere.map(() => 'FORBIDDEN'),
          ...['NOT_FOUND', 'ok', 'ok', 'ok', 'ok', 'ok', 'ok'],
          ...forged.map(() => 'FORBIDDEN'),
        ]);
        const { results } = answer.body.data;
        expect(results[0].body.error.hint).toContain(`/workspaces/${workspaceId}/grants/grant-author/visitor`);
        expect(results[9].body).toMatchObject({ namespace: 'box', key: 'note', updated_by: 'grant-author/visitor@v1' });
        expect(results[11].body.keys).toEqual(['note']);
        expect(results[12].body.namespaces).toEqual(['box']);
        expect(results[13].body).toEqual({ deleted: true, namespace: 'box', documents_deleted: 1 });
        // Members of the workspace see the documents under the agent's name, and their own are unchanged.
        const { namespaces } = await mine.listNamespaces({});
        expect(namespaces).toEqual(expect.arrayContaining(['box', 'grant-author.visitor.box']));
        const seen = { namespace: 'grant-author.visitor.box', key: 'note' };
        expect(await mine.getDocument({ params: seen })).toMatchObject({ ...seen, value: { from: 'visitor' } });
        expect(await mine.listDocuments({ params: { namespace: 'box' } })).toMatchObject({ keys: ['plans'] });

        await publish(theirs, 'neighbour');
        const around = await run('grant-author/neighbour', {
          calls: [get('/storage/grant-author.visitor.box/note'), get('/storage/box/note'), get('/storage')],
        });
        expect(codes(around)).toEqual(['FORBIDDEN', 'NOT_FOUND', 'ok']);
        expect(around.body.data.results[2].body.namespaces).toEqual([]);

        await grant('grant-author/visitor', { version: 'v1', scopes: ['tasks', 'storage'] });
        const granted = await run('grant-author/visitor', {
          calls: [get(`/tasks/${task.id}`), get('/messages'), get('/storage/box/plans'), get('/storage/box/note')],
        });
        expect(codes(granted)).toEqual(['ok', 'FORBIDDEN', 'ok', 'NOT_FOUND']);
        await grant('grant-author/visitor', { version: 'v1', scopes: ['messages'] });
        expect(codes(await run('grant-author/visitor', { calls: nowhere.slice(4, 7) }))).toEqual([
          'FORBIDDEN',
          'ok',
          'ok',
        ]);
        await grant('grant-author/visitor', { version: 'v1' });
      });

      test("a run's key opens no more from outside, and a grant that is taken back ends at once", async () => {
        await publish(theirs, 'leaker');
        await grant('grant-author/leaker', { version: 'v1', scopes: ['tasks'] });
        const headers = { prefer: 'respond-async' };
        const started = expectOk(await run('grant-author/leaker', { seconds: 60 }, headers), 202);
        const params = { namespace: 'grant-author.leaker.box', key: 'key' };
        const leaked = () => api('GET', `/storage/${params.namespace}/${params.key}`);
        await expect.poll(async () => (await leaked()).status, { timeout: 30_000 }).toBe(200);
        const key = [...(await leaked()).body.value.key].reverse().join('');
        const by = (path: string) => api('GET', path, undefined, key);
        expectOk(await by('/tasks'));
        expectError(await by('/messages'), 403, 'FORBIDDEN');
        expect(expectOk(await by('/storage')).namespaces).toEqual(['box']);
        expectError(await by(`/workspaces/${payer.workspaceId}/grants`), 403, 'FORBIDDEN', 'Service keys');
        expectOk(await grants('DELETE', '/grant-author/leaker'));
        expectError(await by('/tasks'), 403, 'FORBIDDEN', 'grant-author/leaker@v1');
        expectOk(await api('DELETE', `/workspaces/${payer.workspaceId}/runs/${started.run_id}`));
      });

      test("every foreign agent of a chain needs the grant, and lends the caller's own agents no rights", async () => {
        const other = await target().addUser('grant-second');
        const second = clientOf(target(), other.key);
        const needs = { required_secrets: ['TOKEN'] };
        await publish(second, 'below', needs);
        await publish(theirs, 'middle', calling('grant-second/below'));
        await publish(mine, 'own-tool', needs);
        await mine.putDocument({ params: { namespace: 'box', key: 'plans' }, body: { secret: true } });
        await publish(theirs, 'deputy', calling('grant-payer/own-tool'));
        await publish(mine, 'top', calling('grant-payer/own-tool'));
        const below = { path: '/grant-second/below/v1/run', json: { calls: [get('/tasks')] } };
        const viaMiddle = async () =>
          expectOk(await run('grant-author/middle', { calls: [below] })).data.results[0].body;

        const none = await viaMiddle();
        expect(none.error.code).toBe('MISSING_SECRETS');
        expect(none.error.hint).toContain('/grants/grant-author/middle');
        expect(none.error.hint).toContain('/grants/grant-second/below');
        await grant('grant-second/below', { version: 'v1', secrets: ['TOKEN'], scopes: ['tasks'] });
        expect((await viaMiddle()).error.code).toBe('MISSING_SECRETS');
        await grant('grant-author/middle', { version: 'v1', secrets: ['TOKEN'], scopes: ['tasks'] });
        expect((await viaMiddle()).data).toMatchObject({ has: ['TOKEN'], results: [{ status: 200 }] });

        // Called only below the caller's own agent, the tool has full access; below another author's agent, only its
        // grant.
        const ownTool = {
          path: '/grant-payer/own-tool/v1/run',
          json: { calls: [get('/tasks'), get('/storage/box/plans')] },
        };
        const direct = await run('grant-payer/top', { calls: [ownTool] });
        expect(direct.body.data.results[0].body.data).toMatchObject({
          has: ['TOKEN'],
          results: [{ status: 200 }, { status: 200 }],
        });
        const viaDeputy = () => run('grant-author/deputy', { calls: [ownTool] });
        const refused = expectOk(await viaDeputy()).data.results[0];
        expect(refused.body.error).toMatchObject({
          code: 'MISSING_SECRETS',
          hint: expect.stringContaining('/grants/grant-author/deputy'),
        });
        await grant('grant-author/deputy', { version: 'v1', secrets: ['TOKEN'] });
        expect(expectOk(await viaDeputy()).data.results[0].body.data).toMatchObject({
          has: ['TOKEN'],
          results: [{ status: 403 }, { status: 404 }],
        });
        // The dependency was declared while the agent was public, because strangers cannot reach private agents.
        const [{ id } = { id: '' }] = (await mine.listAgents({})).filter(({ name }) => name === 'own-tool');
        await mine.updateAgent({ params: { id }, body: { is_public: false } });
        expect(codes(await viaDeputy())).toEqual(['FORBIDDEN']);
        expectOk(await run('grant-payer/top', { calls: [ownTool] }));
      });

      test("skills bring no rights, and a foreign agent cannot name the caller's private ones", async () => {
        const skill = (name: string, is_public: boolean) => ({
          body: { name, type: 'skill', description: 'x', prompt: 'x', is_public, allow_local_download: true },
        });
        await theirs.createAgent(skill('habits', true));
        await mine.createAgent(skill('know-how', false));
        await publish(theirs, 'reader-below');
        await publish(theirs, 'reader-above', calling('grant-author/reader-below'));
        const header = (value: string) => ({ 'x-platform-skills': value });
        const call = (value: string) => ({ path: '/grant-author/reader-below/v1/run', headers: header(value) });
        const answer = await run('grant-author/reader-above', {
          calls: [call('grant-payer/know-how'), call('know-how'), call('habits')],
        });
        expect(codes(answer)).toEqual(['INVALID_INPUT', 'INVALID_INPUT', 'ok']);
        // The caller may pass it on to the agent.
        expectOk(await run('grant-author/reader-below', {}, header('know-how')));
        await publish(mine, 'skilled', { required_secrets: ['TOKEN'] });
        expect(hasOf(await run('grant-payer/skilled', {}, header('grant-author/habits')))).toEqual(['TOKEN']);
        await publish(theirs, 'wanting', { required_secrets: ['TOKEN'] });
        const wanting = await run('grant-author/wanting', {}, header('know-how'));
        expectError(wanting, 400, 'MISSING_SECRETS', 'in workspace: TOKEN.');
      });

      test("agents of one's own workspace, forks among them, need no grant", async () => {
        const more = { required_secrets: ['TOKEN'], supported_providers: ['anthropic'], allow_local_download: true };
        const { agent } = await publish(theirs, 'forkable', more);
        await mine.forkAgent({ params: { id: agent.id }, body: { workspace_id: payer.workspaceId } });
        await mine.putDocument({ params: { namespace: 'box', key: 'plans' }, body: { secret: true } });
        const answer = await run('grant-payer/forkable', { calls: [get('/tasks'), get('/storage/box/plans')] });
        expect(hasOf(answer)).toEqual(['TOKEN', 'ANTHROPIC_API_KEY']);
        expect(codes(answer)).toEqual(['ok', 'ok']);
        // The static key works only in its own workspace.
        const [{ id } = { id: '' }] = (await theirs.listAgents({})).filter(({ name }) => name === 'forkable');
        const { key } = await theirs.createServiceKey({ params: { id } });
        expectOk(await api('GET', '/tasks', undefined, key));
        const elsewhere = { 'x-workspace-id': payer.workspaceId };
        expectError(await api('GET', '/tasks', undefined, key, elsewhere), 403, 'FORBIDDEN');
      });

      test("a foreign loop is asked with the caller's key, and its tools get what was granted", async () => {
        const look = 'for n in TOKEN OTHER ANTHROPIC_API_KEY; do printf "$n=%s " $(printenv $n | wc -c); done';
        const turns = [
          { toolCalls: [{ name: 'bash', input: { command: look } }] },
          { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] },
        ];
        const body = (name: string) => ({
          name,
          type: 'agent',
          description: 'x',
          prompt: `Do it. [[llm ${JSON.stringify(turns)}]]`,
          required_secrets: [],
          optional_secrets: ['TOKEN', 'OTHER'],
          is_public: true,
        });
        await theirs.createAgent({ body: body('looper') });
        const asked = () => target().llm.requests.findLast(({ text }) => text.includes('ANTHROPIC_API_KEY=0'))?.text;
        expectOk(await run('grant-author/looper'));
        expect(asked()).toContain('TOKEN=0 OTHER=0 ANTHROPIC_API_KEY=0');
        await grant('grant-author/looper', { version: 'v1', secrets: ['TOKEN', 'ANTHROPIC_API_KEY'] });
        expectOk(await run('grant-author/looper'));
        expect(asked()).toContain('TOKEN=16 OTHER=0 ANTHROPIC_API_KEY=0');
      });
    });
  });
}
