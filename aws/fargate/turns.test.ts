import { InvokeWithResponseStreamCommand, type LambdaClient } from '@aws-sdk/client-lambda';
import { describe } from 'vitest';
import { turnsConformance } from '#test/conformance/fair-queue.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { parseAwsConfig } from '../config.ts';
import type { DispatchHead, DispatchRequest } from './dispatch.ts';
import { SandboxPool } from './pool.ts';
import { FargateSandbox } from './sandbox.ts';

/** Creates the adapter over a pool in SQLite whose keeper replaces each used task at once; no task runs anything. */
async function setUp(max: number) {
  const deps = memoryDeps();
  const pool = new SandboxPool(deps, { max, startMs: 0 });
  const fill = async () => {
    for (const number of pool.free(await pool.read())) {
      const slot = (await pool.parts[0]!.reserve(number, 'task-definition'))!;
      await pool.parts[0]!.ready(slot, `arn:task/${slot.id}`, '10.0.0.1');
    }
  };
  const dispatch = async ({ to, ends }: DispatchRequest): Promise<DispatchHead> => {
    if ('address' in to) {
      await pool.end(ends!);
      await pool.parts[0]!.release(ends!);
      await fill();
      return { status: 204 };
    }
    const answer = await pool.claim(to.claim);
    if (!('slot' in answer)) return answer;
    const { number, id, address } = answer.slot;
    return { status: 201, slot: { number, id, address: address! } };
  };
  const lambda = {
    async send(command: unknown) {
      if (!(command instanceof InvokeWithResponseStreamCommand)) return {};
      const head = await dispatch(JSON.parse(String(command.input.Payload)));
      const Payload = Buffer.from(`${JSON.stringify(head)}\n`);
      return {
        EventStream: (async function* () {
          yield { PayloadChunk: { Payload } };
          yield { InvokeComplete: {} };
        })(),
      };
    },
  } as unknown as LambdaClient;
  await fill();
  const sandbox = new FargateSandbox({
    ...deps,
    config: parseAwsConfig({}),
    links: { get: async (key) => key },
    lambda,
  });
  return { sandbox, clock: deps.clock };
}

describe('turns', () => turnsConformance(setUp));
