import { beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '#core/api/client.ts';
import { streamCall } from '#test/helpers/events.ts';
import { clientOf, publishCode, request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk, UUID } from './expect.ts';

/** Prints, waits for a second, prints again, then answers or fails as requested. */
const STEPS = `read -r input
echo first step >&2
sleep 1
echo "the token is $TOKEN" >&2
case "$input" in
  *fail*) echo '{"error": "did not work out"}'; exit 3 ;;
  *flood*) yes 'line after line of it' | head -c 3000000 >&2; echo '{"ok": true}' ;;
  *) echo '{"ok": true}' ;;
esac
`;
const TOKEN = 'tok-stream-5f2a';

/** Calls that are answered before their end: `Accept: text/event-stream`, `Prefer: respond-async`. */
export function streamingSuite(target: () => Target, hasSandbox: boolean): void {
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

    test('events arrive while the run goes on, the answer last', async () => {
      const call = await stream({});
      expect(call.status).toBe(200);
      expect(call.headers.get('content-type')).toBe('text/event-stream');
      expect(call.headers.get('x-run-id')).toMatch(UUID);
      const seen: { type: string; at: number }[] = [];
      let last: unknown;
      for await (const { event, data } of call.records) {
        if (event === 'progress') seen.push({ type: data.type, at: Date.now() });
        else last = { event, data };
      }
      const types = seen.map(({ type }) => type);
      expect([types[0], types[1], types.at(-1)]).toEqual(['sandbox_start', 'stderr', 'done']);
      // The order of the two streams is not defined.
      expect(types.slice(2, -1).sort()).toEqual(['stderr', 'stdout']);
      expect(seen[2]!.at - seen[1]!.at).toBeGreaterThan(500);
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
      const answer = await request(target(), 'POST', path, { key: target().key, json: { n: 1 }, headers });
      const { run_id, status, url } = expectOk(answer, 202);
      expect({ status, url }).toEqual({ status: 'running', url: `/workspaces/${workspaceId}/runs/${run_id}` });
      expect(answer.headers.get('location')).toBe(url);
      expect(answer.headers.get('preference-applied')).toBe('respond-async');
      expect(await findRun(run_id)).toMatchObject({ id: run_id, status: 'running', input_data: { n: 1 } });
      await expect
        .poll(() => findRun(run_id), { timeout: 60_000 })
        .toMatchObject({ status: 'completed', output_data: { ok: true } });
    });
  });
}
