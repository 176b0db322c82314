import { MAX_WAIT_SECONDS } from '#core/base/time-limits.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Approval, Asked, Decision } from '#core/runs/approvals/approval.ts';
import { findEvent } from '#core/runs/approvals/events.ts';
import { approvalsOfRun, decide, decideInRun, findApproval, putAsked } from '#core/runs/approvals/store.ts';
import type { Lease } from '#core/runs/leases.ts';
import type { IssuedContext } from '../sub-calls/run-context.ts';
import { addressOfEvent, mayAsk, waitLeftMs } from './wait-limits.ts';

type WaitDeps = Pick<Deps, 'config' | 'runs' | 'blobs' | 'clock'>;

/** The call whose run waits. */
interface WaitingCall {
  readonly agent: AgentVersion;
  /** Workspace that owns the run. */
  readonly workspace: Workspace;
  readonly runId: string;
  readonly tenantId?: string;
  readonly issued: IssuedContext | undefined;
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
    return waitLeftMs(this.#deps, workspace, { own, idleMs: this.#lease.idleMs });
  }

  /** Returns all calls that wait or waited. One that has waited for long enough is decided now. */
  async all(): Promise<Approval[]> {
    const approvals = await approvalsOfRun(this.#deps, this.#place);
    const settled = await Promise.all(approvals.map((each) => this.#settled(each)));
    return settled.filter((each) => each !== undefined);
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
    if (!(await mayAsk(this.#deps, workspace))) return false;
    const version = typeof agent.version === 'number' ? `v${agent.version}` : agent.version;
    const run = { workspaceId: workspace.id, runId, agentName: agent.name, agentVersion: version, tenantId };
    await putAsked(this.#deps, run, asked);
    // Read after the calls were written: who receives an event writes it, and reads the calls that wait then.
    for (const { kind, turn, call } of asked) {
      if (kind !== 'event') continue;
      const approval = (await findApproval(this.#deps, { ...this.#place, turn, call }))!;
      const event = await this.#happened(approval);
      if (event !== undefined) await decide(this.#deps, approval, event, 'event');
    }
    return true;
  }

  /**
   * Returns the address to which an event of the run is reported. The same name has the same address.
   * `undefined` if the run has too many others.
   */
  async eventUrl(name: string): Promise<string | undefined> {
    const { serviceKey } = this.#call.issued!;
    return addressOfEvent(this.#deps, this.#place, { name, serviceKey, leftMs: this.leftMs });
  }

  /** Returns whether an event of the run has an address. */
  async hasEvent(name: string): Promise<boolean> {
    return (await findEvent(this.#deps, this.#place, name)) !== undefined;
  }

  get #place() {
    return { workspaceId: this.#call.workspace.id, runId: this.#call.runId };
  }

  async #settled(approval: Approval): Promise<Approval | undefined> {
    if (approval.status !== 'waiting') return approval;
    const event = await this.#happened(approval);
    const isOver = approval.expiresAt <= this.#deps.clock.now();
    if (event === undefined && !isOver) return approval;
    const decision: Decision = event ?? { type: 'expired', onTimeout: approval.onTimeout };
    const decidedBy = event === undefined ? null : 'event';
    if (await decideInRun(this.#deps, approval, decision, decidedBy ?? undefined)) {
      return { ...approval, decision, decidedBy };
    }
    // Somebody was faster.
    return findApproval(this.#deps, approval);
  }

  /** Returns what the event for which a call waits has decided, if it has happened. */
  async #happened({ kind, args }: Approval): Promise<Decision | undefined> {
    if (kind !== 'event') return undefined;
    const found = await findEvent(this.#deps, this.#place, (args as { event: string }).event);
    return found?.happened && { type: 'answer', answer: found.happened.payload };
  }
}

/** What was decided about a call, and by whom; `by` is null if the time has decided. */
export interface DecidedCall {
  readonly decision: Decision;
  readonly by: string | null;
}
