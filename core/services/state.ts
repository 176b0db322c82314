import type { InstanceEnd, InstanceReport, ServiceReport } from '#core/ports/service-host.ts';
import type { Instance, NewServiceEvent, Service, ServiceHealth, ServiceState } from './service.ts';

/*
 * The state machine of a service, as pure functions of the record. Only commands change the desired state (`desired`,
 * `revision`), and only reports change the state of the instances; the one exception is the pause for a crash loop. The
 * latest report of an instance replaces older ones, and its end is final, so lost, duplicate and late reports lead to
 * the same record (`state.test.ts`).
 */

/** A record after a change, and the writes of the same transaction. */
export interface Step {
  readonly service: Service;
  readonly events: readonly NewServiceEvent[];
  /** Alert that becomes due with the change. */
  readonly alert?: { readonly isPaused: boolean };
}

/** How long gone instances are remembered. Older reports about unknown instances are ignored. */
const REMEMBERED_MS = 3_600_000;
const MAX_MESSAGE_LENGTH = 500;
/**
 * Maximum number of instances in a record: each takes 300 bytes, and DynamoDB limits items to 400 KB. Reports about
 * further instances are ignored until older ones are forgotten; the host's list then reports them again.
 */
export const MAX_KNOWN = 800;

/** State of a new service: it should run, and the host does not know it yet. */
export const INITIAL_STATE = {
  desired: 'running',
  revision: 1,
  applied: null,
  applying: null,
  tokens: [],
  refusal: null,
  address: null,
  instances: {},
  hasRun: false,
  readyRevision: 0,
  countedFrom: 1,
  consecutiveFailures: 0,
  isWarned: false,
  pastRestarts: 0,
  lastError: null,
  lastRestartAt: null,
  autoPausedAt: null,
} as const satisfies Partial<Service>;

export const instancesOf = ({ instances }: Service): Instance[] => Object.values(instances);
const isAlive = ({ phase }: Instance): boolean => phase !== 'gone';
const isReady = ({ phase }: Instance): boolean => phase === 'ready';

export function stateOf(service: Service): ServiceState {
  const { desired, applied, revision, refusal, hasRun } = service;
  if (desired === 'deleted') return applied?.revision === revision ? 'deleted' : 'deleting';
  if (desired === 'stopped') return 'paused';
  if (refusal?.revision === revision && !instancesOf(service).some(isReady)) return 'failed';
  return hasRun ? 'running' : 'provisioning';
}

export function healthOf(service: Service): ServiceHealth {
  if (service.desired !== 'running') return 'unknown';
  const ready = instancesOf(service).filter(isReady).length;
  if (ready >= service.minInstances) return 'healthy';
  if (ready > 0) return 'degraded';
  return service.hasRun ? 'unhealthy' : 'unknown';
}

/** Returns the number of restarts, after crashes and on request. */
export const restartsOf = (service: Service): number =>
  instancesOf(service).reduce((sum, instance) => sum + restartsIn(instance), service.pastRestarts);

const restartsIn = ({ restarts, hasCrashed }: Instance): number => restarts + Number(hasCrashed);

/** Returns the number of failed restarts that triggers a warning: half of the maximum, rounded up. */
export const warningCount = ({ maxRestartFailures }: Pick<Service, 'maxRestartFailures'>): number =>
  Math.ceil(maxRestartFailures / 2);

/**
 * Counts failed restarts in a row since `countedFrom`. An instance counts until it has been ready for 60 seconds. A
 * gone instance counts until an instance that started later has been.
 */
function failuresOf(service: Service): number {
  const counted = instancesOf(service).filter(({ revision }) => revision >= service.countedFrom);
  const steadyStarts = counted.filter(({ steadyAt }) => steadyAt !== null).map(({ startedAt }) => startedAt);
  const clearedUntil = Math.max(Number.NEGATIVE_INFINITY, ...steadyStarts);
  return counted
    .filter((instance) => isAlive(instance) || instance.seenAt > clearedUntil)
    .reduce((sum, { failures, hasCrashed }) => sum + failures + Number(hasCrashed), 0);
}

