import { isDeepStrictEqual } from 'node:util';
import { findAnyVersion } from '#core/agents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { applyNow, type CommandDeps } from './deploy.ts';
import { checkEnvironment, checkSecretNames } from './environment.ts';
import { currentVersionId, followsVersions, moveServicesToCurrentVersion, versionChange } from './follow-versions.ts';
import { checkKeepsSource } from './foreign-source.ts';
import { agentMembers, checkHostable, checkServiceEgress, checkServiceSecrets } from './hosted-agent.ts';
import type { ServiceChangesBody } from './schema.ts';
import { type NewServiceEvent, requiredNames, type Service } from './service.ts';
import { checkAlertUrl, checkCommand, checkHost, checkInstances } from './settings.ts';
import { changed, deleted, paused, restarted, resumed } from './state.ts';
import { type ServiceChange, ServiceStore } from './store.ts';

/** Returns a service that is not deleted. Throws NOT_FOUND. */
export async function findService(
  deps: ConstructorParameters<typeof ServiceStore>[0],
  caller: Caller,
  id: string,
): Promise<Service> {
  const service = await new ServiceStore(deps, caller.workspace.id).find(id);
  if (service === undefined) throw serviceNotFound(caller, id);
  return service;
}

const serviceNotFound = (caller: Caller, id: string): PlatformError =>
  new PlatformError(
    'NOT_FOUND',
    `The workspace "${caller.workspace.slug}" has no service with the id "${id.slice(0, 64)}".`,
  );

/** Changes a service that is not deleted, and updates the host. Throws NOT_FOUND. */
async function changeService(
  deps: CommandDeps,
  caller: Caller,
  id: string,
  decide: (service: Service) => ServiceChange | undefined,
): Promise<Service> {
  const store = new ServiceStore(deps, caller.workspace.id);
  let isThere = false;
  await store.change(id, (service) => {
    isThere = service.desired !== 'deleted';
    return isThere ? decide(service) : undefined;
  });
  if (!isThere) throw serviceNotFound(caller, id);
  await applyNow(deps, id);
  return findService(deps, caller, id);
}

/**
 * Changes the settings of a service. If it is running and the change affects instances, new instances replace the old
 * ones. Throws NOT_FOUND, INVALID_INPUT, FORBIDDEN, MISSING_SECRETS; UNPROCESSABLE for a start if the host does not
 * support services.
 */
export async function updateService(
  deps: CommandDeps,
  caller: Caller,
  id: string,
  body: ServiceChangesBody,
): Promise<Service> {
  const before = await findService(deps, caller, id);
  const wanted = settingsFrom(deps, before, body);
  checkInstances(deps, caller.workspace, wanted);
  const concernsAgent = body.env ?? body.secret_names ?? body.command ?? body.args;
  const version = concernsAgent ? await findAnyVersion(deps, before.agentId) : undefined;
  checkCommand(wanted, version);
  if (version) checkKeepsSource(wanted, version);
  if (version && (body.env || body.secret_names)) {
    await checkServiceSecrets(deps, wanted.workspaceId, version, requiredNames(wanted));
  }
  if (body.desired_state === 'running') checkHost(deps);
  const after = await changeService(deps, caller, id, (service) => {
    const next = settingsFrom(deps, service, body);
    const now = deps.clock.now();
    const events = changeEvents(service, next, body);
    const isSame = events.length === 0 && isDeepStrictEqual(service, next);
    if (isSame) return undefined;
    const renewed = needsInstances(service, next) ? { ...changed(next), lastRestartAt: restartTime(next, now) } : next;
    const { desired_state: desired } = body;
    const moved = desired === 'running' ? resumed(renewed) : desired === 'stopped' ? paused(renewed) : renewed;
    return { service: { ...moved, updatedAt: now }, events };
  });
  // A version published in the meantime may have found that the service does not follow versions.
  const mayLag = body.auto_update === true && followsVersions(after);
  const agent = { workspaceId: after.agentWorkspaceId, name: after.agentName };
  if (!mayLag || (await currentVersionId(deps, agent, after.channel)) === after.agentId) return after;
  await moveServicesToCurrentVersion(deps, agent);
  await applyNow(deps, id);
  return findService(deps, caller, id);
}

const restartTime = ({ desired, lastRestartAt }: Service, now: number): number | null =>
  desired === 'running' ? now : lastRestartAt;

/** Returns the service with the settings of the body. Throws INVALID_INPUT. */
function settingsFrom(deps: CommandDeps, service: Service, body: ServiceChangesBody): Service {
  const env = body.env ?? service.env;
  const { requiredSecrets, extraSecrets } = service;
  if (body.env) checkEnvironment(env, requiredSecrets);
  const names = checkSecretNames(body.secret_names ?? extraSecrets, env);
  const minInstances = body.min_instances ?? service.minInstances;
  const maxInstances = body.max_instances ?? Math.max(service.maxInstances, minInstances);
  return {
    ...service,
    env,
    extraSecrets: names.filter((name) => !requiredSecrets.includes(name)),
    alertWebhookUrl:
      body.alert_webhook_url === undefined ? service.alertWebhookUrl : checkAlertUrl(deps, body.alert_webhook_url),
    maxRestartFailures: body.max_restart_failures ?? service.maxRestartFailures,
    minInstances,
    maxInstances,
    overlap: body.overlap ?? service.overlap,
    command: body.command === undefined ? service.command : body.command,
    args: body.args === undefined ? service.args : (body.args ?? []),
    autoUpdate: body.auto_update ?? service.autoUpdate,
    // A service that is fixed to its version follows no channel.
    ...(body.auto_update === false && service.channel != null && { channel: null }),
  };
}

