import type { ErrorCode } from '#core/base/errors.ts';
import type { EndStatus } from '#core/base/run-kinds.ts';
import type { FeedRule } from '#core/ports/feed.ts';
import { type Item, TableUsageError } from '#core/ports/table.ts';
import { newRunFrom, workspaceIdOf } from '../items.ts';
import type { NewRun, RunResult } from '../run.ts';
import { costsFrom } from './costs.ts';

/** Part of a run's result that counts as usage. */
export type RunUsage = Pick<
  RunResult,
  | 'status'
  | 'errorCode'
  | 'executionMs'
  | 'inputTokens'
  | 'outputTokens'
  | 'cacheReadTokens'
  | 'cacheWriteTokens'
  | 'llmProvider'
  | 'costs'
  | 'costUsd'
  | 'creditsCents'
>;

/** A run that has ended, as its record tells. */
export interface EndedRun {
  readonly workspaceId: string;
  readonly run: NewRun;
  readonly result: RunUsage;
  /** Epoch milliseconds. */
  readonly endedAt: number;
  /** Expiry of the record in epoch seconds. */
  readonly ttl: number;
}

/** Selects the updates of the runs table that end a run: each run has one. `lib/constructs/platform-function.ts` has the same rule for AWS. */
export const endsRun: FeedRule = (before, after) =>
  after.duration_ms !== undefined && before.duration_ms === undefined && HEAD_PARTITION.test(after.pk);

const HEAD_PARTITION = /^WS#[^#]+#RUN#[0-9a-f]$/;

/** Reads an ended run from its head. Throws if the record is malformed. */
export function endedRunFrom(head: Item): EndedRun {
  const run = newRunFrom(head);
  const { duration_ms, llm_provider, llm_model, cost_usd, ttl } = head;
  const names = [run.agentOrg, run.agentName, run.agentId, head.status, run.triggerSource];
  const numbers = [run.startedAt, duration_ms, ttl];
  if (!names.every((name) => typeof name === 'string') || !numbers.every(Number.isFinite)) {
    throw new TableUsageError('the record of an ended run lacks members');
  }
  const others = {
    llmProvider: llm_provider as string,
    llmModel: llm_model as string,
    costUsd: cost_usd as number,
  };
  return {
    workspaceId: workspaceIdOf(head),
    run,
    endedAt: run.startedAt + (duration_ms as number),
    ttl: ttl as number,
    result: {
      status: head.status as EndStatus,
      errorCode: (head.error_code as ErrorCode | undefined) ?? null,
      executionMs: (head.execution_ms as number | undefined) ?? null,
      inputTokens: head.input_tokens as number,
      outputTokens: head.output_tokens as number,
      cacheReadTokens: head.cache_read_tokens as number,
      cacheWriteTokens: head.cache_write_tokens as number,
      creditsCents: (head.credits_cents as number | undefined) ?? 0,
      ...others,
      costs: costsFrom(head.costs, others),
    },
  };
}
