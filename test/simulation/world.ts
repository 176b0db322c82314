// Preloaded because signing imports it on first use, and simulated time would pass while it loads.
import 'standardwebhooks';
import { fireFromQueue } from '#aws/timers/timer-queue.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { publish } from '#core/agents/publish.ts';
import { agentListeners } from '#core/api/agent-listeners.ts';
import { deliveryListeners } from '#core/api/listeners.ts';
import { fireOverdue, sweepScheduleRuns } from '#core/automation/schedules/runs/fire.ts';
import { listOpenScheduleRuns, type OpenScheduleRun } from '#core/automation/schedules/runs/open-runs.ts';
import { reconcileTimers } from '#core/automation/schedules/timing/timers.ts';
import type { Caller } from '#core/base/caller.ts';
import { parseConfig } from '#core/base/config.ts';
import { PlatformError } from '#core/base/errors.ts';
import { checkDefinition } from '#core/manifest/parsing/manifest.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { sweepDeliveries } from '#core/outbound/deliveries.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { noMail } from '#core/ports/mail.ts';
import { noOperatorKey } from '#core/ports/operator-key.ts';
import type { Outbound } from '#core/ports/outbound.ts';
import { noPayments } from '#core/ports/payments.ts';
import { ProcessRunSignals } from '#core/ports/run-signals.ts';
import { endlessSpace } from '#core/ports/space.ts';
import type { Table } from '#core/ports/table.ts';
import type { Timer, Timers } from '#core/ports/timers.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { type ClockTimers, clockTimers } from '#local/clock-timers.ts';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { memoryDataKeys } from '#test/helpers/memory-data-keys.ts';
import { memoryTables } from '#test/helpers/memory-tables.ts';
import { addUser } from '#test/helpers/users.ts';
import { laggingTable } from './lagging-table.ts';
import { Ledger } from './ledger.ts';
import { Machine, Process } from './machine.ts';
import type { Random } from './random.ts';
import { Timetable } from './timetable.ts';

const MINUTE_MS = 60_000;
/** Interval of the local timers with a margin. */
const TICK_MS = 1_100;
const SWEEP_MS = 30_000;
const MAX_RECEIVES = 5;
const OVERDUE_MS = 90_000;
const LAGS_MS = [0, 0, 0, 20, 200, 1_000, 5_000];

const CONFIG = parseConfig({ PLATFORM_DEFAULT_PLAN: 'team' });

export interface WorldProps {
  readonly random: Random;
  /** Epoch milliseconds. */
  readonly start: number;
  readonly isTraced?: boolean;
  /** Maximum of concurrent calls in the workspace. */
  readonly concurrency?: number;
  /** Replaces the main table of the processes, to test that faults are found. */
  readonly faulty?: (main: Table) => Table;
  /** Whether indexes lag behind their tables. */
  readonly isLagging?: boolean;
}

/** Tables and external systems of one platform, for any kind of host. */
export class World {
  readonly random: Random;
  readonly machine: Machine;
  readonly ledger: Ledger;
  /** Dependencies without faults, for setup and checks. */
  readonly deps: AllDeps;
  /** Requests to the model, by the marker in their text. */
  readonly asked = new Map<string, number>();
  /** `webhook-id`s of posted messages. */
  readonly posted = new Set<string>();
  /** Whether models answer at once and receivers accept everything. */
  isKind = false;
  caller!: Caller;
  agent!: AgentVersion;
  readonly #tables: Pick<AllDeps, 'main' | 'runs' | 'counters'>;
  readonly #database = openDatabase(':memory:');
  readonly #indexes = openDatabase(':memory:');
  #processes = 0;