/** Returns the record after reports, in any order. For a deleted service, only the ends of its instances matter. */
export function afterReports(before: Service, reports: readonly ServiceReport[], now: number): Step {
  const isDeleted = stateOf(before) === 'deleted';
  const events: NewServiceEvent[] = [];
  let service = before;
  for (const report of reports) {
    if (report.revision > service.revision) continue;
    if (report.type === 'failed') {
      service = afterFailure(service, report, events);
      continue;
    }
    const known = service.instances[report.instanceId];
    if (isDeleted && (known === undefined || report.type !== 'ended')) continue;
    if (known === undefined && report.at < now - REMEMBERED_MS) continue;
    if (known === undefined && Object.keys(service.instances).length >= MAX_KNOWN) continue;
    const instance = report.type === 'ended' ? ended(known, report) : reported(known, report);
    if (instance === known) continue;
    service = afterInstance(service, { id: report.instanceId, known, instance, report }, events);
  }
  return isDeleted ? { service, events: [] } : counted(service, events, now);
}

function reported(known: Instance | undefined, report: InstanceReport): Instance {
  if (known !== undefined && known.sequence >= report.sequence) return known;
  const { revision, sequence, isWorker, restarts, failures, steadyAt, lastEnd, phase, at } = report;
  const newest = { sequence, isWorker, restarts, failures, steadyAt, lastEndAt: lastEnd?.at ?? null };
  if (known?.phase === 'gone') return { ...known, ...newest };
  const seenAt = Math.max(known?.seenAt ?? 0, at);
  // Later reports cannot make an instance younger: its minutes are already paid for.
  const startedAt = Math.min(known?.startedAt ?? report.startedAt, report.startedAt);
  const { meteredDay = null } = known ?? {};
  return { revision, startedAt, ...newest, phase, seenAt, hasCrashed: false, meteredDay, isMetered: false };
}

/** The host may add details about an end that was already inferred from its list. */
function ended(known: Instance | undefined, { revision, startedAt, at, reason }: InstanceEnd): Instance {
  const none = { sequence: 0, isWorker: false, restarts: 0, failures: 0, steadyAt: null, lastEndAt: null };
  const before = known ?? { ...none, revision, startedAt, seenAt: at, hasCrashed: false, meteredDay: null };
  const seenAt = Math.max(before.seenAt, at);
  const hasCrashed = before.hasCrashed || reason === 'crashed';
  const isSame = known?.phase === 'gone' && known.seenAt === seenAt && known.hasCrashed === hasCrashed;
  return isSame ? known : { ...before, phase: 'gone', seenAt, hasCrashed, isMetered: false };
}

function afterFailure(
  service: Service,
  { revision, at, message }: Extract<ServiceReport, { type: 'failed' }>,
  events: NewServiceEvent[],
): Service {
  const isOld = revision < service.revision || service.refusal?.revision === revision;
  if (isOld || service.desired !== 'running') return service;
  const text = message.slice(0, MAX_MESSAGE_LENGTH);
  events.push({ type: 'deploy_failed', message: text });
  return { ...service, refusal: { revision, message: text }, lastError: { at, message: text } };
}

function afterInstance(
  service: Service,
  {
    id,
    known,
    instance,
    report,
  }: {
    readonly id: string;
    readonly known: Instance | undefined;
    readonly instance: Instance;
    readonly report: InstanceReport | InstanceEnd;
  },
  events: NewServiceEvent[],
): Service {
  const wasReady = report.type === 'instance' && report.phase === 'ready';
  const isFirstReady = wasReady && report.revision > service.readyRevision;
  const end = newEndOf(known, instance, report);
  let { lastError, lastRestartAt } = service;
  if (isFirstReady) events.push({ type: 'running', message: `Version ${service.agentVersion} is running.` });
  if (end !== undefined) {
    const isFailure = instance.failures > (known?.failures ?? 0) || report.type === 'ended';
    const message = end.message.slice(0, MAX_MESSAGE_LENGTH);
    events.push({ type: isFailure ? 'restart_failed' : 'crashed', message });
    if (lastError === null || lastError.at <= end.at) lastError = { at: end.at, message };
    if (restartsIn(instance) > (known ? restartsIn(known) : 0)) lastRestartAt = Math.max(lastRestartAt ?? 0, end.at);
  }
  return {
    ...service,
    instances: { ...service.instances, [id]: instance },
    hasRun: service.hasRun || wasReady || instance.steadyAt !== null,
    readyRevision: isFirstReady ? report.revision : service.readyRevision,
    lastError,
    lastRestartAt,
  };
}

