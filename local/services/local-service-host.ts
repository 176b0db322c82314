import { join } from 'node:path';
import { hasCode } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Log } from '#core/ports/deps.ts';
import type { Ids } from '#core/ports/ids.ts';
import {
  type BootDocument,
  type HostedService,
  type ServiceHost,
  ServiceHostError,
  type ServiceLogLine,
  type ServiceLogQuery,
  type ServiceOrder,
  type ServiceRef,
  type ServiceReport,
} from '#core/ports/service-host.ts';
import type { NamespaceSandbox } from '#runner/sandbox/namespace-sandbox.ts';
import { type Opened, ServiceInstance } from '#runner/service/instance.ts';
import { specOf } from '#runner/service/place.ts';
import { Reporter } from '#runner/service/reporter.ts';
import { LogFile } from './log-file.ts';

/** Grace period between SIGTERM and SIGKILL. */
const GRACE_MS = 10_000;
/** Delay before the restart of an instance whose token was rejected. */
const REFUSED_MS = 5000;
/** Maximum number of instances that start concurrently: after a reboot all of them are due. */
const MAX_STARTING = 4;

export interface LocalServiceHostOptions {
  /** Sandbox for apps, or the reason why none is available. */
  readonly sandbox: NamespaceSandbox | { readonly problem: string };
  /** Folder of the logs, with a subfolder for each service. */
  readonly folder: string;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  /** Address of the platform's API, without a trailing slash. */
  readonly platformUrl: string;
  /** Returns the public address of the service with this label, without a trailing slash. */
  addressOf(label: string): string;
  boot(serviceId: string, token: string): Promise<BootDocument>;
  take(reports: readonly ServiceReport[]): Promise<void>;
}

/** Placeholder order of a service before its first order. */
const NEVER_ORDERED = {
  revision: 0,
  token: '',
  minInstances: 0,
  maxInstances: 0,
  overlap: true,
  limits: { memoryBytes: 0, diskBytes: 0, fileBytes: 0, processes: 0 },
};

/** A service on this host and its instances. */
interface Hosted {
  order: ServiceOrder;
  isPaused: boolean;
  isRemoved: boolean;
  readonly instances: Set<Running>;
  readonly log: LogFile;
  /** Epoch milliseconds before which no instance starts. */
  notBefore: number;
  /** Reconciliation loop of the service. */
  work: Promise<void>;
  wake: () => void;
  turn: number;
}

interface Running {
  readonly id: string;
  readonly revision: number;
  readonly startedAt: number;
  readonly instance: ServiceInstance;
  isEnding: boolean;
  /** Resolves when the instance is fully removed. */
  readonly ended: Promise<void>;
}

/**
 * {@link ServiceHost} on one machine. Apps run in separate sandboxes, like runs, and end with the platform's process,
 * however that ends. Only logs are stored: after a start the host has no services until the records order them again.
 */
export class LocalServiceHost implements ServiceHost {
  readonly #options: LocalServiceHostOptions;
  readonly #reporter: Reporter;
  readonly #services = new Map<string, Hosted>();
  readonly #byLabel = new Map<string, string>();
  #starting = 0;
  readonly #waitingToStart: (() => void)[] = [];

  constructor(options: LocalServiceHostOptions) {
    this.#options = options;
    this.#reporter = new Reporter((reports) => options.take(reports), options);
  }

  deploy(order: ServiceOrder): Promise<void> {
    return this.#follow(order);
  }

  update(order: ServiceOrder): Promise<void> {
    return this.#follow(order);
  }

  restart(order: ServiceOrder): Promise<void> {
    return this.#follow(order);
  }

  resume(order: ServiceOrder): Promise<void> {
    return this.#follow(order);
  }

