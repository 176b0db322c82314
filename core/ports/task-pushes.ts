/** News of a run that began as a task of another protocol. */
export interface TaskNews {
  readonly workspaceId: string;
  readonly runId: string;
  /** What is new: a `NoteSubject` of `core/runs/destinations/notes.ts`. */
  readonly about: string;
}

/**
 * Writes the messages to those who follow a task, and returns what makes their first attempts. It is called at least once for
 * each piece of news, and again after a crash.
 */
export type PushTask = (news: TaskNews) => Promise<() => Promise<void>>;
