import type { ApprovalKind } from '#core/runs/approvals/approval.ts';
import type { TokenUsage } from '#core/runs/usage/spending.ts';

/**
 * Progress events of a streamed call (`docs/interface/calls.md#streams`). `text_delta`, `retry` and `context_compacted`
 * are
 * additions of this platform.
 */
export type ProgressEvent =
  | { readonly type: 'sandbox_start' }
  | { readonly type: 'setup_step'; readonly name: string; readonly status: 'started' | 'completed' | 'failed' }
  | { readonly type: 'stdout' | 'stderr'; readonly text: string }
  | { readonly type: 'heartbeat' }
  /** The sandbox was lost: the output so far is void, and the program starts again. */
  | { readonly type: 'interrupted'; readonly attempt: number }
  /** Another process continues a durable run. */
  | { readonly type: 'resumed'; readonly attempt: number; readonly reason: string }
  /** The run waits for people, time or events. */
  | {
      readonly type: 'waiting';
      readonly approvals: readonly {
        readonly id: string;
        readonly kind: ApprovalKind;
        readonly tool: string;
        readonly question?: string | undefined;
      }[];
      /** When it continues at the latest, ISO 8601. */
      readonly until: string;
    }
  | { readonly type: 'output_truncated' }
  | { readonly type: 'text_delta' | 'reasoning_delta'; readonly text: string }
  | { readonly type: 'turn_start'; readonly turn: number; readonly max_turns: number }
  | {
      readonly type: 'retry';
      readonly turn: number;
      readonly attempt: number;
      readonly reason: string;
      readonly wait_ms: number;
      /** The text of the turn so far is void and will be sent again. */
      readonly discard_text: true;
    }
  | {
      readonly type: 'context_compacted';
      readonly turn: number;
      /** Estimated input tokens of a request. */
      readonly before_tokens: number;
      readonly after_tokens: number;
      readonly cost_usd?: number;
    }
  /** `call`: number in the turn, from 1, as in the ids of approvals. */
  | {
      readonly type: 'tool_call';
      readonly turn: number;
      readonly call: number;
      readonly tool: string;
      readonly args_brief: string;
    }
  | {
      readonly type: 'tool_result';
      readonly turn: number;
      readonly call: number;
      readonly tool: string;
      readonly status: 'ok' | 'error';
    }
  | {
      readonly type: 'done';
      readonly usage?: TokenUsage;
      readonly exit_code?: number;
      readonly execution_time_ms?: number;
    }
  | { readonly type: 'error'; readonly message: string; readonly usage?: TokenUsage };
