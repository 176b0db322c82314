import { batchesOf } from '#core/base/batches.ts';
import type { HostedService, InstanceReport, ServiceReport } from '#core/ports/service-host.ts';
import { type ApplyDeps, applyServices, refOf } from './apply.ts';
import { meter, meterGone, type ReportDeps, takeReports } from './reports.ts';
import type { Service } from './service.ts';
import { isDue, unapplied } from './state.ts';
import { listAllServices, ServiceStore, storeOfService } from './store.ts';

/**
 * Default number of services compared concurrently. After a restart of the machine all services start again, and must
 * not slow each other down.
 */
const CONCURRENCY = 4;

/**
 * Reconciles the records with the host in both directions, and meters running services. Repairs the effects of lost
 * reports, lost orders and dead processes. Runs at startup and every minute; safe to run concurrently.
 */
export async function keepServices(deps: ApplyDeps & ReportDeps, atOnce = CONCURRENCY): Promise<void> {
  const { serviceHost: host, clock, log } = deps;
  if (host === undefined) return;
  const listedAt = clock.now();
  const hosted = new Map<string, HostedService>();
  for await (const service of host.list()) hosted.set(service.serviceId, service);
  const ids: string[] = [];
  for await (const { id } of listAllServices(deps)) ids.push(id);
  // The index may not contain a new service yet.
  const all = [...new Set([...ids, ...hosted.keys()])];
  for (const batch of batchesOf(all, atOnce)) {
    await Promise.all(
      batch.map((id) =>
        keepService(deps, id, hosted.get(id), listedAt).catch((error: unknown) => {
          log.error('service not compared with its host', { service_id: id, error: String(error) });
        }),
      ),
    );
  }
}

/**
 * Runs at the start of a host that lost its state, when no other process gives orders: clears the leases of orders in
 * progress, and tells the host which services are paused.
 */
export async function recoverServices(deps: ApplyDeps): Promise<void> {
  for await (const { id, workspaceId } of listAllServices(deps)) {
    const store = new ServiceStore(deps, workspaceId);
    await store.change(id, (service) =>
      service.applying === null ? undefined : { service: { ...service, applying: null } },
    );
    const service = await store.find(id);
    if (service?.desired === 'stopped') await deps.serviceHost?.pause(refOf(service));
  }
}

async function keepService(
  deps: ApplyDeps & ReportDeps,
  id: string,
  hosted: HostedService | undefined,
  listedAt: number,
): Promise<void> {
  const store = await storeOfService(deps, id);
  const service = await store?.find(id);
  if (store === undefined || service === undefined) {
    if (hosted) await deps.serviceHost?.remove({ id, workspaceId: hosted.workspaceId, label: '' });
    return;
  }
  await takeReports(deps, [...reportsOf(service, hosted, listedAt)]);
  await store.change(id, (current) =>
    isLost(current, hosted, listedAt)
      ? // A host that has nothing of it any more may give it another address.
        { service: { ...unapplied(current), address: hosted === undefined ? null : current.address } }
      : undefined,
  );
  await applyServices(deps, [id]);
  const current = await store.find(id);
  if (current === undefined) return;
  await meterRunning(deps, store, current, { hosted, listedAt });
  await meterGone(deps, store, current);
  await learnAddress(deps, store, current);
}

/** A host may take minutes to assign a URL. */
async function learnAddress({ serviceHost }: ApplyDeps, store: ServiceStore, service: Service): Promise<void> {
  if (service.address !== null || service.desired === 'deleted') return;
  const address = await serviceHost?.address(refOf(service));
  if (address === undefined) return;
  await store.change(service.id, (current) =>
    current.address === null ? { service: { ...current, address } } : undefined,
  );
}

/** Converts the host's list of instances into reports. */
function* reportsOf(service: Service, hosted: HostedService | undefined, listedAt: number): Generator<ServiceReport> {
  // The host's own reports come first, because they have the exact time of an end.
  yield* hosted?.reports ?? [];
  const listed = new Set<string>();
  for (const { instanceId, revision, startedAt, report } of hosted?.instances ?? []) {
    listed.add(instanceId);
    if (startedAt === null) continue;
    yield report ?? firstReport({ serviceId: service.id, instanceId, revision, startedAt, at: listedAt });
  }
  for (const [instanceId, { phase, startedAt, seenAt, revision }] of Object.entries(service.instances)) {
    if (phase === 'gone' || listed.has(instanceId) || startedAt >= listedAt || seenAt >= listedAt) continue;
    const message = 'The instance is gone.';
    yield {
      type: 'ended',
      serviceId: service.id,
      instanceId,
      revision,
      startedAt,
      at: seenAt,
      reason: 'stopped',
      message,
    };
  }
}

/** Synthesizes a report for an instance without one. Any report of its own is newer. */
const firstReport = (
  known: Pick<InstanceReport, 'serviceId' | 'instanceId' | 'revision' | 'startedAt' | 'at'>,
): InstanceReport => ({
  ...known,
  type: 'instance',
  sequence: 0,
  phase: 'starting',
  isWorker: false,
  restarts: 0,
  failures: 0,
  steadyAt: null,
  lastEnd: null,
});

/** Returns whether the state of the host differs from its order, and the order is not newer than the list. */
function isLost(service: Service, hosted: HostedService | undefined, listedAt: number): boolean {
  const { desired, applied, applying, refusal, revision } = service;
  if (isDue(service) || applying !== null || applied === null || applied.at >= listedAt) return false;
  if (desired !== 'running') {
    const isPaused = hosted?.isPaused === true && hosted.instances.length === 0;
    return hosted !== undefined && !(isPaused && desired === 'stopped');
  }
  if (refusal?.revision === revision) return false;
  return hosted === undefined || hosted.isPaused || hosted.revision < revision;
}

async function meterRunning(
  deps: ReportDeps,
  store: ServiceStore,
  service: Service,
  { hosted, listedAt }: { readonly hosted: HostedService | undefined; readonly listedAt: number },
): Promise<void> {
  for (const { instanceId: id } of hosted?.instances ?? []) {
    const instance = service.instances[id];
    if (instance === undefined || instance.phase === 'gone') continue;
    const meteredDay = await meter(deps, service, { id, instance, until: listedAt });
    if (meteredDay === instance.meteredDay) continue;
    await store.change(service.id, (current) => {
      const known = current.instances[id];
      return known && { service: { ...current, instances: { ...current.instances, [id]: { ...known, meteredDay } } } };
    });
  }
}
