import type { Json } from '#core/base/json.ts';

/** The objects of A2A 1.0 that answers have, in the JSON form of its protocol buffers. */
export type TaskState =
  | 'TASK_STATE_SUBMITTED'
  | 'TASK_STATE_WORKING'
  | 'TASK_STATE_INPUT_REQUIRED'
  | 'TASK_STATE_COMPLETED'
  | 'TASK_STATE_FAILED'
  | 'TASK_STATE_CANCELED';

export type Part = { readonly text: string } | { readonly data: Json };

export interface Message {
  readonly messageId: string;
  readonly contextId: string;
  readonly taskId: string;
  readonly role: 'ROLE_AGENT';
  readonly parts: readonly Part[];
}

export interface TaskStatus {
  readonly state: TaskState;
  readonly message?: Message;
  /** ISO 8601. */
  readonly timestamp: string;
}

export interface Artifact {
  readonly artifactId: string;
  readonly parts: readonly Part[];
}

export interface Task {
  readonly id: string;
  readonly contextId: string;
  readonly status: TaskStatus;
  readonly artifacts?: readonly Artifact[];
}

export type StreamResponse =
  | { readonly task: Task }
  | { readonly statusUpdate: { readonly taskId: string; readonly contextId: string; readonly status: TaskStatus } }
  | {
      readonly artifactUpdate: {
        readonly taskId: string;
        readonly contextId: string;
        readonly artifact: Artifact;
        readonly append: boolean;
        readonly lastChunk: boolean;
      };
    };
