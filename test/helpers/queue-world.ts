import { expect } from 'vitest';
import { callsInUse, leasesOf } from '#core/accounts/limits/admission.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { resumeRuns } from '#core/execution/durable/resume.ts';
import { queryAll } from '#core/ports/table.ts';
import { dueLeases } from '#core/runs/leases.ts';
import { type FirstCall, type Sent, settled, waitingWorld } from '#test/helpers/waiting-world.ts';
import { runHeads } from './run-heads.ts';

/** A world whose model answers when it is let. */
export async function gated(
  concurrency: object | null,
  { plan = {}, more = {}, first }: { plan?: Record<string, number>; more?: object; first?: FirstCall } = {},
) {
  const gates: (() => void)[] = [];
  let atOnce = 0;
  const seen = { most: 0 };
  const world = await waitingWorld(plan, {
    manifest: { ...(concurrency && { concurrency }), ...more },
    ...(first && { first }),
    async ask() {
      atOnce += 1;
      seen.most = Math.max(seen.most, atOnce);
      await new Promise<void>((open) => gates.push(open));
      atOnce -= 1;
    },
  });
  const { deps, call, run, tick } = world;
  /** Lets time pass until something holds. */
  const until = async (holds: () => boolean | Promise<boolean>) => {
    for (let count = 0; count < 2000 && !(await holds()); count++) await settled(deps, deps.clock.sleep(20));
    expect(await holds()).toBe(true);
  };
  const asked = (count: number) => until(() => world.asked.length >= count);
  const open = async () => {
    await until(() => gates.length > 0);
    gates.shift()!();
  };
  const begin = async (input: object = {}, headers: Sent = {}, name = 'plain', by = world.user) => {
    const { status, body } = await call(headers, name, by, input);
    expect(status).toBe(202);
    // The order of calls in one millisecond is not defined.
    await deps.clock.advance(1);
    return body;
  };
  /** Begins what may begin, and waits until so many requests have reached the model. */
  const ticked = async (count: number) => {
    const { process } = world.processOf();
    await settled(deps, resumeRuns({ ...process, background: async (work) => void work.catch(() => {}) }));
    await asked(count);
  };
  /** Number of entries that wait for a place. */
  const waitingEntries = async () => {
    const [head] = await runHeads(deps, world.user.workspaceId);
    const state = await deps.runs.get({ pk: `WS#${world.user.workspaceId}#QUEUE#${head!.queue}`, sk: 'STATE' });
    return (state?.waiting as number | undefined) ?? 0;
  };
  const ended = (id: string, status = 'completed') => until(async () => (await run(id)).status === status);
  return { ...world, gates, seen, until, asked, open, begin, ticked, waitingEntries, ended, tick };
}
type World = Awaited<ReturnType<typeof gated>>;

/** All runs have ended, and nothing is left of their waiting. */
export async function expectNothingLeft({ deps, user, waiting }: Pick<World, 'deps' | 'user' | 'waiting'>) {
  expect(await waiting.count()).toBe(0);
  expect(await Array.fromAsync(dueLeases(deps, { all: true }))).toEqual([]);
  expect(await Array.fromAsync(leasesOf(deps, { all: true }))).toEqual([]);
  const workspace = (await findWorkspace(deps, user.workspaceId))!;
  expect((await callsInUse(deps, workspace)).concurrent_calls).toBe(0);
  for (const head of await runHeads(deps, user.workspaceId)) {
    if (head.queue === undefined) continue;
    const items = await Array.fromAsync(queryAll(deps.runs, { pk: `WS#${user.workspaceId}#QUEUE#${head.queue}` }));
    expect(items.map(({ sk }) => sk)).toEqual(['STATE']);
    expect(items[0]).toMatchObject({ active: 0 });
    expect(items[0]!.waiting ?? 0).toBe(0);
  }
}
