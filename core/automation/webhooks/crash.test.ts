import { afterAll, beforeAll, expect, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { deliveryListeners } from '#core/api/listeners.ts';
import { routes } from '#core/api/routes.ts';
import { sweepDeliveries } from '#core/outbound/deliveries.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { OutboundRequest } from '#core/ports/outbound.ts';
import { RunStore } from '#core/runs/store.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { mortal, patientDeps, settled } from '#test/helpers/mortal.ts';
import { type ScriptedLlm, startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { sweepScheduleRuns } from '../schedules/runs/fire.ts';
import { withLastStatus } from '../schedules/runs/last-run.ts';
import { listOpenScheduleRuns } from '../schedules/runs/open-runs.ts';
import { ScheduleStore } from '../schedules/store.ts';
import { receiveWebhook, type WebhookAnswer } from './receive.ts';

/**
 * The process dies at each call of a port, once before and once after its effect, while two webhook calls with the same
 * key are in flight. Then another process starts, and the sender retries.
 */

const MINUTE_MS = 60_000;

let llm: ScriptedLlm;
beforeAll(async () => {
  llm = await startScriptedLlm();
});
afterAll(() => llm.close());

async function setUp() {
  llm.reset();
  const posted: OutboundRequest[] = [];
  const deps = {
    ...patientDeps({ anthropicUrl: `${llm.url}/anthropic/v1` }),
    outbound: {
      async post(request: OutboundRequest) {
        posted.push(request);
        return { ok: true as const, status: 200 };
      },
    },
  };
  const { key, slug, workspaceId } = await addUser(deps, 'hooks');
  const app = createWebApp(deps, routes, allHandlers(deps));
  const send = async (method: string, path: string, json: object) => {
    const response = await app(
      new Request(`http://127.0.0.1${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(json),
      }),
    );
    if (!response.ok) throw new Error(await response.text());
    return response.json();
  };
  await send('PUT', `/workspaces/${workspaceId}/secrets`, { name: 'ANTHROPIC_API_KEY', value: 'sk-crash' });
  const agent = {
    name: 'reader',
    type: 'prompt',
    description: 'x',
    prompt: 'Read.',
    supported_providers: ['anthropic'],
  };
  await send('POST', '/agents', agent);
  const { schedule } = (await send('POST', `/workspaces/${workspaceId}/schedules`, {
    agent: `${slug}/reader`,
    schedule_type: 'webhook',
    alert_webhook_url: 'https://hooks.example.com/x',
    alert_on_failure_count: 1,
  })) as { schedule: { id: string; webhook_url: string } };
  const deliver = (on: AllDeps): Promise<WebhookAnswer> =>
    receiveWebhook(on, {
      scheduleId: schedule.id,
      secret: schedule.webhook_url.split('/').at(-1)!,
      key: 'evt-1',
      request: new Request('http://127.0.0.1/', { method: 'POST', body: '{"a":1}' }),
      runId: deps.ids.uuid(),
      receivedAt: deps.clock.now(),
    });
  return { deps, workspaceId, scheduleId: schedule.id, deliver, posted };
}

async function crashAt(lifetime: number, lastOneHappens: boolean): Promise<{ isAlive: boolean; asked: number }> {
  const { deps, workspaceId, scheduleId, deliver, posted } = await setUp();
  const doomed = mortal(deps, lifetime, lastOneHappens);
  const both = Promise.all([deliver(doomed.process), deliver(doomed.process)]);
  const isAlive = await Promise.race([settled(deps, both).then(() => true), doomed.death.then(() => false)]);

  // Another process with the same tables takes over.
  await sweepLostRuns(deps, { all: true });
  await sweepScheduleRuns(deps, await Array.fromAsync(listOpenScheduleRuns(deps, { all: true })));
  const answer = await settled(deps, deliver(deps));
  await deps.clock.advance(MINUTE_MS);
  await sweepDeliveries(deps, deliveryListeners(deps));

  const where = `died at ${lifetime}, ${lastOneHappens ? 'after' : 'before'} it`;
  const { runs } = await new RunStore(deps, workspaceId).listOfSchedule(scheduleId, { limit: 10, offset: 0 });
  expect(runs, where).toHaveLength(1);
  const [run] = runs;
  expect(run, where).toMatchObject({ id: answer.run_id, triggerSource: 'webhook', completedAt: expect.any(String) });
  const hasFailed = run!.status === 'failed';
  expect(answer, where).toMatchObject({ status: hasFailed ? 'error' : 'success' });
  expect(llm.requests.length, where).toBeLessThanOrEqual(1);
  const [schedule] = await withLastStatus(deps, await new ScheduleStore(deps, workspaceId).findAll([scheduleId]));
  expect(await Array.fromAsync(listOpenScheduleRuns(deps, { all: true })), where).toEqual([]);
  expect(schedule, where).toMatchObject({
    runCount: 1,
    consecutiveFailures: hasFailed ? 1 : 0,
    lastRunId: run!.id,
    lastRunStatus: run!.status,
  });
  expect(new Set(posted.map(({ headers }) => headers!['webhook-id'])).size, where).toBe(hasFailed ? 1 : 0);
  return { isAlive, asked: doomed.asked() };
}

test('every webhook call has one run, counted and reported once, at whichever port call the process dies', async () => {
  // Lazy loading on the first run takes real time, so one run comes before the frozen clock.
  const { deps, deliver } = await setUp();
  await deliver(deps);
  const { asked } = await crashAt(Number.POSITIVE_INFINITY, false);
  expect(asked).toBeGreaterThan(15);
  let crashes = 0;
  for (let lifetime = 1; lifetime <= asked; lifetime++) {
    for (const lastOneHappens of [false, true]) {
      if (!(await crashAt(lifetime, lastOneHappens)).isAlive) crashes += 1;
    }
  }
  expect(crashes).toBeGreaterThan(asked);
}, 120_000);
