import { type AgentFragments, agentFragments } from '../openapi.ts';

let made: AgentFragments | undefined;

/**
 * The parts of the platform's document that those of agents share. The build replaces this file by its value, because the
 * deployed function has not the rows (`scripts/build-functions.ts`).
 */
export function fragments(): AgentFragments {
  made ??= agentFragments();
  return made;
}
