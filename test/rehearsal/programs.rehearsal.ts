import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { expectError, expectOk } from '#test/e2e/expect.ts';
import { clientOf, publishCode, request } from '#test/helpers/platform.ts';
import { countRequests } from './costs.ts';
import { startRehearsal } from './platform.ts';

/** Rehearses a stage that runs short programs in a Lambda function; platform.rehearsal.ts covers the rest. */
const target = await startRehearsal(inject('awsEndpoints'), { hasPrograms: true, name: 'short' });

const ECHO = `read -r input
case "$input" in *wait*) sleep 60 ;; *fail*) echo broken >&2; exit 3 ;; *secret*) echo "$OWN" >&2 ;; esac
echo "$input"
`;
let workspaceId: string;
const events = () => target.lambda.invocations.filter(({ fn }) => fn.endsWith('-programs')).length;
const run = (json: object, headers: Record<string, string> = {}) =>
  request(target, 'POST', '/acme/short-echo/v1/run', { key: target.key, json, headers });
const look = async (path: string) =>
  expectOk(await request(target, 'GET', `/workspaces/${workspaceId}/runs/${path}`, { key: target.key }));
/** The events of a run's trace, as text. */
const traced = async (answer: Awaited<ReturnType<typeof run>>) => {
  const path = `/workspaces/${workspaceId}/traces/${answer.headers.get('x-run-id')}/events`;
  return JSON.stringify(expectOk(await request(target, 'GET', path, { key: target.key })));
};

describe('short programs in a Lambda function', { timeout: 60_000 }, () => {
  beforeAll(async () => {
    const client = clientOf(target);
    const { workspaces } = await client.listWorkspaces({});
    workspaceId = workspaces.find(({ slug }) => slug === 'acme')!.id;
    await client.putSecret({ params: { workspace_id: workspaceId }, body: { name: 'OWN', value: 'made-up-secret' } });
    const extra = { runtime: { command: 'bash main.sh' }, required_secrets: ['OWN'] };
    await publishCode(client, 'short-echo', { 'main.sh': ECHO }, extra as never);
  });

  test('run there, and the trace of the run says so', async () => {
    const before = events();
    const answer = await run({ n: 1 });
    expect(expectOk(answer).data).toEqual({ n: 1 });
    await target.lambda.settled();
    expect(events()).toBe(before + 1);
    const trace = await traced(answer);
    expect(trace).toContain('"sandbox":"lambda"');
    expect(trace).toContain('"reason":"one short command"');
  });

  test('fail with their exit code and stderr, where secrets are masked', async () => {
    const failed = await run({ fail: true });
    expectError(failed, 500, 'SANDBOX_ERROR');
    expect(failed.body.error).toMatchObject({ details: { exit_code: 3 }, stderr_tail: 'broken' });
    const shown = await run({ secret: true });
    const { stderr } = await look(`${shown.headers.get('x-run-id')}/logs`);
    expect(stderr).not.toContain('made-up-secret');
  });

  test('are stopped at their deadline, and when they are cancelled', async () => {
    const deadline = { 'x-platform-deadline-ms': String(Date.now() + 8000) };
    expectError(await run({ wait: 60 }, deadline), 504, 'TIMEOUT');
    const { run_id: id } = expectOk(await run({ wait: 60 }, { prefer: 'respond-async' }), 202);
    const answer = await request(target, 'DELETE', `/workspaces/${workspaceId}/runs/${id}`, { key: target.key });
    expect(expectOk(answer)).toMatchObject({ id, status: 'cancelled' });
    await target.lambda.settled();
    expect(expectOk(await run({ n: 2 })).data).toEqual({ n: 2 });
  });

  test('leave loops to the other sandbox', async () => {
    const turns = [
      { toolCalls: [{ name: 'bash', input: { command: 'echo on' } }] },
      { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] },
    ];
    const client = clientOf(target);
    await client.putSecret({
      params: { workspace_id: workspaceId },
      body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' },
    });
    const prompt = `Do it. [[llm ${JSON.stringify(turns)}]]`;
    const body = { type: 'agent', description: 'x', supported_providers: ['anthropic'], required_secrets: [] } as const;
    await client.createAgent({ body: { ...body, name: 'short-loop', prompt } });
    const before = events();
    const answer = await request(target, 'POST', '/acme/short-loop/v1/run', { key: target.key, json: {} });
    expect(expectOk(answer).data).toEqual({ result: 'done' });
    expect(events()).toBe(before);
    const trace = await traced(answer);
    expect(trace).toContain('"sandbox":"fargate"');
    expect(trace).toContain('several commands');
  });

  test('need one event of the function, and nothing of a pool', { timeout: 120_000 }, async () => {
    const [counted] = await countRequests(target, { onlyPrograms: true });
    const { programs, tasks, writeUnits, readUnits, s3Gets, s3Puts, invocations, tableRequests } = counted!;
    // Its bundle is read from a link for each run.
    expect({ programs, tasks, s3Gets, s3Puts }).toEqual({ programs: 1, tasks: 0, s3Gets: 1, s3Puts: 0 });
    expect(invocations).toHaveLength(2);
    expect(writeUnits).toBeLessThanOrEqual(13);
    expect(readUnits).toBeLessThanOrEqual(4);
    expect(tableRequests).toBeLessThanOrEqual(10);
  });
});

test('no function needed what its policy does not allow', () => {
  expect([...target.gate.refused]).toEqual([]);
});

afterAll(() => target.close());
