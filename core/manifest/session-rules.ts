/** What a message does that comes while another one of its session is under way (`docs/interface/sessions.md#busy`). */
export const BUSY = ['enqueue', 'reject', 'interrupt', 'steer'] as const;
export type Busy = (typeof BUSY)[number];

/** The manifest member `sessions`: the defaults of an agent's sessions. */
export interface SessionRules {
  readonly busy?: Busy;
  /** Days after its last message for which a session is kept. */
  readonly ttl_days?: number;
}

export const DEFAULT_BUSY: Busy = 'enqueue';
export const DEFAULT_TTL_DAYS = 30;
export const MAX_TTL_DAYS = 365;
