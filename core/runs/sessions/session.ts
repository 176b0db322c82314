import type { ErrorCode } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { EndStatus } from '#core/base/run-kinds.ts';
import type { Busy } from '#core/manifest/session-rules.ts';
import type { Item } from '#core/ports/table.ts';

/** An ordered list of runs of one agent, and what the next run is given (`docs/interface/sessions.md`). */
export interface Session {
  /** `ses_` and 32 hexadecimal digits. */
  readonly id: string;
  readonly workspaceId: string;
  /** The agent's name, in the workspace of its author. */
  readonly agentWorkspaceId: string;
  readonly agentOrg: string;
  readonly agentName: string;
  /** The name that its caller gave it: unique for an agent and a tenant. */
  readonly externalId?: string;
  readonly title?: string;
  /** Only calls of this tenant see it. @default - it was opened without one */
  readonly tenantId?: string;
  readonly metadata: { readonly [name: string]: string };
  /** Version that each message runs. @default - the newest */
  readonly pinVersion?: string;
  readonly busy: Busy;
  readonly ttlDays: number;
  readonly forkedFrom?: { readonly sessionId: string; readonly after: number };
  /** Epoch milliseconds. */
  readonly createdAt: number;
}

/** A message and its answer. */
export interface Turn {
  /** From 1. */
  readonly number: number;
  readonly runId: string;
  readonly agentVersion: string;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  /** Absent until the run has ended. */
  readonly end?: TurnEnd;
  /** Whether it was copied from the session that this one was forked from: its run belongs to that one. */
  readonly isCopied?: true;
  /** Bytes that are stored of this turn and all before it, as far as they are known. */
  readonly bytes: number;
  /** Bytes of text that a model gets of them, and of this turn alone. */
  readonly said: number;
  readonly ownSaid: number;
  /** Absent until the run has ended, and if it is in a blob. */
  readonly content?: TurnContent;
}

export interface TurnEnd {
  readonly status: EndStatus;
  readonly errorCode: ErrorCode | null;
  readonly errorMessage: string | null;
  /** Epoch milliseconds. */
  readonly at: number;
}

/** What was said in a turn. All of it is masked. */
export interface TurnContent {
  /** Null if it is not known any more. */
  readonly input: Json;
  /** The message to the model of a prompt. */
  readonly text?: string;
  /** Null until the run has completed. */
  readonly output: Json;
}

/** A turn that has completed, as the engine of a later one gets it. */
export interface PastTurn extends TurnContent {
  readonly number: number;
  readonly runId: string;
}

/** The turn of a run, in its record. */
export interface TurnOfRun {
  readonly sessionId: string;
  readonly number: number;
  /** See {@link Turn}: what is known of the turns before, when it begins. @default 0 */
  readonly bytes?: number;
  readonly said?: number;
}

/** What the next message is given besides the turns (`state.ts`): it was stored, for the end of its run. */
export interface NewState {
  /** Attributes of the item. */
  readonly item: Omit<Item, 'pk' | 'sk'>;
  /** Names of blobs that it replaces. */
  readonly replaces: readonly string[];
  /** Bytes that it takes more than the state before. */
  readonly growth: number;
}
