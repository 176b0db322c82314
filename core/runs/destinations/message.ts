import type { Json } from '#core/base/json.ts';
import type { EndStatus } from '#core/base/run-kinds.ts';
import { fullNameOf } from '#core/manifest/references.ts';
import type { Run } from '../run.ts';
import { eventOf, type Format, type RunEvent } from './destination.ts';

/** A longer output is left out: the receiver reads it from the run. */
export const MAX_OUTPUT_BYTES = 32 * 1024;
const MAX_ERROR_CHARACTERS = 2000;

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
      error_message: run.errorMessage?.slice(0, MAX_ERROR_CHARACTERS) ?? null,
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
