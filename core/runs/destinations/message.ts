import type { Json } from '#core/base/json.ts';
import type { EndStatus } from '#core/base/run-kinds.ts';
import { fullNameOf, versionName } from '#core/manifest/references.ts';
import { isoTime } from '#core/ports/clock.ts';
import { type Approval, approvalIdOf } from '../approvals/approval.ts';
import type { Drop } from '../online/drop.ts';
import type { Run } from '../run.ts';
import { eventOf, type Format, type RunEvent } from './destination.ts';

/** A longer output is left out: the receiver reads it from the run. */
export const MAX_OUTPUT_BYTES = 32 * 1024;
const MAX_TEXT_CHARACTERS = 2000;
/** Longer arguments and options are left out: a message has at most 64 KB. */
const MAX_ARGUMENTS_BYTES = 16 * 1024;
const MAX_OPTIONS_BYTES = 8 * 1024;

/** What is posted, before it has a format. */
export interface RunMessage {
  readonly event: RunEvent;
  /** ISO 8601. */
  readonly time: string;
  readonly workspaceId: string;
  readonly agent: string;
  readonly data: { readonly run_id: string; readonly [member: string]: Json };
}

/** Describes an ended run; `output` only where the receiver is to get it. Its input is never a part. */
export function messageOf(run: Run, time: string, output?: { readonly value: Json }): RunMessage {
  const agent = fullNameOf({ orgSlug: run.agentOrg, name: run.agentName });
  return {
    event: eventOf(run.status as EndStatus),
    time,
    workspaceId: run.workspaceId,
    agent,
    data: {
      run_id: run.id,
      workspace_id: run.workspaceId,
      agent,
      agent_version: run.agentVersion,
      endpoint: run.endpoint,
      status: run.status,
      error_code: run.errorCode,
      error_message: run.errorMessage?.slice(0, MAX_TEXT_CHARACTERS) ?? null,
      trigger_source: run.triggerSource,
      schedule_id: run.scheduleId,
      parent_run_id: run.parentRunId,
      root_run_id: run.rootRunId,
      replay_of_run_id: run.replayOf,
      tenant_id: run.tenantId,
      started_at: run.startedAt,
      completed_at: run.completedAt,
      duration_ms: run.durationMs,
      input_tokens: run.inputTokens,
      output_tokens: run.outputTokens,
      llm_provider: run.llmProvider,
      llm_model: run.llmModel,
      cost_usd: run.costUsd,
      credits_cents: run.creditsCents,
      ...(output && outputMembers(output.value)),
    },
  };
}

/** Describes a run that began to wait, until a time (epoch milliseconds). */
export const waitingMessage = (run: Run, time: string, until: number): RunMessage => ({
  ...about(run, time),
  event: 'run.waiting',
  data: {
    ...membersOf(run),
    endpoint: run.endpoint,
    status: 'waiting',
    trigger_source: run.triggerSource,
    schedule_id: run.scheduleId,
    parent_run_id: run.parentRunId,
    root_run_id: run.rootRunId,
    started_at: run.startedAt,
    waits_until: isoTime(until),
  },
});

/** Describes a drop of the scores of a version, which showed in this run. */
export const dropMessage = (run: Run, time: string, { before, mean, runs }: Drop): RunMessage => ({
  ...about(run, time),
  event: 'score.dropped',
  data: {
    ...membersOf(run),
    mean,
    runs,
    before: { agent_version: versionName(before.version), mean: before.mean, runs: before.runs },
  },
});

/**
 * Describes a question of a run, or what was decided about it. Never the answer: it is for the run alone.
 *
 * @param url Page of the run. @default - there is no dashboard
 */
