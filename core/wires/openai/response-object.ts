import type { TokenUsage } from '#core/runs/usage/spending.ts';
import type { ErrorObject } from './errors.ts';

/** A part of what an agent said: a text, or what its model thought before it. */
export interface OutputItem {
  readonly type: 'message' | 'reasoning';
  readonly id: string;
  readonly text: string;
  readonly isDone: boolean;
  /** Whether the agent used tools after it. */
  readonly isCommentary?: boolean;
}

export type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

/** What a response shows, besides its output. */
export interface ResponseHead {
  readonly runId: string;
  readonly id: string;
  /** `org/agent@v1`. */
  readonly model: string;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  readonly isBackground: boolean;
  readonly isStored: boolean;
  readonly instructions?: string | undefined;
  readonly metadata?: unknown;
  readonly previousId?: string | undefined;
  readonly conversationId?: string | undefined;
  readonly isJson?: boolean;
}

export interface ResponseEnd {
  readonly status: ResponseStatus;
  readonly output: readonly OutputItem[];
  readonly usage?: TokenUsage | undefined;
  readonly error?: ErrorObject | undefined;
}

/** Builds a response as OpenAI's clients read it. */
export function responseObject(head: ResponseHead, { status, output, usage, error }: ResponseEnd) {
  return {
    id: head.id,
    object: 'response',
    created_at: Math.floor(head.createdAt / 1000),
    status,
    background: head.isBackground,
    error: error === undefined ? null : { code: error.code, message: error.message },
    incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
    instructions: head.instructions ?? null,
    max_output_tokens: null,
    metadata: head.metadata ?? {},
    model: head.model,
    output: output.map(itemView),
    parallel_tool_calls: true,
    previous_response_id: head.previousId ?? null,
    conversation: head.conversationId === undefined ? null : { id: head.conversationId },
    reasoning: { effort: null, summary: null },
    store: head.isStored,
    temperature: null,
    text: { format: { type: head.isJson ? 'json_object' : 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: null,
    truncation: 'disabled',
    usage: usage === undefined ? null : usageView(usage),
    user: null,
  };
}

const usageView = ({ input_tokens, output_tokens, cache_read_tokens = 0 }: TokenUsage) => ({
  input_tokens,
  input_tokens_details: { cached_tokens: cache_read_tokens },
  output_tokens,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: input_tokens + output_tokens,
});

export function itemView({ type, id, text, isDone, isCommentary }: OutputItem) {
  const status = isDone ? 'completed' : 'in_progress';
  const content = isDone ? [partView(type, text)] : [];
  if (type === 'reasoning') return { id, type, summary: [], content, status };
  return { id, type, role: 'assistant', status, content, ...(isCommentary && { phase: 'commentary' }) };
}

export const partView = (type: OutputItem['type'], text: string) =>
  type === 'reasoning'
    ? { type: 'reasoning_text', text }
    : { type: 'output_text', text, annotations: [], logprobs: [] };
