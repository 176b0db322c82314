import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { PreparedCall } from '../calls/prepare.ts';
import { countCall, withSpendCap } from './budget.ts';
import { callingAgent } from './lineage.ts';

/**
 * Counts the call of an agent of others as a sub-call of a run (`docs/interface/a2a.md#dependencies`): what it costs there is not
 * known. Throws MAX_HOPS_EXCEEDED and BUDGET_EXCEEDED, counting nothing.
 */
export async function countRemoteCall(
  deps: Pick<Deps, 'counters' | 'clock'>,
  { agent, workspace, lineage, runId, deadline }: PreparedCall,
  name: string,
): Promise<void> {
  const { maxHops, chain } = callingAgent(agent, workspace, lineage);
  if (maxHops < 1) {
    throw new PlatformError(
      'MAX_HOPS_EXCEEDED',
      `${chain.at(-1)} may not call ${name}: this chain of calls may not get any longer (${chain.join(' -> ')}).`,
    );
  }
  await countCall(deps, withSpendCap(lineage.budgets, agent, runId), { deadline, priceCents: 0 });
}
