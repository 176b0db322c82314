/** The versions that an evaluation runs: the one that is judged, and the one that it is compared with. */
export const LANES = ['candidate', 'baseline'] as const;
export type Lane = (typeof LANES)[number];

/** What became of a run. `error`: nothing is known about the agent, because the judge or the platform failed. */
export type Outcome = 'passed' | 'failed' | 'error' | 'cancelled';
