import { beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '#core/api/client.ts';
import { type Followed, follow, followWithCuts } from '#test/helpers/events.ts';
import { clientOf, publishCode, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME } from '../expect.ts';
import type { Languages } from '../languages.ts';

const LINES = 12;
/** Prints a line at intervals, with a secret among them, then answers; or waits until it is cancelled. */
const TALK = `read -r input
case "$input" in
  *short*) echo '{"ok": true}'; exit 0 ;;
  *hold*) echo held >&2; sleep 600 ;;
esac
for line in $(seq ${LINES}); do echo "line $line $TOKEN" >&2; sleep 0.25; done
echo '{"ok": true}'
`;
const TOKEN = 'tok-events-91c4';

/** Streams of events: of a run, of a workspace. */
export function eventsSuite(target: () => Target, { python, node }: Languages): void {
  const hasSandbox = python || node;
  describe.skipIf(!hasSandbox)('events of a run (skipped without a sandbox on this host)', () => {
    let client: Client;
    let workspaceId: string;
    let outsider: TestUser;
    let agentId: string;
    const eventsOf = (runId: string) => `/workspaces/${workspaceId}/runs/${runId}/events`;
    const page = (runId: string, query = '', key = target().key) =>
      request(target(), 'GET', `${eventsOf(runId)}${query}`, { key });
    /** Starts a run without waiting for its answer. */
    async function begin(json: unknown): Promise<string> {
      const headers = { prefer: 'respond-async' };
      const { body } = await request(target(), 'POST', '/acme/talk/v1/run', { key: target().key, json, headers });
      return body.run_id;
    }
    const cancel = (runId: string) =>
      request(target(), 'DELETE', `/workspaces/${workspaceId}/runs/${runId}`, { key: target().key });
    const textOf = (events: readonly Followed[], type: string) =>
      events
        .filter((event) => event.type === 'progress' && event.data.type === type)
        .map(({ data }) => data.text)
        .join('');
    const WHOLE = Array.from({ length: LINES }, (_, line) => `line ${line + 1} [secret TOKEN]\n`).join('');

    beforeAll(async () => {
      client = clientOf(target());
      const { workspaces } = await client.listWorkspaces({});
      workspaceId = workspaces.find(({ slug }) => slug === 'acme')!.id;
      outsider = await target().addUser('events-outsider');
      await client.putSecret({ params: { workspace_id: workspaceId }, body: { name: 'TOKEN', value: TOKEN } });
      const { agent } = await publishCode(
        client,
        'talk',
        { 'talk.sh': TALK },
        { runtime: { command: 'bash talk.sh' }, required_secrets: ['TOKEN'] },
      );
      agentId = agent.id;
    });

    test('a run that nobody waits for can be followed to its end', async () => {
      const runId = await begin({});
      const stream = await follow(target(), eventsOf(runId), { key: target().key });
      expect(stream.status).toBe(200);
      expect(stream.headers.get('content-type')).toBe('text/event-stream');
      const events = await Array.fromAsync(stream.events);
      expect(textOf(events, 'stderr')).toBe(WHOLE);
      expect(events.at(-1)).toMatchObject({
        type: 'end',
        created_at: expect.stringMatching(ISO_TIME),
        data: { run_id: runId, status: 'completed', error_code: null },
      });
      const steps = events.filter(({ type }) => type === 'trace').map(({ data }) => data);
      const opened = steps.find(({ event_type }) => event_type === 'sandbox_started');
      expect(steps).toContainEqual(
        expect.objectContaining({ event_type: 'setup_step_succeeded', parent_span_id: opened.span_id }),
      );
      // The stream can be read again, from the start or from the middle.
      const again = await Array.fromAsync((await follow(target(), eventsOf(runId), { key: target().key })).events);
      expect(again).toEqual(events);
      const { body } = await page(runId, '?after=2');
      expect(body).toEqual({ events: events.slice(2), next: events.at(-1)!.id, is_over: true });
    });

    test('a connection that is cut after every event loses nothing and repeats nothing', async () => {
      const runId = await begin({});
      const cut = await followWithCuts(target(), eventsOf(runId), { key: target().key, every: 1 });
      expect(textOf(cut, 'stderr')).toBe(WHOLE);
      const numbers = cut.slice(0, -1).map(({ id }) => Number(id));
      expect(numbers).toEqual(numbers.map((_, index) => index + 1));
    });

    test('a run that was too short to write events answers from its record', async () => {
      const { headers } = await request(target(), 'POST', '/acme/talk/v1/run', {
        key: target().key,
        json: { short: 1 },
      });
      const runId = headers.get('x-run-id')!;
      const { events, is_over } = expectOk(await page(runId));
      expect(is_over).toBe(true);
      expect(events.at(-1)).toMatchObject({ type: 'end', data: { status: 'completed' } });
      expect(textOf(events, 'stdout')).toBe('{"ok": true}\n');
      expect(await followWithCuts(target(), eventsOf(runId), { key: target().key, every: 1 })).toEqual(events);
    });

    test('the end of a run that is cancelled ends the stream', async () => {
      const runId = await begin({ hold: 1 });
      const stream = await follow(target(), eventsOf(runId), { key: target().key });
      let last: Followed | undefined;
      for await (last of stream.events) if (last.data.type === 'stderr') expectOk(await cancel(runId));
      expect(last).toMatchObject({ type: 'end', data: { status: 'cancelled', error_code: 'RUN_CANCELLED' } });
    });

    test('members of other workspaces and service keys of agents see nothing', async () => {
      const runId = await begin({ short: 1 });
      expectError(await page(runId, '', outsider.key), 403, 'FORBIDDEN');
      const own = `/workspaces/${outsider.workspaceId}/runs/${runId}/events`;
      expectError(await request(target(), 'GET', own, { key: outsider.key }), 404, 'NOT_FOUND');
      const made = await client.createServiceKey({ params: { id: agentId } });
      expectError(await page(runId, '', made.key), 403, 'FORBIDDEN');
      expectError(await page(runId, '', 'sk_made_up'), 401, 'UNAUTHORIZED');
      expectError(await page(runId, '?after=x'), 400, 'INVALID_INPUT', 'after');
      const headers = { 'last-event-id': '-1' };
      const wrong = await request(target(), 'GET', eventsOf(runId), { key: target().key, headers });
      expectError(wrong, 400, 'INVALID_INPUT', 'last-event-id');
    });

    test('the workspace tells of runs that begin and end', async () => {
      const path = `/workspaces/${workspaceId}/events?types=run`;
      const { next } = expectOk(await request(target(), 'GET', path, { key: target().key }));
      const runId = await begin({ hold: 1 });
      const told = async () => {
        const { events } = expectOk(await request(target(), 'GET', `${path}&after=${next}`, { key: target().key }));
        return (events as Followed[]).filter(({ data }) => data.run_id === runId).map(({ type }) => type);
      };
      await expect.poll(told, { timeout: 20_000 }).toEqual(['run.started']);
      expectOk(await cancel(runId));
      await expect.poll(told, { timeout: 20_000 }).toEqual(['run.started', 'run.ended']);
    });

    test('revoking a key ends its open streams', async () => {
      const { id, key } = await client.createApiKey({ body: { name: 'watcher' } });
      const runId = await begin({ hold: 1 });
      const stream = await follow(target(), eventsOf(runId), { key });
      let last: Followed | undefined;
      for await (last of stream.events) if (last.data.type === 'stderr') await client.deleteApiKey({ params: { id } });
      expect(last).toMatchObject({ type: 'error', data: { error: { code: 'UNAUTHORIZED' } } });
      await cancel(runId);
    });
  });

  describe('events of a workspace', () => {
    let owner: TestUser;
    const path = (types: string) => `/workspaces/${owner.workspaceId}/events?types=${types}`;

    beforeAll(async () => {
      owner = await target().addUser('events-owner');
    });

    test('are told as they happen, to members alone', async () => {
      const stream = await follow(target(), path('task,agent,message'), { key: owner.key });
      const client = clientOf(target(), owner.key, owner.workspaceId);
      await client.createTask({ body: { title: 'watch this' } });
      const first = await stream.events.next();
      expect(first.value).toMatchObject({ type: 'task', data: { title: 'watch this', change: 'created' } });
      await client.createAgent({
        body: { name: 'seen', type: 'skill', description: 'tests events', prompt: 'Be seen.' },
      });
      const second = await stream.events.next();
      expect(second.value).toMatchObject({ type: 'agent.published', data: { agent_name: 'seen', version: 'v1' } });
      stream.leave();
      // Another connection resumes, and may repeat events.
      const headers = { 'last-event-id': first.value!.id };
      const { events } = expectOk(await request(target(), 'GET', path('task,agent'), { key: owner.key, headers }));
      expect(events.map(({ id }: Followed) => id)).toEqual([second.value!.id]);
      const outsider = await target().addUser('events-other');
      expectError(await request(target(), 'GET', path('task'), { key: outsider.key }), 403, 'FORBIDDEN');
      expectError(await request(target(), 'GET', path('tasks'), { key: owner.key }), 400, 'INVALID_INPUT', 'types');
      const old = `${path('task')}&after=1763860000000`;
      expectError(await request(target(), 'GET', old, { key: owner.key }), 400, 'INVALID_INPUT', 'hour');
    });

    test('tell of schedules and services what their timelines do', async () => {
      const client = clientOf(target(), owner.key, owner.workspaceId);
      const params = { workspace_id: owner.workspaceId };
      const { next } = expectOk(await request(target(), 'GET', path('schedule,service'), { key: owner.key }));
      const prompt = { type: 'prompt', description: 'tests events', supported_providers: ['any'], prompt: 'Be.' };
      await client.createAgent({ body: { ...prompt, name: 'timed' } });
      const { schedule } = await client.createSchedule({
        params,
        body: { agent: 'events-owner/timed', cron_expression: '0 0 1 1 *' },
      });
      const one = { ...params, schedule_id: schedule.id };
      await client.updateSchedule({ params: one, body: { enabled: false } });
      await client.updateSchedule({ params: one, body: { enabled: true } });
      const { events: timeline } = await client.listScheduleEvents({ params: one });
      expect(timeline.length).toBeGreaterThan(1);
      const told = async () => {
        const page = await request(target(), 'GET', `${path('schedule,service')}&after=${next}`, { key: owner.key });
        return (expectOk(page).events as Followed[]).map(
          ({ type, data }) => `${type} ${data.schedule_id} ${data.message}`,
        );
      };
      const expected = timeline.map((entry) => `schedule.${entry.event_type} ${schedule.id} ${entry.message}`);
      await expect.poll(async () => (await told()).sort(), { timeout: 10_000 }).toEqual(expected.sort());
    });
  });
}
