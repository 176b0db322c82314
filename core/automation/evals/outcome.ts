/** The versions that an evaluation runs: the one that is judged, and the one that it is compared with. */
const REPLAYED = ['candidate', 'baseline'] as const;
/** `observed`: the recorded run that a case was taken from, which is graded and not made again. */
export const LANES = [...REPLAYED, 'observed'] as const;
export type Lane = (typeof LANES)[number];
/** A lane whose runs the evaluation makes. */
export type ReplayedLane = (typeof REPLAYED)[number];

/** What became of a run. `error`: nothing is known about the agent, because the judge or the platform failed. */
export type Outcome = 'passed' | 'failed' | 'error' | 'cancelled';
