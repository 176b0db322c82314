import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { Clock } from '#core/ports/clock.ts';
import {
  type BootDocument,
  type HostedService,
  type InstanceReport,
  LOG_SEVERITIES,
  type ServiceHost,
  ServiceHostError,
  type ServiceLogLine,
  type ServiceLogQuery,
  type ServiceOrder,
  type ServiceRef,
  type ServiceReport,
} from '#core/ports/service-host.ts';

/** Instance whose app a test controls. */
interface Instance {
  report: InstanceReport;
  readonly token: string;
}

interface Kept {
  order: ServiceOrder;
  isPaused: boolean;
  instances: Instance[];
  log: ServiceLogLine[];
}

/**
 * Keeps services in memory and starts no processes: the test decides when an app is ready or crashes. Reports are sent
 * to
 * `listener`, where a test may lose, duplicate or delay them.
 */
export class MemoryServiceHost implements ServiceHost {
  readonly services = new Map<string, Kept>();
  /** Name of the call and revision of each order, such as `deploy 1`. */
  readonly orders: string[] = [];
  /** Errors to throw from the next orders, one each. */
  readonly refusals: Error[] = [];
  /** Whether old instances keep running after an update until the test ends them. */
  keepsOld = false;
  readonly #clock: Clock;
  /** Receives reports; a test may lose or delay some. */
  listener: (reports: ServiceReport[]) => Promise<void>;
  /** Start and end of each instance. */
  readonly #lives = new Map<string, { readonly startedAt: number; endedAt?: number }>();
  readonly #boot: ((serviceId: string, token: string) => Promise<BootDocument>) | undefined;

  constructor(options: {
    clock: Clock;
    listener: (reports: ServiceReport[]) => Promise<void>;
    boot?: (serviceId: string, token: string) => Promise<BootDocument>;
  }) {
    this.#clock = options.clock;
    this.listener = options.listener;
    this.#boot = options.boot;
  }

  deploy = (order: ServiceOrder): Promise<void> => this.#follow('deploy', order);
  update = (order: ServiceOrder): Promise<void> => this.#follow('update', order);
  restart = (order: ServiceOrder): Promise<void> => this.#follow('restart', order);
  resume = (order: ServiceOrder): Promise<void> => this.#follow('resume', order);

