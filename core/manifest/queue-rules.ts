/** What happens to a call that finds all places taken. */
export const ON_LIMIT = ['queue', 'reject', 'replace'] as const;

/** When runs of an agent may begin (`docs/interface/queues.md`). Keys are JSON pointers into the input. */
export type QueueRules = {
  /** How many runs with the same key may be in progress at once. */
  concurrency?: {
    limit: number;
    /** @default - all runs of the agent share the limit */
    key?: string;
    on_limit: (typeof ON_LIMIT)[number];
  };
  /** How many runs with the same key may begin in each window of time. */
  rate?: { count: number; seconds: number; key?: string };
  /** Time without a further call with the same key after which the last of them runs. */
  debounce?: { seconds: number; key?: string };
};

export const QUEUE_RULES = ['concurrency', 'rate', 'debounce'] as const satisfies (keyof QueueRules)[];
