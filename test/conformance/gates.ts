import { expect, test } from 'vitest';
import { SecretStore } from '#core/accounts/secrets/store.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { evalContentsOf } from '#core/agents/eval-files.ts';
import { gateEvalId } from '#core/agents/gates/gate.ts';
import { overrideGate } from '#core/agents/gates/override.ts';
import { makeCurrent, publish, removeVersions } from '#core/agents/publish.ts';
import { AgentStore } from '#core/agents/store.ts';
import { continueEvals } from '#core/automation/evals/continue.ts';
import { evalHandlers } from '#core/automation/evals/handlers.ts';
import type { evalRoutes } from '#core/automation/evals/routes.ts';
import type { Caller } from '#core/base/caller.ts';
import { checkDefinition } from '#core/manifest/parsing/manifest.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { listRuns } from '#core/runs/listing.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { crashing, type Fuse } from '#test/helpers/crashing.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';

type Tables = Pick<Deps, 'main' | 'runs' | 'counters'>;
// biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
type Body = any;
const MINUTE = 60_000;
const SUITE = { tests: [{}, { assert: [{ type: 'contains', value: 'good' }] }] };

/** Gates on the tables of a host: a version becomes latest once it has passed, whatever process dies. */
export function gatesSuite(makeTables: (clock: Deps['clock']) => Promise<Tables | undefined>, everyCall: number): void {
  async function world() {
    const base = memoryDeps();
    const deps: MemoryDeps = {
      ...base,
      ...(await makeTables(base.clock)),
      llm: {
        async generate({ messages }) {
          const text = JSON.stringify(messages).includes('Be good') ? 'good' : 'bad';
          return { text, toolCalls: [], usage: { inputTokens: 1, outputTokens: 1 } } as never;
        },
      },
    };
    const { workspaceId, userId } = await addUser(deps, `acme-${crypto.randomUUID().slice(0, 8)}`);
    await new SecretStore(deps, workspaceId).put({ name: 'ANTHROPIC_API_KEY', value: 'sk-x', userId });
    const workspace = (await findWorkspace(deps, workspaceId))!;
    const caller: Caller = { userId, keyId: 'key', workspace, role: 'owner' };
    let changes = 0;
    /** What a process has: its own ports, and listeners. */
    const processOf = <Own extends Deps>(own: Own) => ({
      ...own,
      listeners: {
        async currentVersionChanged() {
          changes++;
          return { servicesUpdated: 0 };
        },
      },
    });
    const store = new AgentStore(deps, workspaceId);
    const make = (
      prompt: 'Be good' | 'Be bad',
      { suite = SUITE as object, runnable = true, isGated = true, baseline = 'latest' } = {},
    ) => {
      const { definition } = checkDefinition({
        ...{ name: 'echo', type: 'prompt', description: 'x', prompt, supported_providers: ['anthropic'] },
        ...(isGated && { evals: { gate: true, baseline } }),
      });
      const evals = evalContentsOf({ 'evals/a.yaml': JSON.stringify(suite) });
      const gatedFor = isGated ? { userId, isBound: false } : undefined;
      return publish(processOf(deps), workspace, definition!, { runnable, evals, gatedFor });
    };
    const handlers = evalHandlers(deps) as unknown as Record<string, (incoming: object) => Promise<{ body: Body }>>;
    const ask = async (
      operation: (typeof evalRoutes)[number]['operationId'],
      { id }: AgentVersion,
      sent: object = {},
    ) => (await handlers[operation]!({ caller, params: { id, ...sent }, query: { limit: 50 }, ...sent })).body;
    const again = (version: AgentVersion): Promise<AgentVersion> => store.find(version.id) as Promise<AgentVersion>;
    const latest = async () => (await store.findVersion('echo', 'latest'))?.version;
    const work = (own: Deps = deps) => continueEvals(processOf(own));
    /** Works on the clock of a host until no gate waits. */
    async function untilDecided(...versions: AgentVersion[]): Promise<AgentVersion[]> {
      for (let tick = 0; tick < 50; tick++) {
        await work();
        const now = await Promise.all(versions.map(again));
        if (now.every((each) => each.gate?.status !== 'pending')) return now;
        await deps.clock.advance(2 * MINUTE);
        await sweepLostRuns(deps);
      }
      throw new Error('no decision was made');
    }
    const runs = async () => (await listRuns(deps, workspaceId, {}, { limit: 1000 })).runs;
    return { deps, caller, processOf, make, ask, again, latest, work, untilDecided, runs, changes: () => changes };
  }

  test('a version waits for its evaluation, is called by its number meanwhile, and then is latest', async () => {
    const here = await world();
    const first = await here.make('Be good', { isGated: false });
    const second = await here.make('Be good');
    expect(second.gate).toMatchObject({ status: 'pending', evalId: gateEvalId(second.id) });
    expect(await here.latest()).toBe(1);
    expect((await here.again(first)).supersededAt).toBeUndefined();
    const before = here.changes();
    const [decided] = await here.untilDecided(second);
    expect(decided!.gate).toMatchObject({ status: 'passed', verdict: 'passed', reason: null, decidedBy: null });
    expect(await here.latest()).toBe(2);
    expect((await here.again(first)).supersededAt).toBeDefined();
    expect(here.changes()).toBeGreaterThan(before);
    const evaluation = await here.ask('getEval', second, { eval_id: second.gate!.evalId });
    expect(evaluation).toMatchObject({ trigger: 'publish', opens_gate: true, version: 'v2', baseline: 'v1' });
    // Nothing is left to do.
    const made = (await here.runs()).length;
    await here.deps.clock.advance(MINUTE);
    await here.work();
    expect(await here.runs()).toHaveLength(made);
  });

  test('the first version has nothing to compare with, and its suites decide', async () => {
    const here = await world();
    const [bad] = await here.untilDecided(await here.make('Be bad'));
    expect(bad!.gate).toMatchObject({
      status: 'failed',
      verdict: 'failed',
      reason: expect.stringMatching(/The evaluation failed/),
    });
    expect(await here.latest()).toBeUndefined();
    const [good] = await here.untilDecided(await here.make('Be good'));
    expect(good!.gate!.status).toBe('passed');
    expect(await here.ask('getEval', good!, { eval_id: good!.gate!.evalId })).toMatchObject({ baseline: null });
    expect(await here.latest()).toBe(2);
  });

  test('a version without its code waits from when it can run', async () => {
    const here = await world();
    const version = await here.make('Be good', { runnable: false });
    expect(version.gate).toMatchObject({ status: 'pending', since: null });
    await here.deps.clock.advance(3 * 60 * MINUTE);
    await here.work();
    expect(await here.runs()).toHaveLength(0);
    await makeCurrent(here.processOf(here.deps), version);
    expect(await here.latest()).toBeUndefined();
    await here.untilDecided(version);
    expect(await here.latest()).toBe(1);
  });

  test('what is not decided within an hour stays held, and its evaluation ends', async () => {
    const here = await world();
    const version = await here.make('Be good');
    // Every place of the workspace is taken by evaluations that never end.
    const stuck = Array.from({ length: 5 }, () => here.ask('createEval', version, { body: { tests: [{}] } }));
    await Promise.all(stuck);
    const frozen = { ...here.deps, runs: withoutDueEvals(here.deps.runs) };
    await here.work(frozen);
    await here.deps.clock.advance(61 * MINUTE);
    await here.work(frozen);
    expect((await here.again(version)).gate).toMatchObject({
      ...{ status: 'failed', verdict: null, reason: 'It was not decided within an hour.' },
    });
    expect(await here.latest()).toBeUndefined();
  });

  test('an evaluation that runs for an hour is aborted', async () => {
    const here = await world();
    const version = await here.make('Be good');
    const frozen = { ...here.deps, runs: withoutDueEvals(here.deps.runs) };
    await here.work(frozen);
    await here.deps.clock.advance(61 * MINUTE);
    await here.work(frozen);
    const { gate } = await here.again(version);
    expect(gate).toMatchObject({ status: 'failed', reason: expect.stringMatching(/aborted.*within an hour/) });
    expect(await here.ask('getEval', version, { eval_id: gate!.evalId })).toMatchObject({ status: 'aborted' });
  });

  test('an evaluation of the published suites opens the gate later; another one does not', async () => {
    const here = await world();
    const suite = { repeat: 2, pass: 'most', tests: [{ assert: [{ type: 'contains', value: 'good' }] }] };
    const [held] = await here.untilDecided(await here.make('Be bad', { suite }));
    expect(held!.gate!.status).toBe('failed');
    const other = await here.ask('createEval', held!, { body: { tests: [{}] } });
    expect(other.opens_gate).toBe(false);
    const weaker = await here.ask('createEval', held!, { body: { repeat: 1 } });
    expect(weaker.opens_gate).toBe(false);
    await here.work();
    expect((await here.again(held!)).gate!.status).toBe('failed');
    // The model has become better meanwhile.
    const better = { ...here.deps, llm: { generate: async () => ANSWER as never } };
    const retried = await here.ask('createEval', held!, { body: {} });
    expect(retried).toMatchObject({ opens_gate: true, trigger: 'request' });
    await here.work(better);
    expect((await here.again(held!)).gate).toMatchObject({ status: 'passed', evalId: retried.eval_id });
    expect(await here.latest()).toBe(1);
  });

  test('an override opens the gate at once and ends the evaluation, whose verdict changes nothing', async () => {
    const here = await world();
    const version = await here.make('Be bad');
    const frozen = { ...here.deps, runs: withoutDueEvals(here.deps.runs) };
    await here.work(frozen);
    const override = () => overrideGate(here.processOf(here.deps), here.caller, version.id, 'urgent');
    expect((await override()).gate).toMatchObject({
      status: 'overridden',
      reason: 'urgent',
      decidedBy: here.caller.userId,
    });
    expect(await here.latest()).toBe(1);
    await expect(override()).rejects.toMatchObject({ code: 'CONFLICT' });
    await here.deps.clock.advance(MINUTE);
    await here.work();
    expect((await here.again(version)).gate!.status).toBe('overridden');
    expect(await here.ask('getEval', version, { eval_id: version.gate!.evalId })).toMatchObject({ status: 'aborted' });
  });

  test('verdicts in any order never move latest backwards', async () => {
    const here = await world();
    await here.make('Be good', { isGated: false });
    const [second, third] = await Promise.all([here.make('Be good'), here.make('Be good')] as const);
    const [older, newer] = second.version < third.version ? [second, third] : [third, second];
    // The evaluation of the older one begins, and is not worked on.
    const frozen = { ...here.deps, runs: withoutDueEvals(here.deps.runs) };
    await here.work(frozen);
    await here.ask('abortEval', older, { eval_id: older.gate!.evalId });
    await here.untilDecided(older, newer);
    expect(await here.latest()).toBe(newer.version);
    await here.ask('createEval', older, { body: {} });
    await here.work();
    const late = await here.again(older);
    expect(late.gate!.status).toBe('passed');
    expect(late.supersededAt).toBeDefined();
    expect(await here.latest()).toBe(newer.version);
  });

  test('a deleted version is not evaluated any further', async () => {
    const here = await world();
    const version = await here.make('Be good');
    await removeVersions(here.processOf(here.deps), version, [version]);
    await here.work();
    expect(await here.runs()).toHaveLength(0);
  });

  test('processes at the same time start one evaluation', async () => {
    const here = await world();
    const version = await here.make('Be good');
    await Promise.all(Array.from({ length: 5 }, () => here.work()));
    const [decided] = await here.untilDecided(version);
    expect(decided!.gate!.status).toBe('passed');
    expect(await here.runs()).toHaveLength(2);
    expect((await here.ask('listEvals', version)).evals).toHaveLength(1);
  });

  test('a process that dies at any call leaves the decision to the next one', async () => {
    for (let callsLeft = 1, isOver = false; !isOver; callsLeft += everyCall) {
      for (const isAfter of [false, true]) {
        const here = await world();
        const version = await here.make('Be good', { suite: { threshold: 0, tests: [{}] } });
        const fuse: Fuse = { callsLeft, isAfter };
        const { main, runs, counters, llm, blobs } = here.deps;
        const ports = { main, runs, counters, llm, blobs };
        const mortal = Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, crashing(port, fuse)]));
        await here.work({ ...here.deps, ...mortal }).catch(() => {});
        isOver = fuse.callsLeft > 0;
        const what = `dead ${isAfter ? 'after' : 'before'} call ${callsLeft}`;
        // Runs of the dead host are past their deadline.
        await here.deps.clock.advance(10 * MINUTE);
        await sweepLostRuns(here.deps);
        const [decided] = await here.untilDecided(version);
        expect(['passed', 'failed'], what).toContain(decided!.gate!.status);
        expect(await here.latest(), what).toBe(decided!.gate!.status === 'passed' ? 1 : undefined);
        expect((await here.ask('listEvals', version)).evals, what).toHaveLength(1);
        expect((await here.runs()).length, what).toBeLessThanOrEqual(1);
        await here.deps.clock.advance(MINUTE);
        await here.work();
        // Schedules and services that follow the agent were told, by one process or the other.
        expect(here.changes(), what).toBeGreaterThan(0);
      }
    }
  });
}

const ANSWER = { text: 'good', toolCalls: [], usage: { inputTokens: 1, outputTokens: 1 } };

/** A table in which no evaluation is found to work on. */
const withoutDueEvals = (runs: Deps['runs']): Deps['runs'] =>
  new Proxy(runs, {
    get(target, name) {
      const method = Reflect.get(target, name, target);
      if (typeof method !== 'function') return method;
      return (...values: unknown[]) => {
        const [asked] = values as [{ readonly pk?: string }];
        return name === 'query' && asked.pk === 'EVALS' ? Promise.resolve({ items: [] }) : method.apply(target, values);
      };
    },
  });
