import type { ProgressRecord } from '../live/read-records.ts';

/** A message of a session: what was asked, and what the run answered. */
export interface ChatMessage {
  /** Position in its session, from 1. */
  readonly number: number;
  readonly run_id: string;
  readonly status: string;
  readonly input: unknown;
  readonly output: unknown;
  readonly error: ChatFailure | null;
  readonly agent_version?: string;
  /** ISO 8601. */
  readonly created_at: string;
  readonly ended_at: string | null;
}

export interface ChatFailure {
  readonly code: string;
  readonly message: string;
}

export interface MessagePage {
  /** The newest message first. */
  readonly items: readonly ChatMessage[];
  readonly next_cursor: string | null;
}

/** What a person sends: a text, or the input of an agent that takes more than a text. */
export interface Draft {
  readonly text?: string;
  readonly input?: Readonly<Record<string, unknown>>;
  readonly files?: readonly File[];
}

/** Hears what a run does. */
export interface RunWatcher {
  readonly signal: AbortSignal;
  /** Called once the run has begun. */
  readonly onRun: (runId: string) => void;
  readonly onRecord: (record: ProgressRecord) => void;
  /** Called when what was heard is void, because the run is heard again from its beginning. */
  readonly onRestart: () => void;
}

/** A call of a tool, with what the trace of its run kept about it. */
export interface ToolStep {
  readonly tool: string;
  readonly turn: number | undefined;
  readonly status: 'running' | 'ok' | 'error';
  readonly duration_ms?: number;
  /** JSON or text; absent if the workspace does not keep it. */
  readonly arguments?: string;
  readonly result?: string;
}

/**
 * How a chat reaches its session. The page of a signed-in user and the page of a link each have their own.
 */
export interface ChatTransport {
  /** Reads a page of messages, the newest first. */
  readonly list: (page: { readonly cursor?: string; readonly limit: number }) => Promise<MessagePage>;
  /**
   * Sends a message and resolves when its run has ended, however it ended: the list says how. Throws ApiError if the
   * message was refused, or if the platform cannot be reached.
   */
  readonly send: (draft: Draft, watcher: RunWatcher) => Promise<void>;
  /** Hears a run under way from its beginning, and resolves when it has ended. */
  readonly follow: (runId: string, watcher: RunWatcher) => Promise<void>;
  /** Stops a run. */
  readonly stop: (runId: string) => Promise<void>;
  /** Reads the steps of an ended run. @default - steps are shown only while they happen */
  readonly steps?: (runId: string) => Promise<readonly ToolStep[]>;
}
