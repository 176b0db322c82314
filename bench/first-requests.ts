import type { FunctionName } from '#core/http/route.ts';
import { type AwsEndpoints, startAwsEmulators } from '#test/helpers/aws-emulators.ts';
import { clientOf } from '#test/helpers/platform.ts';
import { startRehearsal } from '#test/rehearsal/platform.ts';
import { buildFunctions } from '../scripts/build-functions.ts';
import { ms, ROUNDS, type Row } from './harness.ts';
import { median } from './statistics.ts';

const MAX_MORE_MS = 40;

const MEASURED = {
  calls: 'first prompt call of a process of the function calls, processor time',
  agents: 'first GET of an agent of a process of the function agents, processor time',
} as const satisfies { readonly [fn in FunctionName]?: string };
const FUNCTIONS = Object.keys(MEASURED) as (keyof typeof MEASURED)[];

/** CPU time of a function's first and second request, in milliseconds. */
interface FirstTwo {
  readonly first: number;
  readonly second: number;
}

/**
 * Measures the CPU time of a function's first and second request, in Lambda's runtime client with DynamoDB Local, with
 * its compile cache as on AWS and without. It excludes initialization, which the section `lambda` measures.
 */
export async function benchFirstRequests(): Promise<Row[]> {
  await buildFunctions();
  const emulators = await startAwsEmulators();
  try {
    const cached = await measure(emulators.endpoints, { name: 'cached', cached: FUNCTIONS });
    const bare = await measure(emulators.endpoints, { name: 'bare' });
    return FUNCTIONS.map((fn) => {
      const { first, second } = cached[fn];
      return {
        what: MEASURED[fn],
        ours: `${ms(first)}, without a compile cache ${ms(bare[fn].first)}`,
        beside: `the second: ${ms(second)}, without a compile cache ${ms(bare[fn].second)}`,
        result: `${ms(first - second)} more`,
        bound: `at most ${MAX_MORE_MS} ms more`,
        isMet: first - second <= MAX_MORE_MS,
      };
    });
  } finally {
    await emulators.stop();
  }
}

async function measure(
  endpoints: AwsEndpoints,
  options: Parameters<typeof startRehearsal>[1],
): Promise<Record<keyof typeof MEASURED, FirstTwo>> {
  const platform = await startRehearsal(endpoints, options);
  try {
    const { key, slug, workspaceId } = await platform.addUser('first-requests');
    const client = clientOf(platform, key);
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' };
    await client.putSecret({ params: { workspace_id: workspaceId }, body: secret });
    const { agent } = await client.createAgent({
      body: { name: 'greeter', type: 'prompt', description: 'x', prompt: 'Greet.', supported_providers: ['anthropic'] },
    });
    const { lambda } = platform;
    const firstTwo = async (fn: FunctionName, act: () => Promise<unknown>): Promise<FirstTwo> => {
      const times: FirstTwo[] = [];
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
      return { first: median(times.map(({ first }) => first)), second: median(times.map(({ second }) => second)) };
    };
    return {
      calls: await firstTwo('calls', () =>
        client.callAgent({ params: { org: slug, agent: 'greeter', version: 'v1', endpoint: 'run' }, body: {} }),
      ),
      agents: await firstTwo('agents', () => client.getAgent({ params: { id: agent.id } })),
    };
  } finally {
    await platform.close();
  }
}
