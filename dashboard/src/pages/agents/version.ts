import type { AnswerOf } from '../../api/client.ts';

/** A version of an agent, as the list of its versions has it. */
export type Version = AnswerOf<'listAgents'>[number];

/** What each tab of an agent's page gets. */
export interface TabProps {
  /** The version that is looked at. */
  readonly agent: Version;
  /** All of the agent, newest first. */
  readonly versions: readonly Version[];
}

export const numberOf = ({ version }: Pick<Version, 'version'>): number => Number(version.slice(1));