  async #follow(name: string, order: ServiceOrder): Promise<void> {
    this.#take(`${name} ${order.revision}`);
    const kept = this.services.get(order.id);
    if (kept && kept.order.revision > order.revision) return;
    if (kept?.order.revision === order.revision && !kept.isPaused) return;
    const old = this.keepsOld ? [] : (kept?.instances ?? []);
    const started = Array.from({ length: order.minInstances }, () => this.#start(order));
    this.services.set(order.id, { order, isPaused: false, instances: started, log: kept?.log ?? [] });
    await this.listener([...old.map((each) => this.#ended(each, 'stopped')), ...started.map(({ report }) => report)]);
  }

  async pause({ id }: ServiceRef): Promise<void> {
    this.#take('pause');
    const kept = this.services.get(id);
    if (kept === undefined) return;
    kept.isPaused = true;
    await this.listener(kept.instances.splice(0).map((instance) => this.#ended(instance, 'stopped')));
  }

  async remove({ id }: ServiceRef): Promise<void> {
    this.#take('remove');
    const instances = this.services.get(id)?.instances ?? [];
    this.services.delete(id);
    await this.listener(instances.map((instance) => this.#ended(instance, 'stopped')));
  }

  async address({ id, label }: ServiceRef): Promise<string | undefined> {
    return this.services.has(id) ? `http://${label}.localhost` : undefined;
  }

  async connect(): Promise<Duplex> {
    throw new ServiceHostError('Services in memory have no address.', { isFinal: true });
  }

  async logs({ id }: ServiceRef, { limit, since = 0, severity = 'DEBUG' }: ServiceLogQuery): Promise<ServiceLogLine[]> {
    const from = LOG_SEVERITIES.indexOf(severity);
    const lines = this.services.get(id)?.log ?? [];
    return lines.filter((line) => line.at >= since && LOG_SEVERITIES.indexOf(line.severity) >= from).slice(-limit);
  }

  async *list(): AsyncGenerator<HostedService> {
    for (const [serviceId, { order, isPaused, instances }] of this.services) {
      const { workspaceId, revision } = order;
      yield {
        serviceId,
        workspaceId,
        revision,
        isPaused,
        instances: instances.map(({ report }) => ({ ...report, report })),
      };
    }
  }

  /** Called when the platform shuts down. */
  async close(): Promise<void> {
    this.kill();
  }

  /** Returns the newest order of a service. */
  orderOf = (serviceId: string): ServiceOrder | undefined => this.services.get(serviceId)?.order;

  /** Returns the newest report of an instance. */
  reportOf = (serviceId: string, index = 0): InstanceReport => this.#instance(serviceId, index).report;

  /** Returns the document that the instance's runner gets at its start. */
  bootDocument(serviceId: string, index = 0): Promise<BootDocument> {
    return this.#boot!(serviceId, this.#instance(serviceId, index).token);
  }

  /** Reports that the app of an instance listens. */
  ready = (serviceId: string, index = 0): Promise<void> => this.change(serviceId, { phase: 'ready' }, index);

  /** Reports that the app of an instance has been ready for 60 seconds. */
  steady = (serviceId: string, index = 0): Promise<void> =>
    this.change(serviceId, { phase: 'ready', failures: 0, steadyAt: this.#clock.now() }, index);

  /** Crashes and restarts the app of an instance. */
  async crash(serviceId: string, index = 0): Promise<void> {
    const { failures, restarts } = this.#instance(serviceId, index).report;
    const lastEnd = { at: this.#clock.now(), exitCode: 1, message: 'exit code 1' };
    await this.change(serviceId, { phase: 'starting', failures: failures + 1, restarts: restarts + 1, lastEnd }, index);
  }

  /** Ends the runner of an instance; the host starts another instance. */
  async die(serviceId: string, index = 0): Promise<void> {
    const { instances, order } = this.services.get(serviceId)!;
    const [gone] = instances.splice(index, 1, this.#start(order));
    await this.listener([this.#ended(gone!, 'crashed'), instances[index]!.report]);
  }

  /** Ends an instance that {@link keepsOld} left running. */
  end = (report: InstanceReport, reason: 'stopped' | 'crashed'): Promise<void> =>
    this.listener([this.#ended({ report, token: '' }, reason)]);

  /** Reports that the host cannot start the revision. */
  async fail(serviceId: string, message: string): Promise<void> {
    const { revision } = this.services.get(serviceId)!.order;
    await this.listener([{ type: 'failed', serviceId, revision, at: this.#clock.now(), message }]);
  }

  /** Kills the host and all its instances without a report. */
  kill(): void {
    for (const life of this.#lives.values()) life.endedAt ??= this.#clock.now();
    this.services.clear();
  }

  /** Returns the total running time of all instances, including those of a killed host. */
  lifeMs(now: number): number {
    const lives = [...this.#lives.values()];
    return lives.reduce((sum, { startedAt, endedAt = now }) => sum + endedAt - startedAt, 0);
  }

  async change(serviceId: string, change: Partial<InstanceReport>, index = 0): Promise<void> {
    const instance = this.#instance(serviceId, index);
    const { sequence } = instance.report;
    instance.report = { ...instance.report, ...change, sequence: sequence + 1, at: this.#clock.now() };
    await this.listener([instance.report]);
  }

  #take(name: string): void {
    this.orders.push(name);
    const refusal = this.refusals.shift();
    if (refusal) throw refusal;
  }

  #instance(serviceId: string, index: number): Instance {
    const instance = this.services.get(serviceId)?.instances[index];
    if (instance === undefined) throw new Error(`the service ${serviceId} has no instance ${index}`);
    return instance;
  }

  #start({ id, revision, token }: ServiceOrder): Instance {
    const now = this.#clock.now();
    const instanceId = randomUUID();
    this.#lives.set(instanceId, { startedAt: now });
    return {
      token,
      report: {
        type: 'instance',
        serviceId: id,
        instanceId,
        revision,
        sequence: 1,
        at: now,
        startedAt: now,
        phase: 'starting',
        isWorker: false,
        restarts: 0,
        failures: 0,
        steadyAt: null,
        lastEnd: null,
      },
    };
  }

  #ended({ report }: Instance, reason: 'stopped' | 'crashed'): ServiceReport {
    const { serviceId, instanceId, revision, startedAt } = report;
    const message = reason === 'crashed' ? 'out of memory' : 'stopped';
    this.#lives.set(instanceId, { startedAt, endedAt: this.#clock.now() });
    return { type: 'ended', serviceId, instanceId, revision, startedAt, at: this.#clock.now(), reason, message };
  }
}
