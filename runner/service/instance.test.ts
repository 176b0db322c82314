import type { Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { ExecEvent, ExecExit } from '#core/ports/sandbox.ts';
import type { BootDocument, InstanceReport, ServiceLogLine } from '#core/ports/service-host.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import type { ServeRequest } from '../session.ts';
import { ServiceInstance } from './instance.ts';

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

/** An app that does what a test tells it. */
class ScriptedPlace {
  readonly commands: string[] = [];
  /** Whether it accepts connections. */
  listens = false;
  gone = new Promise<void>(() => {});
  #emit: ((event: ExecEvent) => void) | undefined;

  async *serve({ command, stop }: ServeRequest): AsyncGenerator<ExecEvent> {
    this.commands.push(command);
    const events: ExecEvent[] = [];
    let wake = () => {};
    this.#emit = (event) => {
      events.push(event);
      wake();
    };
    stop.addEventListener('abort', () => this.end({ reason: 'aborted', exitCode: 143 }));
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

function start(boot: Partial<BootDocument> = {}) {
  const [clock, place] = [new ManualClock(), new ScriptedPlace()];
  const reports: InstanceReport[] = [];
  const lines: ServiceLogLine[] = [];
  const instance = new ServiceInstance({
    id: 'i',
    boot: { ...BOOT, ...boot },
    place,
    clock,
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
    await clock.advance(59_000);
    expect(last().phase).toBe('starting');
    await clock.advance(2000);
    expect(last()).toMatchObject({ phase: 'ready', isWorker: true });
    place.listens = true;
    await clock.advance(5000);
    expect(last()).toMatchObject({ phase: 'ready', isWorker: false });
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
      /exit code 1\. Its last words: ValueError: \[secret TOKEN\] is wrong$/,
    ],
    ['a plain end', { exitCode: 0 }, '', /exit code 0\. A service has to go on running\. It printed nothing\.$/],
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

test('a shell line stays one', async () => {
  const { clock, place } = start({ app: { kind: 'shell', line: 'cd src && python worker.py' } });
  await clock.advance(0);
  expect(place.commands).toEqual(['cd src && python worker.py']);
});
