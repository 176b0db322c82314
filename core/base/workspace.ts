import type { PlanName } from './plans.ts';

/** A workspace (= organization): what agents, runs, secrets and costs belong to. */
export interface Workspace {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly type: 'personal' | 'team';
  readonly createdAt: string;
  /** Absent: the default plan, see `plans.ts`. */
  readonly plan?: PlanName;
  /** IANA name of the zone in which its days begin. Absent: UTC. */
  readonly timezone?: string;
  /** Whether it has budgets, which its calls are then checked against. Absent: no. */
  readonly budgets?: boolean;
  /** Absent: `off`. */
  readonly traceContent?: TraceContentSetting;
}

/** Which runs keep what was said in them: prompts, answers, arguments and results of tools. */
export const TRACE_CONTENT_SETTINGS = ['off', 'errors', 'all'] as const;
export type TraceContentSetting = (typeof TRACE_CONTENT_SETTINGS)[number];

export type Role = 'owner' | 'member';
