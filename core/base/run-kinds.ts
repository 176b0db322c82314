interface StatusRow {
  /** Whether a run with this status has ended. */
  readonly isEnd: boolean;
}

/** Properties of each run status (`docs/interface/runs.md#run-status`). */
const STATUSES = {
  queued: { isEnd: false },
  running: { isEnd: false },
  waiting: { isEnd: false },
  completed: { isEnd: true },
  failed: { isEnd: true },
  timeout: { isEnd: true },
  cancelled: { isEnd: true },
} as const satisfies Record<string, StatusRow>;

export type RunStatus = keyof typeof STATUSES;
/** Whether a run with this status has ended. */
export const hasEnded = (status: RunStatus): status is EndStatus => STATUSES[status].isEnd;

export type EndStatus = {
  [Status in RunStatus]: (typeof STATUSES)[Status]['isEnd'] extends true ? Status : never;
}[RunStatus];

export const RUN_STATUSES = Object.keys(STATUSES) as RunStatus[];
export const END_STATUSES = RUN_STATUSES.filter((status): status is EndStatus => STATUSES[status].isEnd);

interface TriggerRow {
  /** Completes the sentence "A run with this trigger was started by ...". */
  readonly startedBy: string;
  /** Whether a schedule or webhook started the run, so that its history records it. */
  readonly isScheduled: boolean;
  /**
   * Whether the run executes an agent: only such runs are calls, count against quotas, and can be cancelled and
   * replayed.
   */
  readonly runsAgent: boolean;
}

/** Properties of each trigger, in the order in which menus show them. */
const TRIGGER_ROWS = {
  api: { startedBy: 'a call of the API', isScheduled: false, runsAgent: true },
  cli: { startedBy: 'the command line', isScheduled: false, runsAgent: true },
  agent: { startedBy: 'another run', isScheduled: false, runsAgent: true },
  replay: { startedBy: 'a replay of an earlier run', isScheduled: false, runsAgent: true },
  schedule: { startedBy: 'a schedule that was due', isScheduled: true, runsAgent: true },
  manual: { startedBy: 'a schedule that was triggered manually', isScheduled: true, runsAgent: true },
  webhook: { startedBy: 'a webhook', isScheduled: true, runsAgent: true },
  a2a: { startedBy: 'a message by the protocol A2A', isScheduled: false, runsAgent: true },
  chat: { startedBy: 'a visitor of a chat link', isScheduled: false, runsAgent: true },
  mcp: { startedBy: 'a client of MCP', isScheduled: false, runsAgent: true },
  service: { startedBy: "a request to the agent's service", isScheduled: false, runsAgent: true },
  eval: { startedBy: 'an evaluation', isScheduled: false, runsAgent: true },
  install: { startedBy: 'an upload, to install dependencies', isScheduled: false, runsAgent: false },
} as const satisfies Record<string, TriggerRow>;

type Row<Trait extends 'isScheduled' | 'runsAgent'> = {
  [Name in Trigger]: (typeof TRIGGER_ROWS)[Name][Trait] extends true ? Name : never;
}[Trigger];

export type Trigger = keyof typeof TRIGGER_ROWS;
/** Triggers of runs that execute an agent. */
export type CallTrigger = Row<'runsAgent'>;
/** Triggers of schedules and webhooks. */
export type ScheduleTrigger = Row<'isScheduled'>;

export const TRIGGERS = Object.keys(TRIGGER_ROWS) as Trigger[];

/** List of triggers for a description: `api` (a call of the API), ... */
export const TRIGGER_LIST = TRIGGERS.map((name) => `\`${name}\` (${TRIGGER_ROWS[name].startedBy})`).join(', ');

/** Whether a run installs dependencies instead of executing an agent. */
export const isInstallation = ({ triggerSource }: { readonly triggerSource: string }): boolean =>
  triggerSource in TRIGGER_ROWS && !TRIGGER_ROWS[triggerSource as Trigger].runsAgent;
