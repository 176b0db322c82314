import type { CalledChannel } from '#core/agents/channels/channel.ts';
import type { Config } from '#core/base/config.ts';
import type { ErrorCode } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { isInstallation, type RunStatus } from '#core/base/run-kinds.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import { type Changes, exists, type Item, type Key, type Query, type TransactOperation } from '#core/ports/table.ts';
import { isExhausted, nextTryAt, retriesFrom, storedRetries } from './retries.ts';
import {
  type Branch,
  LOST,
  lostBefore,
  type NewRun,
  type Retries,
  type Run,
  type RunResult,
  replacedText,
  type ScheduledMoment,
} from './run.ts';
import { storedCosts } from './usage/costs.ts';

/**
 * Runs as items of the runs table:
 *
 * - `WS#<workspace id>#RUN#<first digit> / <run id without dashes>`: the head of a run. gsi1 lists installations by agent
 *   version and time, open runs without a lease (`core/accounts/limits/admission.ts`) by deadline, and open runs of a
 *   workspace that are durable or tried again by time; gsi2 lists the runs of a workspace by time. All but the first of
 *   these lists have a partition for each first digit;
 * - `WS#<workspace id>#RUNBODY#<first digit> / <run id without dashes>`: its body, if it is neither in the head nor in a blob;
 * - `WS#<workspace id>#TREE#<root run id without dashes> / <run id without dashes>`: a sub-call of a chain;
 * - `WS#<workspace id>#SCHEDULE#<schedule id> / <started>#<run id>`: a run of a schedule;
 * - `WS#<workspace id>#BRANCHES#<run id without dashes> / <started>#<run id>`: a run that begins from a turn of this one;
 * - `WS#<workspace id>#RUN_END / <run id without dashes>`, and with `#<what>`: notes that its end, or what it asks, is to be
 *   announced (`destinations/notes.ts`);
 * - `WS#<workspace id>#WAITING / COUNT`: the number of its runs that wait;
 * - `WS#<workspace id>#APPROVALS#<run id without dashes> / ...`: calls of its tools that wait (`approvals/store.ts`);
 * - `APPROVAL_LINK#<hash> / META`: a link about one of them (`approvals/links.ts`);
 * - `WS#<workspace id>#SCORES / <run id without dashes>`: what people and programs think of it (`scores/store.ts`);
 * - `WS#<workspace id>#ONLINE / <run id without dashes>`: a note that it is to be scored, or was (`online/notes.ts`);
 * - `WS#<workspace id>#SHARES / <run id without dashes>` and `SHARE#<hash> / META`: its links (`shares/store.ts`).
 *
 * A busy workspace writes more than the 1,000 units a second that DynamoDB allows a partition, so its runs are spread by
 * the first digit of their id. Random sort keys let such a partition split further, and let runs be found by the first
 * digits of their id. A head stores nothing that can be derived from another attribute: DynamoDB bills each write per started kilobyte.
 */
export const runPartition = (workspaceId: string, runId: string): string =>
  `WS#${workspaceId}#RUN#${firstDigit(runId)}`;
export const treePartition = (workspaceId: string, rootRunId: string): string =>
  `WS#${workspaceId}#TREE#${hexOf(rootRunId)}`;
export const schedulePartition = (workspaceId: string, scheduleId: string): string =>
  `WS#${workspaceId}#SCHEDULE#${scheduleId}`;
export const branchPartition = (workspaceId: string, originId: string): string =>
  `WS#${workspaceId}#BRANCHES#${hexOf(originId)}`;
const timePartition = (workspaceId: string, digit: string): string => `WS#${workspaceId}#RUNS#${digit}`;

