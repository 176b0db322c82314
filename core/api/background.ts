/** What starts a row on one host. */
interface Start {
  /** Another part of the platform that starts it. */
  readonly by?: string;
  /** The host needs no such work, for this reason. */
  readonly notNeeded?: string;
}

export interface BackgroundRow {
  readonly about: string;
  readonly local: Start & { readonly everySeconds?: number };
  /**
   * `fn` is the deployed function. Rows that need the same rights share one: those with a clock then share it, and run
   * side by side.
   */
  readonly aws: Start & { readonly everyMinutes?: number; readonly fn?: string };
}

/**
 * What the platform does beside answering requests, one row per job. `local/server.ts` reads its clocks here, the stacks
 * their functions and clocks. `background-work.ts` has the code of each row.
 */
export const BACKGROUND = {
  finishLostRuns: {
    about: 'Finishes runs whose host died, and settles their payments.',
    local: { everySeconds: 30 },
    aws: { everyMinutes: 1, fn: 'sweeper' },
  },
  retryDeliveries: {
    about: 'Sends alerts again that did not arrive.',
    local: { everySeconds: 30 },
    aws: { everyMinutes: 1, fn: 'sweeper' },
  },
  watchBudgets: {
    about: 'Tells of budgets whose thresholds are reached, and pauses services at their hard limits.',
    local: { everySeconds: 10 },
    aws: { everyMinutes: 1, fn: 'sweeper' },
  },
  deleteExpiredUploads: {
    about: 'Deletes uploads that no request can use any more.',
    local: { everySeconds: 30 },
    aws: { notNeeded: "the bucket's lifecycle rule deletes them (lib/stacks/data-stack.ts)" },
  },
  deleteExpiredBlobs: {
    about: 'Deletes bodies of runs, kept answers and uploads that are older than their records.',
    local: { everySeconds: 3600 },
    aws: { notNeeded: "the bucket's lifecycle rules delete them (lib/stacks/data-stack.ts)" },
  },
  collectGarbage: {
    about: 'Removes for good what deleted agents and old versions `dev` leave, and recounts what workspaces use.',
    local: { everySeconds: 600 },
    aws: { everyMinutes: 30, fn: 'collector' },
  },
  runDueSchedule: {
    about: 'Runs a schedule whose timer fired.',
    local: { by: 'ClockTimers' },
    aws: { by: 'the queue that EventBridge Scheduler sends to', fn: 'schedule-fired' },
  },
  runOverdueSchedules: {
    about: 'Runs schedules that are due although no timer fired.',
    local: { notNeeded: 'ClockTimers reads the table, so it misses none' },
    aws: { everyMinutes: 1, fn: 'schedule-sweeper' },
  },
  resumeScheduleRuns: {
    about: 'Continues runs of schedules whose process died.',
    local: { everySeconds: 30 },
    aws: { everyMinutes: 1, fn: 'schedule-sweeper' },
  },
  continueBulks: {
    about: 'Cancels and repeats the runs of bulk actions.',
    local: { everySeconds: 2 },
    aws: { everyMinutes: 1, fn: 'schedule-sweeper' },
  },
  repairTimers: {
    about: 'Brings EventBridge schedules into line with the table.',
    local: { notNeeded: 'ClockTimers keeps no timers beside the table' },
    aws: { everyMinutes: 30, fn: 'timer-sweeper' },
  },
  keepServices: {
    about: 'Compares services with what the host has, repairs what differs, and meters what runs.',
    local: { everySeconds: 60 },
    aws: { everyMinutes: 1, fn: 'service-keeper' },
  },
  applyServices: {
    about: 'Tells the host about services that another function has changed.',
    local: { by: 'wakeServices' },
    aws: { by: 'wakeServices', fn: 'service-keeper' },
  },
  reconcilePayments: {
    about: 'Compares bought credits with what the payment provider knows, and repairs what events missed.',
    local: { everySeconds: 3600 },
    aws: { everyMinutes: 1440, fn: 'reconciler' },
  },
  install: {
    about: "Installs an uploaded bundle's dependencies, which may take longer than the upload's answer may.",
    local: { by: 'startInstall' },
    aws: { by: 'startInstall', fn: 'install' },
  },
} as const satisfies Record<string, BackgroundRow>;

export type BackgroundName = keyof typeof BACKGROUND;

/** Rows that the local host's clock starts. */
export type LocalClockName = {
  [Name in BackgroundName]: (typeof BACKGROUND)[Name]['local'] extends { everySeconds: number } ? Name : never;
}[BackgroundName];

/** Deployed functions of the table. */
export type BackgroundFunctionName = Extract<(typeof BACKGROUND)[BackgroundName]['aws'], { fn: string }>['fn'];

/** Rows that the clock of one deployed function starts. */
export type AwsClockName<Fn extends BackgroundFunctionName> = {
  [Name in BackgroundName]: (typeof BACKGROUND)[Name]['aws'] extends { everyMinutes: number; fn: Fn } ? Name : never;
}[BackgroundName];

const rows: readonly BackgroundRow[] = Object.values(BACKGROUND);

export const BACKGROUND_FUNCTIONS = [
  ...new Set(rows.flatMap(({ aws }) => aws.fn ?? [])),
] as readonly BackgroundFunctionName[];

/** The clock of a deployed function, if it has one, and what its rows do. */
export function backgroundFunction(fn: BackgroundFunctionName): { everyMinutes: number | undefined; about: string } {
  const own = rows.filter(({ aws }) => aws.fn === fn);
  return {
    everyMinutes: own.find(({ aws }) => aws.everyMinutes !== undefined)?.aws.everyMinutes,
    about: own.map(({ about }) => about).join(' '),
  };
}
