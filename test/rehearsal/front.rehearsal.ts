import { afterAll, describe, expect, inject, test } from 'vitest';
import { FRONT_HOST_HEADER } from '#core/http/front-headers.ts';
import { expectOk } from '#test/e2e/expect.ts';
import { eventsSuite } from '#test/e2e/suites/events.ts';
import { overviewSuite } from '#test/e2e/suites/overview.ts';
import { sharesSuite } from '#test/e2e/suites/shares.ts';
import { streamingSuite } from '#test/e2e/suites/streaming.ts';
import { clientOf, request } from '#test/helpers/platform.ts';
import { FRONT_NAME } from './cloud-front.ts';
import { startRehearsal } from './platform.ts';

/** What browsers do passes through CloudFront; programs call the API. */
const target = await startRehearsal(inject('awsEndpoints'), { hasFront: true, name: 'front' });
const front = { ...target, url: target.front!.url };
const has = { python: target.interpreters.python !== undefined, node: target.interpreters.node !== undefined };

describe('through CloudFront', () => {
  for (const suite of [streamingSuite, eventsSuite, overviewSuite]) suite(() => front, has);
  sharesSuite(() => front);

  test('addresses for browsers are CloudFront’s, those for programs the API’s own', async () => {
    const headers = { authorization: `Bearer ${target.key}`, [FRONT_HOST_HEADER]: 'evil.example' };
    const document = await fetch(`${front.url}/openapi.json`, { headers }).then(
      (answer) => answer.json() as Promise<{ servers: object[] }>,
    );
    expect(document.servers).toEqual([{ url: target.url }]);
    const { id: workspace_id } = expectOk(await request(front, 'GET', '/org', { key: target.key }));
    const agent = { name: 'fronted', type: 'prompt' as const, description: 'x', prompt: 'x' };
    await clientOf(front).createAgent({ body: agent });
    const { schedule } = await clientOf(front).createSchedule({
      params: { workspace_id },
      body: { agent: 'fronted', schedule_type: 'webhook' },
    });
    expect(schedule.webhook_url).toMatch(new RegExp(`^${target.url}/webhooks/`));
    const owner = await target.addUser('front-invites');
    const invite = await request(front, 'POST', `/workspaces/${owner.workspaceId}/invite`, {
      key: owner.key,
      json: { email: 'ann@example.com' },
    });
    expect(JSON.stringify(expectOk(invite))).toContain(`https://${FRONT_NAME}/dashboard`);
  });

  test('a browser signs in with a link of CloudFront, whose session holds there', async () => {
    const { key } = await target.addUser('front-browser');
    const { code, url } = expectOk(await request(front, 'POST', '/auth/codes', { key, json: {} }), 201);
    expect(url).toBe(`https://${FRONT_NAME}/dashboard/login#code=${code}`);
    const made = await request(front, 'POST', '/auth/session', { json: { code } });
    expectOk(made, 201);
    const headers = {
      cookie: made.headers.get('set-cookie')!.split(';')[0]!,
      'sec-fetch-site': 'same-origin',
      'x-platform-client': 'dashboard',
    };
    const { workspace } = expectOk(await request(front, 'GET', '/auth/session', { headers }));
    expect(workspace.slug).toBe('front-browser');
  });

  test('an error of one caller is not answered to the next', async () => {
    const stranger = await target.addUser('front-stranger');
    const { id } = expectOk(await request(front, 'GET', '/org', { key: target.key }));
    const path = `/workspaces/${id}/runs`;
    const refused = await request(front, 'GET', path, { key: stranger.key });
    expect(refused.status).toBeGreaterThanOrEqual(400);
    expectOk(await request(front, 'GET', path, { key: target.key }));
  });

  test('pages come from the bucket, and an unknown address of the API has the platform’s error', async () => {
    const shown = await fetch(`${front.url}/dashboard/`);
    expect([shown.status, shown.headers.get('x-cache')]).toEqual([200, 'Miss from cloudfront']);
    expect((await fetch(`${front.url}/docs/`)).status).toBe(200);
    const { status, body } = await request(front, 'GET', '/nothing');
    expect([status, body.error.code]).toEqual([404, 'NOT_FOUND']);
  });
});

afterAll(() => target.close());