/** Returns whether a setting changed that requires new instances. */
const needsInstances = (before: Service, after: Service): boolean =>
  (['env', 'extraSecrets', 'minInstances', 'maxInstances', 'overlap', 'command', 'args'] as const).some(
    (member) => !isDeepStrictEqual(before[member], after[member]),
  );

function changeEvents(before: Service, after: Service, body: ServiceChangesBody): NewServiceEvent[] {
  const waits =
    before.desired === 'running' && body.desired_state !== 'stopped' ? '' : ' It applies at the next start.';
  const events: NewServiceEvent[] = [];
  const isChanged = (...members: (keyof Service)[]) =>
    members.some((member) => !isDeepStrictEqual(before[member], after[member]));
  if (isChanged('env')) events.push({ type: 'env_updated', message: `Environment changed.${waits}` });
  if (isChanged('extraSecrets')) events.push({ type: 'secrets_updated', message: `Secrets changed.${waits}` });
  const instances = ['minInstances', 'maxInstances', 'overlap', 'command', 'args'] as const;
  if (isChanged(...instances)) events.push({ type: 'updated', message: `Settings of its instances changed.${waits}` });
  else if (isChanged('alertWebhookUrl', 'maxRestartFailures', 'autoUpdate')) {
    events.push({ type: 'updated', message: 'Settings changed.' });
  }
  if (body.desired_state === 'stopped' && before.desired === 'running') {
    events.push({ type: 'paused', message: 'Paused on request.' });
  }
  if (body.desired_state === 'running' && before.desired === 'stopped') {
    events.push({ type: 'resumed', message: 'Started on request.' });
  }
  return events;
}

/**
 * Restarts the same version with its current secrets. Throws NOT_FOUND, MISSING_SECRETS, UNPROCESSABLE if the version
 * was deleted or the host does not support services.
 */
export async function restartService(deps: CommandDeps, caller: Caller, id: string): Promise<Service> {
  const before = await findService(deps, caller, id);
  checkHost(deps);
  const agent = await findAnyVersion(deps, before.agentId);
  if (agent === undefined) {
    throw new PlatformError(
      'UNPROCESSABLE',
      `The version ${before.agentVersion} of ${before.agentName} was deleted: update the service with POST /workspaces/${before.workspaceId}/services/${id}/update-version.`,
    );
  }
  await checkServiceSecrets(deps, before.workspaceId, agent, requiredNames(agentMembers(agent, before.extraSecrets)));
  await checkServiceEgress(deps, before.workspaceId, agent);
  return changeService(deps, caller, id, (service) => {
    const now = deps.clock.now();
    const members = service.agentId === agent.id ? agentMembers(agent, service.extraSecrets) : {};
    return {
      service: { ...restarted({ ...service, ...members }, now), updatedAt: now },
      events: [{ type: 'restarted', message: 'Restarted on request.' }],
    };
  });
}

/** Moves a service to the current version of its agent, or that of its channel. Throws NOT_FOUND, INVALID_INPUT, FORBIDDEN, MISSING_SECRETS, UNPROCESSABLE. */
export async function updateServiceVersion(
  deps: CommandDeps,
  caller: Caller,
  id: string,
): Promise<{ readonly service: Service; readonly updatedTo: string | undefined }> {
  const before = await findService(deps, caller, id);
  checkHost(deps);
  const followed = { workspaceId: before.agentWorkspaceId, name: before.agentName };
  const currentId = await currentVersionId(deps, followed, before.channel);
  const agent = currentId === undefined ? undefined : await findAnyVersion(deps, currentId);
  const isOpen = agent?.workspaceId === before.workspaceId || agent?.definition.is_public;
  if (agent === undefined || !isOpen) {
    throw new PlatformError(
      'UNPROCESSABLE',
      `${before.agentOrg}/${before.agentName} no longer has a runnable version.`,
    );
  }
  checkHostable(agent, before.workspaceId);
  checkKeepsSource(before, agent);
  await checkServiceSecrets(deps, before.workspaceId, agent, requiredNames(agentMembers(agent, before.extraSecrets)));
  await checkServiceEgress(deps, before.workspaceId, agent);
  let isMoved = false;
  const service = await changeService(deps, caller, id, (current) => {
    const change = versionChange(current, agent, deps.clock.now());
    isMoved = change !== undefined;
    return change;
  });
  return { service, updatedTo: isMoved ? service.agentVersion : undefined };
}

/** Deletes a service. Throws NOT_FOUND, also if it is already deleted. */
export const deleteService = (deps: CommandDeps, caller: Caller, id: string): Promise<Service> =>
  changeService(deps, caller, id, (service) => ({
    service: { ...deleted(service), updatedAt: deps.clock.now() },
    events: [{ type: 'deleting', message: 'Deletion requested.' }],
  }));
