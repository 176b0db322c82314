import type { Json } from '#core/base/json.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, equals, type Item, type Key, queryAll } from '#core/ports/table.ts';
import { hexOf, runExpiry } from '../items.ts';
import { decisionLeaseOperation, findLease } from '../leases.ts';
import {
  type Approval,
  type ApprovalStatus,
  type Asked,
  type AskingRun,
  approvalIdOf,
  type Decision,
  STATUS_OF,
} from './approval.ts';

/*
 * Calls of tools that wait. Runs table:
 *
 * - `WS#<workspace id>#APPROVALS#<run id without dashes> / <turn, 4 digits>.<call, 4 digits>`: gsi1 lists those of a
 *   workspace by status and time, gsi2 all of a workspace by time.
 *
 * A decision is one transaction with the lease of the run: either the run waits, and the decision makes its lease due, or a
 * process has it, which then cannot leave the run waiting without having read the decision (`leases.ts`).
 */

/** Maximum number of items that a page of a listing reads: AWS bills each read. */
const MAX_EXAMINED = 1000;
const READ_AT_ONCE = 100;

type StoreDeps = Pick<Deps, 'runs' | 'clock' | 'config'>;

const partitionOf = (workspaceId: string, runId: string): string => `WS#${workspaceId}#APPROVALS#${hexOf(runId)}`;
const statusPartition = (workspaceId: string, status: ApprovalStatus): string => `WS#${workspaceId}#ASKED#${status}`;
const allPartition = (workspaceId: string): string => `WS#${workspaceId}#ASKED`;

const keyOf = ({ workspaceId, runId, turn, call }: Pick<Approval, 'workspaceId' | 'runId' | 'turn' | 'call'>): Key => ({
  pk: partitionOf(workspaceId, runId),
  sk: `${String(turn).padStart(4, '0')}.${String(call).padStart(4, '0')}`,
});

/** Stores calls that wait. Safe to repeat: one that is stored keeps what was decided about it. */
export async function putAsked(deps: StoreDeps, run: AskingRun, asked: readonly Asked[]): Promise<void> {
  const now = deps.clock.now();
  await Promise.all(
    asked.map(({ expiresAt, onTimeout, ...call }) => {
      const time = `${isoTime(now)}#${approvalIdOf({ ...run, ...call })}`;
      const item: Item = {
        ...keyOf({ ...run, ...call }),
        run_id: run.runId,
        agent_name: run.agentName,
        agent_version: run.agentVersion,
        tenant_id: run.tenantId,
        kind: call.kind,
        tool: call.tool,
        args: call.args,
        question: call.question,
        options: call.options && [...call.options],
        schema: call.schema,
        asked_at: isoTime(now),
        expires_at: expiresAt,
        on_timeout: onTimeout,
        status: 'waiting',
        ttl: runExpiry(deps.config, expiresAt),
        gsi1pk: statusPartition(run.workspaceId, 'waiting'),
        gsi1sk: time,
        gsi2pk: allPartition(run.workspaceId),
        gsi2sk: time,
      };
      return deps.runs.put(item, absent());
    }),
  );
}

/** Returns the calls of a run that wait or waited, in order; of one turn if `turn` is given. */
export async function approvalsOfRun(
  { runs }: Pick<Deps, 'runs'>,
  { workspaceId, runId }: Pick<AskingRun, 'workspaceId' | 'runId'>,
  turn?: number,
): Promise<Approval[]> {
  const sk = turn === undefined ? undefined : { beginsWith: `${String(turn).padStart(4, '0')}.` };
  const query = { pk: partitionOf(workspaceId, runId), limit: 1000, ...(sk && { sk }) };
  return (await Array.fromAsync(queryAll(runs, query))).map(approvalFrom);
}

export async function findApproval(
  { runs }: Pick<Deps, 'runs'>,
  place: Pick<Approval, 'workspaceId' | 'runId' | 'turn' | 'call'>,
): Promise<Approval | undefined> {
  const item = await runs.get(keyOf(place));
  return item && approvalFrom(item);
}

/** Which calls of a workspace that wait or waited a listing has. */
export interface ApprovalFilter {
  readonly status?: ApprovalStatus | undefined;
  readonly agentName?: string | undefined;
}

/**
 * Returns the calls of a workspace that wait or waited, newest first, at most `limit`. `next` is the place after which the
 * listing continues; absent if there are no more.
 */
