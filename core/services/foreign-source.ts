import { refOf } from '#core/agents/references.ts';
import type { AgentVersion } from '#core/agents/version.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Service } from './service.ts';

/** Variables with which loaders, shells and interpreters run other code than a program's own. */
const CODE_VARIABLES =
  /^(?:LD_\w+|PATH|IFS|ENV|BASH_ENV|SHELLOPTS|BASHOPTS|PS4|NODE_(?:OPTIONS|PATH|V8_COVERAGE)|NPM_CONFIG_\w+|PYTHON(?:HOME|PATH|STARTUP|INSPECT|BREAKPOINT|WARNINGS|USERBASE|PLATLIBDIR)|PERL5\w+|PERLLIB|RUBY(?:OPT|LIB)|GEM_\w+|(?:JAVA_TOOL|JDK_JAVA|_JAVA)_OPTIONS|CLASSPATH|PHPRC|PHP_INI_SCAN_DIR)$/i;

type Settings = Pick<Service, 'workspaceId' | 'command' | 'env' | 'extraSecrets'>;

/**
 * Throws FORBIDDEN where a service could show the source of an agent of another workspace, which keeps it to itself
 * (`allow_local_download`, `docs/interface/manifest.md`): by a command of its own, or by a variable that runs code.
 */
export function checkKeepsSource({ workspaceId, command, env, extraSecrets }: Settings, agent: AgentVersion): void {
  if (agent.workspaceId === workspaceId || agent.definition.allow_local_download) return;
  const whose = `${refOf(agent)} belongs to another workspace, which does not show its source`;
  if (command !== null) throw refuse(`command: ${whose}, so it runs its own command; leave "command" out.`);
  const plain = Object.keys(env).find((name) => CODE_VARIABLES.test(name));
  if (plain !== undefined) throw refuse(`env: ${plain} can run other code, and ${whose}; leave it out.`);
  const secret = extraSecrets.find((name) => CODE_VARIABLES.test(name));
  if (secret !== undefined) throw refuse(`secret_names: ${secret} can run other code, and ${whose}; leave it out.`);
}

/** Throws FORBIDDEN if the agent is no longer public, or its source is to be kept from the service. */
export function checkMayRun(service: Settings, agent: AgentVersion): void {
  if (agent.workspaceId !== service.workspaceId && !agent.definition.is_public) {
    throw refuse(`The agent ${refOf(agent)} of this service is no longer public.`);
  }
  checkKeepsSource(service, agent);
}

const refuse = (message: string): PlatformError => new PlatformError('FORBIDDEN', message);
