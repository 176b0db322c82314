export interface EventSpec {
  /** @default - a function or a queue calls it */
  readonly everyMinutes?: number;
  readonly about: string;
}

/** What the deployed platform does beside answering requests: a function each, called by the clock, a queue or a function. */
export const EVENTS = {
  sweeper: {
    everyMinutes: 1,
    about: 'Finishes the runs whose host died, and what they held of credits; sends the alerts that did not arrive.',
  },
  'schedule-fired': { about: 'Runs the schedules that EventBridge Scheduler says are due.' },
  'schedule-sweeper': {
    everyMinutes: 1,
    about: 'Runs the schedules that are due and nobody woke, and goes on with runs whose process died.',
  },
  'timer-sweeper': { everyMinutes: 30, about: 'Brings EventBridge schedules into line with the table.' },
  install: { about: "Installs an uploaded bundle's dependencies, which may take longer than an upload is answered." },
} as const satisfies Record<string, EventSpec>;

export type EventName = keyof typeof EVENTS;
export const EVENT_NAMES = Object.keys(EVENTS) as EventName[];
