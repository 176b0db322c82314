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
