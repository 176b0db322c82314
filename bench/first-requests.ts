import { startAwsEmulators } from '#test/helpers/aws-emulators.ts';
import { clientOf } from '#test/helpers/platform.ts';
import { startRehearsal } from '#test/rehearsal/platform.ts';
import { ms, ROUNDS, type Row } from './harness.ts';
import { median } from './statistics.ts';

const MAX_MORE_MS = 40;

/**
 * Processor time of a function's first request and of its second, in Lambda's runtime client with DynamoDB Local. Its start is over by
 * then: that is the section `lambda`.
 */
export async function benchFirstRequests(): Promise<Row[]> {
  const emulators = await startAwsEmulators();
  const platform = await startRehearsal(emulators.endpoints);
  try {
    const { key, slug, workspaceId } = await platform.addUser('first-requests');
    const client = clientOf(platform, key);
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' };
    await client.putSecret({ params: { workspace_id: workspaceId }, body: secret });
    const { agent } = await client.createAgent({
      body: { name: 'greeter', type: 'prompt', description: 'x', prompt: 'Greet.', supported_providers: ['anthropic'] },
    });
    const { lambda } = platform;
    const measure = async (what: string, fn: string, act: () => Promise<unknown>): Promise<Row> => {
      const times: { readonly first: number; readonly second: number }[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        await lambda.settled();
        await lambda.endIdle();
        const before = lambda.invocations.length;
        await act();
        await lambda.settled();
        await act();
        await lambda.settled();
        const [first, second] = lambda.invocations.slice(before).filter((each) => each.fn.endsWith(`-${fn}`));
        times.push({ first: first!.cpuMs, second: second!.cpuMs });
      }
      const first = median(times.map((each) => each.first));
      const second = median(times.map((each) => each.second));
      return {
        what,
        ours: ms(first),
        beside: `the second: ${ms(second)}`,
        result: `${ms(first - second)} more`,
        bound: `at most ${MAX_MORE_MS} ms more`,
        isMet: first - second <= MAX_MORE_MS,
      };
    };
    return [
      await measure('first prompt call of a process of the function calls, processor time', 'calls', () =>
        client.callAgent({ params: { org: slug, agent: 'greeter', version: 'v1', endpoint: 'run' }, body: {} }),
      ),
      await measure('first GET of an agent of a process of the function agents, processor time', 'agents', () =>
        client.getAgent({ params: { id: agent.id } }),
      ),
    ];
  } finally {
    await platform.close();
    await emulators.stop();
  }
}
