import type { PlanName } from './plans.ts';

/** A workspace (= organization), which owns agents, runs, secrets and costs. */
export interface Workspace {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly type: 'personal' | 'team';
  readonly createdAt: string;
  /** Absent: the default plan, see `plans.ts`. */
  readonly plan?: PlanName;
  /** IANA name of the time zone that defines its days. Absent: UTC. */
  readonly timezone?: string;
  /** Whether it has budgets to check its calls against. Absent: no. */
  readonly budgets?: boolean;
  /** Which of its runs have destinations to be announced to when they end. Absent: none. */
  readonly destinations?: AnnouncedRuns;
  /** Whether the spans of its runs are sent to a collector. Absent: no. */
  readonly telemetry?: boolean;
  /** Absent: `off`. */
  readonly traceContent?: TraceContentSetting;
  /** Who may decide what its runs ask. Absent: `members`. */
  readonly approvers?: Approvers;
  /** How far it is on its way to another cell, or from one. Absent: it stays. */
  readonly move?: WorkspaceMove;
}

export interface WorkspaceMove {
  /**
   * `draining`: nothing begins, and what has begun may end. `frozen`: nothing changes. `moved`: it is in the other cell.
   * `arriving`: it comes from another cell, and nothing works yet.
   */
  readonly state: 'draining' | 'frozen' | 'moved' | 'arriving';
  /** Letter of the other cell. */
  readonly cell: string;
  /** Address of the other cell's API. */
  readonly address?: string;
  /** Unique for each move. */
  readonly id: string;
}

/** Who may decide: all members, which owners are, too, or owners only. */
export const APPROVERS = ['members', 'owners'] as const;
export type Approvers = (typeof APPROVERS)[number];

/** Runs that are announced: those that no other run called, or sub-calls, too. */
export type AnnouncedRuns = 'top_level' | 'all';

/** Which runs store their content: prompts, answers, and the arguments and results of tools. */
export const TRACE_CONTENT_SETTINGS = ['off', 'errors', 'all'] as const;
export type TraceContentSetting = (typeof TRACE_CONTENT_SETTINGS)[number];

export type Role = 'owner' | 'member';