export const headKey = (workspaceId: string, runId: string): Key => ({
  pk: runPartition(workspaceId, runId),
  sk: hexOf(runId),
});
export const waitingKey = (workspaceId: string): Key => ({ pk: `WS#${workspaceId}#WAITING`, sk: 'COUNT' });
export const bodyKey = (workspaceId: string, runId: string): Key => ({
  pk: `WS#${workspaceId}#RUNBODY#${firstDigit(runId)}`,
  sk: hexOf(runId),
});
export const bodyBlobKey = (workspaceId: string, runId: string): string => `runs/${workspaceId}/${runId}.json`;
/** Blob of the trace contents. It is separate from the body, which lists and trees of runs read. */
export const contentBlobKey = (workspaceId: string, runId: string): string =>
  `runs/${workspaceId}/${runId}.content.json`;

/** Blob of a large answer that is kept for retries with the same `Idempotency-Key`. */
export const answerBlobKey = (workspaceId: string, runId: string): string => `runs/${workspaceId}/${runId}.answer.json`;

/** Partition of the order and the journal of a durable run (`core/execution/durable`). */
export const journalPartition = (workspaceId: string, runId: string): string =>
  `WS#${workspaceId}#JOURNAL#${hexOf(runId)}`;
/** The order of a run (`core/execution/durable/order.ts`). */
export const orderKey = (workspaceId: string, runId: string): Key => ({
  pk: journalPartition(workspaceId, runId),
  sk: 'ORDER',
});
/** Blobs of them. */
export const journalBlobKey = (workspaceId: string, runId: string, name: string): string =>
  `journals/${workspaceId}/${runId}/${name}`;

/** Time at which a run that started at `startedAt` (epoch milliseconds) is removed, in epoch seconds. */
export const runExpiry = ({ runRetentionDays }: Pick<Config, 'runRetentionDays'>, startedAt: number): number =>
  epochSeconds(startedAt) + runRetentionDays * 24 * 3600;

/** First digits of ids of runs. */
export const DIGITS = [...'0123456789abcdef'];
const firstDigit = (runId: string): string => runId[0]!;

/** Queries for the runs of a workspace, by start time (`core/ports/merged-query.ts`). */
export const runsByTime = (workspaceId: string) =>
  DIGITS.map((digit) => ({ index: 'gsi2', pk: timePartition(workspaceId, digit) }) as const satisfies Query);

/** Query for the installations of an agent version, by start time. */
export const installationsOf = (agentId: string) =>
  ({ index: 'gsi1', pk: agentPartition(agentId), reverse: true }) as const satisfies Query;

/** Queries for the unfinished runs without a lease, by deadline: one for each first digit of a run id. */
export const openRunsByDeadline = () =>
  DIGITS.map((digit) => ({ index: 'gsi1', pk: openPartition(digit) }) as const satisfies Query);

/** Queries for the open runs of a workspace that may be open for longer than others, by start time. */
export const longRuns = (workspaceId: string) =>
  DIGITS.map((digit) => ({ index: 'gsi1', pk: longPartition(workspaceId, digit) }) as const satisfies Query);

const longPartition = (workspaceId: string, digit: string): string => `WS#${workspaceId}#LONG#${digit}`;
const agentPartition = (agentId: string): string => `AGENT#${agentId}`;
const openPartition = (digit: string): string => `OPEN#${digit}`;

const agentIndex = (run: NewRun) => ({ gsi1pk: agentPartition(run.agentId), gsi1sk: isoTime(run.startedAt) });
const openIndex = (run: NewRun) => ({ gsi1pk: openPartition(firstDigit(run.id)), gsi1sk: isoTime(run.deadline) });

function startIndex(workspaceId: string, run: NewRun, hasLease: boolean) {
  // An installation is listed in the logs of its agent while it runs. The sweep skips it: the next upload repairs it.
  if (isInstallation(run)) return agentIndex(run);
  return hasLease ? longIndex(workspaceId, run) : openIndex(run);
}

/** Index of a top-level run that may be open for longer than others: one that has begun, and is durable or tried again. */
function longIndex(workspaceId: string, run: NewRun) {
  const { id, isDurable, retries, startedAt } = run;
  const isLong = isDurable || retries !== undefined;
  if (!isLong || waits(run)) return {};
  return { gsi1pk: longPartition(workspaceId, firstDigit(id)), gsi1sk: isoTime(startedAt) };
}

