import { expect, test } from 'vitest';
import { headKey } from '#core/runs/items.ts';
import { sweepQueues } from '#core/runs/queues/sweep.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { IMMORTAL, type Life } from '#test/helpers/durable-histories.ts';
import { expectNothingLeft, gated } from '#test/helpers/queue-world.ts';
import { runHeads } from '#test/helpers/run-heads.ts';
import { settled, waitingWorld } from '#test/helpers/waiting-world.ts';
import { resumeRuns } from '../durable/resume.ts';

const LIMIT = { concurrency: { limit: 1 } };

test.for([
  ['plain', LIMIT],
  ['lasting', LIMIT],
  ['plain', LIMIT, 'held'],
  ['plain', { concurrency: { limit: 1, on_limit: 'replace' } }],
  ['lasting', { ...LIMIT, rate: { count: 1, seconds: 60 } }],
  ['plain', { debounce: { seconds: 30 } }],
] as const)(
  '%s, %j: no run is lost, stuck or too many, wherever a process dies',
  { timeout: 300_000 },
  async ([name, rules, held]) => {
    const isDebounced = 'debounce' in rules;
    const replaces = isDebounced || (!('rate' in rules) && 'on_limit' in rules.concurrency);
    const history = async (life: Life) => {
      let [atOnce, most, lives] = [0, 0, 1];
      const world = await waitingWorld(
        {},
        {
          manifest: rules,
          async ask() {
            const life = lives;
            atOnce += 1;
            most = Math.max(most, atOnce);
            await world.deps.clock.sleep(100);
            if (life === lives) atOnce -= 1;
          },
        },
      );
      const { deps, user, processOf, requestOf, appOf, runs } = world;
      const mortal = processOf(life);
      const app = appOf(mortal.process);
      const statuses: number[] = [];
      const calls = async () => {
        for (let count = 0; count < 3; count++) {
          const prefer = held !== undefined && count === 1 ? '' : 'respond-async';
          const request = requestOf(user, 'POST', `/later/${name}/latest/run`, {}, { prefer });
          statuses.push((await app(request)).status);
        }
        await mortal.idle();
        await resumeRuns(mortal.process);
        await mortal.idle();
      };
      await settled(deps, Promise.race([calls(), mortal.death.died]));
      // What the dead process asked of the model is asked no more.
      lives += 1;
      atOnce = 0;
      const next = processOf();
      for (let round = 0; round < 6; round++) {
        const recover = async () => {
          await sweepLostRuns(next.process, { all: round === 0 });
          await sweepQueues(next.process);
          await resumeRuns(next.process, { all: round === 0 });
          await next.idle();
        };
        await settled(deps, recover());
        await deps.clock.advance(61_000);
      }
      const where = `died at ${life.lifetime} ${life.lastOneHappens ? 'after' : 'before'}`;
      const heads = await runHeads(deps, user.workspaceId);
      const ids = heads.map(({ sk }) => sk.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'));
      const ends = (await runs.findAll(ids)).map(({ status, errorCode }) => (status === 'failed' ? errorCode : status));
      expect(heads.length, where).toBeGreaterThanOrEqual(statuses.filter((status) => status === 202).length);
      // A run in progress that is not durable is lost with its process.
      const allowed = [
        'completed',
        ...(name === 'plain' ? ['INTERNAL_ERROR'] : []),
        ...(replaces ? ['cancelled'] : []),
      ];
      for (const end of ends) expect(allowed, `${where}: ${ends}`).toContain(end);
      expect(most, where).toBeLessThanOrEqual(1);
      if (isDebounced && ends.length > 0) {
        expect(ends.filter((end) => end !== 'cancelled').length, `${where}: ${ends}`).toBe(1);
      }
      await expectNothingLeft(world);
      return { asked: mortal.death.asked, ends };
    };
    const whole = await history(IMMORTAL);
    expect(whole.ends).toHaveLength(3);
    for (let lifetime = 1; lifetime <= whole.asked; lifetime += 3) {
      await history({ lifetime, lastOneHappens: lifetime % 2 === 1 });
    }
  },
);

test('a run that replaces others makes room for itself, wherever its process dies', { timeout: 120_000 }, async () => {
  const history = async (life: Life) => {
    const world = await gated({ limit: 1, on_limit: 'replace' });
    const { deps, user, run } = world;
    const first = await world.begin();
    await world.asked(1);
    const { process, death, idle } = world.processOf(life);
    const request = world.requestOf(user, 'POST', '/later/plain/latest/run', {}, { prefer: 'respond-async' });
    await settled(deps, Promise.race([world.appOf(process)(request).then(idle), death.died]));
    const heads = await runHeads(deps, user.workspaceId);
    await deps.clock.advance(61_000);
    await settled(deps, sweepQueues(world.processOf().process));
    const where = `died at ${life.lifetime} ${life.lastOneHappens ? 'after' : 'before'}`;
    const head = await deps.runs.get(headKey(user.workspaceId, first.run_id));
    expect(head!.cancel_requested_at !== undefined, where).toBe(heads.length === 2);
    await world.open();
    await world.ended(first.run_id, heads.length === 2 ? 'cancelled' : 'completed');
    const cancelled = expect.stringMatching(/^The run was replaced by the run /);
    expect((await run(first.run_id)).error_message, where).toEqual(heads.length === 2 ? cancelled : null);
    return death.asked;
  };
  const asked = await history(IMMORTAL);
  for (let lifetime = 1; lifetime <= asked; lifetime++) await history({ lifetime, lastOneHappens: lifetime % 2 === 1 });
});
