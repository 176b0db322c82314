import { describe, expect, test } from 'vitest';
import type { Sandbox, SandboxSession } from '#core/ports/sandbox.ts';
import { turnsConformance } from '#test/conformance/fair-queue.ts';
import { specOf } from '#test/conformance/sandbox.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { FairSandbox } from './fair-sandbox.ts';

function setUp(maxConcurrent: number) {
  const clock = new ManualClock();
  const sessions = new Set<object>();
  const sandbox: Sandbox = {
    async open({ bundle }) {
      if (bundle === 'broken') throw new Error('broken');
      const session = { close: async () => void sessions.delete(session) } as SandboxSession;
      sessions.add(session);
      return session;
    },
    status: async () => ({ kind: 'unshare', interpreters: {} }),
    close: async () => {},
  };
  return { clock, sessions, sandbox: new FairSandbox(sandbox, { maxConcurrent, clock }) };
}

describe('turns', () => turnsConformance(async (max) => setUp(max)));

const runOf = (owner: string, { clock }: { clock: ManualClock }) =>
  specOf({ turn: { owner, deadline: clock.now() + 60_000 } });

test('a sub-call is opened at once even when every place is taken', async () => {
  const { sandbox, sessions } = setUp(2);
  for (let i = 0; i < 5; i++) await sandbox.open(specOf());
  expect(sessions.size).toBe(5);
});

test('a sandbox that cannot be opened gives its place back', async () => {
  const host = setUp(2);
  for (let i = 0; i < 5; i++) {
    await expect(host.sandbox.open({ ...runOf('a', host), bundle: 'broken' })).rejects.toThrow('broken');
  }
  await host.sandbox.open(runOf('a', host));
});

test('a session that is closed twice gives one place back', async () => {
  const host = setUp(4);
  const [first] = await Promise.all(['a', 'b', 'c'].map((owner) => host.sandbox.open(runOf(owner, host))));
  await first!.close();
  await first!.close();
  await host.sandbox.open(runOf('a', host));
  void host.sandbox.open(runOf('a', host));
  await new Promise(setImmediate);
  expect(host.sessions.size).toBe(3);
});