/** Whether a new run waits: for its time, or for its turn. */
const waits = ({ runAt, heldBy }: NewRun): boolean => runAt !== undefined || heldBy !== undefined;

/** Partition of a queue (`queues/queue.ts`). */
export const queuePartition = (workspaceId: string, queueId: string): string => `WS#${workspaceId}#QUEUE#${queueId}`;
export const placeKey = (workspaceId: string, queueId: string, runId: string): Key => ({
  pk: queuePartition(workspaceId, queueId),
  sk: `PLACE#${runId}`,
});

/** Returns the write that a run begins in its place, for the transaction that records it. It fails if it has none. */
export const placeOperations = (workspaceId: string, { id, queueId }: NewRun): TransactOperation[] =>
  queueId === undefined
    ? []
    : [
        {
          op: 'update',
          key: placeKey(workspaceId, queueId, id),
          changes: { set: { begun: true } },
          condition: exists(),
        },
      ];

/** Attributes of a head that hold the body or its location. */
export interface StoredBody {
  readonly body?: Json;
  readonly body_in: 'head' | 'item' | 'blob';
}

/** Builds the items of a new run, its head first. `ttl` in epoch seconds. */
export function newRunItems(
  workspaceId: string,
  run: NewRun,
  { body, ttl, hasLease }: { readonly body: StoredBody; readonly ttl: number; readonly hasLease: boolean },
): readonly [Item, ...Item[]] {
  const startedAt = isoTime(run.startedAt);
  const head: Item = {
    ...headKey(workspaceId, run.id),
    agent_id: run.agentId,
    agent_workspace_id: run.agentWorkspaceId === workspaceId ? undefined : run.agentWorkspaceId,
    agent_org: run.agentOrg,
    agent_name: run.agentName,
    agent_version: run.agentVersion,
    ...(run.channel && storedChannel(run.channel)),
    engine: run.engine,
    endpoint: run.endpoint,
    status: waits(run) ? 'queued' : 'running',
    run_at: run.runAt,
    queued_at: waits(run) ? startedAt : undefined,
    queue: run.queueId,
    held_by: run.heldBy && { ...run.heldBy },
    has_place: run.hasPlace,
    trigger_source: run.triggerSource,
    deadline: run.deadline,
    parent_run_id: run.parentRunId,
    root_run_id: run.rootRunId === run.id ? undefined : run.rootRunId,
    replay_of: run.replayOf,
    branch: run.branch && storedBranch(run.branch),
    tenant_id: run.tenantId,
    ...(run.session && { session: run.session.sessionId, session_turn: run.session.number }),
    ...(run.keyHash !== undefined && { idempotency: run.keyHash }),
    schedule_id: run.scheduleId,
    scheduled_at: run.scheduled?.at,
    scheduled_zone: run.scheduled?.timezone,
    durable: run.isDurable,
    announced: run.isAnnounced,
    trace: run.trace,
    telemetry: run.isExported,
    online: run.isSampled,
    webhook_url: run.webhookUrl,
    context: run.context,
    retry: run.retries && storedRetries(run.retries),
    ...body,
    ttl,
    ...startIndex(workspaceId, run, hasLease),
    gsi2pk: timePartition(workspaceId, firstDigit(run.id)),
    gsi2sk: startedAt,
  };
  const { id, parentRunId, scheduleId, replayOf, branch } = run;
  const listed: Item[] = [];
  if (parentRunId !== undefined) {
    const pk = treePartition(workspaceId, run.rootRunId ?? id);
    listed.push({ pk, sk: hexOf(id), ttl, run_id: id, parent_run_id: parentRunId });
  }
  if (scheduleId !== undefined) {
    listed.push({ pk: schedulePartition(workspaceId, scheduleId), sk: `${startedAt}#${id}`, ttl, run_id: id });
  }
  if (replayOf !== undefined && branch !== undefined) {
    listed.push({ pk: branchPartition(workspaceId, replayOf), sk: `${startedAt}#${id}`, ttl, run_id: id });
  }
  return [head, ...listed];
}

