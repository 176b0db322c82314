import { beforeAll, describe, expect, test } from 'vitest';
import { postAgUi } from '#test/helpers/ag-ui.ts';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME } from '../expect.ts';

// A deployed platform looks at canaries once a minute.
const untilTold = { timeout: 150_000, interval: 500 };
const limit = { timeout: 180_000 };

/** Names of versions (`docs/interface/channels.md`). */
export function channelsSuite(target: () => Target): void {
  let user: TestUser;
  let stranger: TestUser;
  const as =
    (key: string) =>
    (method: string, path: string, json?: unknown, headers: Record<string, string> = {}) =>
      request(target(), method, path, { key, json, headers });
  const send: ReturnType<typeof as> = (...args) => as(user.key)(...args);
  const own = (path: string) => `/workspaces/${user.workspaceId}${path}`;

  /** Publishes versions that answer with their numbers. Returns the ids. */
  async function publish(name: string, versions: readonly (ScriptedTurn | undefined)[], more: object = {}) {
    const ids: string[] = [];
    for (const [index, turn] of versions.entries()) {
      const prompt = `As ${name}. [[llm ${JSON.stringify(turn ?? { text: `v${index + 1}` })}]] {{message}}`;
      const body = { name, type: 'prompt', description: 'x', supported_providers: ['anthropic'], prompt, ...more };
      ids.push(expectOk(await send('POST', '/agents', body), 201).agent.id);
    }
    return ids;
  }
  const channels = (id: string, name = '') => `/agents/${id}/channels${name && `/${name}`}`;
  const put = (id: string, name: string, json: object) => send('PUT', channels(id, name), json);
  const call = (path: string, headers: Record<string, string> = {}, key = user.key) =>
    as(key)('POST', `/${user.slug}/${path}`, { message: 'Hello' }, headers);
  const versionOf = async (path: string, headers: Record<string, string> = {}) =>
    expectOk(await call(path, headers)).metadata.version as string;
  const runOf = async (answer: Awaited<ReturnType<typeof call>>) =>
    expectOk(await send('GET', own(`/runs/${answer.headers.get('x-run-id')}`)));

  beforeAll(async () => {
    needsModel(target());
    [user, stranger] = await Promise.all([target().addUser('channels'), target().addUser('channel-stranger')]);
    for (const by of [user, stranger]) {
      const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-channels-0123456789' };
      expectOk(await as(by.key)('PUT', `/workspaces/${by.workspaceId}/secrets`, secret));
    }
  });

  describe('a channel', () => {
    test('names a version, is moved, and goes back', async () => {
      const [id] = await publish('moving', [undefined, undefined, undefined]);
      const made = expectOk(await put(id!, 'prod', { version: 'v1', why: 'first release' }));
      expect(made).toEqual({
        ...{ name: 'prod', reference: 'channels/moving@prod', version: 'v1', canary: null, revision: 1 },
        created_at: expect.stringMatching(ISO_TIME),
        updated_at: expect.stringMatching(ISO_TIME),
      });
      expect(await versionOf('moving/prod/run')).toBe('v1');
      expect(expectOk(await put(id!, 'prod', { version: '1' })).revision).toBe(1);
      expect(expectOk(await put(id!, 'prod', { version: 'latest', revision: 1 }))).toMatchObject({
        ...{ version: 'v3', revision: 2 },
      });
      const conflict = await put(id!, 'prod', { version: 'v2', revision: 1 });
      expectError(
        conflict,
        409,
        'CONFLICT',
        'revision: is 1, but the channel prod has the revision 2 now and names v3.',
      );
      expect(await versionOf('moving/prod/run')).toBe('v3');
      expect(expectOk(await send('POST', `${channels(id!, 'prod')}/rollback`, { why: 'it broke' }))).toMatchObject({
        ...{ version: 'v1', revision: 3 },
      });
      expect(await versionOf('moving/prod/run')).toBe('v1');
      expectError(await send('POST', `${channels(id!, 'prod')}/rollback`, {}), 409, 'CONFLICT', 'no version before it');
      const { history, calls } = expectOk(await send('GET', channels(id!, 'prod')));
      expect(history).toMatchObject([
        { revision: 3, action: 'rolled_back', from: { version: 'v3' }, to: { version: 'v1' }, why: 'it broke' },
        { revision: 2, action: 'changed', from: { version: 'v1' }, to: { version: 'v3' }, why: null },
        { revision: 1, action: 'created', from: null, to: { version: 'v1', canary: null }, why: 'first release' },
      ]);
      expect(history.every(({ by }: { by: string }) => by === user.userId)).toBe(true);
      expect(calls.canary).toEqual({ calls: 0, failed: 0, error_rate: null, scored: 0, mean_score: null });
      expect(expectOk(await send('GET', channels(id!))).channels).toMatchObject([{ name: 'prod', version: 'v1' }]);
      expect(expectOk(await send('DELETE', channels(id!, 'prod')))).toEqual({ deleted: true, name: 'prod' });
      expectError(await send('GET', channels(id!, 'prod')), 404, 'NOT_FOUND', 'no channel "prod"');
      expectError(await call('moving/prod/run'), 404, 'NOT_FOUND', 'channels/moving with a channel prod');
      // One of the same name has a history of its own.
      expectOk(await put(id!, 'prod', { version: 'v2', revision: 0 }));
      expect(expectOk(await send('GET', channels(id!, 'prod'))).history).toMatchObject([{ revision: 1 }]);
    });

    test('divides calls, and those who are on the canary stay there', async () => {
      const [id] = await publish('divided', [undefined, undefined]);
      const side = async (tenant: string) => versionOf('divided/prod/run', { 'x-platform-tenant': tenant });
      const tenants = Array.from({ length: 12 }, (_, i) => `t${i}`);
      const sides = async (percent: number) => {
        expectOk(await put(id!, 'prod', { version: 'v1', canary: { version: 'v2', percent } }));
        const found = new Map<string, string>();
        for (const tenant of tenants) found.set(tenant, await side(tenant));
        return tenants.filter((tenant) => found.get(tenant) === 'v2');
      };
      expect(await sides(0)).toEqual([]);
      const few = await sides(30);
      expect(await sides(30.01)).toEqual(expect.arrayContaining(few));
      const more = await sides(60);
      expect(more).toEqual(expect.arrayContaining(few));
      expect(await sides(100)).toEqual(tenants);
      const answer = await call('divided/prod/run');
      const run = await runOf(answer);
      expect(run).toMatchObject({ agent_version: 'v2', channel: 'prod', is_canary: true });
      const plain = await runOf(await call('divided/v1/run'));
      expect(plain).toMatchObject({ agent_version: 'v1', channel: null, is_canary: false });
      const { runs } = expectOk(await send('GET', own('/runs?agent_name=divided&version=v2&limit=1')));
      expect(runs).toMatchObject([{ channel: 'prod', is_canary: true }]);
      const promoted = expectOk(await send('POST', `${channels(id!, 'prod')}/promote`, { why: 'good' }));
      expect(promoted).toMatchObject({ version: 'v2', canary: null });
      expectError(await send('POST', `${channels(id!, 'prod')}/promote`, {}), 409, 'CONFLICT', 'has no canary');
      expect(expectOk(await send('POST', `${channels(id!, 'prod')}/rollback`, {}))).toMatchObject({ version: 'v1' });
    });

    test('sticks to what it says', async () => {
      const [id] = await publish('sticky', [undefined, undefined]);
      expectOk(await put(id!, 'prod', { version: 'v1', canary: { version: 'v2', percent: 50, key: 'session' } }));
      for (const session of ['one', 'two', 'three']) {
        const headers = { 'x-platform-session': session };
        const first = await versionOf('sticky/prod/run', headers);
        expect(await versionOf('sticky/prod/run', { ...headers, 'x-platform-tenant': 'any' }).catch(() => first)).toBe(
          first,
        );
        expect(await versionOf('sticky/prod/run', headers)).toBe(first);
      }
      expectOk(await put(id!, 'prod', { version: 'v1', canary: { version: 'v2', percent: 50 } }));
      const byKey = await versionOf('sticky/prod/run');
      for (let i = 0; i < 3; i++) expect(await versionOf('sticky/prod/run')).toBe(byKey);
      // A rollback ends the canary, and nothing else.
      expect(expectOk(await send('POST', `${channels(id!, 'prod')}/rollback`, {}))).toMatchObject({
        ...{ version: 'v1', canary: null },
      });
    });

    test('is made by owners, of versions that can run, with a name of its own', async () => {
      const [id] = await publish('strict', [undefined]);
      for (const name of ['latest', 'dev', 'v2', 'mcp', 'a2a', 'ag-ui', 'Prod', 'a_b', 'x'.repeat(33)])
        expectError(await put(id!, name, { version: 'v1' }), 400, 'INVALID_INPUT', 'path.channel');
      expectError(await put(id!, 'prod', { version: 'v7' }), 404, 'NOT_FOUND', 'body.version: channels/strict');
      expectError(await put(id!, 'prod', { version: 'prod' }), 400, 'INVALID_INPUT', 'body.version');
      for (const percent of [-1, 101, 0.001])
        expectError(
          await put(id!, 'prod', { version: 'v1', canary: { version: 'v1', percent } }),
          ...([400, 'INVALID_INPUT', 'body.canary.percent'] as const),
        );
      const twice = await put(id!, 'prod', { version: 'v1', canary: { version: 'v1', percent: 5 } });
      expectError(twice, 400, 'INVALID_INPUT', 'body.canary.version');
      expectError(await as(stranger.key)('PUT', channels(id!, 'prod'), { version: 'v1' }), 404, 'NOT_FOUND');
      expectError(await as(stranger.key)('GET', channels(id!)), 404, 'NOT_FOUND');
      const entries = async () => expectOk(await send('GET', own('/audit?operation=putChannel'))).entries;
      expectOk(await put(id!, 'prod', { version: 'v1' }));
      const mine = (await entries()).filter(({ target }: { target: { id: string } }) => target.id === id);
      expect(mine[0]).toMatchObject({ outcome: 'done', target: { channel: 'prod', version: 'v1' } });
      const code = {
        name: 'codeless',
        type: 'tool',
        description: 'x',
        required_secrets: [],
        runtime: { command: 'true' },
      };
      const { agent } = expectOk(await send('POST', '/agents', code), 201);
      expectError(await put(agent.id, 'prod', { version: 'v1' }), 422, 'UNPROCESSABLE', 'cannot run yet');
      const skill = { name: 'a-skill', type: 'skill', description: 'x', prompt: 'Be kind.' };
      const { agent: kind } = expectOk(await send('POST', '/agents', skill), 201);
      expectError(await put(kind.id, 'prod', { version: 'v1' }), 422, 'UNPROCESSABLE', 'skills have no channels');
    });

    test('keeps its versions from deletion, and ends with its agent', async () => {
      const [first, second, third] = await publish('kept', [undefined, undefined, undefined]);
      expectOk(await put(third!, 'prod', { version: 'v1', canary: { version: 'v2', percent: 0 } }));
      expectError(
        await send('DELETE', `/agents/${first}`),
        409,
        'CONFLICT',
        'channels/kept@v1 cannot be deleted: the channel prod',
      );
      expectError(await send('DELETE', `/agents/${second}`), 409, 'CONFLICT', 'the channel prod names it');
      expectOk(await put(third!, 'prod', { version: 'v3' }));
      expectOk(await send('DELETE', `/agents/${first}`));
      // The version before is gone, so there is none to go back to.
      expectError(await send('POST', `${channels(third!, 'prod')}/rollback`, {}), 409, 'CONFLICT', 'no version before');
      expectOk(await send('DELETE', `/agents/${third}?mode=all_versions`));
      expectError(await call('kept/prod/run'), 404, 'NOT_FOUND');
      const [again] = await publish('kept', [undefined]);
      expect(expectOk(await send('GET', channels(again!))).channels).toEqual([]);
    });

    test('takes its canary back when that fails', limit, async () => {
      const bad: ScriptedTurn = { status: 400 };
      const [id] = await publish('failing', [undefined, bad]);
      const canary = { version: 'v2', percent: 100, max_error_rate: 0.5, min_calls: 3 };
      expectOk(await put(id!, 'prod', { version: 'v1', canary }));
      for (let i = 0; i < 3; i++) expectError(await call('failing/prod/run'), 502, 'LLM_ERROR');
      const shown = async () => {
        await target().passMinute?.();
        return expectOk(await send('GET', channels(id!, 'prod')));
      };
      await expect.poll(async () => (await shown()).canary.taken_back, untilTold).not.toBeNull();
      const after = await shown();
      expect(after).toMatchObject({
        version: 'v1',
        revision: 2,
        canary: { percent: 0, taken_back: { why: 'error rate 1.00 over 3 calls', calls: 3, failed: 3 } },
        history: [{ action: 'taken_back', by: null, why: 'error rate 1.00 over 3 calls' }, { action: 'created' }],
      });
      expect(await versionOf('failing/prod/run')).toBe('v1');
      expectError(await send('POST', `${channels(id!, 'prod')}/promote`, {}), 409, 'CONFLICT', 'was taken back');
      const told = async () => expectOk(await send('GET', own('/messages?agent_name=failing'))).messages;
      await expect
        .poll(told, untilTold)
        .toMatchObject([{ level: 'warning', title: 'Canary v2 of failing@prod was taken back' }]);
    });

    test('stands wherever a version may stand', limit, async () => {
      const [id] = await publish('everywhere', [undefined, undefined], { is_public: true });
      expectOk(await put(id!, 'prod', { version: 'v1' }));
      const path = `/${user.slug}/everywhere`;
      // A call that nobody waits for, and a stream.
      const later = await call('everywhere/prod/run', { prefer: 'respond-async' });
      expect(expectOk(later, 202).metadata.version).toBe('v1');
      const stream = await fetch(`${target().url}${path}/prod/run`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${user.key}`,
          accept: 'text/event-stream',
          'content-type': 'application/json',
        },
        body: '{"message":"Hello"}',
      });
      expect(await stream.text()).toContain('"v1"');
      // The caller of another workspace, and its run.
      const foreign = await as(stranger.key)('POST', `${path}/prod/run`, { message: 'x' });
      expect(expectOk(foreign).metadata.version).toBe('v1');
      // Views.
      const document = expectOk(await send('GET', `${path}/prod/openapi.json`));
      expect(Object.keys(document.paths)).toContain(`${path}/prod/run`);
      expect(document.info.version).toBe('v1');
      expect(expectOk(await send('GET', `/public/agents${path}/prod`)).version).toBe('v1');
      expectOk(await send('GET', `/public/agents${path}/prod/cost-estimate`));
      expect(expectOk(await send('GET', `/agents${path}/prod/tree`)).agent).toBe('channels/everywhere@v1');
      // Other protocols.
      const model = { model: 'channels/everywhere@prod', messages: [{ role: 'user', content: 'Hello' }] };
      const chat = expectOk(await send('POST', '/openai/v1/chat/completions', model));
      expect(chat.choices[0].message.content).toBe('v1');
      const rpc = (method: string, params: object) => ({ jsonrpc: '2.0', id: 1, method, params });
      const tool = { name: 'channels__everywhere', arguments: { message: 'Hello' } };
      const mcp = await send('POST', `${path}@prod/mcp`, rpc('tools/call', tool), {
        accept: 'application/json, text/event-stream',
      });
      expect(JSON.stringify(mcp.body)).toContain('v1');
      const said = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'Hello' }] };
      const a2a = await send('POST', `/a2a${path}@prod/message:send`, { message: said }, { 'a2a-version': '1.0' });
      expect(JSON.stringify(expectOk(a2a))).toContain('v1');
      const card = expectOk(await send('GET', `/a2a${path}@prod/.well-known/agent-card.json`));
      expect(card).toMatchObject({ version: 'v1' });
      expect(card.supportedInterfaces[0].url).toMatch(/channels\/everywhere@prod$/);
      const messages = [{ id: 'm', role: 'user', content: 'Hello' }];
      const more = { tools: [], context: [], state: {} };
      const agUi = await postAgUi(target(), `${path}@prod/ag-ui`, {
        key: user.key,
        json: { threadId: 'thread-1', runId: 'run-1', messages, ...more },
      });
      expect(JSON.stringify(agUi.events)).toContain('v1');
      // Sessions, replays and links.
      const session = expectOk(
        await send('POST', own('/sessions'), { agent: 'channels/everywhere', pin_version: 'prod' }),
        201,
      );
      expect(session.pin_version).toBe('prod');
      const message = await send('POST', own(`/sessions/${session.id}/messages`), { text: 'Hello' });
      expect(await runOf(message)).toMatchObject({ agent_version: 'v1', channel: 'prod' });
      expectError(
        await send('POST', own('/sessions'), { agent: 'channels/everywhere', pin_version: 'nope' }),
        ...([404, 'NOT_FOUND', 'a channel nope'] as const),
      );
      const original = await call('everywhere/v2/run');
      const runId = original.headers.get('x-run-id');
      const replayed = expectOk(await send('POST', own(`/runs/${runId}/replay`), { agent_version: 'prod' }), 202);
      const replay = async () => expectOk(await send('GET', own(`/runs/${replayed.run_id}`)));
      await expect.poll(async () => (await replay()).status, untilTold).toBe('completed');
      expect(await replay()).toMatchObject({ agent_version: 'v1', channel: 'prod' });
      // A replay of a run of a channel keeps the version of the run.
      expectOk(await put(id!, 'prod', { version: 'v2' }));
      const same = expectOk(await send('POST', own(`/runs/${later.headers.get('x-run-id')}/replay`), {}), 202);
      expect(expectOk(await send('GET', own(`/runs/${same.run_id}`)))).toMatchObject({
        ...{ agent_version: 'v1', channel: null },
      });
      const link = expectOk(
        await send('POST', own('/chat-links'), { agent: 'channels/everywhere', kind: 'form', version: 'prod' }),
        201,
      );
      const token = link.url.split('/').at(-1);
      const opened = expectOk(await request(target(), 'POST', `/public/chats/${token}/sessions`, {}), 201);
      const answer = await request(target(), 'POST', `/public/chats/${token}/sessions/${opened.session_id}/messages`, {
        json: { input: { message: 'Hello' } },
        headers: { 'x-platform-visitor': opened.visitor },
      });
      expect(String(answer.body)).toContain('v2');
    });

    test('is followed by schedules', limit, async () => {
      const [id] = await publish('followed', [undefined, undefined, undefined]);
      expectOk(await put(id!, 'prod', { version: 'v1' }));
      const schedules = (path = '') => own(`/schedules${path}`);
      const cron = { cron_expression: '0 0 1 1 *', input_data: { message: 'Hello' } };
      const { schedule } = expectOk(await send('POST', schedules(), { agent: 'channels/followed@prod', ...cron }), 201);
      expect(schedule).toMatchObject({ agent_version: 'v1', channel: 'prod', auto_update: true });
      const shown = async () => expectOk(await send('GET', schedules(`/${schedule.id}`))).schedule;
      // A new version moves those who follow `latest` alone.
      await publish('followed', [undefined]);
      expect(await shown()).toMatchObject({ agent_version: 'v1' });
      expectOk(await put(id!, 'prod', { version: 'v2', canary: { version: 'v3', percent: 100 } }));
      expect(await shown()).toMatchObject({ agent_version: 'v2', channel: 'prod' });
      const run = expectOk(await send('POST', schedules(`/${schedule.id}/trigger`), {}));
      expect(expectOk(await send('GET', own(`/runs/${run.run_id}`)))).toMatchObject({
        ...{ agent_version: 'v3', channel: 'prod', is_canary: true },
      });
      expectOk(await send('PATCH', schedules(`/${schedule.id}`), { agent_version: 'v1' }));
      expect(await shown()).toMatchObject({ agent_version: 'v1', auto_update: false });
      expect((await shown()).channel).toBeUndefined();
      expectOk(await send('PATCH', schedules(`/${schedule.id}`), { agent_version: 'prod' }));
      expect(await shown()).toMatchObject({ agent_version: 'v2', channel: 'prod', auto_update: true });
      expectOk(await send('DELETE', channels(id!, 'prod')));
      const lost = expectOk(await send('POST', schedules(`/${schedule.id}/trigger`), {}));
      expect(lost.error).toContain('The channel prod of channels/followed, which this schedule follows, was deleted.');
      const none = await send('POST', schedules(), { agent: 'channels/followed@nope', ...cron });
      expectError(none, 404, 'NOT_FOUND', 'nope');
      // A channel of another workspace could change without the consent of this one.
      const [open] = await publish('followed-open', [undefined], { is_public: true });
      expectOk(await put(open!, 'prod', { version: 'v1' }));
      const foreign = { agent: 'channels/followed-open@prod', ...cron };
      const refused = await as(stranger.key)('POST', `/workspaces/${stranger.workspaceId}/schedules`, foreign);
      expectError(refused, 400, 'INVALID_INPUT', 'its channel prod cannot be followed');
    });

    test('is no version for a dependency', async () => {
      const [id] = await publish('used', [undefined]);
      expectOk(await put(id!, 'prod', { version: 'v1' }));
      const manifest = { orchestration_mode: 'flexible', dependencies: [{ id: 'channels/used', version: 'prod' }] };
      const body = { name: 'user-of-it', type: 'agent', description: 'x', prompt: 'x', required_secrets: [], manifest };
      expectError(await send('POST', '/agents', body), 400, 'INVALID_INPUT', 'not a channel');
    });
  });
}
