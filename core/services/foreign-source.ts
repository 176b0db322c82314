import { PlatformError } from '#core/base/errors.ts';
import { declaredNames } from '#core/execution/calls/secrets.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { ACCESS_KEY, PORT_VARIABLE } from './environment.ts';
import type { Service } from './service.ts';

/** Variables of the platform that interpreters, shells and libraries ignore. */
const PLATFORM_NAMES: readonly string[] = [PORT_VARIABLE, ACCESS_KEY];

type Settings = Pick<Service, 'workspaceId' | 'command' | 'env' | 'extraSecrets'>;

/**
 * Throws FORBIDDEN if a custom command or environment variable could expose the source of another workspace's
 * closed-source agent (`allow_local_download`, `docs/interface/manifest.md`). An allow list is needed: too many
 * libraries have variables that open a file and print parts of it.
 */
export function checkKeepsSource({ workspaceId, command, env, extraSecrets }: Settings, agent: AgentVersion): void {
  if (agent.workspaceId === workspaceId || agent.definition.allow_local_download) return;
  const whose = `${refOf(agent)} belongs to another workspace, which does not show its source`;
  if (command !== null) throw refuse(`command: ${whose}, so it runs its own command; leave "command" out.`);
  const allowed = [...declaredNames(agent), ...PLATFORM_NAMES];
  for (const [field, names] of [
    ['env', Object.keys(env)],
    ['secret_names', extraSecrets],
  ] as const) {
    const name = names.find((each) => !allowed.includes(each));
    if (name === undefined) continue;
    const problem = `${field}: ${whose}, so it takes only variables that it declares, and ${name} is none of them`;
    throw refuse(`${problem}; leave it out, or ask its author to declare it in optional_secrets.`);
  }
}

/** Throws FORBIDDEN if the agent is no longer public, or the service could expose its source. */
export function checkMayRun(service: Settings, agent: AgentVersion): void {
  if (agent.workspaceId !== service.workspaceId && !agent.definition.is_public) {
    throw refuse(`The agent ${refOf(agent)} of this service is no longer public.`);
  }
  checkKeepsSource(service, agent);
}

const refuse = (message: string): PlatformError => new PlatformError('FORBIDDEN', message);
