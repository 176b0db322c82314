import { afterAll, describe, expect, test } from 'vitest';
import { clientOf, publishCode, request, startLocalTarget } from '#test/helpers/platform.ts';
import { expectOk } from './expect.ts';
import { expectWait } from './suites/limits.ts';

describe('a burst of programs', async () => {
  const target = await startLocalTarget({
    PLATFORM_MAX_SANDBOXES: '4',
    PLATFORM_SANDBOX_MEMORY_MB: '256',
    PLATFORM_SANDBOX_DISK_MB: '32',
  });
  const { python } = target.interpreters;
  afterAll(() => target.close());

  test.skipIf(python === undefined)('queues behind itself and does not delay another workspace', async () => {
    const [a, b] = [await target.addUser('a-burst'), await target.addUser('b-quiet')];
    const code = { 'main.py': 'import time\ntime.sleep(0.3)\nprint("{}")' };
    for (const user of [a, b]) await publishCode(clientOf(target, user.key), 'nap', code, { timeout_seconds: 10 });
    const call = ({ slug, key }: typeof a) => request(target, 'POST', `/${slug}/nap/v1/run`, { key, json: {} });
    expectOk(await call(a));

    let ran = 0;
    const burst = Promise.all(
      Array.from({ length: 100 }, async () => {
        const answer = await call(a);
        if (answer.status === 200) ran++;
        return answer;
      }),
    );
    for (let i = 0; i < 3; i++) expectOk(await call(b));
    const ranBefore = ran;
    const answers = await burst;
    // Each call waited for the running ones, but not for all waiting ones.
    expect(ranBefore).toBeLessThan(ran);
    for (const answer of answers) if (answer.status !== 200) expectWait(answer);
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(10);
    expectOk(await call(a));
  });

  test.skipIf(python === undefined)('leaves room for the sub-calls that its runs wait for', async () => {
    const user = await target.addUser('nested');
    const client = clientOf(target, user.key);
    await publishCode(client, 'leaf', { 'main.py': 'print("{}")' });
    const program = `
import asyncio, json
from agent_platform import AgentClient
asyncio.run(AgentClient().call("nested/leaf@v1", {}))
print("{}")
`;
    const manifest = {
      manifest_version: 1,
      dependencies: [{ id: 'nested/leaf', version: 'v1' }],
      max_hops: 2,
      timeout_ms: 20_000,
      per_call_downstream_cap: 10,
    };
    await publishCode(client, 'top', { 'main.py': program }, { manifest, timeout_seconds: 20 });
    const call = () => request(target, 'POST', '/nested/top/v1/run', { key: user.key, json: {} });
    // Three calls fill the workspace's share of sandboxes, and each waits for a sub-call.
    for (const answer of await Promise.all(Array.from({ length: 6 }, call))) expectOk(answer);
  });
});
