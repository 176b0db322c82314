import { isDeepStrictEqual } from 'node:util';
import { writeSpan } from '#core/billing/usage/service-minutes.ts';
import { type Delivery, type DeliveryDeps, tryDelivery } from '#core/outbound/deliveries.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { ServiceReport } from '#core/ports/service-host.ts';
import { alertOperations, newServiceAlert, serviceAlertListener } from './alerts.ts';
import type { Instance, Service } from './service.ts';
import { afterReports, isDue } from './state.ts';
import { type ServiceStore, storeOfService } from './store.ts';

export type ReportDeps = DeliveryDeps & Pick<Deps, 'runs' | 'ids' | 'config' | 'background' | 'wakeServices'>;

/**
 * Handles reports of a host or an instance, in any order and with repetitions. Resolves once the records are written;
 * throws if they could not be written, and the host reports again. Reports about unknown services are ignored.
 */
export async function takeReports(deps: ReportDeps, reports: readonly ServiceReport[]): Promise<void> {
  const byService = Map.groupBy(reports, ({ serviceId }) => serviceId);
  await Promise.all([...byService].map(([id, own]) => takeReportsOf(deps, id, own)));
}

async function takeReportsOf(deps: ReportDeps, id: string, reports: readonly ServiceReport[]): Promise<void> {
  const store = await storeOfService(deps, id);
  if (store === undefined) return;
  let alert: Delivery | undefined;
  const service = await store.change(id, (before) => {
    const step = afterReports(before, reports, deps.clock.now());
    alert = step.alert && newServiceAlert(deps, step.service, step.alert);
    if (step.events.length === 0 && isOldNews(before, step.service)) return undefined;
    return { service: step.service, events: step.events, alongside: alertOperations(deps, alert) };
  });
  if (service === undefined) return;
  if (alert) deps.background(tryDelivery(deps, alert, serviceAlertListener(deps)));
  if (isDue(service)) await deps.wakeServices?.([id]);
  // Reports without an end need no metering here: the sweep completes unfinished metering.
  if (reports.some(({ type }) => type === 'ended')) await meterGone(deps, store, service);
}

/** Returns whether the reports only confirm that instances are alive. These arrive every minute and are not written. */
function isOldNews(before: Service, after: Service): boolean {
  const news = ({ instances, ...rest }: Service) => [
    rest,
    Object.entries(instances).map(([id, instance]) => [id, { ...instance, sequence: 0, seenAt: 0 }]),
  ];
  return isDeepStrictEqual(news(before), news(after));
}

/** Meters the remaining usage of instances that are gone. */
export async function meterGone(deps: Pick<Deps, 'runs'>, store: ServiceStore, service: Service): Promise<void> {
  const ended = Object.entries(service.instances).filter(([, { phase, isMetered }]) => phase === 'gone' && !isMetered);
  if (ended.length === 0) return;
  for (const [id, instance] of ended) await meter(deps, service, { id, instance, until: instance.seenAt });
  await store.change(service.id, (current) => {
    const metered = ended.flatMap(([id]) => {
      const instance = current.instances[id];
      return instance?.phase === 'gone' ? [[id, { ...instance, isMetered: true }] as const] : [];
    });
    return { service: { ...current, instances: { ...current.instances, ...Object.fromEntries(metered) } } };
  });
}

/** Meters the runtime of an instance up to a moment. Returns the last completed day. */
export const meter = (
  deps: Pick<Deps, 'runs'>,
  service: Service,
  { id, instance, until }: { readonly id: string; readonly instance: Instance; readonly until: number },
): Promise<string | null> =>
  writeSpan(deps, {
    workspaceId: service.workspaceId,
    serviceId: service.id,
    serviceName: service.name,
    agentOrg: service.agentOrg,
    agentName: service.agentName,
    instanceId: id,
    startedAt: instance.startedAt,
    until,
    writtenDay: instance.meteredDay,
  });
