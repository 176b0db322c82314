import { hash } from 'node:crypto';
import { batchesOf } from '#core/base/batches.ts';
import type { Config } from '#core/base/config.ts';
import { hasCode } from '#core/base/errors.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { ServiceHost, ServiceLimits, ServiceOrder, ServiceRef } from '#core/ports/service-host.ts';
import { bootToken, newBootToken } from './boot-tokens.ts';
import type { Applied, BootToken, Service } from './service.ts';
import { instancesOf, isDue, stateOf } from './state.ts';
import { type ServiceStore, storeOfService } from './store.ts';

export type ApplyDeps = Pick<AllDeps, 'main' | 'clock' | 'ids' | 'config' | 'log' | 'serviceHost'>;

/**
 * Lease of an order, longer than a host takes to accept one. After it expires, the process that gave the order counts
 * as dead.
 */
const ORDER_LOST_MS = 60_000;
/**
 * Maximum number of stored tokens. An order whose answer was lost may have started instances, so its token stays valid.
 */
const MAX_TOKENS = 20;
const CONCURRENCY = 10;

/** Calls {@link applyService} for several services. Never throws. */
export async function applyServices(deps: ApplyDeps, ids: readonly string[]): Promise<void> {
  for (const batch of batchesOf(ids, CONCURRENCY)) {
    await Promise.all(
      batch.map((id) =>
        applyService(deps, id).catch((error: unknown) => {
          // The sweep retries it.
          deps.log.error('order for a service not given', { service_id: id, error: String(error) });
        }),
      ),
    );
  }
}

/**
 * Sends the desired state of a service to the host until record and host agree. Idempotent and safe to call
 * concurrently: one process gives orders, the others skip. Records a permanent rejection as the failure of the
 * revision; throws the host's other errors.
 */
export async function applyService(deps: ApplyDeps, id: string): Promise<void> {
  const host = deps.serviceHost;
  const store = await storeOfService(deps, id);
  if (host === undefined || store === undefined) return;
  for (;;) {
    const claimed = await claim(deps, store, id);
    if (claimed === undefined) return;
    const { service, by } = claimed;
    const order = orderOf(deps, service, claimed.token);
    let refusal: string | undefined;
    try {
      await giveOrder(host, service, order);
    } catch (error) {
      if (!hasCode(error, 'SERVICE_HOST') || !(error as { isFinal?: boolean }).isFinal) {
        await release(store, id, by);
        throw error;
      }
      refusal = (error as Error).message.slice(0, 500);
    }
    const address = service.desired === 'deleted' ? undefined : await host.address(order).catch(() => undefined);
    const after = await settle(deps, store, { order, desired: service.desired, by, refusal, address });
    if (after === undefined || !isDue(after)) return;
  }
}

/** Claims the lease for the next order, and creates its token. */
async function claim(
  { clock, ids }: ApplyDeps,
  store: ServiceStore,
  id: string,
): Promise<{ readonly service: Service; readonly token: string; readonly by: string } | undefined> {
  const by = ids.uuid();
  const token = newBootToken(ids);
  const service = await store.change(id, (current) => {
    const now = clock.now();
    if (!isDue(current) || (current.applying !== null && current.applying.until > now)) return undefined;
    const applying = { by, until: now + ORDER_LOST_MS };
    return { service: { ...current, applying, tokens: tokensFor(current, token) } };
  });
  return service && { service, token, by };
}

/**
 * A token is valid until the last instance of its revision is gone. A service that should not run has no valid token.
 */
function tokensFor(service: Service, token: string): BootToken[] {
  if (service.desired !== 'running') return [];
  const alive = new Set(instancesOf(service).flatMap(({ phase, revision }) => (phase === 'gone' ? [] : [revision])));
  const kept = service.tokens.filter(({ revision }) => revision === service.revision || alive.has(revision));
  return [...kept, bootToken(service.id, service.revision, token)].slice(-MAX_TOKENS);
}

const release = (store: ServiceStore, id: string, by: string): Promise<Service | undefined> =>
  store.change(id, (current) =>
    current.applying?.by === by ? { service: { ...current, applying: null } } : undefined,
  );

/** Result of an order. */
interface Outcome {
  readonly order: ServiceOrder;
  readonly desired: Service['desired'];
  readonly by: string;
  /** Reason why the host permanently rejects it. */
  readonly refusal: string | undefined;
  readonly address: string | undefined;
}

async function settle(
  { clock }: ApplyDeps,
  store: ServiceStore,
  { order, desired, by, refusal, address }: Outcome,
): Promise<Service | undefined> {
  const { id, revision } = order;
  return store.change(id, (current) => {
    const now = clock.now();
    const isRefused = refusal !== undefined;
    const { isRunning = false, shape = '' } = current.applied ?? {};
    const applied: Applied = isRefused
      ? { revision, at: now, isRunning, shape }
      : { revision, at: now, isRunning: desired === 'running', shape: shapeOf(order) };
    const next = {
      ...current,
      applied,
      applying: current.applying?.by === by ? null : current.applying,
      address: address ?? current.address,
    };
    if (isRefused && current.revision === revision) {
      const failure = { refusal: { revision, message: refusal }, lastError: { at: now, message: refusal } };
      return { service: { ...next, ...failure }, events: [{ type: 'deploy_failed', message: refusal }] };
    }
    const isGone = stateOf(next) === 'deleted';
    return { service: next, events: isGone ? [{ type: 'deleted', message: 'Service deleted.' }] : [] };
  });
}

/** Makes the one call that takes the host from the applied to the desired state. */
async function giveOrder(host: ServiceHost, { desired, applied }: Service, order: ServiceOrder): Promise<void> {
  if (desired === 'deleted') return host.remove(order);
  if (desired === 'stopped') return host.pause(order);
  if (applied === null) return host.deploy(order);
  if (!applied.isRunning) return host.resume(order);
  return applied.shape === shapeOf(order) && applied.revision > 0 ? host.restart(order) : host.update(order);
}

/** Hashes everything in the order except revision and token. */
const shapeOf = (order: ServiceOrder): string => hash('sha256', JSON.stringify({ ...order, revision: 0, token: '' }));

export const refOf = ({ id, workspaceId, label }: Service): ServiceRef => ({ id, workspaceId, label });

const orderOf = ({ config }: Pick<ApplyDeps, 'config'>, service: Service, token: string): ServiceOrder => ({
  ...refOf(service),
  revision: service.revision,
  token,
  minInstances: service.minInstances,
  maxInstances: service.maxInstances,
  overlap: service.overlap,
  limits: limitsOf(config),
});

export const limitsOf = (config: Config): ServiceLimits => ({
  memoryBytes: config.sandboxMemoryBytes,
  diskBytes: config.sandboxDiskBytes,
  fileBytes: config.sandboxDiskBytes,
  processes: config.sandboxProcesses,
});
