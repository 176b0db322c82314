import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { expectError, expectOk } from '#test/e2e/expect.ts';
import { installsSuite } from '#test/e2e/installs.ts';
import { streamingSuite } from '#test/e2e/streaming.ts';
import { clientOf, publishCode, request } from '#test/helpers/platform.ts';
import { startRehearsal } from './platform.ts';

/** A stage whose sandboxes are MicroVMs; platform.rehearsal.ts covers everything else. */
const target = await startRehearsal(inject('awsEndpoints'), { sandbox: 'microvm' });
const has = { python: target.interpreters.python !== undefined, node: target.interpreters.node !== undefined };

streamingSuite(() => target, has.python || has.node);
installsSuite(() => target, { ...has, python: false });

describe('programs in MicroVMs', () => {
  const ECHO = `read -r input
case "$input" in *wait*) sleep 60 ;; esac
echo "$input"
`;
  let workspaceId: string;
  const run = (json: object, headers: Record<string, string> = {}) =>
    request(target, 'POST', '/acme/vm-echo/v1/run', { key: target.key, json, headers });

  beforeAll(async () => {
    const client = clientOf(target);
    const { workspaces } = await client.listWorkspaces({});
    workspaceId = workspaces.find(({ slug }) => slug === 'acme')!.id;
    await publishCode(client, 'vm-echo', { 'main.sh': ECHO }, { runtime: { command: 'bash main.sh' } });
  });

  test('each runs in one of its own', async () => {
    const answers = await Promise.all([1, 2, 3].map((n) => run({ n })));
    expect(answers.map((answer) => expectOk(answer).data)).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
  });

  test('are stopped at their deadline', async () => {
    const deadline = { 'x-platform-deadline-ms': String(Date.now() + 8000) };
    expectError(await run({ wait: 60 }, deadline), 504, 'TIMEOUT');
  });

  test('are cancelled', async () => {
    const { run_id: id } = expectOk(await run({ wait: 60 }, { prefer: 'respond-async' }), 202);
    const answer = await request(target, 'DELETE', `/workspaces/${workspaceId}/runs/${id}`, { key: target.key });
    expect(expectOk(answer)).toMatchObject({ id, status: 'cancelled' });
  });

  test('leave no VM behind, and the clock finds none that outlived its time', async () => {
    await target.tick('microvm-sweeper');
    const running = () => target.microvms!.vms.filter(({ state }) => state !== 'TERMINATED');
    await expect.poll(running, { timeout: 30_000 }).toEqual([]);
  });
});

test('no function needed what its policy does not allow', () => {
  expect([...target.gate.refused]).toEqual([]);
});

afterAll(() => target.close());
