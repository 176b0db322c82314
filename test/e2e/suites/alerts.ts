import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { clientOf, needsModel, request, type Target } from '#test/helpers/platform.ts';
import { type Receiver, startReceiver } from '#test/helpers/receiver.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

/** Alerts of failing schedules. The target must allow alerts to 127.0.0.1. */
export function alertsSuite(target: () => Target): void {
  describe('alerts', () => {
    let user: TestUser;
    let receiver: Receiver;
    const api = (method: string, path: string, json?: unknown, key = user.key) =>
      request(target(), method, `/workspaces/${user.workspaceId}${path}`, { key, json });

    beforeAll(async () => {
      // A target that reaches a model on this machine also reaches a receiver here.
      needsModel(target());
      user = await target().addUser('alerts');
      receiver = await startReceiver();
      await clientOf(target(), user.key).createAgent({
        body: {
          name: 'picky',
          type: 'prompt',
          description: 'Fails without an order.',
          prompt: 'Order {{order}}.',
          supported_providers: ['anthropic'],
        },
      });
      const secret = { name: 'ANTHROPIC_API_KEY', value: `sk-alerts-${user.userId}` };
      expectOk(await api('PUT', '/secrets', secret));
    });
    afterAll(() => receiver?.close());

    async function makeSchedule(body: Record<string, unknown>): Promise<string> {
      const made = await api('POST', '/schedules', { agent: 'alerts/picky', schedule_type: 'webhook', ...body });
      return expectOk(made, 201).schedule.id;
    }
    const trigger = async (id: string, json: unknown = {}) =>
      expectOk(await api('POST', `/schedules/${id}/trigger`, json)).status;
    const eventsOf = async (id: string): Promise<{ event_type: string; message: string }[]> =>
      expectOk(await api('GET', `/schedules/${id}/events`)).events;
    const kindsOf = async (id: string) => (await eventsOf(id)).map(({ event_type }) => event_type);
    /** Alerts are sent asynchronously. */
    const arrived = (path: string, count: number) =>
      vi.waitFor(() => expect(receiver.at(path)).toHaveLength(count), { timeout: 20_000, interval: 50 });

    test('are posted once when failures reach the count, once when the schedule is disabled, and again after a success', async () => {
      const id = await makeSchedule({
        alert_webhook_url: `${receiver.url}/streak`,
        alert_on_failure_count: 2,
        max_consecutive_failures: 4,
      });
      for (let n = 1; n <= 4; n++) {
        expect(await trigger(id)).toBe('error');
        await arrived('/streak', [0, 1, 1, 2][n - 1]!);
      }
      const streak = { event: 'schedule.failure_streak', schedule_id: id, workspace_id: user.workspaceId };
      const rest = { agent_name: 'picky', threshold: 4, last_error: expect.stringContaining('"order"') };
      expect(receiver.at('/streak').map(({ body }) => body)).toEqual([
        { ...streak, ...rest, consecutive_failures: 2, auto_disabled: false },
        { ...streak, ...rest, consecutive_failures: 4, auto_disabled: true },
      ]);
      await vi.waitFor(
        async () => expect((await kindsOf(id)).filter((kind) => kind === 'alert_sent')).toHaveLength(2),
        { timeout: 20_000, interval: 100 },
      );
      const { schedule } = expectOk(await api('GET', `/schedules/${id}`));
      expect(schedule).toMatchObject({ enabled: false, consecutive_failures: 4 });

      expectOk(await api('PATCH', `/schedules/${id}`, { enabled: true }));
      expect(await trigger(id)).toBe('error');
      expect(await trigger(id, { order: 7 })).toBe('success');
      expect(await trigger(id)).toBe('error');
      expect(receiver.at('/streak')).toHaveLength(2);
      expect(await trigger(id)).toBe('error');
      await arrived('/streak', 3);
    });

    test('are sent once when the reported failure also disables the schedule', async () => {
      const id = await makeSchedule({
        alert_webhook_url: `${receiver.url}/both`,
        alert_on_failure_count: 1,
        max_consecutive_failures: 1,
      });
      expect(await trigger(id)).toBe('error');
      await arrived('/both', 1);
      expect(receiver.at('/both')[0]!.body).toMatchObject({ consecutive_failures: 1, auto_disabled: true });
      await vi.waitFor(async () => expect(await kindsOf(id)).toContain('alert_sent'), { timeout: 20_000 });
    });

    test('are not sent without an address', async () => {
      const id = await makeSchedule({ alert_on_failure_count: 1, max_consecutive_failures: 1 });
      expect(await trigger(id)).toBe('error');
      const kinds = await kindsOf(id);
      expect(kinds).toContain('auto_disabled');
      expect(kinds.filter((kind) => kind.startsWith('alert'))).toEqual([]);
      expectError(await api('POST', `/schedules/${id}/test-alert`), 409, 'CONFLICT', 'alert_webhook_url');
    });

    test('can be tested, and the timeline shows the result', async () => {
      const id = await makeSchedule({ alert_webhook_url: `${receiver.url}/try` });
      expect(expectOk(await api('POST', `/schedules/${id}/test-alert`))).toEqual({ success: true });
      expect(receiver.at('/try').map(({ body }) => body)).toEqual([
        {
          event: 'schedule.failure_streak',
          schedule_id: id,
          workspace_id: user.workspaceId,
          agent_name: 'picky',
          consecutive_failures: 0,
          threshold: 10,
          auto_disabled: false,
          last_error: expect.stringContaining('test'),
        },
      ]);
      expectOk(await api('PATCH', `/schedules/${id}`, { alert_webhook_url: `${receiver.url}/500` }));
      expect(expectOk(await api('POST', `/schedules/${id}/test-alert`))).toEqual({ success: false });
      const [last] = await eventsOf(id);
      expect(last).toMatchObject({ event_type: 'alert_failed', message: 'Test alert not sent: it answered 500.' });
      expect(await kindsOf(id)).toContain('alert_sent');
      const { schedule } = expectOk(await api('GET', `/schedules/${id}`));
      expect(schedule).toMatchObject({ enabled: true, consecutive_failures: 0 });
    });

    test('can be tested by owners only, and for existing schedules only', async () => {
      const id = await makeSchedule({ alert_webhook_url: `${receiver.url}/roles` });
      const member = await target().addUser('alerts-member');
      await target().addMember(member, user.workspaceId);
      expectError(
        await api('POST', `/schedules/${id}/test-alert`, undefined, member.key),
        403,
        'FORBIDDEN',
        'Only an owner',
      );
      expectError(await api('POST', '/schedules/3f2504e0-4f89-41d3-9a0c-0305e82c3301/test-alert'), 404, 'NOT_FOUND');
      expect(receiver.at('/roles')).toEqual([]);
    });

    test('are signed once the workspace has a secret, by both secrets while one replaces the other', async () => {
      const id = await makeSchedule({ alert_webhook_url: `${receiver.url}/signed` });
      const send = async () => {
        expect(expectOk(await api('POST', `/schedules/${id}/test-alert`))).toEqual({ success: true });
        return receiver.at('/signed').at(-1)!;
      };
      const signatureOf = ({ headers, text }: Awaited<ReturnType<typeof send>>, secret: string) => {
        const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
        const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${text}`;
        return `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
      };
      const unsigned = await send();
      expect(unsigned.headers['webhook-id']).toMatch(/^msg_/);
      expect(unsigned.headers['webhook-signature']).toBeUndefined();

      const first = expectOk(await api('POST', '/signing-secret')).signing_secret;
      // On AWS another process may use a cached secret for up to a minute.
      const signed = await vi.waitUntil(
        async () => {
          const sent = await send();
          return sent.headers['webhook-signature'] && sent;
        },
        { timeout: 90_000, interval: 1000 },
      );
      expect(signed.headers['webhook-signature']).toBe(signatureOf(signed, first));
      expect(signed.headers['webhook-id']).not.toBe(unsigned.headers['webhook-id']);
      const age = Date.now() / 1000 - Number(signed.headers['webhook-timestamp']);
      expect(Math.abs(age)).toBeLessThan(60);

      const second = expectOk(await api('POST', '/signing-secret')).signing_secret;
      const later = await send();
      expect((later.headers['webhook-signature'] as string).split(' ')).toContain(signatureOf(later, first));
      expect([first, second].map((secret) => signatureOf(later, secret))).toEqual(
        expect.arrayContaining((later.headers['webhook-signature'] as string).split(' ')),
      );
    });

    test.each([
      ['plain http', 'http://hooks.example.com/x', 'https://'],
      ['loopback', 'https://127.2/x', 'public internet'],
      ['metadata', 'https://169.254.169.254/latest/meta-data/', 'public internet'],
      ['IPv6 loopback', 'https://[::1]/', 'public internet'],
      ['a password', 'https://me:hunter2@hooks.example.com/', 'password'],
      ['no address', 'hooks', 'web address'],
    ])('may not go to %s', async (_, url, why) => {
      const made = await api('POST', '/schedules', {
        agent: 'alerts/picky',
        schedule_type: 'webhook',
        alert_webhook_url: url,
      });
      const { message } = expectError(made, 400, 'INVALID_INPUT', why);
      expect(message).toContain('alert_webhook_url');
      expect(message).not.toContain('hunter2');
      const id = await makeSchedule({});
      expectError(await api('PATCH', `/schedules/${id}`, { alert_webhook_url: url }), 400, 'INVALID_INPUT', why);
    });
  });
}
