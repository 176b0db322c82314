import type { AnswerOf } from '../../api/client.ts';

/** A version of an agent, as returned by the version list. */
export type Version = AnswerOf<'listAgents'>[number];

/** Props of each tab on an agent's page. */
export interface TabProps {
  /** Selected version. */
  readonly agent: Version;
  /** All versions of the agent, newest first. */
  readonly versions: readonly Version[];
}

export const numberOf = ({ version }: Pick<Version, 'version'>): number => Number(version.slice(1));

/** Whether its gate holds the version back from `latest`. */
export const isHeld = ({ gate }: Pick<Version, 'gate'>): boolean =>
  gate?.status === 'pending' || gate?.status === 'failed';

/** Whether `latest` or a channel may name the version. */
export const mayBeNamed = (version: Pick<Version, 'runnable' | 'gate' | 'preview'>): boolean =>
  version.runnable && version.preview === null && !isHeld(version);