/** Builds the changes to a head that replace its body. */
export const bodyChanges = (body: StoredBody): Changes => ({
  set: { ...body },
  remove: body.body === undefined ? ['body'] : [],
});

/** Builds the changes to the head of a run whose try failed, and that is tried again at `nextAt` (epoch milliseconds). */
export function retryChanges(
  retries: Retries,
  body: StoredBody,
  { nextAt, ttl }: { readonly nextAt: number; readonly ttl: number },
): Changes {
  const { set, remove } = bodyChanges(body);
  return { set: { ...set, status: 'queued', next_try_at: nextAt, retry: storedRetries(retries), ttl }, remove };
}

/** Members of the head of a run that waits. */
export const NO_LONGER_WAITS = ['next_try_at', 'held_by', 'has_place', 'continues'];

/** The changes to the head of a run that waited for a place and has got it. */
export const PLACE_CHANGES: Changes = { set: { has_place: true }, remove: ['held_by'] };

/** Builds the changes to the head of a run that waits for people, time or events. `ttl` in epoch seconds. */
export function waitChanges(body: StoredBody, ttl: number): Changes {
  const { set, remove } = bodyChanges(body);
  return { set: { ...set, status: 'waiting', ttl }, remove };
}

/** Builds the changes to the head of a run that waited and begins now. `ttl` in epoch seconds. */
export const beginChanges = (workspaceId: string, run: NewRun, ttl: number): Changes => ({
  set: {
    ...longIndex(workspaceId, { ...run, runAt: undefined, heldBy: undefined }),
    status: 'running',
    deadline: run.deadline,
    context: run.context,
    durable: run.isDurable,
    announced: run.isAnnounced,
    telemetry: run.isExported,
    retry: run.retries && storedRetries(run.retries),
    queue: run.queueId,
    ttl,
    gsi2sk: isoTime(run.startedAt),
  },
  remove: NO_LONGER_WAITS,
});

/**
 * Builds the changes to the head of a run that waited and ends without beginning, in its first or a further try. `ttl` in
 * epoch seconds.
 */
export const endWithoutBeginning = (
  run: NewRun,
  result: RunResult,
  { endedAt, ttl }: { readonly endedAt: number; readonly ttl: number },
): Changes => ({
  set: { ...endMembers(run, result, endedAt), ttl, gsi2sk: isoTime(run.startedAt) },
  remove: [...NO_LONGER_WAITS, ...leftIndex(run)],
});

/** Builds the changes to a head that end its run at `endedAt` (epoch milliseconds). */
export function endChanges(run: NewRun, result: RunResult, body: StoredBody, endedAt: number): Changes {
  const { set, remove } = bodyChanges(body);
  return { set: { ...set, ...endMembers(run, result, endedAt) }, remove: [...(remove ?? []), ...leftIndex(run)] };
}

const endMembers = (run: NewRun, result: RunResult, endedAt: number): Changes['set'] => ({
  status: result.status,
  duration_ms: endedAt - run.startedAt,
  execution_ms: result.executionMs ?? undefined,
  exit_code: result.exitCode ?? undefined,
  error_code: result.errorCode ?? undefined,
  error_message: result.errorMessage ?? undefined,
  input_tokens: result.inputTokens,
  output_tokens: result.outputTokens,
  cache_read_tokens: result.cacheReadTokens,
  cache_write_tokens: result.cacheWriteTokens,
  llm_provider: result.llmProvider,
  llm_model: result.llmModel,
  cost_usd: result.costUsd,
  costs: storedCosts(result),
  credits_cents: result.creditsCents,
  exhausted: isExhausted(run, result.status) || undefined,
});

