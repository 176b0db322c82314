import { expect, test } from 'vitest';
import { SecretStore } from '#core/accounts/secrets/store.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { publish } from '#core/agents/publish.ts';
import { continueEvals } from '#core/automation/evals/continue.ts';
import { evalHandlers } from '#core/automation/evals/handlers.ts';
import type { evalRoutes } from '#core/automation/evals/routes.ts';
import type { Caller } from '#core/base/caller.ts';
import { checkDefinition } from '#core/manifest/parsing/manifest.ts';
import type { Deps } from '#core/ports/deps.ts';
import { listRuns } from '#core/runs/listing.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { withoutListeners } from '#test/helpers/agents.ts';
import { crashing, type Fuse } from '#test/helpers/crashing.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';

type Tables = Pick<Deps, 'main' | 'runs' | 'counters'>;
// biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
type Body = any;
const MINUTE = 60_000;
/** Nothing follows the agents of these tests. */
const listening = (deps: Deps) => ({ ...deps, ...withoutListeners(deps) });
const VERDICT = '{"reason": "Good.", "score": 1, "pass": true}';

/** Evaluations on the tables of a host: each run is made once, even if any process dies. */
export function evalsSuite(makeTables: (clock: Deps['clock']) => Promise<Tables | undefined>, everyCall: number): void {
  async function world() {
    const base = memoryDeps();
    const model = { asked: 0 };
    const deps: MemoryDeps = {
      ...base,
      ...(await makeTables(base.clock)),
      llm: {
        async generate({ messages }) {
          model.asked++;
          const isJudge = JSON.stringify(messages).includes('You judge the output');
          const usage = { inputTokens: 1, outputTokens: 1 };
          return { text: isJudge ? VERDICT : 'ok', toolCalls: [], usage } as never;
        },
      },
    };
    const user = await addUser(deps, `acme-${crypto.randomUUID().slice(0, 8)}`);
    const { workspaceId, userId } = user;
    const { definition } = checkDefinition({
      name: 'echo',
      type: 'prompt',
      description: 'x',
      prompt: 'Say.',
      supported_providers: ['anthropic'],
    });
    await new SecretStore(deps, workspaceId).put({ name: 'ANTHROPIC_API_KEY', value: 'sk-x', userId });
    const workspace = (await findWorkspace(deps, workspaceId))!;
    const agent = await publish(withoutListeners(deps), workspace, definition!, { runnable: true });
    const caller: Caller = { userId, keyId: 'key', workspace, role: 'owner' };
    const handlers = evalHandlers(deps) as unknown as Record<string, (incoming: object) => Promise<{ body: Body }>>;
    const ask = async (operation: (typeof evalRoutes)[number]['operationId'], sent: object): Promise<Body> =>
      (await handlers[operation]!({ caller, params: { id: agent.id, ...sent }, query: { limit: 50 }, ...sent })).body;
    const create = (suite: object, more: object = {}): Promise<Body> =>
      ask('createEval', { body: { suites: { 'a.yaml': JSON.stringify(suite) }, ...more } });
    const runs = async () => (await listRuns(deps, workspaceId, {}, { limit: 1000 })).runs;
    return { deps, model, ask, create, runs };
  }

  /** Continues the evaluation on the clock of a host until it has ended. */
  async function workUntilEnded({ deps, ask }: Awaited<ReturnType<typeof world>>, eval_id: string): Promise<Body> {
    for (let tick = 0; tick < 50; tick++) {
      await continueEvals(listening(deps));
      const now = await ask('getEval', { eval_id });
      if (now.status !== 'running') return now;
      await deps.clock.advance(2 * MINUTE);
      await sweepLostRuns(deps);
    }
    throw new Error('the evaluation did not end');
  }

  test('processes that work on one evaluation make each run once', async () => {
    const here = await world();
    const { eval_id } = await here.create({ repeat: 5, tests: [{}, {}, {}, {}, {}] });
    await Promise.all(Array.from({ length: 5 }, () => continueEvals(listening(here.deps))));
    const ended = await workUntilEnded(here, eval_id);
    expect(ended).toMatchObject({ verdict: 'passed', counts: { runs: 25, done: 25, passed: 25 } });
    expect(await here.runs()).toHaveLength(25);
    expect(here.model.asked).toBe(25);
  });

  test('a process that dies at any call loses nothing, and no run is made twice', async () => {
    for (let callsLeft = 1, isOver = false; !isOver; callsLeft += everyCall) {
      for (const isAfter of [false, true]) {
        const here = await world();
        const { eval_id } = await here.create({
          ...{ threshold: 0, judge: { model: 'anthropic/claude-haiku-4-5' } },
          tests: [{}, { assert: [{ type: 'llm-rubric', value: 'Good?' }] }],
        });
        const fuse: Fuse = { callsLeft, isAfter };
        const { main, runs, counters, llm } = here.deps;
        const mortal = {
          ...here.deps,
          main: crashing(main, fuse),
          runs: crashing(runs, fuse),
          counters: crashing(counters, fuse),
          llm: crashing(llm, fuse),
        };
        await continueEvals(listening(mortal)).catch(() => {});
        isOver = fuse.callsLeft > 0;
        // Runs of the dead host are past their deadline.
        await here.deps.clock.advance(10 * MINUTE);
        await sweepLostRuns(here.deps);
        const ended = await workUntilEnded(here, eval_id);
        const what = `dead ${isAfter ? 'after' : 'before'} call ${callsLeft}`;
        expect(ended, what).toMatchObject({ status: 'completed', counts: { runs: 2, done: 2 } });
        const { passed, failed, errors } = ended.counts;
        expect(passed + failed + errors, what).toBe(2);
        // Two cases and a judge; a run that was lost is not made again.
        expect((await here.runs()).length, what).toBeLessThanOrEqual(3);
        expect(here.model.asked, what).toBeLessThanOrEqual(3);
        const { cases } = await here.ask('listEvalCases', { eval_id });
        expect(
          cases.map(({ runs: made }: Body) => made.length),
          what,
        ).toEqual([1, 1]);
      }
    }
  });

  test('an evaluation that is aborted makes no further run, and its place is free', async () => {
    const here = await world();
    for (let n = 0; n < 5; n++) await here.create({ tests: [{}] });
    await expect(here.create({ tests: [{}] })).rejects.toMatchObject({ code: 'CONFLICT' });
    const { eval_id } = await workUntilEnded(here, (await here.ask('listEvals', {})).evals[0].eval_id);
    const made = await here.create({ tests: [{}, {}] });
    expect(made.eval_id).not.toBe(eval_id);
    const before = (await here.runs()).length;
    expect(await here.ask('abortEval', { eval_id: made.eval_id })).toMatchObject({ status: 'aborted', verdict: null });
    await continueEvals(listening(here.deps));
    expect((await here.runs()).length).toBe(before);
    expect(await here.ask('abortEval', { eval_id: made.eval_id })).toMatchObject({ status: 'aborted' });
    await here.create({ tests: [{}] });
  });
}