  async #follow(order: ServiceOrder): Promise<void> {
    const { sandbox } = this.#options;
    if ('problem' in sandbox) throw new ServiceHostError(sandbox.problem, { isFinal: true });
    const known = this.#services.get(order.id);
    if (known && known.order.revision > order.revision) return;
    if (known) {
      if (known.order.revision !== order.revision) known.notBefore = 0;
      Object.assign(known, { order, isPaused: false });
      known.wake();
      return;
    }
    this.#add(order, false);
  }

  #add(order: ServiceOrder, isPaused: boolean): void {
    const hosted: Hosted = {
      order,
      isPaused,
      isRemoved: false,
      instances: new Set(),
      log: new LogFile(join(this.#options.folder, order.id)),
      notBefore: 0,
      work: Promise.resolve(),
      wake: () => {},
      turn: 0,
    };
    this.#services.set(order.id, hosted);
    this.#byLabel.set(order.label, order.id);
    hosted.work = this.#keep(hosted);
  }

  /** After a start the host learns of a paused service only through this call. */
  async pause({ id, workspaceId, label }: ServiceRef): Promise<void> {
    const hosted = this.#services.get(id);
    if (!hosted) return this.#add({ ...NEVER_ORDERED, id, workspaceId, label }, true);
    hosted.isPaused = true;
    hosted.wake();
  }

  async remove({ id }: ServiceRef): Promise<void> {
    const hosted = this.#services.get(id);
    if (!hosted) return new LogFile(join(this.#options.folder, id)).remove();
    hosted.isRemoved = true;
    hosted.wake();
    await hosted.work;
    this.#services.delete(id);
    if (this.#byLabel.get(hosted.order.label) === id) this.#byLabel.delete(hosted.order.label);
    await hosted.log.remove();
  }

  async address({ label }: ServiceRef): Promise<string> {
    return this.#options.addressOf(label);
  }

  logs({ id }: ServiceRef, query: ServiceLogQuery): Promise<ServiceLogLine[]> {
    const log = this.#services.get(id)?.log ?? new LogFile(join(this.#options.folder, id));
    return log.read(query);
  }

  async *list(): AsyncGenerator<HostedService> {
    for (const { order, isPaused, isRemoved, instances } of this.#services.values()) {
      if (isRemoved) continue;
      yield {
        serviceId: order.id,
        workspaceId: order.workspaceId,
        revision: order.revision,
        isPaused,
        instances: [...instances].map(({ id, revision, startedAt, instance }) => ({
          instanceId: id,
          revision,
          startedAt,
          report: instance.reportNow(),
        })),
      };
    }
  }

  /** Returns the id of the service with this label, or `undefined` if the host has none. */
  idOf(label: string): string | undefined {
    return this.#byLabel.get(label);
  }

  /** Returns the instance for the next request (round-robin), or why none is available. */
  instanceFor(serviceId: string): ServiceInstance | { readonly absence: string } | undefined {
    const hosted = this.#services.get(serviceId);
    if (!hosted) return undefined;
    const alive = [...hosted.instances].filter(({ isEnding }) => !isEnding);
    const ready = alive.filter(({ instance }) => instance.isReady);
    // If none is known to be ready, try those of the oldest revision, which start to listen first.
    const oldest = Math.min(...alive.map(({ revision }) => revision));
    const from = ready.length > 0 ? ready : alive.filter(({ revision }) => revision === oldest);
    hosted.turn += 1;
    return (
      from[hosted.turn % from.length]?.instance ?? {
        absence: hosted.isPaused ? 'The service is paused.' : 'The service is starting.',
      }
    );
  }

  /** Ends all apps. */
  async close(): Promise<void> {
    const all = [...this.#services.values()];
    for (const hosted of all) {
      hosted.isPaused = true;
      hosted.isRemoved = true;
      hosted.wake();
    }
    await Promise.all(all.map(({ work }) => work));
    await Promise.all([this.#reporter.settled(), ...all.map(({ log }) => log.flush())]);
  }

  /** Reconciles a service with its order after each change, until it is removed. */
  async #keep(hosted: Hosted): Promise<void> {
    for (;;) {
      const changed = new Promise<void>((resolve) => {
        hosted.wake = resolve;
      });
      const { order, isPaused, isRemoved } = hosted;
      const alive = [...hosted.instances].filter(({ isEnding }) => !isEnding);
      if (isPaused || isRemoved) {
        for (const running of alive) this.#end(running);
        await Promise.all([...hosted.instances].map(({ ended }) => ended));
        if (isRemoved) return;
      } else {
        const old = alive.filter(({ revision }) => revision !== order.revision);
        const current = alive.filter(({ revision }) => revision === order.revision);
        const ready = current.filter(({ instance }) => instance.isReady);
        if (!order.overlap || ready.length >= order.minInstances) for (const running of old) this.#end(running);
        for (const running of current.slice(order.minInstances)) this.#end(running);
        const isBlocked = !order.overlap && [...hosted.instances].some(({ revision }) => revision !== order.revision);
        if (!isBlocked) {
          const missing = order.minInstances - current.length;
          const waitMs = hosted.notBefore - this.#options.clock.now();
          if (missing > 0 && waitMs > 0) void this.#options.clock.sleep(waitMs).then(() => hosted.wake());
          else for (let count = 0; count < missing; count++) this.#start(hosted);
        }
      }
      await changed;
    }
  }

  #start(hosted: Hosted): void {
    const { clock, ids, platformUrl: url } = this.#options;
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const { order } = hosted;
    const { id: serviceId, revision } = order;
    const id = ids.uuid();
    const startedAt = clock.now();
    const instance = new ServiceInstance({
      ...{ id, serviceId, revision, clock },
      open: () => this.#inTurn(() => this.#open(order)),
      platform: { url, token: order.token },
      graceMs: GRACE_MS,
      random: Math.random,
      log: (line) => hosted.log.write(line),
      report: (report) => {
        this.#reporter.add(report);
        hosted.wake();
      },
    });
    const running: Running = { id, revision, startedAt, instance, isEnding: false, ended };
    hosted.instances.add(running);
    void instance.run().then(async () => {
      // The token was rejected because the records already have a newer revision, whose order will follow.
      if (!running.isEnding) hosted.notBefore = clock.now() + REFUSED_MS;
      await instance.stop();
      hosted.instances.delete(running);
      this.#reporter.add({
        type: 'ended',
        ...{ serviceId, instanceId: id, revision, startedAt },
        at: clock.now(),
        reason: 'stopped',
        message: 'Stopped.',
      });
      resolve();
      hosted.wake();
    });
  }

  async #open({ id, token }: ServiceOrder): Promise<Opened> {
    const { sandbox, log } = this.#options;
    try {
      const boot = await this.#options.boot(id, token);
      if (boot.app.kind === 'loop') return { boot };
      return { boot, place: await (sandbox as NamespaceSandbox).openFresh(specOf(boot)) };
    } catch (error) {
      if (!hasCode(error, 'UNAUTHORIZED')) {
        log.error('service instance not started', { service_id: id, error: String(error) });
      }
      throw error;
    }
  }

  #end(running: Running): void {
    running.isEnding = true;
    void running.instance.stop();
  }

  /** Runs a start when fewer than {@link MAX_STARTING} others are running. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#starting >= MAX_STARTING) await new Promise<void>((resolve) => this.#waitingToStart.push(resolve));
    else this.#starting += 1;
    try {
      return await work();
    } finally {
      const next = this.#waitingToStart.shift();
      if (next) next();
      else this.#starting -= 1;
    }
  }
}
