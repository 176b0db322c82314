/** What starts a background job on one host. */
interface Start {
  /** Component of the platform that starts it. */
  readonly by?: string;
  /** Reason why this host does not need the job. */
  readonly notNeeded?: string;
}

export interface BackgroundRow {
  readonly about: string;
  readonly local: Start & { readonly everySeconds?: number };
  /**
   * `fn` is the deployed function. Rows that need the same privileges share one; rows with a clock then share it and
   * run concurrently.
   */
  readonly aws: Start & { readonly everyMinutes?: number; readonly fn?: string };
}

/**
 * The background jobs of the platform, one per row. `local/server.ts` reads its clocks here, the stacks their functions
 * and clocks. `background-work.ts` has the code of each row.
 */
export const BACKGROUND = {
  finishLostRuns: {
    about: 'Finishes runs whose host died, and settles their payments.',
    local: { everySeconds: 30 },
    aws: { everyMinutes: 1, fn: 'sweeper' },
  },
  sumEndedRuns: {
    about: 'Adds ended runs to usage.',
    local: { by: 'LocalFeed, within 100 ms, or before usage is read' },
    aws: { by: 'the stream of the table `runs`', fn: 'usage-writer' },
  },
  retryDeliveries: {
    about: 'Retries alerts and webhooks that were not delivered.',
    local: { everySeconds: 30 },
    aws: { everyMinutes: 1, fn: 'sweeper' },
  },
  sendTelemetry: {
    about: 'Sends the spans of ended runs.',
    local: { everySeconds: 5 },
    aws: { everyMinutes: 1, fn: 'sweeper' },
  },
  announceEnds: {
    about: 'Announces ends and questions of runs whose host died.',
    local: { everySeconds: 30 },
    aws: { everyMinutes: 1, fn: 'sweeper' },
  },
  eraseExpiredSessions: {
    about: 'Erases sessions whose time is over.',
    local: { everySeconds: 60 },
    aws: { everyMinutes: 1, fn: 'sweeper' },
  },
  takeBackCanaries: {
    about: 'Takes back bad canaries.',
    local: { everySeconds: 10 },
    aws: { everyMinutes: 1, fn: 'sweeper' },
  },
  watchBudgets: {
    about: 'Sends alerts for budgets, and pauses services at hard limits.',
    local: { everySeconds: 10 },
    aws: { everyMinutes: 1, fn: 'sweeper' },
  },
  deleteExpiredUploads: {
    about: 'Deletes expired uploads.',
    local: { everySeconds: 30 },
    aws: { notNeeded: "the bucket's lifecycle rule deletes them (lib/stacks/data-stack.ts)" },
  },
  deleteExpiredBlobs: {
    about: 'Deletes bodies of runs, stored answers and uploads whose records have expired.',
    local: { everySeconds: 3600 },
    aws: { notNeeded: "the bucket's lifecycle rules delete them (lib/stacks/data-stack.ts)" },
  },
  collectGarbage: {
    about: 'Removes previews and old `dev` versions, purges deleted agents, and recounts storage usage.',
    local: { everySeconds: 600 },
    aws: { everyMinutes: 30, fn: 'collector' },
  },
  runDueSchedule: {
    about: 'Runs a schedule whose timer fired.',
    local: { by: 'ClockTimers' },
    aws: { by: 'the queue that EventBridge Scheduler sends to', fn: 'schedule-fired' },
  },
  runOverdueSchedules: {
    about: 'Runs due schedules whose timer did not fire.',
    local: { notNeeded: 'ClockTimers reads the table, so it misses none' },
    aws: { everyMinutes: 1, fn: 'schedule-sweeper' },
  },
  resumeScheduleRuns: {
    about: 'Resumes scheduled runs whose process died.',
    local: { everySeconds: 30 },
    aws: { everyMinutes: 1, fn: 'schedule-sweeper' },
  },
  resumeRuns: {
    about: 'Takes up durable runs whose process died or left them.',
    local: { everySeconds: 5 },
    aws: { everyMinutes: 1, fn: 'sweeper' },
  },
  resumeRun: {
    about: 'Works on a durable run that left its process.',
    local: { notNeeded: 'runs stay in their process until it ends' },
    aws: { by: '`startRun`', fn: 'loop-worker' },
  },
  sweepQueues: {
    about: 'Frees places of runs whose process died, and begins the runs that wait for them.',
    local: { everySeconds: 30 },
    aws: { everyMinutes: 1, fn: 'sweeper' },
  },
  continueBulks: {
    about: 'Cancels and replays the runs of bulk actions.',
    local: { everySeconds: 2 },
    aws: { everyMinutes: 1, fn: 'schedule-sweeper' },
  },
  continueEvals: {
    about: 'Starts evaluations of gates, makes and judges the runs of all, and opens gates.',
    local: { everySeconds: 1 },
    aws: { everyMinutes: 1, fn: 'schedule-sweeper' },
  },
  scoreRuns: {
    about: 'Scores completed runs.',
    local: { everySeconds: 2 },
    aws: { everyMinutes: 1, fn: 'schedule-sweeper' },
  },
  repairTimers: {
    about: 'Synchronizes EventBridge schedules with the table.',
    local: { notNeeded: 'ClockTimers keeps no timers beside the table' },
    aws: { everyMinutes: 30, fn: 'timer-sweeper' },
  },
  keepServices: {
    about: 'Reconciles services with the host, and meters running services.',
    local: { everySeconds: 60 },
    aws: { everyMinutes: 1, fn: 'service-keeper' },
  },
  applyServices: {
    about: 'Applies service changes of other functions to the host.',
    local: { by: 'wakeServices' },
    aws: { by: 'wakeServices', fn: 'service-keeper' },
  },
  reconcilePayments: {
    about: 'Reconciles purchased credits with the payment provider.',
    local: { everySeconds: 3600 },
    aws: { everyMinutes: 1440, fn: 'reconciler' },
  },
  install: {
    about: 'Installs the dependencies of an uploaded bundle, which may take longer than the upload request.',
    local: { by: 'startInstall' },
    aws: { by: 'startInstall', fn: 'install' },
  },
} as const satisfies Record<string, BackgroundRow>;

export type BackgroundName = keyof typeof BACKGROUND;

/** Names of the rows started by the clock of the local host. */
export type LocalClockName = {
  [Name in BackgroundName]: (typeof BACKGROUND)[Name]['local'] extends { everySeconds: number } ? Name : never;
}[BackgroundName];

/** Names of the deployed functions in the table. */
export type BackgroundFunctionName = Extract<(typeof BACKGROUND)[BackgroundName]['aws'], { fn: string }>['fn'];

/** Names of the rows started by the clock of one deployed function. */
export type AwsClockName<Fn extends BackgroundFunctionName> = {
  [Name in BackgroundName]: (typeof BACKGROUND)[Name]['aws'] extends { everyMinutes: number; fn: Fn } ? Name : never;
}[BackgroundName];

const rows: readonly BackgroundRow[] = Object.values(BACKGROUND);

export const BACKGROUND_FUNCTIONS = [
  ...new Set(rows.flatMap(({ aws }) => aws.fn ?? [])),
] as readonly BackgroundFunctionName[];

/** Returns the clock of a deployed function, if it has one, and a description of its rows. */
export function backgroundFunction(fn: BackgroundFunctionName): { everyMinutes: number | undefined; about: string } {
  const own = rows.filter(({ aws }) => aws.fn === fn);
  return {
    everyMinutes: own.find(({ aws }) => aws.everyMinutes !== undefined)?.aws.everyMinutes,
    about: own.map(({ about }) => about).join(' '),
  };
}
