import { expect } from 'vitest';
import { callsInUse, leasesOf } from '#core/accounts/limits/admission.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { LlmMessage } from '#core/ports/llm.ts';
import { queryAll } from '#core/ports/table.ts';
import { dueLeases } from '#core/runs/leases.ts';
import { usagePartition } from '#core/runs/usage/rollup.ts';
import { IMMORTAL, type Life, processOf, SENDS, settled, setUp } from './durable-histories.ts';
import { runHeads } from './run-heads.ts';
import { createWebApp } from './web-app.ts';

/** Replays from a turn of an ended run, whose processes die at calls of ports (`durable-histories.ts`). */

/** What the run of the helper sends in its turns 1 and 2; it sends the rest in turn 3. */
export const EARLIER = ['a', 'b', 'c'];

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers of many routes.
  readonly body: any;
}

/** A workspace in which a durable run of four turns has ended. */
export async function endedRun(manifest: object = {}) {
  const { world, workspaceId, call, request } = await setUp(manifest);
  const { deps } = world;
  const { process, idle } = processOf(world, IMMORTAL);
  const app = createWebApp(process, routes, allHandlers(process));
  const asked = async (method: string, path: string, body?: object): Promise<Answer> => {
    const response = await settled(deps, app(request(method, path, body)));
    await settled(deps, idle());
    return { status: response.status, body: await response.json() };
  };
  const began = await settled(deps, app(call()));
  const { run_id: origin } = (await began.json()) as { readonly run_id: string };
  await settled(deps, idle());
  const runs = `/workspaces/${workspaceId}/runs`;
  return {
    ...{ world, workspaceId, origin, asked, request },
    path: (id = origin) => `${runs}/${id}`,
    run: async (id: string) => (await asked('GET', `${runs}/${id}`)).body,
    replay: (body: object, id = origin) => asked('POST', `${runs}/${id}/replay`, body),
  };
}

/** What the model is told about the sandbox of a branch, none of whose files were kept. */
export const NEW_SANDBOX = {
  role: 'user',
  text: '[The run was interrupted and continues in a new sandbox. The files that you wrote are gone. Processes that ran in the background have ended.]',
} as const;

export const textsOf = (messages: readonly LlmMessage[]) =>
  messages.flatMap((message) => (message.role === 'tool' ? message.results.map(({ text }) => text) : []));

/** A rule by which a branch begins some hours after its origin. */
const LATER = { rate: { count: 1, seconds: 21_600 } };

/**
 * Lets processes live until one of them ends a branch of an ended run. Returns the calls of ports of the first two.
 *
 * @param waits Whether the branch waits for its turn.
 */
export async function branchHistory(lives: readonly Life[], { waits = false }: { readonly waits?: boolean } = {}) {
  const { world, workspaceId, origin, request } = await endedRun(waits ? LATER : {});
  const { deps } = world;
  const [first = IMMORTAL, ...others] = lives;
  const begun = processOf(world, first);
  const app = createWebApp(begun.process, routes, allHandlers(begun.process));
  const body = { from_turn: 3, message: 'Send less.', tool_results: [{ turn: 1, call: 1, text: 'new' }] };
  const called = app(request('POST', `/workspaces/${workspaceId}/runs/${origin}/replay`, body)).then(
    async (response) => {
      expect(response.status).toBe(202);
      await begun.idle();
    },
  );
  await settled(deps, Promise.race([called, begun.death.died]));
  if (waits) {
    const [branch] = (await runHeads(deps, workspaceId)).filter(({ branch }) => branch);
    if (branch !== undefined) expect(branch).toMatchObject({ status: 'queued', held_by: { rule: 'rate' } });
    await deps.clock.advance(LATER.rate.seconds * 1000);
  }
  const calls = [begun.death.asked];
  for (const life of [...others, IMMORTAL]) {
    const { death, recover } = processOf(world, life);
    await settled(deps, Promise.race([recover(), death.died]));
    calls.push(death.asked);
  }
  return { world, workspaceId, origin, calls: calls[0]!, callsOfNext: calls[1]! };
}

/** Checks that there is either a whole branch, or nothing. */
export async function checkBranch(
  { world, workspaceId, origin }: Awaited<ReturnType<typeof branchHistory>>,
  where: string,
): Promise<void> {
  const { deps, sent, requests } = world;
  const heads = await runHeads(deps, workspaceId);
  const branches = await Array.fromAsync(
    queryAll(deps.runs, { pk: `WS#${workspaceId}#BRANCHES#${origin.replaceAll('-', '')}` }),
  );
  expect(branches.length, where).toBe(heads.length - 1);
  const again = sent.slice(EARLIER.length + SENDS.length);
  expect(new Set(again).size, `${where}: sent twice: ${again}`).toBe(again.length);
  expect(SENDS, where).toEqual(expect.arrayContaining(again));
  if (heads.length === 1) expect(requests.length, where).toBe(4);
  else {
    const branch = heads.find(({ branch }) => branch !== undefined)!;
    expect(branch, where).toMatchObject({ status: 'completed', replay_of: origin });
    for (const { messages } of requests.slice(4)) {
      expect(textsOf(messages).slice(0, 5), where).toEqual(['new', 'ok', 'ok', 'ok', 'ok']);
      expect(messages.filter((each) => each.role === 'user' && each.text === 'Send less.').length, where).toBe(1);
    }
  }
  expect(await Array.fromAsync(dueLeases(deps, { all: true })), where).toEqual([]);
  expect(await Array.fromAsync(leasesOf(deps, { all: true })), where).toEqual([]);
  expect((await callsInUse(deps, (await findWorkspace(deps, workspaceId))!)).concurrent_calls, where).toBe(0);
  const rollups = await Array.fromAsync(queryAll(deps.runs, { pk: usagePartition(workspaceId) }));
  expect(
    rollups.reduce((sum, { runs }) => sum + Number(runs ?? 0), 0),
    where,
  ).toBe(heads.length);
}
