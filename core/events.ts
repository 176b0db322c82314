/** What the deployed platform does without being asked: a function each, called by the clock. */
export const EVENTS = {
  sweeper: { everyMinutes: 1, about: 'Finishes the runs whose host died, and what they held of credits.' },
} as const;

export type EventName = keyof typeof EVENTS;
export const EVENT_NAMES = Object.keys(EVENTS) as EventName[];
