import { SecretStore } from '#core/accounts/secrets/store.ts';
import { findAnyVersion } from '#core/agents/store.ts';
import { PlatformError } from '#core/base/errors.ts';
import { missingSecrets } from '#core/execution/calls/secrets.ts';
import { egressTargets, runEgress } from '#core/execution/egress.ts';
import { shellQuote } from '#core/manifest/bundle/entrypoint.ts';
import { traitsOf } from '#core/manifest/engines.ts';
import { refOf } from '#core/manifest/references.ts';
import { type AgentVersion, bundleKey } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { BootDocument, ServiceApp } from '#core/ports/service-host.ts';
import { limitsOf } from './apply.ts';
import { authenticateInstance, serviceKeyOf } from './boot-tokens.ts';
import { appEnvironment, appPort, ownVariables } from './environment.ts';
import { checkMayRun } from './foreign-source.ts';
import { checkServiceEgress, grantsFor } from './hosted-agent.ts';
import { requiredNames, type Service } from './service.ts';

type SecretDeps = Pick<Deps, 'main' | 'vault' | 'clock' | 'ids'>;
export type BootDeps = Pick<Deps, 'main' | 'blobs' | 'vault' | 'clock' | 'ids' | 'config' | 'gatewayUrl'>;

/** Default entry points: the first of these files in the bundle (`docs/interface/service-instances.md#entrypoint`). */
const ENTRYPOINTS = [
  ...['main.py', 'app.py', 'bot.py', 'server.py', 'index.py'],
  ...['index.js', 'main.js', 'app.js', 'bot.js', 'server.js'],
];

/**
 * Returns what an instance needs to start, for the token of its revision. Throws UNAUTHORIZED for other tokens and for
 * revisions without instances; NOT_FOUND if the agent version was deleted; FORBIDDEN, MISSING_SECRETS.
 */
export async function bootDocument(deps: BootDeps, serviceId: string, token: string): Promise<BootDocument> {
  const { service, revision } = await authenticateInstance(deps, serviceId, token);
  const agent = await findAnyVersion(deps, service.agentId);
  if (agent === undefined) {
    throw new PlatformError('NOT_FOUND', `The version ${service.agentVersion} of ${service.agentName} was deleted.`);
  }
  checkMayRun(service, agent);
  await checkServiceEgress(deps, service.workspaceId, agent);
  const layer = agent.install?.status === 'ready' ? agent.install : undefined;
  // Runs of a loop open their own sandboxes.
  const isLoop = traitsOf(agent.definition.execution_engine).hasLoop;
  return {
    serviceId,
    workspaceId: service.workspaceId,
    revision,
    agent: refOf(agent),
    app: appOf(service, agent),
    env: appEnvironment(service.env, {
      ...ownVariables(service),
      PLATFORM_GATEWAY_URL: deps.gatewayUrl,
    }),
    secrets: {
      ...(await secretValues(deps, service.workspaceId, agent, {
        required: requiredNames(service),
        optional: service.optionalSecrets,
      })),
      PLATFORM_SERVICE_KEY: serviceKeyOf(serviceId, token),
    },
    port: appPort(service.env),
    ...(agent.bundle && !isLoop && { bundle: { key: bundleKey(agent.bundle), sha256: agent.bundle.sha256 } }),
    ...(layer && !isLoop && { layer: { key: layer.layer, sha256: layer.layerSha256 } }),
    egress: runEgress(deps.config, agent),
    egressTargets: egressTargets(deps.config, agent),
    limits: limitsOf(deps.config),
  };
}

export function appOf({ command, args }: Service, { definition, bundle }: AgentVersion): ServiceApp {
  if (traitsOf(definition.execution_engine).hasLoop) return { kind: 'loop', inputSchema: definition.input_schema };
  if (command !== null) {
    return args.length > 0 ? { kind: 'argv', argv: [command, ...args] } : { kind: 'shell', line: command };
  }
  const own = definition.run_command ?? definition.runtime?.command;
  if (own != null) return { kind: 'shell', line: own };
  // An entry point set by the author precedes the list; one detected during the upload follows it.
  const { entrypoint } = definition;
  const found = bundle?.entrypoint ?? null;
  const files = [entrypoint, ...ENTRYPOINTS, found].filter((file) => file !== null);
  return { kind: 'shell', line: firstOf([...new Set(files)]) };
}

/** Returns a shell line that replaces the shell with the first of the files that exists. */
function firstOf(files: readonly string[]): string {
  const attempts = files.map((file) => {
    const path = shellQuote(`./${file}`);
    return `[ -f ${path} ] && exec ${file.endsWith('.py') ? 'python' : 'node'} ${path}`;
  });
  const problem = `The bundle has no entry point: set a command, or add one of ${ENTRYPOINTS.join(', ')} to its root.`;
  return [...attempts, `echo ${shellQuote(problem)} >&2`, 'exit 127'].join('; ');
}

/** Returns the values of the additional secrets. Throws MISSING_SECRETS. */
export const extraSecretsOf = (
  deps: SecretDeps,
  service: Service,
  agent: AgentVersion,
): Promise<Record<string, string>> =>
  secretValues(deps, service.workspaceId, agent, { required: service.extraSecrets });

/**
 * Returns the values of secrets. Throws MISSING_SECRETS if a required one does not exist, or is not granted to a
 * foreign agent.
 */
async function secretValues(
  deps: SecretDeps,
  workspaceId: string,
  agent: AgentVersion,
  { required, optional = [] }: { readonly required: readonly string[]; readonly optional?: readonly string[] },
): Promise<Record<string, string>> {
  const names = [...new Set([...required, ...optional])];
  if (names.length === 0) return {};
  const { granted, requestsFor } = await grantsFor(deps, workspaceId, agent, names);
  const values = await new SecretStore(deps, workspaceId).values(granted);
  const missing = required.filter((name) => !(name in values));
  if (missing.length === 0) return values;
  const isAbsent = missing.some((name) => granted.includes(name));
  throw missingSecrets(missing, { requests: requestsFor(missing), isAbsent });
}