/** An installation stays in the list of its agent; other ended runs are listed by `agent-logs/ended-runs.ts`. */
const leftIndex = (run: NewRun): readonly string[] => (isInstallation(run) ? [] : ['gsi1pk', 'gsi1sk']);

/**
 * Reads a run from its head. A lost run reads as failed even before the sweep updates its record. `now` in epoch
 * milliseconds.
 */
export function runFrom(head: Item, now: number): Run {
  const deadline = head.deadline as number;
  const retries = retriesFrom(head.retry);
  const isOverdue = head.status === 'running' && deadline < lostBefore(now);
  const isLost = isOverdue && nextTryAt(retries, LOST, now) === undefined;
  const id = runIdOf(head);
  const startedAt = startOf(head);
  const durationMs = (head.duration_ms as number | undefined) ?? null;
  return {
    id,
    workspaceId: workspaceIdOf(head),
    agentId: head.agent_id as string,
    agentWorkspaceId: agentWorkspaceIdOf(head),
    agentOrg: head.agent_org as string,
    agentName: head.agent_name as string,
    agentVersion: head.agent_version as string,
    ...(head.channel !== undefined && { channel: channelFrom(head) }),
    engine: head.engine as Run['engine'],
    endpoint: head.endpoint as string,
    status: head.status as RunStatus,
    triggerSource: head.trigger_source as string,
    startedAt,
    createdAt: (head.queued_at as string | undefined) ?? startedAt,
    runAt: head.run_at === undefined ? null : isoTime(head.run_at as number),
    deadline,
    parentRunId: (head.parent_run_id as string | undefined) ?? null,
    rootRunId: (head.root_run_id as string | undefined) ?? id,
    replayOf: (head.replay_of as string | undefined) ?? null,
    branch: branchFrom(head) ?? null,
    isDurable: head.durable === true,
    tenantId: (head.tenant_id as string | undefined) ?? null,
    ...(head.trace !== undefined && { trace: head.trace as string }),
    sessionId: (head.session as string | undefined) ?? null,
    ...(head.erased === true && { isErased: true }),
    scheduleId: (head.schedule_id as string | undefined) ?? null,
    scheduled: momentFrom(head) ?? null,
    completedAt: durationMs === null ? null : isoTime(Date.parse(startedAt) + durationMs),
    durationMs,
    executionMs: (head.execution_ms as number | undefined) ?? null,
    exitCode: (head.exit_code as number | undefined) ?? null,
    errorCode: (head.error_code as ErrorCode | undefined) ?? null,
    errorMessage: messageOf(head),
    inputTokens: (head.input_tokens as number | undefined) ?? null,
    outputTokens: (head.output_tokens as number | undefined) ?? null,
    cacheReadTokens: (head.cache_read_tokens as number | undefined) ?? null,
    cacheWriteTokens: (head.cache_write_tokens as number | undefined) ?? null,
    llmProvider: (head.llm_provider as string | undefined) ?? null,
    llmModel: (head.llm_model as string | undefined) ?? null,
    costUsd: (head.cost_usd as number | undefined) ?? null,
    creditsCents: (head.credits_cents as number | undefined) ?? 0,
    retries: retries ?? null,
    nextTryAt: head.next_try_at === undefined ? null : isoTime(head.next_try_at as number),
    isExhausted: head.exhausted === true,
    heldBy: heldFrom(head) ?? null,
    hasBegun: head.status !== 'queued' || head.next_try_at !== undefined || head.continues === true,
    ...(isLost && LOST),
  };
}

function messageOf({ status, error_message, replaced_by }: Item): string | null {
  if (status === 'cancelled' && replaced_by !== undefined) return replacedText(replaced_by as string);
  return (error_message as string | undefined) ?? null;
}

