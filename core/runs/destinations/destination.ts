import type { EndStatus } from '#core/base/run-kinds.ts';
import { fullNameOf } from '#core/manifest/references.ts';
import type { Run } from '../run.ts';

/** Ends of runs. Every ended run has one of them: what did not complete failed. */
const END_EVENTS = ['run.completed', 'run.failed'] as const;
/** Events about runs that wait, and about their approvals. */
const WAIT_EVENTS = ['run.waiting', 'approval.requested', 'approval.decided', 'approval.expired'] as const;
/** Events about the versions of runs. */
const SCORE_EVENTS = ['score.dropped'] as const;
export const RUN_EVENTS = [...END_EVENTS, ...WAIT_EVENTS, ...SCORE_EVENTS] as const;
export type EndEvent = (typeof END_EVENTS)[number];
export type RunEvent = (typeof RUN_EVENTS)[number];

/** `standard`: https://www.standardwebhooks.com; `cloudevents`: the structured JSON of https://cloudevents.io. */
export const FORMATS = ['standard', 'cloudevents'] as const;
export type Format = (typeof FORMATS)[number];

export const isEnd = (event: RunEvent): event is EndEvent => END_EVENTS.some((each) => each === event);

export const eventOf = (status: EndStatus): EndEvent => (status === 'completed' ? 'run.completed' : 'run.failed');

/** What may be changed of a destination. An empty list of a filter lets every run through. */
export interface DestinationSettings {
  readonly url: string;
  readonly format: Format;
  readonly enabled: boolean;
  readonly events: readonly RunEvent[];
  /** `org/agent`, all versions. */
  readonly agents: readonly string[];
  readonly statuses: readonly string[];
  readonly triggerSources: readonly string[];
  readonly includeSubCalls: boolean;
  readonly includeOutput: boolean;
}

/** An address of a workspace to which events of its runs are posted. */
export interface Destination extends DestinationSettings {
  readonly id: string;
  /** Why the platform disabled it; null if it did not. */
  readonly disabledReason: string | null;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly updatedAt: string;
}

/**
 * Whether an event of a run is posted to a destination. One that chooses statuses, but no events, gets only ends. What is about the version
 * does not depend on the run that showed it.
 */
export function matches(destination: Destination, run: Run, event: RunEvent): boolean {
  const { enabled, events, agents, statuses, triggerSources, includeSubCalls } = destination;
  const lets = (allowed: readonly string[], value: string) => allowed.length === 0 || allowed.includes(value);
  return (
    enabled &&
    lets(events, event) &&
    lets(agents, fullNameOf({ orgSlug: run.agentOrg, name: run.agentName })) &&
    (isEnd(event) ? lets(statuses, run.status) : statuses.length === 0 || events.length > 0) &&
    (event === 'score.dropped' ||
      ((includeSubCalls || run.parentRunId === null) && lets(triggerSources, run.triggerSource)))
  );
}
