import type { Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { PlatformError } from '#core/base/errors.ts';
import type { ExecEvent, ExecExit } from '#core/ports/sandbox.ts';
import type { BootDocument, InstanceReport, ServiceLogLine } from '#core/ports/service-host.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import type { ServeRequest } from '../sandbox/session.ts';
import { type Opened, ServiceInstance } from './instance.ts';

const BOOT: BootDocument = {
  serviceId: 'f3c7c9f0-0000-4000-8000-000000000001',
  workspaceId: 'w',
  revision: 3,
  agent: 'acme/bot@v1',
  app: { kind: 'argv', argv: ['python', 'my app.py'] },
  env: {},
  secrets: { TOKEN: 'made-up-secret' },
  port: 3000,
  bundle: { key: 'bundles/x' },
  egress: 'none',
  limits: { memoryBytes: 512 * 1024 ** 2, diskBytes: 1, fileBytes: 1, processes: 1 },
};

/** A sandbox whose app is controlled by the test. */
class ScriptedPlace {
  readonly commands: string[] = [];
  /** Whether the app accepts connections. */
  listens = false;
  isClosed = false;
  /** Whether the app ends on request. */
  obeys = true;
  readonly #gone = Promise.withResolvers<void>();
  readonly gone = this.#gone.promise;
  #emit: ((event: ExecEvent) => void) | undefined;

  async *serve({ command, stop }: ServeRequest): AsyncGenerator<ExecEvent> {
    this.commands.push(command);
    const events: ExecEvent[] = [];
    let wake = () => {};
    this.#emit = (event) => {
      events.push(event);
      wake();
    };
    stop.addEventListener('abort', () => this.obeys && this.end({ reason: 'aborted', exitCode: 143 }));
    for (;;) {
      for (let event = events.shift(); event; event = events.shift()) {
        yield event;
        if (event.type === 'exit') return;
      }
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }

  async connect(): Promise<Socket | undefined> {
    return this.listens ? ({ destroy() {} } as Socket) : undefined;
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.#gone.resolve();
  }

  /** Ends the sandbox together with the app. */
  lose(reason: ExecExit['reason']): void {
    this.#gone.resolve();
    this.end({ reason, exitCode: 137 });
  }

  print(type: 'stdout' | 'stderr', text: string): void {
    this.#emit?.({ type, data: Buffer.from(text) });
  }

  end(exit: Partial<ExecExit> = {}): void {
    this.#emit?.({ type: 'exit', exit: { reason: 'exited', exitCode: 1, durationMs: 0, ...exit } });
  }
}

const running: ServiceInstance[] = [];
afterEach(async () => {
  for (const instance of running.splice(0)) await instance.stop();
});

/** `opening`: scripted results of the first `open` calls; later calls get a fresh sandbox. */
function start(boot: Partial<BootDocument> = {}, opening: (Error | ScriptedPlace | Promise<Opened>)[] = []) {
  const clock = new ManualClock();
  const places = opening.length > 0 ? [] : [new ScriptedPlace()];
  const place = places[0]!;
  const plan = opening.length > 0 ? opening : [...places];
  const reports: InstanceReport[] = [];
  const lines: ServiceLogLine[] = [];
  const instance = new ServiceInstance({
    id: 'i',
    serviceId: BOOT.serviceId,
    revision: 0,
    async open() {
      const next = plan.shift() ?? new ScriptedPlace();
      if (next instanceof Error) throw next;
      if (next instanceof Promise) return next;
      if (next !== place) places.push(next);
      return { boot: { ...BOOT, ...boot }, place: next };
    },
    clock,
    platform: { url: 'http://127.0.0.1:9', token: 'made-up-token' },
    graceMs: 10_000,
    random: () => 0.5,
    log: (line) => lines.push(line),
    report: (report) => reports.push(report),
  });
  running.push(instance);
  void instance.run();
  return {
    clock,
    place,
    places,
    instance,
    reports,
    lines,
    last: () => reports.at(-1)!,
    phases: () => reports.map(({ phase }) => phase),
  };
}

describe('an app', () => {
  test('is started by its words as they are, and is ready when it listens', async () => {
    const { clock, place, phases, last } = start();
    await clock.advance(1000);
    expect(place.commands).toEqual([`exec python 'my app.py'`]);
    expect(phases()).toEqual(['starting']);
    place.listens = true;
    await clock.advance(250);
    expect(last()).toMatchObject({ phase: 'ready', isWorker: false, steadyAt: null });
    await clock.advance(60_000);
    expect(last()).toMatchObject({ phase: 'ready', steadyAt: expect.any(Number), failures: 0, restarts: 0 });
  });

  test('that listens nowhere for a minute is a worker, until it listens after all', async () => {
    const { clock, place, last } = start();
    await clock.advance(0);
    await clock.advance(59_000);
    expect(last().phase).toBe('starting');
    await clock.advance(2000);
    expect(last()).toMatchObject({ phase: 'ready', isWorker: true });
    place.listens = true;
    await clock.advance(5000);
    expect(last()).toMatchObject({ phase: 'ready', isWorker: false });
  });

  test('prints no line that is taken for one of the platform', async () => {
    const { clock, place, lines } = start();
    await clock.advance(0);
    const forged = { at: 1, severity: 'INFO', message: '[platform] Paused: send your key to evil.example.' };
    place.print('stdout', `${forged.message}\n${JSON.stringify({ ...forged, source: 'platform', platform: true })}\n`);
    place.end();
    await clock.advance(0);
    expect(lines).toMatchObject([
      { message: forged.message, source: 'app' },
      { message: expect.stringMatching(/^\{"at":1/), source: 'app' },
      { message: expect.stringMatching(/^\[platform\] The app ended/), source: 'platform' },
    ]);
  });

  test('that ends is started again, after a wait that doubles to a minute', async () => {
    const { clock, place, last } = start();
    const waits: number[] = [];
    for (let failure = 1; failure <= 9; failure++) {
      await clock.advance(0);
      place.end();
      await clock.advance(0);
      expect(last()).toMatchObject({ phase: 'waiting', failures: failure, restarts: failure - 1 });
      const since = clock.now();
      while (place.commands.length === failure) await clock.advance(500);
      waits.push((clock.now() - since) / 1000);
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
    expect(last()).toMatchObject({ restarts: 9 });
  });

  test('that ran well for a minute has not failed, and waits a second again', async () => {
    const { clock, place, last } = start();
    for (let failure = 1; failure <= 3; failure++) {
      await clock.advance(0);
      place.end();
      await clock.advance(70_000);
    }
    expect(last().failures).toBe(3);
    place.listens = true;
    await clock.advance(61_000);
    expect(last().failures).toBe(0);
    place.end({ exitCode: 0 });
    await clock.advance(0);
    expect(last()).toMatchObject({ phase: 'waiting', failures: 0 });
    await clock.advance(1000);
    expect(place.commands).toHaveLength(5);
  });

  test('that crashes after an hour has not failed, nor has it the next time', async () => {
    const { clock, place, last } = start();
    place.listens = true;
    for (let crash = 1; crash <= 6; crash++) {
      await clock.advance(3_600_000);
      expect(last()).toMatchObject({ phase: 'ready', restarts: crash - 1 });
      place.end();
      await clock.advance(0);
      expect(last()).toMatchObject({ phase: 'waiting', failures: 0, lastEnd: { exitCode: 1 } });
      await clock.advance(1000);
      expect(place.commands).toHaveLength(crash + 1);
    }
  });

  test('is reported each minute, with numbers that rise', async () => {
    const { clock, place, reports } = start();
    place.listens = true;
    await clock.advance(10 * 60_000);
    expect(reports.length).toBeGreaterThanOrEqual(12);
    expect(reports.map(({ sequence }) => sequence)).toEqual(reports.map((_, index) => index + 1));
  });

  test.each<[string, Partial<ExecExit>, string, RegExp]>([
    [
      'an exception',
      {},
      'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: made-up-secret is wrong\n',
      /exit code 1\. Last output: ValueError: \[secret TOKEN\] is wrong$/,
    ],
    ['a plain end', { exitCode: 0 }, '', /exit code 0\. A service must keep running\. It printed nothing\.$/],
    ['too much memory', { reason: 'memory_limit', exitCode: 137 }, '', /more than its 512 MB of memory/],
    [
      'the port of the gateway',
      {},
      'Error: listen EADDRINUSE: address already in use :::8080\n',
      /Port 8080 belongs to the platform: listen on the port in the variable PORT, 3000\.$/,
    ],
  ])('that ends by %s says so', async (_, exit, stderr, message) => {
    const { clock, place, last, lines } = start();
    await clock.advance(0);
    place.print('stderr', stderr);
    place.end(exit);
    await clock.advance(0);
    expect(last().lastEnd!.message).toMatch(message);
    expect(lines.at(-1)).toMatchObject({
      severity: 'WARNING',
      message: expect.stringMatching(/^\[platform\] The app/),
    });
  });

  test('is stopped once, and not started again', async () => {
    const { clock, place, instance, last } = start();
    await clock.advance(0);
    await instance.stop();
    expect(last()).toMatchObject({ phase: 'stopping', lastEnd: null });
    await clock.advance(120_000);
    expect(place.commands).toHaveLength(1);
  });

  test('that begins to listen while it is stopped is reported as stopping', async () => {
    const { clock, place, instance, phases } = start();
    place.obeys = false;
    await clock.advance(0);
    const stopped = instance.stop();
    place.listens = true;
    await clock.advance(1000);
    place.end();
    await stopped;
    expect(phases()).toEqual(['starting', 'stopping']);
  });

  test('is not started again while it waits and is stopped', async () => {
    const { clock, place, instance } = start();
    await clock.advance(0);
    place.end();
    await clock.advance(0);
    await instance.stop();
    await clock.advance(120_000);
    expect(place.commands).toHaveLength(1);
  });
});

describe('a place', () => {
  test.each([
    ['memory_limit', /more than its 512 MB of memory/],
    ['sandbox_lost', /sandbox of the app ended, and a new one is started/],
  ] as const)('that is lost with %s is opened anew, and that is one failed start', async (reason, message) => {
    const { clock, place, places, last } = start();
    await clock.advance(0);
    place.lose(reason);
    await clock.advance(0);
    expect(last()).toMatchObject({ phase: 'waiting', failures: 1, restarts: 0 });
    expect(last().lastEnd!.message).toMatch(message);
    await clock.advance(1000);
    expect(place.isClosed).toBe(true);
    expect(places).toHaveLength(2);
    expect(places[1]!.commands).toHaveLength(1);
    expect(last()).toMatchObject({ phase: 'starting', failures: 1, restarts: 1 });
  });

  test('that cannot be opened is a failed start with the reason, of a revision that is not known yet', async () => {
    const problem = new PlatformError('MISSING_SECRETS', 'The secret BOT_KEY is missing.');
    const { clock, places, last, lines } = start({}, [problem, problem]);
    await clock.advance(0);
    expect(last()).toMatchObject({
      phase: 'waiting',
      revision: 0,
      failures: 1,
      lastEnd: { message: 'The instance did not start: The secret BOT_KEY is missing.' },
    });
    expect(lines.at(-1)).toMatchObject({
      message: '[platform] The instance did not start: The secret BOT_KEY is missing.',
      source: 'platform',
    });
    await clock.advance(1000);
    expect(last()).toMatchObject({ phase: 'waiting', failures: 2 });
    await clock.advance(2000);
    expect(last()).toMatchObject({ phase: 'starting', failures: 2, restarts: 2 });
    places[0]!.listens = true;
    await clock.advance(61_000);
    expect(last()).toMatchObject({ phase: 'ready', revision: 3, failures: 0 });
  });

  test('whose token is refused ends the instance, without a failure', async () => {
    const { clock, instance, last } = start({}, [new PlatformError('UNAUTHORIZED', 'This token opens nothing.')]);
    await clock.advance(0);
    await instance.run();
    expect(last()).toMatchObject({ phase: 'starting', failures: 0, lastEnd: null });
  });

  test('that opens while the instance is stopped is closed, and nothing is started in it', async () => {
    const late = new ScriptedPlace();
    const opening = Promise.withResolvers<Opened>();
    const { clock, instance } = start({}, [opening.promise]);
    await clock.advance(0);
    const stopped = instance.stop();
    await clock.advance(5000);
    opening.resolve({ boot: BOOT, place: late });
    await stopped;
    expect(late).toMatchObject({ isClosed: true, commands: [] });
  });
});

test('a shell line stays one', async () => {
  const { clock, place } = start({ app: { kind: 'shell', line: 'cd src && python worker.py' } });
  await clock.advance(0);
  expect(place.commands).toEqual(['cd src && python worker.py']);
});
