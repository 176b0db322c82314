export interface EventSpec {
  /** @default - a function calls it */
  readonly everyMinutes?: number;
  readonly about: string;
}

/** What the deployed platform does beside answering requests: a function each, called by the clock or by a function. */
export const EVENTS = {
  sweeper: {
    everyMinutes: 1,
    about: 'Finishes the runs whose host died, and what they held of credits; sends the alerts that did not arrive.',
  },
  install: { about: "Installs an uploaded bundle's dependencies, which may take longer than an upload is answered." },
} as const satisfies Record<string, EventSpec>;

export type EventName = keyof typeof EVENTS;
export const EVENT_NAMES = Object.keys(EVENTS) as EventName[];
