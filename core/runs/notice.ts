/** What the platform tells a workspace by itself. */
export interface WorkspaceNotice {
  /** Always the same for one event, so that it is told once. */
  readonly id: string;
  readonly agentName: string;
  readonly title: string;
  readonly body: string;
}

/** Tells a workspace, once for each id. */
export type TellWorkspace = (workspaceId: string, notice: WorkspaceNotice) => Promise<void>;
