import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { randomHex } from '#core/ports/ids.ts';
import { type ApplyDeps, applyService } from './apply.ts';
import { checkEnvironment, checkSecretNames } from './environment.ts';
import { currentVersionId, followsVersions, moveServicesToCurrentVersion } from './follow-versions.ts';
import { checkKeepsSource } from './foreign-source.ts';
import {
  type AgentDeps,
  agentMembers,
  checkHostable,
  checkServiceEgress,
  checkServiceSecrets,
  resolveHostedAgent,
} from './hosted-agent.ts';
import type { NewServiceBody } from './schema.ts';
import { requiredNames, type Service } from './service.ts';
import { checkAlertUrl, checkCommand, checkHost, checkInstances } from './settings.ts';
import { deleted, INITIAL_STATE, stateOf } from './state.ts';
import { ServiceStore } from './store.ts';

const DEFAULT_MAX_RESTART_FAILURES = 5;
const MAX_LABEL_LENGTH = 42;
const LABEL_SUFFIX_BYTES = 3;
const LABEL_TRIES = 5;

export type CommandDeps = AgentDeps & ApplyDeps & Pick<AllDeps, 'wakeServices'>;

/**
 * Creates a service and orders its first instances.
 *
 * Throws NOT_FOUND and INVALID_INPUT for the body, MISSING_SECRETS, FORBIDDEN if the plan's limit of services is
 * reached, UNPROCESSABLE if the host does not support services, or rejects this one.
 */
export async function deployService(deps: CommandDeps, caller: Caller, body: NewServiceBody): Promise<Service> {
  const { workspace } = caller;
  const { agent, channel } = await resolveHostedAgent(deps, caller, body);
  checkHostable(agent, workspace.id);
  const currentId = await currentVersionId(deps, agent, channel?.name);
  const env = body.env ?? {};
  checkEnvironment(env, agent.definition.required_secrets);
  const members = agentMembers(agent, checkSecretNames(body.secret_names ?? [], env));
  await checkServiceSecrets(deps, workspace.id, agent, requiredNames(members));
  await checkServiceEgress(deps, workspace.id, agent);
  const minInstances = body.min_instances ?? 1;
  const now = deps.clock.now();
  const name = body.service_name ?? body.name ?? agent.name;
  const autoUpdate = body.auto_update ?? true;
  const service: Service = {
    id: deps.ids.uuid(),
    workspaceId: workspace.id,
    name,
    label: newLabel(deps, name),
    ...members,
    command: body.command ?? null,
    args: body.args ?? [],
    env,
    minInstances,
    maxInstances: body.max_instances ?? minInstances,
    overlap: body.overlap ?? true,
    autoUpdate,
    ...(channel !== undefined && autoUpdate && { channel: channel.name }),
    alertWebhookUrl: checkAlertUrl(deps, body.alert_webhook_url),
    maxRestartFailures: body.max_restart_failures ?? DEFAULT_MAX_RESTART_FAILURES,
    ...INITIAL_STATE,
    lastDeployedAt: now,
    createdBy: caller.userId,
    createdAt: now,
    updatedAt: now,
  };
  checkCommand(service, agent);
  checkKeepsSource(service, agent);
  checkInstances(deps, workspace, service);
  checkHost(deps);
  const store = new ServiceStore(deps, workspace.id);
  await create(deps, caller, store, service);
  // A version published in the meantime would not have found this service to update.
  const isBehind = followsVersions(service) && (await currentVersionId(deps, agent, service.channel)) !== currentId;
  if (isBehind) await moveServicesToCurrentVersion(deps, agent);
  await applyNow(deps, service.id);
  const deployed = (await store.find(service.id)) ?? service;
  if (stateOf(deployed) !== 'failed') return deployed;
  // The service never ran, so it is deleted again.
  await store.change(service.id, (current) => ({ service: deleted(current) }));
  await applyNow(deps, service.id);
  throw new PlatformError('UNPROCESSABLE', deployed.refusal!.message);
}

async function create(deps: CommandDeps, caller: Caller, store: ServiceStore, service: Service): Promise<void> {
  const { slug } = caller.workspace;
  const { name: plan, services: limit } = planOf(deps, caller.workspace);
  const event = { type: 'deployed', message: `Deployed ${service.agentName} ${service.agentVersion}.` } as const;
  let label = service.label;
  for (let tries = 1; ; tries++) {
    const result = await store.create({ ...service, label }, limit, event);
    if (result === 'created') return;
    if (result === 'full') {
      throw new PlatformError(
        'FORBIDDEN',
        `The plan "${plan}" of the workspace "${slug}" allows ${limit} services: delete one, or upgrade the plan.`,
      );
    }
    if (tries === LABEL_TRIES) throw new Error(`no label is free for a service named ${service.name}`);
    label = newLabel(deps, service.name);
  }
}

/** Returns a unique part of a host name, with the letter of the cell before random digits: `my-bot-a1b2c3d`. */
function newLabel({ ids }: Pick<CommandDeps, 'ids'>, name: string): string {
  const slug = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, MAX_LABEL_LENGTH)
    .replaceAll(/^-|-$/g, '');
  return `${slug || 'service'}-${ids.cell}${randomHex(ids, LABEL_SUFFIX_BYTES)}`;
}

/** Updates the host immediately, or wakes the process that is allowed to. If that fails, the sweep does it. */
export async function applyNow(deps: CommandDeps, id: string): Promise<void> {
  const told = deps.serviceHost === undefined ? deps.wakeServices?.([id]) : applyService(deps, id);
  await told?.catch((error: unknown) => {
    deps.log.warn('order for a service not given', { service_id: id, error: String(error) });
  });
}
