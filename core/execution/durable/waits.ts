import { planOf } from '#core/base/plans.ts';
import { MAX_WAIT_SECONDS } from '#core/base/time-limits.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Approval, Asked, Decision } from '#core/runs/approvals/approval.ts';
import { approvalsOfRun, expire, findApproval, putAsked } from '#core/runs/approvals/store.ts';
import type { Lease } from '#core/runs/leases.ts';
import { WaitingRuns } from '#core/runs/waiting-runs.ts';

/** Maximum number of calls of a run that wait at the same time (`docs/interface/approvals.md#waiting`). */
export const MAX_WAITING_CALLS = 50;

type WaitDeps = Pick<Deps, 'config' | 'runs' | 'blobs' | 'clock'>;

/** The call whose run waits. */
interface WaitingCall {
  readonly agent: AgentVersion;
  /** Workspace that owns the run. */
  readonly workspace: Workspace;
  readonly runId: string;
  readonly tenantId?: string;
}

/** The calls of one durable run that wait for people, time or events. */
export class Waits {
  readonly #deps: WaitDeps;
  readonly #call: WaitingCall;
  readonly #lease: Lease;

  constructor(deps: WaitDeps, call: WaitingCall, lease: Lease) {
    this.#deps = deps;
    this.#call = call;
    this.#lease = lease;
  }

  /** Milliseconds for which the run may still wait. */
  get leftMs(): number {
    const { agent, workspace } = this.#call;
    const { max_wait_seconds: own = MAX_WAIT_SECONDS } = agent.definition.durable ?? {};
    return Math.min(own, planOf(this.#deps, workspace).wait_seconds) * 1000 - this.#lease.idleMs;
  }

  /**
   * Returns what was decided about calls of a turn, by their numbers from 1, and who decided. A call that has waited for
   * long enough is decided now.
   */
  async decided(turn: number): Promise<ReadonlyMap<number, DecidedCall>> {
    const decided = new Map<number, DecidedCall>();
    for (const approval of await approvalsOfRun(this.#deps, this.#place, turn)) {
      const settled = await this.#settled(approval);
      if (settled?.decision) decided.set(settled.call, { decision: settled.decision, by: settled.decidedBy });
    }
    return decided;
  }

  /** Returns the calls of a turn that wait already, by their numbers from 1. */
  async asked(turn: number): Promise<ReadonlyMap<number, Approval>> {
    const approvals = await approvalsOfRun(this.#deps, this.#place, turn);
    return new Map(approvals.filter(({ status }) => status === 'waiting').map((each) => [each.call, each]));
  }

  /** Stores calls that wait. Returns false if too many runs of the workspace wait; then nothing is stored. */
  async ask(asked: readonly Asked[]): Promise<boolean> {
    const { workspace, runId, agent, tenantId } = this.#call;
    const { waiting_runs: most } = planOf(this.#deps, workspace);
    if ((await new WaitingRuns(this.#deps, workspace.id).count()) >= most) return false;
    const version = typeof agent.version === 'number' ? `v${agent.version}` : agent.version;
    const run = { workspaceId: workspace.id, runId, agentName: agent.name, agentVersion: version, tenantId };
    await putAsked(this.#deps, run, asked);
    return true;
  }

  get #place() {
    return { workspaceId: this.#call.workspace.id, runId: this.#call.runId };
  }

  async #settled(approval: Approval): Promise<Approval | undefined> {
    const isOver = approval.status === 'waiting' && approval.expiresAt <= this.#deps.clock.now();
    if (!isOver) return approval;
    const decision = { type: 'expired', onTimeout: approval.onTimeout } as const;
    if (await expire(this.#deps, approval, decision)) return { ...approval, decision };
    // Somebody was faster.
    return findApproval(this.#deps, approval);
  }
}

/** What was decided about a call, and by whom; `by` is null if the time has decided. */
export interface DecidedCall {
  readonly decision: Decision;
  readonly by: string | null;
}
