import { MAX_WAIT_SECONDS } from '#core/base/time-limits.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import type { Deps } from '#core/ports/deps.ts';
import { orderKey } from '#core/runs/items.ts';
import { RunSeal } from '../durable/sealing.ts';

/** Attribute of the order of a run whose program does steps (`../durable/order.ts`). */
export const storedTerms = ({ durable }: Pick<AgentDefinition, 'durable'>) =>
  durable?.steps && { steps: { max_wait_seconds: durable.max_wait_seconds ?? MAX_WAIT_SECONDS } };

/** What the steps of a program have to keep to (`store.ts`). */
export interface StepTerms {
  readonly seal: RunSeal;
  /** Maximum time that the run waits, in total, as its agent says. */
  readonly maxWaitSeconds: number;
  /** Epoch seconds until which the steps are kept at most. */
  readonly ttl: number;
}

/** Reads only what requests of a run's program need of its order. Returns `undefined` if the program does no steps. */
export async function openSteps(
  { runs, vault }: Pick<Deps, 'runs' | 'vault'>,
  workspaceId: string,
  runId: string,
): Promise<StepTerms | undefined> {
  const item = await runs.get(orderKey(workspaceId, runId));
  const steps = item?.steps as { readonly max_wait_seconds: number } | undefined;
  if (item === undefined || steps === undefined) return undefined;
  const seal = new RunSeal(await vault.openDataKey(workspaceId, item.sealed_key as string), runId);
  return { seal, maxWaitSeconds: steps.max_wait_seconds, ttl: item.ttl! };
}
