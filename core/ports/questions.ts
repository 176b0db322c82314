/** A question of a run to the people of a workspace, as it stands now. Secrets are masked. */
export interface Question {
  readonly workspaceId: string;
  /** Id of the approval. */
  readonly id: string;
  readonly agentName: string;
  readonly tool: string;
  /** What is asked; absent for the approval of a call. */
  readonly text?: string;
  /** Epoch milliseconds until which it can be decided. */
  readonly expiresAt: number;
  /** `over`: its time is over or its run has ended, and it was not decided. */
  readonly state: 'waiting' | 'decided' | 'over';
}

/** Shows a question to people, or that it is closed. It is called at least once for each state, and again after a crash. */
export type ShowQuestion = (question: Question) => Promise<void>;
