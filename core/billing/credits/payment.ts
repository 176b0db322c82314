import { PAYMENT_GRACE_MS } from '#core/base/time-limits.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { hold, refund, settle } from './ledger.ts';

/** Returns the price in cents of a call of `agent` by a workspace; a workspace's own agents are free. */
export const priceFor = (agent: AgentVersion, workspace: Workspace): number =>
  agent.workspaceId === workspace.id ? 0 : (agent.definition.price_per_call_cents ?? 0);

/** The payment of a call, charged before it runs. */
export interface Payment {
  readonly cents: number;
  /**
   * Settles the payment, or refunds it if the call is not charged. Call it after the run's end is recorded. Safe to
   * repeat.
   */
  end(isCharged: boolean): Promise<void>;
}

/** Charges the price of a call; a free call reads and writes nothing. Throws INSUFFICIENT_CREDITS. */
export async function payFor(
  deps: Pick<Deps, 'main' | 'runs' | 'clock' | 'ids' | 'config'>,
  {
    agent,
    workspace,
    runId,
    deadline,
  }: {
    readonly agent: AgentVersion;
    readonly workspace: Workspace;
    readonly runId: string;
    /** Epoch milliseconds. */
    readonly deadline: number;
  },
): Promise<Payment> {
  const cents = priceFor(agent, workspace);
  if (cents === 0) return { cents, end: async () => {} };
  // Rounded in the author's favor: at 30%, the fee for one cent is zero.
  const author = { workspaceId: agent.workspaceId, feeCents: Math.floor((cents * deps.config.feePercent) / 100) };
  await hold(deps, { workspace, runId, cents, agentRef: refOf(agent), author, expiresAt: deadline + PAYMENT_GRACE_MS });
  return paymentOf(deps, { agent, workspace, runId });
}

/** Returns the payment of a call whose price was charged before. */
export function paymentOf(
  deps: Pick<Deps, 'main' | 'runs' | 'clock' | 'ids'>,
  { agent, workspace, runId }: { readonly agent: AgentVersion; readonly workspace: Workspace; readonly runId: string },
): Payment {
  const cents = priceFor(agent, workspace);
  if (cents === 0) return { cents, end: async () => {} };
  return { cents, end: (isCharged) => (isCharged ? settle : refund)(deps, workspace.id, runId) };
}