/** Reads a run from its head as it began, for ending it; the input is omitted, as it is in the body. */
export function newRunFrom(head: Item): NewRun {
  return {
    id: runIdOf(head),
    agentId: head.agent_id as string,
    agentWorkspaceId: agentWorkspaceIdOf(head),
    agentOrg: head.agent_org as string,
    agentName: head.agent_name as string,
    agentVersion: head.agent_version as string,
    ...(head.channel !== undefined && { channel: channelFrom(head) }),
    engine: head.engine as NewRun['engine'],
    endpoint: head.endpoint as string,
    triggerSource: head.trigger_source as string,
    startedAt: Date.parse(startOf(head)),
    deadline: head.deadline as number,
    runAt: head.run_at as number | undefined,
    parentRunId: head.parent_run_id as string | undefined,
    rootRunId: head.root_run_id as string | undefined,
    replayOf: head.replay_of as string | undefined,
    branch: branchFrom(head),
    tenantId: head.tenant_id as string | undefined,
    session: turnOfRun(head),
    scheduleId: head.schedule_id as string | undefined,
    scheduled: momentFrom(head),
    isDurable: head.durable as true | undefined,
    isAnnounced: head.announced as true | undefined,
    trace: head.trace as string | undefined,
    isExported: head.telemetry as true | undefined,
    isSampled: head.online as true | undefined,
    webhookUrl: head.webhook_url as string | undefined,
    retries: retriesFrom(head.retry),
    queueId: head.queue as string | undefined,
    heldBy: heldFrom(head),
    hasPlace: head.has_place as true | undefined,
    continues: head.continues as true | undefined,
    input: null,
  };
}

const turnOfRun = ({ session, session_turn }: Item): NewRun['session'] =>
  session === undefined ? undefined : { sessionId: session as string, number: session_turn as number };

const heldFrom = ({ held_by }: Item): NewRun['heldBy'] => held_by as unknown as NewRun['heldBy'];

/** Attributes of the head of a run that a channel led to its version. */
const storedChannel = ({ name, id, revision, isCanary }: CalledChannel): Partial<Item> => ({
  channel: name,
  channel_id: id,
  channel_revision: revision,
  ...(isCanary && { canary: true }),
});

const channelFrom = ({ channel, channel_id, channel_revision, canary }: Item): CalledChannel => ({
  name: channel as string,
  id: channel_id as number,
  revision: channel_revision as number,
  isCanary: canary === true,
});

const storedBranch = ({ fromTurn, changed }: Branch): Json => ({ from_turn: fromTurn, changed: [...changed] });

function branchFrom({ branch }: Item): Branch | undefined {
  if (branch === undefined) return undefined;
  const { from_turn, changed } = branch as unknown as { from_turn: number; changed: Branch['changed'] };
  return { fromTurn: from_turn, changed };
}

const momentFrom = ({ scheduled_at, scheduled_zone }: Item): ScheduledMoment | undefined =>
  scheduled_at === undefined ? undefined : { at: scheduled_at as number, timezone: scheduled_zone as string };

export const hexOf = (runId: string): string => runId.replaceAll('-', '');
/** The first 7 or more digits of a run's id, or of its request id. */
export const RUN_ID_PREFIX = /^(req_)?(-?[0-9a-f]){7,32}$/i;
/** Returns the digits of a run id or request id, complete or not. */
export const digitsOf = (name: string): string => hexOf(name.replace(/^req_/i, '').toLowerCase());
export const runIdOf = ({ sk }: Key): string =>
  `${sk.slice(0, 8)}-${sk.slice(8, 12)}-${sk.slice(12, 16)}-${sk.slice(16, 20)}-${sk.slice(20)}`;
export const workspaceIdOf = ({ pk }: Key): string => pk.split('#')[1]!;
const agentWorkspaceIdOf = (head: Item): string =>
  (head.agent_workspace_id as string | undefined) ?? workspaceIdOf(head);
/** Start time, ISO 8601. In records of version 0.1.0, the sort key continues with the id. */
const startOf = ({ gsi2sk }: Item): string => gsi2sk!.split('#')[0]!;
