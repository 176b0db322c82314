import { beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '#core/api/client.ts';
import { clientOf, needsModel, publishCode, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME, UUID } from '../expect.ts';

/** Schedules: requests of clients, and runs by the host's timers. */
export function schedulesSuite(target: () => Target): void {
  describe('schedules', () => {
    let owner: TestUser;
    let member: TestUser;
    let client: Client;
    const api = (method: string, path: string, json?: unknown, key = owner.key) =>
      request(target(), method, `/workspaces/${owner.workspaceId}/schedules${path}`, { key, json });
    const publish = async (name: string, more: Record<string, unknown> = {}) => {
      const prompt = { name, type: 'prompt', description: 'x', prompt: 'Report {{topic}}.' };
      return (await client.createAgent({ body: { ...prompt, supported_providers: ['anthropic'], ...more } })).agent;
    };
    const create = async (body: object) => expectOk(await api('POST', '', body), 201).schedule;
    const find = async (id: string) => expectOk(await api('GET', `/${id}`)).schedule;
    const runsOf = async (id: string, query = '') => expectOk(await api('GET', `/${id}/runs${query}`));
    const eventsOf = async (
      id: string,
    ): Promise<{ event_type: string; message: string; slot_at: string | null; count: number | null }[]> =>
      expectOk(await api('GET', `/${id}/events`)).events;
    const daily = { agent: 'reporter', cron_expression: '0 9 * * *' };
    const everyMinute = { agent: 'reporter', cron_expression: '* * * * *', input_data: { topic: 'news' } };

    beforeAll(async () => {
      [owner, member] = await Promise.all([target().addUser('sched-owner'), target().addUser('sched-member')]);
      await target().addMember(member, owner.workspaceId);
      client = clientOf(target(), owner.key);
      const params = { workspace_id: owner.workspaceId };
      await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' } });
      await publish('reporter');
    });

    test('a cron schedule has every field under each name that clients use', async () => {
      const { id: agentId } = await publish('complete');
      const schedule = await create({
        agent_id: agentId,
        agent_name: 'complete',
        agent_version: 'v1',
        schedule_type: 'cron',
        cron_expression: '30 9 * * 1-5',
        timezone: 'America/New_York',
        input_data: { topic: 'news' },
        llm_provider: 'anthropic',
        alert_webhook_url: 'https://example.com/alerts',
        alert_on_failure_count: 2,
        max_consecutive_failures: 4,
      });
      expect(schedule).toEqual({
        id: expect.stringMatching(UUID),
        workspace_id: owner.workspaceId,
        agent_id: agentId,
        agent_name: 'complete',
        agent_version: 'v1',
        schedule_type: 'cron',
        type: 'cron',
        cron_expression: '30 9 * * 1-5',
        timezone: 'America/New_York',
        input_data: { topic: 'news' },
        llm_provider: 'anthropic',
        provider: 'anthropic',
        enabled: true,
        auto_update: true,
        pin_version: false,
        overlap: 'allow',
        next_run_at: expect.stringMatching(/T1[34]:30:00.000Z$/),
        last_run_at: null,
        last_run_status: null,
        run_count: 0,
        total_runs: 0,
        consecutive_failures: 0,
        max_consecutive_failures: 4,
        auto_disabled_at: null,
        auto_disabled_reason: null,
        alert_webhook_url: 'https://example.com/alerts',
        alert_on_failure_count: 2,
        created_at: expect.stringMatching(ISO_TIME),
        updated_at: expect.stringMatching(ISO_TIME),
      });
      expect(await find(schedule.id)).toEqual(schedule);
      expect(expectOk(await api('GET', '?agent=sched-owner/complete&type=cron'))).toEqual({
        schedules: [schedule],
        total: 1,
      });
      expect(await eventsOf(schedule.id)).toMatchObject([{ event_type: 'created' }]);
    });

    test('an expression that never occurs is refused, also one whose hour clocks leave out every year', async () => {
      // Clocks in New York go forward at 2:00 on the second Sunday of March.
      const skipped = { cron_expression: '30 2 8-14 3 */7', timezone: 'America/New_York' };
      for (const never of [{ cron_expression: '0 0 30 2 *' }, skipped, { ...skipped, enabled: false }]) {
        const refused = expectError(await api('POST', '', { agent: 'reporter', ...never }), 400, 'INVALID_INPUT');
        expect(refused.message).toMatch(/^cron_expression: .* never occurs/);
      }
      const { id } = await create(daily);
      expectError(await api('PATCH', `/${id}`, skipped), 400, 'INVALID_INPUT');
      expect(await find(id)).toMatchObject({ cron_expression: '0 9 * * *', timezone: 'UTC' });
      expectOk(await api('DELETE', `/${id}`));
    });

    test('a webhook schedule shows its address once', async () => {
      const { webhook_url: url, ...schedule } = await create({ agent: 'reporter', webhook: true });
      expect(schedule).toMatchObject({ schedule_type: 'webhook', cron_expression: null, next_run_at: null });
      expect(url).toMatch(new RegExp(`^${target().url}/webhooks/${schedule.id}/[a-z][\\w-]{43}$`));
      expect(schedule.webhook_secret_preview).toBe(`${url.split('/').at(-1).slice(0, 6)}...`);
      const shown = JSON.stringify([await find(schedule.id), expectOk(await api('GET', '?type=webhook'))]);
      expect(shown).not.toContain(url.split('/').at(-1));
      expect(shown).not.toMatch(/secret_hash/);
    });

    test('the list is filtered and paged', async () => {
      await publish('listed');
      const made = [];
      for (const hour of [1, 2, 3]) made.push(await create({ agent: 'listed', cron_expression: `0 ${hour} * * *` }));
      const list = async (query: string) => expectOk(await api('GET', `?agent_name=listed${query}`));
      const ids = made.map(({ id }) => id).reverse();
      const all = await list('');
      expect(all.total).toBe(3);
      expect(all.schedules.map(({ id }: { id: string }) => id)).toEqual(ids);
      expect((await list('&limit=1&offset=1')).schedules).toMatchObject([{ id: ids[1] }]);
      expect(await list('&schedule_type=webhook')).toEqual({ schedules: [], total: 0 });
      const byAgent = async (agent: string) => expectOk(await api('GET', `?agent=${agent}`)).total;
      expect(await byAgent('sched-owner/listed')).toBe(3);
      expect(await byAgent('another-org/listed')).toBe(0);
      expectError(await api('GET', '?limit=201'), 400, 'INVALID_INPUT', 'limit');
      expectError(await api('GET', '?type=hourly'), 400, 'INVALID_INPUT', 'type');
      expectError(await api('GET', `?agent=${'x'.repeat(3000)}`), 400, 'INVALID_INPUT', 'agent');
    });

    test.each([
      [{ cron_expression: '0 0 31 2 *' }, 'it never occurs'],
      [{ cron_expression: '0 22-6 * * *' }, 'write it as two: 22-23,0-6'],
      [{ cron_expression: '@daily' }, '0 0 * * *'],
      [{ cron_expression: undefined }, 'a cron schedule needs one'],
      [{ timezone: 'EST' }, 'America/New_York'],
      [{ timezone: 'Mars/Olympus' }, 'not an IANA time zone'],
      [{ alert_webhook_url: 'http://example.com' }, 'https://'],
      [{ max_consecutive_failures: 101 }, 'max_consecutive_failures'],
      [{ max_runs: 0 }, 'max_runs'],
      [{ max_runs: 1.5 }, 'max_runs'],
      [{ ends_at: 'tomorrow' }, 'ends_at: must be a time with an offset'],
      [{ ends_at: '2026-01-01T00:00:00Z' }, 'ends_at: 2026-01-01T00:00:00.000Z has passed'],
      [{ cron_expression: '0 0 29 2 *', ends_at: '2027-01-31T00:00:00Z' }, 'ends_at: the schedule has no run until'],
      [{ llm_provider: 'openai' }, 'cannot run with openai; it may be anthropic'],
      [{ llm_provider: 'acme' }, 'llm_provider'],
      [{ agent: 'a/b/c' }, 'must be an agent such as'],
      [{ agent: undefined }, 'name the agent'],
      [{ webhook: true }, 'a webhook schedule has none'],
      [{ input_data: { text: 'x'.repeat(103_000) } }, '100 KB'],
      [{ input_data: { llm_credentials: { api_key: 'sk-made-up' } } }, 'secrets of the workspace'],
    ])('%j is refused', async (wrong, message) => {
      expectError(await api('POST', '', { ...daily, ...wrong }), 400, 'INVALID_INPUT', message);
    });

    test('an agent that the caller may not run cannot be scheduled', async () => {
      expectError(await api('POST', '', { ...daily, agent: 'nothing' }), 404, 'NOT_FOUND');
      expectError(await api('POST', '', { ...daily, agent: 'reporter@v7' }), 404, 'NOT_FOUND');
      const stranger = await target().addUser('sched-stranger');
      const body = { name: 'hidden', type: 'prompt', description: 'x', prompt: 'x' };
      const { agent } = await clientOf(target(), stranger.key).createAgent({ body });
      for (const reference of [{ agent: 'sched-stranger/hidden' }, { agent: undefined, agent_id: agent.id }]) {
        expectError(await api('POST', '', { ...daily, ...reference }), 404, 'NOT_FOUND');
      }
      await publish('fragment', { type: 'skill', prompt: '# A skill' });
      expectError(await api('POST', '', { ...daily, agent: 'fragment' }), 400, 'INVALID_INPUT', 'skill');
    });

    test('without a key every request is refused, also for agents of any size', async () => {
      await publish('long', { prompt: `Report {{topic}}. ${'x'.repeat(110_000)}` });
      const { id } = await create({ ...daily, agent: 'long' });
      expectError(
        await request(target(), 'GET', `/workspaces/${owner.workspaceId}/schedules/${id}`),
        401,
        'UNAUTHORIZED',
      );
    });

    test('members may read schedules, owners may change them', async () => {
      const { id } = await create(daily);
      for (const path of ['', `/${id}`, `/${id}/runs`, `/${id}/events`]) {
        expectOk(await api('GET', path, undefined, member.key));
      }
      const acts: [string, string, object?][] = [
        ['POST', '', daily],
        ['PATCH', `/${id}`, { enabled: false }],
        ['POST', `/${id}/trigger`, {}],
        ['DELETE', `/${id}`],
      ];
      for (const [method, path, json] of acts) {
        expectError(await api(method, path, json, member.key), 403, 'FORBIDDEN', 'Only an owner');
      }
    });

    test('a change moves the next run and is recorded in the timeline', async () => {
      const { id } = await create({ ...daily, llm_provider: 'anthropic' });
      const change = async (json: object) => expectOk(await api('PATCH', `/${id}`, json)).schedule;
      expect((await change({ timezone: 'Asia/Kolkata' })).next_run_at).toMatch('T03:30:00');
      expect((await change({ cron_expression: '15 10 * * *' })).next_run_at).toMatch('T04:45:00');
      expect(await change({ enabled: false })).toMatchObject({ enabled: false, next_run_at: null });
      expect((await change({ enabled: true })).next_run_at).toMatch('T04:45:00');
      expect(
        await change({ provider: null, alert_webhook_url: 'https://example.com/', overlap: 'skip', pin_version: true }),
      ).toMatchObject({
        llm_provider: null,
        alert_webhook_url: 'https://example.com/',
        overlap: 'skip',
        auto_update: false,
      });
      expect(await change({ alert_webhook_url: '' })).toMatchObject({ alert_webhook_url: null });
      expectError(await api('PATCH', `/${id}`, { cron_expression: '61 * * * *' }), 400, 'INVALID_INPUT', '0-59');
      expectError(await api('PATCH', `/${id}`, { agent_version: 'v9' }), 404, 'NOT_FOUND', 'v9');
      const events = await eventsOf(id);
      expect(events.map(({ event_type }) => event_type)).toEqual([
        'updated',
        'updated',
        'enabled',
        'disabled',
        'updated',
        'updated',
        'created',
      ]);
      expect(events[1]!.message).toBe('Changed: llm_provider, auto_update, overlap, alert_webhook_url.');
      expect(expectOk(await api('GET', `/${id}/events?limit=1&offset=2`)).events).toEqual([events[2]]);
    });

    test('enabled schedules follow new versions until a version is pinned', async () => {
      await publish('moving');
      const cron = { cron_expression: '0 9 * * *' };
      const following = await create({ ...cron, agent: 'moving' });
      const pinned = await create({ ...cron, agent: 'sched-owner/moving@v1' });
      const off = await create({ ...cron, agent: 'moving', enabled: false });
      const flagged = await create({ ...cron, agent_name: 'moving', agent_version: 'v1', auto_update: false });
      expect([pinned.auto_update, flagged.auto_update]).toEqual([false, false]);
      await publish('moving');
      const version = async ({ id }: { id: string }) => (await find(id)).agent_version;
      expect(await Promise.all([following, pinned, off, flagged].map(version))).toEqual(['v2', 'v1', 'v1', 'v1']);
      expect((await eventsOf(following.id))[0]).toMatchObject({
        event_type: 'version_updated',
        message: 'Agent updated from v1 to v2',
      });
      // A schedule that is set to follow new versions takes the current version at once.
      expectOk(await api('PATCH', `/${off.id}`, { enabled: true }));
      expectOk(await api('PATCH', `/${pinned.id}`, { auto_update: true }));
      const back = expectOk(await api('PATCH', `/${following.id}`, { agent_version: 'v1' })).schedule;
      expect(back).toMatchObject({ agent_version: 'v1', auto_update: false });
      await publish('moving');
      expect(await Promise.all([following, pinned, off, flagged].map(version))).toEqual(['v1', 'v3', 'v3', 'v1']);
    });

    test('when a version is deleted, its schedules follow the newest remaining one', async () => {
      await publish('shrinking');
      const [following, pinned] = [
        await create({ ...daily, agent: 'shrinking' }),
        await create({ ...daily, agent: 'shrinking', pin_version: true }),
      ];
      const second = await publish('shrinking');
      await client.deleteAgent({ params: { id: second.id } });
      expect(await find(following.id)).toMatchObject({ agent_version: 'v1', auto_update: true });
      expect((await eventsOf(following.id))[0]).toMatchObject({
        event_type: 'version_updated',
        message: 'Agent updated from v2 to v1',
      });
      expect(await eventsOf(pinned.id)).toHaveLength(1);
    });

    test("schedules do not follow versions of another workspace's agent", async () => {
      const author = await target().addUser('sched-author');
      const body = { name: 'shared', type: 'prompt', description: 'x', prompt: 'x', is_public: true };
      await clientOf(target(), author.key).createAgent({ body });
      const { id } = await create({ ...daily, agent: 'sched-author/shared' });
      await clientOf(target(), author.key).createAgent({ body });
      expect(await find(id)).toMatchObject({ agent_version: 'v1', auto_update: true });
    });

    test('a trigger runs the schedule now and answers with the run', async () => {
      needsModel(target());
      const { id } = await create({ ...daily, input_data: { topic: 'news' } });
      const topics: unknown[] = [];
      for (const json of [{}, { topic: 'sports' }, { input_data: { topic: 'weather' } }]) {
        const run = expectOk(await api('POST', `/${id}/trigger`, json));
        expect(run).toEqual({
          run_id: expect.stringMatching(UUID),
          status: 'success',
          duration_ms: expect.any(Number),
          output: expect.anything(),
          error: null,
          deduplicated: false,
        });
        const path = `/workspaces/${owner.workspaceId}/runs/${run.run_id}`;
        const record = expectOk(await request(target(), 'GET', path, { key: owner.key }));
        expect(record).toMatchObject({ status: 'completed', trigger_source: 'manual' });
        topics.push(record.input_data.topic);
      }
      expect(topics).toEqual(['news', 'sports', 'weather']);
      expect(await find(id)).toMatchObject({ run_count: 3, last_run_status: 'completed', consecutive_failures: 0 });
    });

    test('a run knows for which moment it is: programs, prompts, its record and its replay', async () => {
      needsModel(target());
      const code = `
        import json, os
        names = ['PLATFORM_SCHEDULED_AT', 'PLATFORM_SCHEDULED_LOCAL', 'PLATFORM_SCHEDULED_ZONE']
        print(json.dumps({'moment': [os.environ.get(name) for name in names]}))`;
      await publishCode(client, 'punctual', { 'main.py': code.replaceAll('\n        ', '\n').trim() });
      const zone = { timezone: 'Europe/Berlin' };
      const program = await create({ ...daily, ...zone, agent: 'punctual' });
      const recordOf = async (runId: string) =>
        expectOk(await request(target(), 'GET', `/workspaces/${owner.workspaceId}/runs/${runId}`, { key: owner.key }));
      const moment = ['2026-03-29T01:30:00.000Z', '2026-03-29T03:30:00+02:00', 'Europe/Berlin'];
      const [scheduled_at, scheduled_local, scheduled_zone] = moment;
      for (const at of ['2026-03-29T03:30', '2026-03-29T01:30Z', '2026-03-29T02:30%2B01:00']) {
        const run = expectOk(
          await api('POST', `/${program.id}/trigger?scheduled_at=${at}`, { scheduled_at: 'an input' }),
        );
        expect(run).toMatchObject({ status: 'success', output: { moment } });
        const record = await recordOf(run.run_id);
        expect(record).toMatchObject({ schedule_id: program.id, scheduled_at, scheduled_local, scheduled_zone });
        expect(record.input_data).toEqual({ scheduled_at: 'an input' });
      }

      // A trigger without a time uses the time of the request.
      const now = expectOk(await api('POST', `/${program.id}/trigger`, {}));
      const record = await recordOf(now.run_id);
      expect(now.output.moment).toEqual([record.scheduled_at, record.scheduled_local, 'Europe/Berlin']);
      expect(Math.abs(Date.parse(record.scheduled_at) - Date.parse(record.started_at))).toBeLessThan(60_000);

      // The input satisfies a schema that requires the time, and is stored as sent.
      const input_schema = {
        type: 'object',
        properties: { scheduled_local: { type: 'string' }, topic: { type: 'string' } },
        required: ['scheduled_local', 'topic'],
      };
      const wasAsked = (text: string) => target().llm.requests.some((sent) => sent.text.includes(text));
      await publish('diary', { prompt: 'On {{scheduled_local}}: {{topic}}.', input_schema });
      const prompt = await create({ ...daily, ...zone, agent: 'diary', input_data: { topic: 'sun' } });
      const told = expectOk(await api('POST', `/${prompt.id}/trigger?scheduled_at=2026-03-29T03:30`, {}));
      expect(told).toMatchObject({ status: 'success' });
      expect(wasAsked('On 2026-03-29T03:30:00+02:00: sun.')).toBe(true);
      expect((await recordOf(told.run_id)).input_data).toEqual({ topic: 'sun' });
      const own = { topic: 'rain', scheduled_local: 'a day of my own' };
      expectOk(await api('POST', `/${prompt.id}/trigger?scheduled_at=2026-03-29T03:30`, own));
      expect(wasAsked('On a day of my own: rain.')).toBe(true);

      const replay = { key: owner.key, json: {} };
      const path = `/workspaces/${owner.workspaceId}/runs/${told.run_id}/replay`;
      const again = expectOk(await request(target(), 'POST', path, replay), 202);
      await expect
        .poll(() => recordOf(again.run_id))
        .toMatchObject({ status: 'completed', scheduled_at, scheduled_local, scheduled_zone });

      for (const [at, part] of [
        ['2026-03-29T02:30', 'send 2026-03-29T03:30:00+02:00 or'],
        ['2026-10-25T02:30', 'send 2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00'],
        ['soon', 'send one such as'],
      ]) {
        const { status, body } = await api('POST', `/${program.id}/trigger?scheduled_at=${at}`, {});
        expect([status, body.error.code]).toEqual([400, 'INVALID_INPUT']);
        expect(body.error.message).toContain(part);
      }
      expect((await runsOf(program.id)).total).toBe(4);
    });

    test('a repeated trigger gets the answer of the running one', async () => {
      needsModel(target());
      const { id } = await create(daily);
      const topic = `once ${crypto.randomUUID()} [[llm {"waitFor":"two more triggers"}]]`;
      const trigger = (body: object) => api('POST', `/${id}/trigger`, body);
      const answers = [1, 2, 3].map(() => trigger({ topic }));
      // These answers come after the repeated triggers, which have joined the running one.
      for (let n = 0; n < 2; n++) expectOk(await trigger({ topic: `other ${n}` }));
      target().llm.release('two more triggers');
      const runs = (await Promise.all(answers)).map((answer) => expectOk(answer));
      expect(new Set(runs.map((run) => run.run_id)).size).toBe(1);
      expect(runs.filter((run) => !run.deduplicated)).toHaveLength(1);
      expect(runs.every((run) => run.status === 'success')).toBe(true);
      expect(await runsOf(id)).toMatchObject({ total: 3 });
    });

    test('repeated failures disable the schedule, and enabling it resets the count', async () => {
      needsModel(target());
      const { id } = await create({ ...daily, max_consecutive_failures: 2 });
      const trigger = async (topic: string) => expectOk(await api('POST', `/${id}/trigger`, { topic }));
      const failing = '[[llm {"status":400}]]';
      const failed = await trigger(failing);
      expect(failed).toMatchObject({ status: 'error', output: null, error: expect.stringMatching(/./) });
      expect(await find(id)).toMatchObject({ consecutive_failures: 1, last_run_status: 'failed', enabled: true });
      await trigger('fine');
      expect(await find(id)).toMatchObject({ consecutive_failures: 0 });
      await trigger(failing);
      await trigger(failing);
      expect(await find(id)).toMatchObject({
        consecutive_failures: 2,
        enabled: false,
        auto_disabled_at: expect.stringMatching(ISO_TIME),
        auto_disabled_reason: failed.error,
        next_run_at: null,
      });
      const kinds = (await eventsOf(id)).map(({ event_type }) => event_type);
      expect(kinds.filter((kind) => kind === 'run_failed')).toHaveLength(3);
      expect(kinds).toContain('auto_disabled');
      expect(expectOk(await api('PATCH', `/${id}`, { enabled: true })).schedule).toMatchObject({
        consecutive_failures: 0,
        auto_disabled_at: null,
        auto_disabled_reason: null,
        next_run_at: expect.stringMatching(ISO_TIME),
      });
      const { runs, total } = await runsOf(id, '?status=failed&limit=2');
      expect([runs.length, total]).toEqual([2, 3]);
      expect(runs[1]).toMatchObject({ status: 'failed', trigger_source: 'manual', error_message: expect.any(String) });
      expect((await runsOf(id, '?fields=id,status&limit=1')).runs).toEqual([
        { id: expect.stringMatching(UUID), status: 'failed' },
      ]);
      expect(await runsOf(id, '?status=dead_letter')).toEqual({ runs: [], total: 0 });
      expectError(await api('GET', `/${id}/runs?fields=id,secret`), 400, 'INVALID_INPUT', 'trigger_source');
    });

    test('with max_runs a schedule ends with its last run, and can go on', async () => {
      const { id, ...made } = await create({ ...everyMinute, max_runs: 1 });
      expect(made).toMatchObject({ enabled: true, max_runs: 1 });
      expect(made).not.toHaveProperty('ended_at');
      expect(made).not.toHaveProperty('ends_at');
      await target().fire(owner.workspaceId, id);
      await expect.poll(async () => (await find(id)).run_count).toBe(1);
      const ended = await find(id);
      expect(ended).toMatchObject({
        enabled: false,
        next_run_at: null,
        ended_at: expect.stringMatching(ISO_TIME),
        ended_reason: 'max_runs',
        auto_disabled_at: null,
      });
      expect((await eventsOf(id))[0]).toMatchObject({
        event_type: 'ended',
        message: 'Ended after 1 run, as max_runs says.',
      });
      await target().fire(owner.workspaceId, id);
      expect(await runsOf(id)).toMatchObject({ total: 1 });
      expectError(
        await api('PATCH', `/${id}`, { enabled: true }),
        400,
        'INVALID_INPUT',
        'max_runs: the schedule has run',
      );
      expectOk(await api('PATCH', `/${id}`, { max_runs: 3, timezone: 'Europe/Berlin' }));
      expect(await find(id)).toMatchObject({ enabled: false, max_runs: 3, ended_reason: 'max_runs' });
      const enabled = expectOk(await api('PATCH', `/${id}`, { enabled: true })).schedule;
      expect(enabled).toMatchObject({ enabled: true, max_runs: 3, next_run_at: expect.stringMatching(ISO_TIME) });
      expect(enabled).not.toHaveProperty('ended_reason');
      // A lower number than have run ends it at once; null removes the limit.
      const lower = expectOk(await api('PATCH', `/${id}`, { max_runs: 1 })).schedule;
      expect(lower).toMatchObject({ enabled: false, ended_reason: 'max_runs', next_run_at: null });
      const free = expectOk(await api('PATCH', `/${id}`, { max_runs: null, enabled: true })).schedule;
      expect(free).toMatchObject({ enabled: true });
      expect(free).not.toHaveProperty('max_runs');
      expectOk(await api('DELETE', `/${id}`));
    });

    test('with ends_at a schedule has no run after it', async () => {
      const year = new Date().getUTCFullYear() + 2;
      const until = `${year}-01-03T12:00:00+03:00`;
      const { id, ...made } = await create({ ...daily, cron_expression: '0 9 1 1 *', ends_at: until });
      expect(made).toMatchObject({ enabled: true, ends_at: `${year}-01-03T09:00:00.000Z` });
      const past = '2026-01-01T00:00:00Z';
      expectError(await api('PATCH', `/${id}`, { ends_at: past }), 400, 'INVALID_INPUT', 'ends_at: 2026-01-01');
      expectError(await api('PATCH', `/${id}`, { ends_at: '2035-01-01T00:00' }), 400, 'INVALID_INPUT', 'ends_at');
      const soon = new Date(Date.now() + 30_000).toISOString();
      const early = { ends_at: soon, enabled: true };
      expectError(await api('PATCH', `/${id}`, early), 400, 'INVALID_INPUT', 'ends_at: the schedule has no run until');
      const ended = expectOk(await api('PATCH', `/${id}`, { ends_at: soon })).schedule;
      expect(ended).toMatchObject({ enabled: false, next_run_at: null, ends_at: soon, ended_reason: 'ends_at' });
      expect((await eventsOf(id)).map(({ event_type }) => event_type)).toEqual(['ended', 'updated', 'created']);
      const again = expectOk(await api('PATCH', `/${id}`, { ends_at: null, enabled: true })).schedule;
      expect(again).toMatchObject({ enabled: true, next_run_at: expect.stringMatching(/-01-01T09:00/) });
      expect(again).not.toHaveProperty('ends_at');
      expectOk(await api('DELETE', `/${id}`));
      const preview = { cron: '0 9 * * *', from: '2027-01-01T00:00:00Z', ends_at: '2027-01-03T00:00:00Z' };
      const slots = async (body: object) =>
        expectOk(await request(target(), 'POST', '/schedules/preview', { key: owner.key, json: body })).slots.length;
      expect([await slots(preview), await slots({ ...preview, max_runs: 1 })]).toEqual([2, 1]);
    });

    test('requests to a webhook that has ended are refused, and those that it answered are repeated', async () => {
      needsModel(target());
      const { id, webhook_url } = await create({ agent: 'reporter', webhook: true, max_runs: 2 });
      const post = (key: string) =>
        request(target(), 'POST', new URL(webhook_url).pathname, {
          json: { topic: key },
          headers: { 'Idempotency-Key': key },
        });
      const answers = await Promise.all(
        ['one', 'two', 'three', 'four'].map(async (key) => [key, await post(key)] as const),
      );
      const [first, ...others] = answers.filter(([, { status }]) => status === 200);
      expect(others).toHaveLength(1);
      for (const [, answer] of answers.filter(([, { status }]) => status !== 200)) {
        expectError(answer, 409, 'CONFLICT', 'This webhook has ended, as its max_runs says');
      }
      expect(expectOk(await post(first![0]))).toMatchObject({ deduplicated: true, status: 'success' });
      expect(await find(id)).toMatchObject({ enabled: false, run_count: 2, ended_reason: 'max_runs' });
      expectOk(await api('DELETE', `/${id}`));
    });

    test('a run that cannot begin is recorded as failed', async () => {
      const poor = await target().addUser('sched-poor');
      const body = {
        name: 'keyless',
        type: 'prompt',
        description: 'x',
        prompt: 'x',
        supported_providers: ['anthropic'],
      };
      await clientOf(target(), poor.key).createAgent({ body });
      const path = `/workspaces/${poor.workspaceId}/schedules`;
      const json = { ...daily, agent: 'keyless' };
      const { id } = expectOk(await request(target(), 'POST', path, { key: poor.key, json }), 201).schedule;
      const run = expectOk(await request(target(), 'POST', `${path}/${id}/trigger`, { key: poor.key }));
      expect(run).toMatchObject({ status: 'error', error: expect.stringContaining('ANTHROPIC_API_KEY') });
      const { runs } = expectOk(await request(target(), 'GET', `${path}/${id}/runs`, { key: poor.key }));
      expect(runs).toMatchObject([{ id: run.run_id, status: 'failed', error_message: run.error }]);
    });

    test("the host's timers run each due schedule once", async () => {
      const { id } = await create(everyMinute);
      await target().fire(owner.workspaceId, id);
      await expect.poll(async () => (await find(id)).last_run_status).toBe('completed');
      const { runs } = await runsOf(id);
      expect(runs.at(-1)).toMatchObject({ status: 'completed', trigger_source: 'schedule', agent_version: 'v1' });
      const path = `/workspaces/${owner.workspaceId}/runs/${runs.at(-1).id}`;
      const record = expectOk(await request(target(), 'GET', path, { key: owner.key }));
      // The recorded minute is the scheduled one, however late it ran.
      expect(record).toMatchObject({
        scheduled_at: expect.stringMatching(/:00\.000Z$/),
        scheduled_local: record.scheduled_at.replace('.000Z', '+00:00'),
        scheduled_zone: 'UTC',
      });
      expect(Date.parse(record.scheduled_at)).toBeLessThanOrEqual(Date.parse(record.started_at));
      const { next_run_at } = await find(id);
      expect(Date.parse(next_run_at)).toBeGreaterThan(Date.now());
      expectOk(await api('PATCH', `/${id}`, { enabled: false }));
    });

    test.each(['allow', 'skip'])('a run still running when the next is due: %s', async (overlap) => {
      needsModel(target());
      const topic = `[[llm {"waitFor":"the next one: ${overlap}"}]]`;
      const { id } = await create({ ...everyMinute, overlap, input_data: { topic } });
      const running = async () => (await runsOf(id, '?status=running')).total;
      const skipped = async () =>
        (await eventsOf(id)).filter(({ event_type }) => event_type === 'skipped_overlap').length;
      const first = target().fire(owner.workspaceId, id);
      await expect.poll(running).toBe(1);
      const second = target().fire(owner.workspaceId, id);
      await expect.poll(overlap === 'allow' ? running : skipped).toBe(overlap === 'allow' ? 2 : 1);
      expect(await running()).toBe(overlap === 'allow' ? 2 : 1);
      if (overlap === 'skip') {
        const [skip] = await eventsOf(id);
        expect(skip).toMatchObject({ slot_at: expect.stringMatching(/:00\.000Z$/), count: 1 });
      }
      target().llm.release(`the next one: ${overlap}`);
      await Promise.all([first, second]);
      expectOk(await api('PATCH', `/${id}`, { enabled: false }));
    });

    test('runs stay readable after the schedule is deleted', async () => {
      const { id } = await create(daily);
      const { run_id } = expectOk(await api('POST', `/${id}/trigger`, { topic: 'last words' }));
      expect(expectOk(await api('DELETE', `/${id}`))).toEqual({ deleted: true });
      expect(await runsOf(id)).toMatchObject({ total: 1, runs: [{ id: run_id }] });
      expect((await eventsOf(id))[0]).toMatchObject({ event_type: 'deleted' });
      expectError(await api('GET', `/${id}`), 404, 'NOT_FOUND');
      expectError(await api('DELETE', `/${id}`), 404, 'NOT_FOUND');
      expectError(await api('PATCH', `/${id}`, { enabled: true }), 404, 'NOT_FOUND');
      expectError(await api('POST', `/${id}/trigger`, {}), 404, 'NOT_FOUND');
      expect(expectOk(await api('GET', '')).schedules.map((schedule: { id: string }) => schedule.id)).not.toContain(id);
    });

    test('the plan limits the number of schedules, also of concurrent creations', async () => {
      const small = await target().addUser('sched-small');
      await clientOf(target(), small.key).createAgent({
        body: { name: 'mine', type: 'prompt', description: 'x', prompt: 'x' },
      });
      const make = () =>
        request(target(), 'POST', `/workspaces/${small.workspaceId}/schedules`, {
          key: small.key,
          json: { ...daily, agent: 'mine' },
        });
      await target().setPlan(small.workspaceId, 'free');
      expectError(await make(), 403, 'FORBIDDEN', 'allows 0 schedules');
      await target().setPlan(small.workspaceId, 'pro');
      const answers = await Promise.all(Array.from({ length: 22 }, make));
      expect(answers.filter(({ status }) => status === 201)).toHaveLength(20);
      const { schedules, total } = expectOk(
        await request(target(), 'GET', `/workspaces/${small.workspaceId}/schedules`, { key: small.key }),
      );
      expect(total).toBe(20);
      const path = `/workspaces/${small.workspaceId}/schedules/${schedules[0].id}`;
      expectOk(await request(target(), 'DELETE', path, { key: small.key }));
      expectOk(await make(), 201);
    });
  });
}