/** Returns the end of an app or its instance, if this report is the first to contain it. */
function newEndOf(
  known: Instance | undefined,
  { hasCrashed }: Instance,
  report: InstanceReport | InstanceEnd,
): { readonly at: number; readonly message: string } | undefined {
  if (report.type === 'ended') {
    const isNew = hasCrashed && known?.hasCrashed !== true;
    return isNew ? { at: report.at, message: report.message } : undefined;
  }
  const { lastEnd } = report;
  if (lastEnd === null || lastEnd.at <= (known?.lastEndAt ?? Number.NEGATIVE_INFINITY)) return undefined;
  return lastEnd;
}

/** Recounts failed restarts: half of the maximum triggers a warning, the maximum pauses the service. */
function counted(service: Service, events: NewServiceEvent[], now: number): Step {
  const kept = withoutForgotten(service, now);
  if (kept.desired !== 'running') return { service: kept, events };
  const failures = failuresOf(kept);
  const next = { ...kept, consecutiveFailures: failures, isWarned: kept.isWarned && failures > 0 };
  const max = kept.maxRestartFailures;
  if (failures >= max) {
    events.push({ type: 'auto_paused', message: `Paused after ${failures} failed restarts in a row.` });
    return { service: { ...stopped(next), autoPausedAt: now }, events, alert: { isPaused: true } };
  }
  if (failures < warningCount(kept) || next.isWarned) return { service: next, events };
  const message = `${failures} failed restarts in a row; after ${max} the service is paused.`;
  events.push({ type: 'crash_loop_warning', message });
  return { service: { ...next, isWarned: true }, events, alert: { isPaused: false } };
}

/** Forgets instances that ended long ago, once they are metered and no longer count. */
function withoutForgotten(service: Service, now: number): Service {
  const before = failuresOf(service);
  const entries = Object.entries(service.instances);
  const old = entries.filter(
    ([, { phase, isMetered, seenAt }]) => phase === 'gone' && isMetered && seenAt < now - REMEMBERED_MS,
  );
  if (old.length === 0) return service;
  const instances = Object.fromEntries(entries.filter((entry) => !old.includes(entry)));
  const restarts = old.reduce((sum, [, instance]) => sum + restartsIn(instance), 0);
  const without = { ...service, instances, pastRestarts: service.pastRestarts + restarts };
  return failuresOf(without) === before ? without : service;
}

const stopped = (service: Service): Service => ({
  ...service,
  desired: 'stopped',
  revision: service.revision + 1,
  refusal: null,
});

/** Returns the service with a new revision and a failure count of zero. */
const renewed = (service: Service): Service => {
  const revision = service.revision + 1;
  return { ...service, revision, countedFrom: revision, consecutiveFailures: 0, isWarned: false, refusal: null };
};

/** Replaces the instances if the service is running; otherwise the change applies on its next start. */
export const changed = (service: Service): Service => (service.desired === 'running' ? renewed(service) : service);

/** Starts a paused service, or replaces the instances of a running one. */
export const restarted = (service: Service, now: number): Service =>
  service.desired === 'deleted'
    ? service
    : {
        ...renewed(service),
        desired: 'running',
        autoPausedAt: null,
        pastRestarts: service.pastRestarts + 1,
        lastRestartAt: now,
      };

export const resumed = (service: Service): Service =>
  service.desired === 'stopped' ? { ...renewed(service), desired: 'running', autoPausedAt: null } : service;

export const paused = (service: Service): Service => (service.desired === 'running' ? stopped(service) : service);

/** Returns the service as deleted. A deleted service can never be started again. */
export const deleted = (service: Service): Service =>
  service.desired === 'deleted' ? service : { ...stopped(service), desired: 'deleted' };

/** Returns whether the host has not yet applied the latest revision. */
export const isDue = ({ revision, applied }: Service): boolean => applied?.revision !== revision;

/** Makes the host apply the service again, after it lost or never received the order. */
export const unapplied = (service: Service): Service => ({
  ...service,
  applied: service.applied && { ...service.applied, revision: 0 },
});
