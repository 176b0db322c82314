import { expect, test } from 'vitest';
import type { Step } from '#core/execution/durable/journal.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import { isRunContinues } from '#core/runs/run-continues.ts';
import { loopRun } from '#test/helpers/loop-run.ts';
import { machineSession } from '#test/helpers/machine-session.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { runCode } from '../code-runtime.ts';
import type { DurableWork } from '../engine.ts';

const SECRET = 'ABCDEFGHIJKL';
const clock = new SystemClock();

/** Processes that have a program one after another, each until its first look unless it is the last. */
function world(command: string) {
  const session = { ...machineSession(), ref: { address: 'made up' } };
  const steps: Step[] = [];
  const closes: number[] = [];
  let opened = 0;
  session.close = async () => void closes.push(opened);
  const sandbox = {
    open: async () => {
      opened += 1;
      return session;
    },
    attach: async () => session,
    status: async () => ({ kind: 'fargate', interpreters: {} }) as const,
    close: async () => {},
  };
  const process = async (isLast: boolean) => {
    const past = [...steps];
    const journal = { past, begun: past.filter(({ type }) => type === 'program').length || 1 };
    const write = async (...added: Step[]) => void steps.push(...added);
    const nextLook = () => (isLast ? undefined : clock.now());
    const durable = { journal: Object.assign(journal, { write }), nextLook } as unknown as DurableWork;
    const definition = { runtime: { command }, output_schema: null, timeout_seconds: 0 };
    const agent = { definition, bundle: {} } as unknown as AgentVersion;
    const mask = new SecretMask({ TOKEN: SECRET });
    const { run, events } = loopRun({ clock, maxTurns: 1, change: { models: [], agent, mask, durable } });
    const result = await runCode({ ...memoryDeps(), clock, sandbox }, run).catch((error: unknown) => {
      if (!isRunContinues(error)) throw error;
      return undefined;
    });
    const told = events.map((event) => (event.type === 'stderr' ? event.text : '')).join('');
    return { result, told };
  };
  return { process, opened: () => opened, closes };
}

test('a secret that one process sees the beginning of, and another the end, is masked as a whole', async () => {
  const { process, opened, closes } = world(
    `printf 'key=${SECRET.slice(0, 5)}' >&2; sleep 2; echo '${SECRET.slice(5)} and more' >&2; echo '{"ok": true}'`,
  );
  const [first, second] = [await process(false), await process(true)];
  expect(first.result).toBeUndefined();
  expect(second.result).toMatchObject({ data: { ok: true }, exitCode: 0 });
  expect(first.told + second.told).toBe('key=[secret TOKEN] and more\n');
  expect(second.result!.stderr).toBe('key=[secret TOKEN] and more\n');
  expect([opened(), closes]).toEqual([1, [1]]);
});

test('each character of the output is told once, however many processes follow it', async () => {
  const { process } = world('for i in 1 2 3 4 5; do echo "line $i" >&2; sleep 0.4; done; echo 1');
  const told = [await process(false), await process(false), await process(false), await process(true)];
  expect(told.map((each) => each.told).join('')).toBe('line 1\nline 2\nline 3\nline 4\nline 5\n');
});

test('a process that looks reads all of a large output, so that the last one finds the end', async () => {
  const { process } = world(
    'head -c 1800000 /dev/zero | tr "\\0" x; head -c 900000 /dev/zero | tr "\\0" e >&2; sleep 1; echo',
  );
  expect((await process(false)).result).toBeUndefined();
  await new Promise((resolve) => setTimeout(resolve, 1500));
  // It would leave, but the program has ended.
  const { result } = await process(false);
  expect(result).toMatchObject({ exitCode: 0 });
});
