import { beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '#core/api/client.ts';
import { streamCall } from '#test/helpers/events.ts';
import { clientOf, publishCode, request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk, UUID } from '../expect.ts';
import type { Languages } from '../languages.ts';

/** Prints, waits for a second or until it is cancelled, prints again, then answers or fails as requested. */
const STEPS = `read -r input
echo first step >&2
case "$input" in *hold*) sleep 600 ;; *) sleep 1 ;; esac
echo "the token is $TOKEN" >&2
case "$input" in
  *fail*) echo '{"error": "did not work out"}'; exit 3 ;;
  *flood*) yes 'line after line of it' | head -c 3000000 >&2; echo '{"ok": true}' ;;
  *) echo '{"ok": true}' ;;
esac
`;
const TOKEN = 'tok-stream-5f2a';

/** Calls that are answered before they end: `Accept: text/event-stream`, `Prefer: respond-async`. */
export function streamingSuite(target: () => Target, { python, node }: Languages): void {
  const hasSandbox = python || node;
  const skip = !hasSandbox;

  describe.skipIf(skip)('calls watched while they run (skipped without a sandbox on this host)', () => {
    let client: Client;
    let workspaceId: string;
    const path = '/acme/steps/v1/run';
    const stream = (json: unknown) => streamCall(target(), path, { key: target().key, json });
    const findRun = async (runId: string) =>
      (await request(target(), 'GET', `/workspaces/${workspaceId}/runs/${runId}`, { key: target().key })).body;

    beforeAll(async () => {
      client = clientOf(target());
      const { workspaces } = await client.listWorkspaces({});
      workspaceId = workspaces.find(({ slug }) => slug === 'acme')!.id;
      await client.putSecret({ params: { workspace_id: workspaceId }, body: { name: 'TOKEN', value: TOKEN } });
      await publishCode(
        client,
        'steps',
        { 'steps.sh': STEPS },
        { runtime: { command: 'bash steps.sh' }, required_secrets: ['TOKEN'] },
      );
    });

    const cancel = (runId: string) =>
      request(target(), 'DELETE', `/workspaces/${workspaceId}/runs/${runId}`, { key: target().key });

    test('events arrive while the run goes on', async () => {
      const call = await stream({ what: 'hold' });
      let last: { event: string; data: Record<string, unknown> } | undefined;
      for await (last of call.records) {
        if (last.data.type === 'stderr') expectOk(await cancel(call.headers.get('x-run-id')!));
      }
      expect(last).toMatchObject({ event: 'error', data: { error: { code: 'RUN_CANCELLED' } } });
    });

    test('the answer is the last event', async () => {
      const call = await stream({});
      expect(call.status).toBe(200);
      expect(call.headers.get('content-type')).toBe('text/event-stream');
      expect(call.headers.get('x-run-id')).toMatch(UUID);
      const types: string[] = [];
      let last: unknown;
      for await (const { event, data } of call.records) {
        if (event === 'progress') types.push(data.type);
        else last = { event, data };
      }
      expect([types[0], types[1], types.at(-1)]).toEqual(['sandbox_start', 'stderr', 'done']);
      // The order of the two streams is not defined.
      expect(types.slice(2, -1).sort()).toEqual(['stderr', 'stdout']);
      expect(last).toMatchObject({ event: 'result', data: { data: { ok: true }, metadata: { version: 'v1' } } });
      expect(call.text()).not.toContain('\r');
      expect(call.text()).not.toContain(TOKEN);
      expect(call.text()).toContain('[secret TOKEN]');
    });

    test('a failure is the last event', async () => {
      const records = await Array.fromAsync((await stream({ what: 'fail' })).records);
      expect(records.at(-1)).toMatchObject({
        event: 'error',
        data: { error: { code: 'SANDBOX_ERROR', message: 'did not work out', is_retryable: false } },
      });
    });

    test('an error before the run begins is an ordinary answer', async () => {
      const headers = { accept: 'text/event-stream' };
      const unknown = await request(target(), 'POST', '/acme/no-such/v1/run', { key: target().key, json: {}, headers });
      expectError(unknown, 404, 'NOT_FOUND');
      const array = await request(target(), 'POST', path, { key: target().key, json: [], headers });
      expectError(array, 400, 'INVALID_INPUT');
    });

    test('very long output is shown up to its limit, with a note that it was cut', async () => {
      const call = await stream({ what: 'flood' });
      const records = await Array.fromAsync(call.records);
      expect(call.text().length).toBeLessThan(2_000_000);
      expect(records.filter(({ data }) => data.type === 'output_truncated')).toHaveLength(1);
      expect(records.at(-1)).toMatchObject({ event: 'result', data: { data: { ok: true } } });
    });

    test('a run continues after its reader disconnects', async () => {
      const call = await stream({});
      await call.records.next();
      call.leave();
      const runId = call.headers.get('x-run-id')!;
      await expect.poll(() => findRun(runId), { timeout: 60_000 }).toMatchObject({ status: 'completed' });
    });

    test('respond-async answers at once with the address of the run', async () => {
      const headers = { prefer: 'respond-async' };
      const answer = await request(target(), 'POST', path, { key: target().key, json: { what: 'hold' }, headers });
      const { run_id, status, url } = expectOk(answer, 202);
      expect({ status, url }).toEqual({ status: 'running', url: `/workspaces/${workspaceId}/runs/${run_id}` });
      expect(answer.headers.get('location')).toBe(url);
      expect(answer.headers.get('preference-applied')).toBe('respond-async');
      expect(await findRun(run_id)).toMatchObject({ id: run_id, status: 'running', input_data: { what: 'hold' } });
      expectOk(await cancel(run_id));
    });

    test('and the record of the run has its output', async () => {
      const headers = { prefer: 'respond-async' };
      const answer = await request(target(), 'POST', path, { key: target().key, json: {}, headers });
      await expect
        .poll(() => findRun(expectOk(answer, 202).run_id), { timeout: 60_000 })
        .toMatchObject({ status: 'completed', output_data: { ok: true } });
    });
  });
}