export async function listApprovals(
  { runs }: Pick<Deps, 'runs'>,
  workspaceId: string,
  { status, agentName }: ApprovalFilter,
  { limit, after }: { readonly limit: number; readonly after?: string | undefined },
): Promise<{ readonly approvals: Approval[]; readonly next?: string }> {
  const place =
    status === undefined
      ? ({ index: 'gsi2', pk: allPartition(workspaceId) } as const)
      : ({ index: 'gsi1', pk: statusPartition(workspaceId, status) } as const);
  const approvals: Approval[] = [];
  let examined = 0;
  let last: string | undefined;
  const query = {
    ...place,
    reverse: true,
    limit: READ_AT_ONCE,
    ...(after !== undefined && { sk: { lessThan: after } }),
  };
  for await (const item of queryAll(runs, query)) {
    if (approvals.length === limit || examined === MAX_EXAMINED)
      return { approvals, ...(last !== undefined && { next: last }) };
    examined += 1;
    last = item.gsi2sk;
    if (agentName === undefined || item.agent_name === agentName) approvals.push(approvalFrom(item));
  }
  return { approvals };
}

/**
 * Records what was decided about a call that waits, and wakes its run. Returns false if something was decided before, or if
 * the run has ended.
 *
 * @param by Id of the user, or `link`.
 */
export async function decide(
  deps: Pick<Deps, 'runs' | 'clock'>,
  approval: Approval,
  decision: Decision,
  by: string,
): Promise<boolean> {
  const { runs, clock } = deps;
  const { workspaceId, runId } = approval;
  const changes = decidedChanges(deps, workspaceId, decision, by);
  return retryOnConflict(clock, `the decision about ${approvalIdOf(approval)}`, async () => {
    const lease = await findLease(deps, runId);
    if (lease === undefined) return false;
    const written = await runs.transact([
      { op: 'update', key: keyOf(approval), changes, condition: equals('status', 'waiting') },
      decisionLeaseOperation(deps, lease),
    ]);
    if (written.ok) return true;
    return written.failed.includes(0) ? false : undefined;
  });
}

/**
 * Records that nobody has decided about a call in time. Only the process that has the run may do so. Returns false if
 * something was decided before.
 */
export async function expire(
  deps: Pick<Deps, 'runs' | 'clock'>,
  approval: Approval,
  decision: Extract<Decision, { type: 'expired' }>,
): Promise<boolean> {
  const changes = decidedChanges(deps, approval.workspaceId, decision);
  return (await deps.runs.update(keyOf(approval), changes, equals('status', 'waiting'))).ok;
}

/** Ends the calls of a run that still wait, because the run has ended. Safe to repeat. */
export async function cancelApprovals(
  deps: Pick<Deps, 'runs'>,
  run: Pick<AskingRun, 'workspaceId' | 'runId'>,
): Promise<void> {
  const waiting = (await approvalsOfRun(deps, run)).filter(({ status }) => status === 'waiting');
  const changes = endedBy('cancelled', run.workspaceId, {});
  await Promise.all(waiting.map((each) => deps.runs.update(keyOf(each), changes, equals('status', 'waiting'))));
}

const decidedChanges = ({ clock }: Pick<Deps, 'clock'>, workspaceId: string, decision: Decision, by?: string) =>
  endedBy(STATUS_OF[decision.type], workspaceId, {
    // Drops undefined members, which the table does not accept.
    decision: JSON.parse(JSON.stringify(decision)) as Json,
    decided_by: by,
    decided_at: isoTime(clock.now()),
  });

const endedBy = (status: ApprovalStatus, workspaceId: string, set: { readonly [name: string]: Json | undefined }) => ({
  set: { ...set, status, gsi1pk: statusPartition(workspaceId, status) },
});

const approvalFrom = (item: Item): Approval => {
  const [turn, call] = item.sk.split('.').map(Number) as [number, number];
  return {
    workspaceId: item.pk.split('#')[1]!,
    runId: item.run_id as string,
    agentName: item.agent_name as string,
    agentVersion: item.agent_version as string,
    tenantId: (item.tenant_id as string | undefined) ?? null,
    kind: item.kind as Approval['kind'],
    turn,
    call,
    tool: item.tool as string,
    args: item.args as Json,
    ...(item.question !== undefined && { question: item.question as string }),
    ...(item.options !== undefined && { options: item.options as unknown as string[] }),
    ...(item.schema !== undefined && { schema: item.schema as NonNullable<Approval['schema']> }),
    expiresAt: item.expires_at as number,
    onTimeout: item.on_timeout as Approval['onTimeout'],
    status: item.status as ApprovalStatus,
    askedAt: item.asked_at as string,
    decision: (item.decision as unknown as Decision | undefined) ?? null,
    decidedBy: (item.decided_by as string | undefined) ?? null,
    decidedAt: (item.decided_at as string | undefined) ?? null,
  };
};
