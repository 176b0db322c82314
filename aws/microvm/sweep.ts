import {
  type LambdaMicrovmsClient,
  paginateListMicrovms,
  TerminateMicrovmCommand,
} from '@aws-sdk/client-lambda-microvms';
import type { Clock } from '#core/ports/clock.ts';
import type { Log } from '#core/ports/deps.ts';
import { LIFETIME_GRACE_MS, MAX_VM_MS } from '../runner-job.ts';

/** Terminates VMs past their time. AWS should end them itself, and bills them until they end. */
export async function sweepMicrovms(
  { client, clock, log }: { readonly client: LambdaMicrovmsClient; readonly clock: Clock; readonly log: Log },
  imageIdentifier: string,
): Promise<void> {
  const oldest = clock.now() - MAX_VM_MS - LIFETIME_GRACE_MS;
  for await (const { items = [] } of paginateListMicrovms({ client }, { imageIdentifier })) {
    for (const { microvmId, state, startedAt } of items) {
      const hasEnded = state === 'TERMINATING' || state === 'TERMINATED';
      if (hasEnded || startedAt === undefined || startedAt.getTime() > oldest) continue;
      log.error('microvm exceeded its lifetime', { microvm: microvmId, state, started_at: startedAt.toISOString() });
      await client.send(new TerminateMicrovmCommand({ microvmIdentifier: microvmId })).catch((error: Error) => {
        log.error('microvm not terminated', { microvm: microvmId, error: String(error) });
      });
    }
  }
}
