/** `metadata.usage` of an answer. */
export interface TokenUsage {
  readonly input_tokens: number;
  readonly output_tokens: number;
}

/**
 * The progress events of a streamed call (`docs/interface/calls.md#streams`). `text_delta` is this platform's addition.
 */
export type ProgressEvent =
  | { readonly type: 'sandbox_start' }
  | { readonly type: 'setup_step'; readonly name: string; readonly status: 'started' | 'completed' | 'failed' }
  | { readonly type: 'stdout' | 'stderr'; readonly text: string }
  | { readonly type: 'heartbeat' }
  | { readonly type: 'output_truncated' }
  | { readonly type: 'text_delta'; readonly text: string }
  | { readonly type: 'turn_start'; readonly turn: number; readonly max_turns: number }
  | { readonly type: 'tool_call'; readonly turn: number; readonly tool: string; readonly args_brief: string }
  | { readonly type: 'tool_result'; readonly turn: number; readonly tool: string; readonly status: 'ok' | 'error' }
  | {
      readonly type: 'done';
      readonly usage?: TokenUsage;
      readonly exit_code?: number;
      readonly execution_time_ms?: number;
    }
  | { readonly type: 'error'; readonly message: string; readonly usage?: TokenUsage };
