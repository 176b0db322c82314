/** What a host knows of itself. Nothing in it is of a tenant: names and texts of workspaces stay out. */
export interface HostState {
  /** Its parts beside the tables; with what is wrong, as a whole sentence, where something is. */
  parts(): Promise<readonly { readonly name: string; readonly problem?: string | undefined }[]>;
  system(): Promise<SystemState>;
  /** Metrics in the text format of Prometheus, version 0.0.4. */
  metrics(): Promise<string>;
}

export interface SystemState {
  readonly version: string;
  readonly node: string;
  readonly started_at: string;
  readonly sandbox: {
    readonly kind: string;
    readonly problem: string | null;
    readonly running: number;
    readonly waiting: number;
    readonly max: number;
    /** How long the run that waits longest for a sandbox has waited. */
    readonly queue_age_ms: number;
  };
  readonly disk: { readonly free_bytes: number; readonly size_bytes: number; readonly database_bytes: number };
  /** Of the last minute: how much later than asked for the process got to its work. */
  readonly event_loop_delay_ms: { readonly p50: number; readonly p99: number; readonly max: number };
  readonly memory_bytes: number;
}

/** A run that ended in this process. */
export interface EndedRun {
  readonly status: string;
  readonly source: string;
  readonly durationMs: number;
}