export function approvalMessage(
  run: Run,
  { event, time }: Pick<RunMessage, 'event' | 'time'>,
  approval: Approval,
  url: string | null,
): RunMessage {
  const { kind, tool, args, question, options, decision } = approval;
  const isLong = Buffer.byteLength(JSON.stringify(args)) > MAX_ARGUMENTS_BYTES;
  const hasOptions = options !== undefined && Buffer.byteLength(JSON.stringify(options)) <= MAX_OPTIONS_BYTES;
  const reason = decision !== null && 'reason' in decision ? decision.reason : undefined;
  return {
    ...about(run, time),
    event,
    data: {
      ...membersOf(run),
      approval_id: approvalIdOf(approval),
      kind,
      // A message that is late tells what was so then.
      status: event === 'approval.requested' ? 'waiting' : approval.status,
      tool,
      question: question?.slice(0, MAX_TEXT_CHARACTERS) ?? null,
      options: hasOptions ? [...options] : null,
      arguments: isLong ? null : args,
      arguments_omitted: isLong,
      asked_at: approval.askedAt,
      expires_at: isoTime(approval.expiresAt),
      on_timeout: approval.onTimeout,
      ...(event === 'approval.decided' && {
        edited: decision?.type === 'approve' && decision.args !== undefined,
        for_run: decision?.type === 'approve' && decision.forRun === true,
        reason: reason?.slice(0, MAX_TEXT_CHARACTERS) ?? null,
        decided_by: approval.decidedBy,
        decided_at: approval.decidedAt,
      }),
      url,
    },
  };
}

function about(run: Run, time: string): Pick<RunMessage, 'time' | 'workspaceId' | 'agent'> {
  return { time, workspaceId: run.workspaceId, agent: fullNameOf({ orgSlug: run.agentOrg, name: run.agentName }) };
}

const membersOf = (run: Run) => ({
  run_id: run.id,
  workspace_id: run.workspaceId,
  agent: fullNameOf({ orgSlug: run.agentOrg, name: run.agentName }),
  agent_version: run.agentVersion,
  tenant_id: run.tenantId,
});

function outputMembers(output: Json): { readonly [member: string]: Json } {
  const isTooLarge = Buffer.byteLength(JSON.stringify(output)) > MAX_OUTPUT_BYTES;
  return { output: isTooLarge ? null : output, output_omitted: isTooLarge };
}

/** Returns the body and its type. `id` is the `webhook-id`, the same for all attempts. */
export function encoded(
  { event, time, workspaceId, agent, data }: RunMessage,
  format: Format,
  id: string,
): { readonly body: string; readonly contentType: string } {
  if (format === 'standard') {
    return { body: JSON.stringify({ type: event, timestamp: time, data }), contentType: 'application/json' };
  }
  const cloudEvent = {
    specversion: '1.0',
    id,
    source: `/workspaces/${workspaceId}/agents/${agent}`,
    type: event,
    subject: data.run_id,
    time,
    datacontenttype: 'application/json',
    data,
  };
  return { body: JSON.stringify(cloudEvent), contentType: 'application/cloudevents+json' };
}

const TEST_RUN_ID = '00000000-0000-4000-8000-000000000000';

/** A message about a run that does not exist; `data.test` says so. */
export const testMessage = (workspaceId: string, org: string, time: string): RunMessage => ({
  event: 'run.completed',
  time,
  workspaceId,
  agent: `${org}/test`,
  data: {
    run_id: TEST_RUN_ID,
    workspace_id: workspaceId,
    agent: `${org}/test`,
    agent_version: 'v1',
    endpoint: 'run',
    status: 'completed',
    error_code: null,
    error_message: null,
    trigger_source: 'api',
    schedule_id: null,
    parent_run_id: null,
    root_run_id: TEST_RUN_ID,
    replay_of_run_id: null,
    tenant_id: null,
    started_at: time,
    completed_at: time,
    duration_ms: 0,
    input_tokens: null,
    output_tokens: null,
    llm_provider: null,
    llm_model: null,
    cost_usd: null,
    credits_cents: 0,
    test: true,
  },
});
