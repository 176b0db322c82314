import { expect, test } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';
import { machineSession } from '#test/helpers/machine-session.ts';
import { followDetached, startDetached } from './detached-program.ts';

async function play(
  command: string,
  {
    stdin = '',
    seconds = 60,
    mayLeave = async () => {},
  }: { stdin?: string; seconds?: number; mayLeave?: () => Promise<void> } = {},
  session = machineSession(),
) {
  const startedAt = Date.now();
  expect(await startDetached(session, { command, stdin: Buffer.from(stdin), timeoutMs: 1000 })).toBe(true);
  return follow(session, startedAt, { seconds, mayLeave });
}

async function follow(
  session: SandboxSession,
  startedAt: number,
  { seconds, mayLeave }: { seconds: number; mayLeave: () => Promise<void> },
) {
  const { signal } = new AbortController();
  const printed = { stdout: '', stderr: '' };
  const options = { startedAt, deadline: startedAt + seconds * 1000, signal, mayLeave };
  for await (const event of followDetached(session, new SystemClock(), options)) {
    if (event.type === 'exit') return { ...printed, ...event.exit };
    printed[event.type] += Buffer.from(event.data).toString();
  }
  throw new Error('no exit');
}

test('a program gets its input unchanged, and both outputs and the exit code are read back', async () => {
  expect(await play('cat; echo "it\'s $0" >&2; exit 3', { stdin: '{"a": "$HOME `x`"}' })).toMatchObject({
    stdout: '{"a": "$HOME `x`"}',
    stderr: expect.stringMatching(/^it's .*(ba)?sh\n$/),
    ...{ reason: 'exited', exitCode: 3 },
  });
});

test('large outputs come whole, and of stderr its beginning and end', async () => {
  const { stdout, stderr } = await play(
    'head -c 3000000 /dev/zero | tr "\\0" x; head -c 3000000 /dev/zero | tr "\\0" e >&2; echo END >&2',
  );
  expect(stdout).toBe('x'.repeat(3_000_000));
  expect(stderr.length).toBe(1024 * 1024 + 64 * 1024);
  expect(stderr.endsWith('eEND\n')).toBe(true);
});

test('more than 10 MB of output ends it', async () => {
  expect((await play('yes | head -c 20000000')).reason).toBe('output_limit');
});

test('a program works on when it is left, and is followed from its beginning', async () => {
  const session = machineSession();
  const startedAt = Date.now();
  const left = new Error('left');
  const mayLeave = () => Promise.reject(left);
  const program = 'for i in 1 2 3; do echo "line $i"; sleep 0.5; done';
  await expect(play(program, { mayLeave }, session)).rejects.toBe(left);
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const end = await follow(session, startedAt, { seconds: 60, mayLeave });
  expect(end).toMatchObject({ stdout: 'line 1\nline 2\nline 3\n', reason: 'exited', exitCode: 0 });
  expect(end.durationMs).toBeGreaterThan(2000);
});

test('at its deadline it gets SIGTERM, and then it is over', async () => {
  const polite = 'trap "echo bye; exit 0" TERM; while :; do sleep 0.1; done';
  expect(await play(polite, { seconds: 2 })).toMatchObject({ stdout: 'bye\n', reason: 'timeout' });
  expect(await play('trap "" TERM; sleep 30', { seconds: 1 })).toMatchObject({ reason: 'timeout' });
}, 30_000);

test('a program that ended in time has its own end, though it is looked at after its deadline', async () => {
  const session = machineSession();
  const startedAt = Date.now();
  await startDetached(session, { command: 'echo done; exit 4', timeoutMs: 60_000 });
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const end = await follow(session, startedAt, { seconds: 1, mayLeave: async () => {} });
  expect(end).toMatchObject({ stdout: 'done\n', reason: 'exited', exitCode: 4 });
});

test('a program that changes its own files changes its own result alone', async () => {
  // It ends long after the look that finds what it has done.
  const at = (what: string) => `sleep 0.2; ${what}; sleep 5`;
  expect(await play(at('printf "7\\n8 9" > program/exit; rm -f program/code'))).toMatchObject({ exitCode: 789 % 1000 });
  expect(await play(at('echo nonsense > program/exit'))).toMatchObject({ exitCode: 137 });
  expect((await play(at('rm -rf program'))).reason).toBe('sandbox_lost');
});
