/** State of the host. It contains no tenant data, such as names or texts of workspaces. */
export interface HostState {
  /** Returns the parts of the host other than the tables; `problem` is a whole sentence about a failed part. */
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
    /** Waiting time of the oldest queued run, in milliseconds. */
    readonly queue_age_ms: number;
  };
  readonly disk: { readonly free_bytes: number; readonly size_bytes: number; readonly database_bytes: number };
  /** Event loop delay over the last minute. */
  readonly event_loop_delay_ms: { readonly p50: number; readonly p99: number; readonly max: number };
  readonly memory_bytes: number;
}

/** A run that ended in this process. */
export interface EndedRun {
  readonly status: string;
  readonly source: string;
  readonly durationMs: number;
}