  private constructor(props: WorldProps) {
    const { random, start, isTraced = false, concurrency = 100, faulty = (main) => main, isLagging = false } = props;
    this.random = random;
    this.machine = new Machine(random, start, isTraced);
    const { machine } = this;
    this.ledger = new Ledger(machine.now);
    const clock = machine.clockOf(new Process('test'));
    const kept = memoryTables(clock, { database: this.#database });
    const table = (name: 'main' | 'runs' | 'counters') => kept[name];
    const lagMs = () => (this.isKind ? 0 : random.pick(LAGS_MS));
    const indexed = (name: 'main' | 'runs'): Table => {
      const watched = this.ledger.watched(table(name));
      if (!isLagging) return watched;
      const copy = new SqliteTable(this.#indexes, name, clock);
      return laggingTable(watched, { name, copy, lagMs, elapsed: () => machine.elapsed });
    };
    const main = indexed('main');
    this.#tables = { main: faulty(main), runs: indexed('runs'), counters: table('counters') };
    const absent = (what: string) => () => Promise.reject(new Error(`there is no ${what} in a simulation`));
    const vault = { ANTHROPIC_API_KEY: 'sk-simulated' };
    this.deps = {
      config: { ...CONFIG, plans: { ...CONFIG.plans, team: { ...CONFIG.plans.team, concurrent_calls: concurrency } } },
      ...this.#tables,
      main,
      endedRuns: kept.endedRuns,
      blobs: { put: absent('blob'), get: absent('blob') } as never,
      space: endlessSpace,
      uploadForms: { create: absent('form') },
      vault: {
        read: async (_, names) => Object.fromEntries(Object.entries(vault).filter(([name]) => names.includes(name))),
        write: async () => {},
        remove: async () => {},
        ...memoryDataKeys(),
      },
      payments: noPayments,
      operatorKey: noOperatorKey,
      timers: { set: async () => {}, remove: async () => {}, reconcile: async () => ({ set: 0, removed: 0 }) },
      runSignals: new ProcessRunSignals(),
      sandbox: { open: absent('sandbox') } as never,
      llm: { generate: absent('model') },
      modelTable: { factsOf: () => ({}), costOf: () => 0, refresh: async () => {} },
      outbound: { post: absent('receiver') },
      exchanges: { exchange: absent('page') },
      toolServers: { open: absent('tool server') },
      mcp: { answer: absent('client of MCP') },
      idTokens: { verify: absent('issuer') },
      toolSignIn: {
        begin: absent('provider'),
        finish: absent('provider'),
        refresh: absent('provider'),
        revoke: absent('provider'),
      },
      ownServices: { find: absent('service') },
      gatewayUrl: 'http://127.0.0.1',
      mail: noMail,
      clock,
      ids: random,
      log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
      background: (work) => work,
      startInstall: absent('installation'),
    };
  }

  static async create(props: WorldProps): Promise<World> {
    const world = new World(props);
    const user = await addUser(world.deps, 'acme');
    const workspace = (await findWorkspace(world.deps, user.workspaceId))!;
    world.caller = { userId: user.userId, keyId: user.keyId, workspace, role: 'owner' };
    world.agent = await world.publish(world.deps);
    return world;
  }

  publish(deps: AllDeps): Promise<AgentVersion> {
    const { definition } = checkDefinition({
      name: 'reporter',
      type: 'prompt',
      description: 'x',
      prompt: 'Report.',
      supported_providers: ['anthropic'],
    });
    return publish({ ...deps, listeners: agentListeners(deps) }, this.caller.workspace, definition!, {
      runnable: true,
    });
  }

  /** Starts a process; returns its ports, and `settled`, which waits for its background work. */
  start(name: string, timers: (process: Process, deps: () => AllDeps) => Timers) {
    const { machine } = this;
    const process = new Process(`${name}-${++this.#processes}`);
    const background = new Set<Promise<void>>();
    const clock = machine.clockOf(process);
    const { main, runs, counters } = this.#tables;
    // A query runs between scheduled calls, so the machine need not schedule it.
    const table = (port: string, of: Table) => machine.port(process, port, of, ['query']);
    const deps: AllDeps = {
      ...this.deps,
      main: table('main', main),
      runs: table('runs', runs),
      counters: table('counters', counters),
      vault: machine.port(process, 'vault', this.deps.vault),
      outbound: machine.port(process, 'outbound', this.#receivers()),
      llm: machine.port(process, 'llm', this.#model(clock)),
      runSignals: new ProcessRunSignals(),
      timers: timers(process, () => deps),
      clock,
      log: {
        ...this.deps.log,
        error: (message, fields) => machine.note(`${process.name} ${message} ${JSON.stringify(fields)}`),
      },
      background(work) {
        background.add(work);
        return work.finally(() => background.delete(work));
      },
    };
    const settled = async (): Promise<void> => {
      while (background.size > 0) await Promise.allSettled(background);
    };
    return { process, deps, settled };
  }

  /** Number of writes to the main table and its indexes. */
  changes(): number {
    return this.#database.changes('main') + this.#indexes.changes('main');
  }

  close(): void {
    this.#database.close();
    this.#indexes.close();
  }

  #model(clock: AllDeps['clock']): AllDeps['llm'] {
    return {
      generate: async ({ messages, signal, onSign }) => {
        // The call may then be silent, as with a thinking model, and is not repeated for that.
        onSign?.('sent');
        const text = JSON.stringify(messages);
        const marker = /once-[0-9a-z-]+/.exec(text)?.[0];
        if (marker) this.asked.set(marker, (this.asked.get(marker) ?? 0) + 1);
        const ms = this.isKind ? 0 : this.random.pick([0, 0, 0, 700, 9_000, 45_000, 100_000, 250_000, 10_000_000]);
        const fails = !this.isKind && this.random.chance(/fragile/.test(text) ? 0.7 : 0.2);
        if (ms > 0) await clock.sleep(ms, signal);
        if (fails) throw new PlatformError('LLM_ERROR', 'The model is down.');
        const usage = { inputTokens: 1, outputTokens: 1 };
        return { text: 'ok', toolCalls: [], finishReason: 'stop', usage, message: { role: 'user', text: 'ok' } };
      },
    };
  }

  #receivers(): Outbound {
    return {
      post: async ({ headers }) => {
        this.posted.add(headers!['webhook-id']!);
        if (this.isKind || this.random.chance(0.6)) return { ok: true, status: 200 };
        return { ok: false, problem: 'it answered 500', isFinal: this.random.chance(0.2) };
      },
    };
  }
}

/** Behavior of a kind of host, and its request entry. */
export interface Host {
  /** Returns the process that takes a request, or `undefined` if none listens. Call `release` after the answer. */
  request(): { readonly deps: AllDeps; readonly process: Process; release(): void } | undefined;
  /** Called once at the start of each minute. */
  minute(minute: number): void;
  /** Stops the host for this long. */
  breakDown(ms: number): void;
  /** Ends all faults and starts everything that should run. */
  mend(): void;
  /** Checks the host once the machine has settled; returns the problem, if any. */
  check(): string | undefined;
}

/** Host with one process that has the timers and sweeps of `local/server.ts`. */
export class LocalHost implements Host {
  readonly #world: World;
  #running: { process: Process; deps: AllDeps; isUp: boolean } | undefined;
  #downUntil = 0;
  /** Time at which each due minute of a schedule was first seen. */
  #lateSince = new Map<string, number>();

  constructor(world: World) {
    this.#world = world;
    this.#boot();
  }

  request() {
    const running = this.#running;
    return running?.isUp ? { ...running, release: () => {} } : undefined;
  }

  minute(): void {
    if (this.#running === undefined && this.#world.machine.elapsed >= this.#downUntil) this.#boot();
  }

  breakDown(ms: number): void {
    this.#downUntil = this.#world.machine.elapsed + ms;
    if (this.#running) this.#world.machine.kill(this.#running.process);
  }

  mend(): void {
    this.#downUntil = 0;
    this.minute();
  }

  check(): string | undefined {
    const running = this.#running;
    const { machine, ledger, deps } = this.#world;
    const isSlow = deps.config.plans.team.concurrent_calls < 100;
    if (!running?.isUp || isSlow || !machine.isIdle || running.process.stalledUntil > machine.elapsed) {
      this.#lateSince.clear();
      return undefined;
    }
    const late = [...ledger.schedules.values()].filter(
      ({ enabled, cronExpression, nextRunAt }) =>
        enabled && cronExpression !== null && !(Date.parse(nextRunAt ?? '') > machine.now()),
    );
    const nameOf = ({ id, nextRunAt }: (typeof late)[number]) => `${id} ${nextRunAt}`;
    this.#lateSince = new Map(late.map((each) => [nameOf(each), this.#lateSince.get(nameOf(each)) ?? machine.elapsed]));
    const forgotten = late.find((each) => machine.elapsed - this.#lateSince.get(nameOf(each))! > TICK_MS);
    return forgotten && `${forgotten.id} should have been woken: ${forgotten.nextRunAt} is past`;
  }

  #boot(): void {
    const world = this.#world;
    let timers: ClockTimers | undefined;
    const { process, deps } = world.start('host', (self, get) => {
      timers = clockTimers(world.machine.clockOf(self), get, () => world.changes());
      return timers;
    });
    const running = { process, deps, isUp: false };
    this.#running = running;
    process.died.then(() => {
      const ms = world.isKind ? 0 : world.random.pick([1_000, 20_000, 100_000, 290_000, 330_000, 700_000]);
      this.#downUntil = Math.max(this.#downUntil, world.machine.elapsed + ms);
      this.#running = undefined;
    });
    const sweep = (lost?: readonly OpenScheduleRun[]) =>
      void deps.background(sweepScheduleRuns(deps, lost).catch(() => {}));
    void (async () => {
      await sweepLostRuns(deps, { all: true });
      sweep(await Array.fromAsync(listOpenScheduleRuns(deps, { all: true })));
      running.isUp = true;
      timers!.start(() => {});
      for (;;) {
        await deps.clock.sleep(SWEEP_MS);
        sweep();
        void deps.background(sweepLostRuns(deps).then(() => sweepDeliveries(deps, deliveryListeners(deps))));
      }
    })();
  }
}

/** Host with a process for each event: external timers send to an at-least-once queue, and sweepers run on a clock. */
export class QueueHost implements Host {
  readonly #world: World;
  /** Timers set in EventBridge. */
  readonly #set = new Map<string, Timer>();
  #downUntil = 0;
  #problem: string | undefined;
  /** Future events, by {@link Machine.elapsed}. */
  #coming: { readonly at: number; readonly happen: () => void }[] = [];

  constructor(world: World) {
    this.#world = world;
  }

  request() {
    if (this.#isDown) return undefined;
    const { process, deps, settled } = this.#start('request');
    return { process, deps, release: () => void settled().then(() => process.die()) };
  }

  minute(minute: number): void {
    const { random, isKind } = this.#world;
    for (const timer of this.#set.values()) {
      if (!Timetable.of(timer.cronExpression, timer.timezone).names(minute)) continue;
      const times = isKind ? 1 : random.pick([0, 1, 1, 1, 1, 1, 2, 3]);
      for (let time = 0; time < times; time++) {
        const after = isKind ? 0 : random.pick([0, 50, 3_000, 20_000, 58_000, 130_000, 280_000, 320_000, 600_000]);
        this.#later(after, () => this.#deliver(timer, minute, 1));
      }
    }
    const soon = () => (isKind ? 1_000 : random.between(0, 59_000));
    this.#later(soon(), () => this.#sweepSchedules());
    this.#later(soon(), () =>
      this.#invoke('sweeper', (deps) => sweepLostRuns(deps).then(() => sweepDeliveries(deps, deliveryListeners(deps)))),
    );
    if (isKind || random.chance(1 / 15)) this.#later(soon(), () => this.#invoke('timer-sweeper', reconcileTimers));
    this.#happen();
  }

  breakDown(ms: number): void {
    this.#downUntil = this.#world.machine.elapsed + ms;
  }

  mend(): void {
    this.#downUntil = 0;
  }

  check(): string | undefined {
    this.#happen();
    return this.#problem;
  }

  /** Returns missing and superfluous timers in EventBridge. */
  wrongTimers(): string[] {
    const wanted = [...this.#world.ledger.schedules.values()]
      .filter(({ enabled, cronExpression }) => enabled && cronExpression !== null)
      .map(({ id, cronExpression, timezone }) => `${id} ${cronExpression} ${timezone}`);
    // The next sweep removes the timers of those that have just ended by themselves.
    const isSwept = (name: string): boolean => {
      const { endedAt } = this.#world.ledger.schedules.get(name.split(' ')[0]!) ?? {};
      return endedAt == null || Date.parse(endedAt) < this.#world.machine.now() - 2 * MINUTE_MS;
    };
    const there = [...this.#set.keys()].filter((name) => wanted.includes(name) || isSwept(name));
    return [...wanted.filter((name) => !there.includes(name)), ...there.filter((name) => !wanted.includes(name))];
  }

  loseTimer(): void {
    const [name] = this.#world.random.shuffle([...this.#set.keys()]);
    if (name !== undefined) this.#set.delete(name);
  }

  get #isDown(): boolean {
    return this.#world.machine.elapsed < this.#downUntil;
  }

  #later(ms: number, happen: () => void): void {
    this.#coming.push({ at: this.#world.machine.elapsed + ms, happen });
  }

  #happen(): void {
    const { elapsed } = this.#world.machine;
    const due = this.#coming.filter(({ at }) => at <= elapsed);
    this.#coming = this.#coming.filter(({ at }) => at > elapsed);
    for (const { happen } of due) happen();
  }

  #start(name: string) {
    return this.#world.start(name, (process) => this.#world.machine.port(process, 'timers', this.#timers()));
  }

  #timers(): Timers {
    const nameOf = ({ scheduleId, cronExpression, timezone }: Timer) => `${scheduleId} ${cronExpression} ${timezone}`;
    return {
      set: async (timer) => void this.#set.set(nameOf(timer), timer),
      remove: async (timer) => void this.#set.delete(nameOf(timer)),
      reconcile: async (wanted, current) => {
        const left = new Set(this.#set.keys());
        let set = 0;
        for await (const timer of wanted()) {
          if (left.delete(nameOf(timer))) continue;
          this.#set.set(nameOf(timer), timer);
          set++;
        }
        for (const name of left) {
          const timer = await current(name.slice(0, name.indexOf(' ')));
          if (timer && nameOf(timer) === name) left.delete(name);
          else this.#set.delete(name);
        }
        return { set, removed: left.size };
      },
    };
  }

  /** Returns the result, or `undefined` if the process died or the host is down. */
  async #invoke<T>(name: string, work: (deps: AllDeps) => Promise<T>): Promise<{ result: T } | undefined> {
    if (this.#isDown) return undefined;
    const { process, deps, settled } = this.#start(name);
    const done = (async () => {
      const result = await work(deps);
      await settled();
      return { result };
    })().catch(() => undefined);
    const outcome = await Promise.race([done, process.died.then(() => undefined)]);
    process.die();
    return outcome;
  }

  async #deliver(timer: Timer, minute: number, receives: number): Promise<void> {
    const { workspaceId: workspace_id, scheduleId: schedule_id } = timer;
    const body = JSON.stringify({ workspace_id, schedule_id, scheduled_time: new Date(minute).toISOString() });
    const outcome = await this.#invoke('fired', (deps) => fireFromQueue(deps, [{ messageId: 'm', body }]));
    const isDone = outcome && outcome.result.length === 0;
    if (!isDone && receives < MAX_RECEIVES) this.#later(MINUTE_MS, () => this.#deliver(timer, minute, receives + 1));
  }

  async #sweepSchedules(): Promise<void> {
    const { machine, ledger } = this.#world;
    const overdue = machine.now() - OVERDUE_MS;
    const before = new Set([...ledger.schedules].filter(([, { enabled }]) => enabled).map(([id]) => id));
    const done = await this.#invoke('schedule-sweeper', (deps) =>
      Promise.all([fireOverdue(deps), sweepScheduleRuns(deps)]),
    );
    if (done === undefined) return;
    // The check runs once the ledger has seen all writes.
    this.#later(0, () => {
      for (const { id, enabled, nextRunAt } of ledger.schedules.values()) {
        if (!enabled || !before.has(id) || nextRunAt === null || Date.parse(nextRunAt) >= overdue) continue;
        this.#problem = `${id} was overdue when it was swept, and is still: ${nextRunAt}`;
      }
    });
  }
}
