import { GATES, type GateStatus } from '#core/manifest/version.ts';

/** What decides whether a version may be current: a version, its item, or its view, which has null for what is absent. */
export interface Standing {
  readonly runnable: boolean;
  readonly gate?: { readonly status: GateStatus } | null | undefined;
  readonly preview?: unknown;
}

/** Whether a gate keeps a version from becoming current. */
export const isHeld = ({ gate }: Pick<Standing, 'gate'>): boolean => gate != null && GATES[gate.status].isHeld;

/**
 * Whether a version may be current: `latest` is the newest live one of which this is true. This is the only place that decides it.
 */
export const mayBeCurrent = (version: Standing): boolean =>
  version.runnable && version.preview == null && !isHeld(version);
