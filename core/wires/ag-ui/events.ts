import type { Json } from '#core/base/json.ts';
import type { Usage } from '../run-mapping.ts';

/** The version of the protocol that streams speak. */
export const PROTOCOL_VERSION = '1.0';

type Members = { readonly [member: string]: Json };

/** What a run waits for (`docs/interface/ag-ui.md#interrupts`). */
export interface Interrupt {
  /** Id of the approval. */
  readonly id: string;
  readonly reason: 'approval' | 'question';
  readonly message: string;
  readonly toolCallId: string;
  readonly responseSchema?: Members;
  /** ISO 8601. */
  readonly expiresAt: string;
  readonly metadata: Members;
}

/** How a run ends for its client. */
export type Outcome =
  | { readonly type: 'success' }
  | { readonly type: 'interrupt'; readonly interrupts: readonly Interrupt[] }
  | { readonly type: 'cancelled' };

/** The events of AG-UI 1.0 that streams have, out of all that it knows. */
export type AgUiEvent =
  | {
      readonly type: 'RUN_STARTED';
      readonly threadId: string;
      readonly runId: string;
      readonly protocolVersion: typeof PROTOCOL_VERSION;
      readonly metadata: Members;
    }
  | { readonly type: 'TEXT_MESSAGE_START'; readonly messageId: string; readonly role: 'assistant' }
  | {
      readonly type: 'TEXT_MESSAGE_CONTENT' | 'REASONING_MESSAGE_CONTENT';
      readonly messageId: string;
      readonly delta: string;
    }
  | { readonly type: 'REASONING_MESSAGE_START'; readonly messageId: string; readonly role: 'reasoning' }
  | {
      readonly type: 'TEXT_MESSAGE_END' | 'REASONING_START' | 'REASONING_MESSAGE_END' | 'REASONING_END';
      readonly messageId: string;
    }
  | { readonly type: 'STEP_STARTED' | 'STEP_FINISHED'; readonly stepName: string }
  | {
      readonly type: 'TOOL_CALL_START';
      readonly toolCallId: string;
      readonly toolCallName: string;
      readonly parentMessageId?: string;
    }
  | { readonly type: 'TOOL_CALL_ARGS'; readonly toolCallId: string; readonly delta: string }
  | { readonly type: 'TOOL_CALL_END'; readonly toolCallId: string }
  | {
      readonly type: 'TOOL_CALL_RESULT';
      readonly messageId: string;
      readonly toolCallId: string;
      readonly content: string;
      readonly role: 'tool';
    }
  | { readonly type: 'CUSTOM'; readonly name: string; readonly value: Json }
  | {
      readonly type: 'RUN_FINISHED';
      readonly threadId: string;
      readonly runId: string;
      readonly outcome: Outcome;
      readonly result?: Json;
      readonly usage?: readonly Usage[];
    }
  | { readonly type: 'RUN_ERROR'; readonly message: string; readonly code: string };
