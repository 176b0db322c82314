import { beforeAll, describe, expect, test } from 'vitest';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME } from '../expect.ts';

// A deployed platform begins to score runs once a minute, and looks at canaries as often.
const untilDone = { timeout: 200_000, interval: 300 };
const limit = { timeout: 240_000 };
const said = (text: string) => `[[llm ${JSON.stringify({ text })}]]`;
const verdict = (score: number) => JSON.stringify({ reason: `It is ${score}.`, score, pass: score >= 0.5 });

// biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
type Body = any;

/** Scores of runs in production (`docs/interface/online-evals.md`). */
export function onlineSuite(target: () => Target): void {
  let user: TestUser;
  let other: TestUser;

  const api = (method: string, path: string, json?: unknown, { key } = user) =>
    request(target(), method, path, { key, json });
  const own = (path: string) => `/workspaces/${user.workspaceId}${path}`;
  const publish = async (name: string, prompt: string, online?: object, more: object = {}): Promise<string> => {
    const json = {
      ...{ name, type: 'prompt', description: name, supported_providers: ['anthropic'], prompt },
      ...(online && { evals: { online: { sample: 1, ...online } } }),
      ...more,
    };
    return expectOk(await api('POST', '/agents', json), 201).agent.id;
  };
  const run = async (path: string, text = 'Hello', by = user): Promise<string> => {
    const answer = await api('POST', `/online/${path}/run`, { text }, by);
    expectOk(answer);
    return answer.headers.get('x-run-id')!;
  };
  const scoresOf = async (id: string): Promise<Body[]> => expectOk(await api('GET', own(`/runs/${id}/scores`))).scores;
  const numbers = async (id: string): Promise<Body> =>
    Object.fromEntries((await scoresOf(id)).map(({ name, value, label }) => [name, value ?? label]));
  const pass = async () => void (await target().passMinute?.());
  /** Waits until runs have their score `online`. */
  const scored = async (...ids: string[]): Promise<Body[]> => {
    const all = async () => {
      await pass();
      return Promise.all(ids.map(numbers));
    };
    await expect.poll(async () => (await all()).every(({ online }) => online !== undefined), untilDone).toBe(true);
    return all();
  };

  beforeAll(async () => {
    needsModel(target());
    [user, other] = await Promise.all([target().addUser('online'), target().addUser('online-other')]);
    for (const by of [user, other]) {
      const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-online-0123456789' };
      expectOk(await api('PUT', `/workspaces/${by.workspaceId}/secrets`, secret, by));
    }
  });

  describe('online evaluations', () => {
    test('score a run after its end, with a judge', limit, async () => {
      await publish('polite', `Judge it. ${said(verdict(0.5))}`);
      const id = await publish('greets', `Say hello. ${said('Hello, Ada')} {{text}}`, {
        judge: { agent: 'online/polite' },
        assert: [
          { type: 'contains', value: '{{text}}', metric: 'names' },
          { type: 'llm-rubric', value: 'It is polite.', metric: 'polite', weight: 3 },
        ],
      });
      const { evals } = expectOk(await api('GET', `/agents/${id}`));
      expect(evals.online).toMatchObject({ sample: 1, budget_usd_per_day: 1, judge: { agent: 'online/polite' } });
      const [first, second] = [await run('greets/v1', 'Ada'), await run('greets/v1', 'Bob')];
      expect(await scored(first, second)).toEqual([
        { names: 1, polite: 0.5, online: 0.625 },
        { names: 0, polite: 0.5, online: 0.375 },
      ]);
      expect(await scoresOf(second)).toEqual(
        expect.arrayContaining([
          {
            ...{ name: 'names', source: 'online', value: 0, label: null, created_by: 'platform' },
            comment: 'must contain "Bob", but is "Hello, Ada"',
            created_at: expect.stringMatching(ISO_TIME),
            updated_at: expect.stringMatching(ISO_TIME),
          },
        ]),
      );
      const { points } = expectOk(await api('GET', own('/scores/series?agent=online/greets&name=online')));
      expect(points).toMatchObject([{ version: 'v1', source: 'online', count: 2, mean: 0.5, labels: [] }]);
      const { runs } = expectOk(await api('GET', own('/runs?agent_name=polite')));
      expect(runs.map(({ trigger_source }: Body) => trigger_source)).toEqual(['eval', 'eval']);
    });

    test('score no run outside the sample, none of others, and none of an evaluation', limit, async () => {
      const assert = [{ type: 'contains', value: 'x' }];
      const id = await publish('shared', `Say. ${said('x')} {{text}}`, { assert }, { is_public: true });
      await publish('unsampled', `Say. ${said('x')} {{text}}`, { sample: 0, assert });
      const outside = await run('unsampled/v1');
      const foreign = await run('shared/v1', 'Hello', other);
      const { eval_id } = expectOk(await api('POST', `/agents/${id}/evals`, { tests: [{ vars: { text: 'a' } }] }), 202);
      const own_run = await run('shared/v1');
      expect(await scored(own_run)).toEqual([{ contains: 1, online: 1 }]);
      const evaluated = async () => {
        await pass();
        return expectOk(await api('GET', `/agents/${id}/evals/${eval_id}`));
      };
      await expect.poll(async () => (await evaluated()).status, untilDone).toBe('completed');
      const { cases } = expectOk(await api('GET', `/agents/${id}/evals/${eval_id}/cases`));
      // Whatever was noted before this one is dealt with.
      await scored(await run('shared/v1'));
      expect(await scoresOf(cases[0].runs[0].run_id)).toEqual([]);
      expect(await scoresOf(outside)).toEqual([]);
      const theirs = await api('GET', `/workspaces/${other.workspaceId}/runs/${foreign}/scores`, undefined, other);
      expect(expectOk(theirs).scores).toEqual([]);
    });

    test('stop to judge when the budget of the day is spent, and say so', limit, async () => {
      await publish('thrifty', `Say. ${said('x')} {{text}}`, {
        ...{ judge: { agent: 'online/polite' }, budget_usd_per_day: 0 },
        assert: [
          { type: 'contains', value: 'x' },
          { type: 'llm-rubric', value: 'It is polite.' },
        ],
      });
      expect(await scored(await run('thrifty/v1'))).toEqual([{ contains: 1, online: 'budget spent' }]);
      const { points } = expectOk(await api('GET', own('/scores/series?agent=online/thrifty&name=online')));
      expect(points).toMatchObject([{ count: 1, mean: null, labels: [{ label: 'budget spent', count: 1 }] }]);
    });

    test('say so when the judge answers prose, or is gone', limit, async () => {
      await publish('chatty', `Judge it. ${said('I like it a lot!')}`);
      const assert = [
        { type: 'contains', value: 'x' },
        { type: 'llm-rubric', value: 'It is polite.' },
      ];
      await publish('praised', `Say. ${said('x')} {{text}}`, { judge: { agent: 'online/chatty' }, assert });
      await publish('lonely', `Say. ${said('x')} {{text}}`, { judge: { agent: 'online/nobody' }, assert });
      const ids = [await run('praised/v1'), await run('lonely/v1')];
      const failed = { contains: 1, online: 'judge failed' };
      expect(await scored(...ids)).toEqual([failed, failed]);
      const { runs } = expectOk(await api('GET', own('/runs?agent_name=chatty')));
      expect(runs.length).toBe(2);
    });

    test('take back a canary whose answers are worse', limit, async () => {
      const assert = [{ type: 'contains', value: 'right' }];
      const id = await publish('better', `Say. ${said('right')} {{text}}`, { assert });
      await publish('better', `Say. ${said('wrong')} {{text}}`, { assert });
      const path = `/agents/${id}/channels/prod`;
      const canary = { version: 'v2', percent: 100, min_calls: 3, min_score: 0.7 };
      expectOk(await api('PUT', path, { version: 'v1', canary }));
      expectError(await api('PUT', path, { version: 'v1', canary: { ...canary, min_score: 2 } }), 400, 'INVALID_INPUT');
      const ids = [await run('better/prod'), await run('better/prod'), await run('better/prod')];
      expect(await scored(...ids)).toEqual(Array(3).fill({ contains: 0, online: 0 }));
      const shown = async () => {
        await pass();
        return expectOk(await api('GET', path));
      };
      await expect.poll(async () => (await shown()).canary.taken_back, untilDone).not.toBeNull();
      const why = 'mean score 0.00 over 3 scored runs, less than 0.7';
      expect(await shown()).toMatchObject({
        ...{ version: 'v1', revision: 2 },
        canary: { percent: 0, min_score: 0.7, taken_back: { why, calls: 3, failed: 0, mean_score: 0 } },
        history: [{ action: 'taken_back', by: null, why }, { action: 'created' }],
      });
      expect(await scored(await run('better/prod'))).toEqual([{ contains: 1, online: 1 }]);
      const told = async () => expectOk(await api('GET', own('/messages?agent_name=better'))).messages;
      await expect.poll(told, untilDone).toMatchObject([{ title: 'Canary v2 of better@prod was taken back' }]);
    });

    test('tell when the scores of a version drop', limit, async () => {
      const assert = [{ type: 'contains', value: 'right' }];
      await publish('falling', `Say. ${said('right')} {{text}}`, { assert });
      await publish('falling', `Say. ${said('wrong')} {{text}}`, { assert });
      const many = (version: string) => Promise.all(Array.from({ length: 20 }, () => run(`falling/${version}`)));
      // Some at a time, as a plan allows.
      await scored(...(await many('v1')));
      const told = async () => expectOk(await api('GET', own('/messages?agent_name=falling'))).messages;
      expect(await told()).toEqual([]);
      await scored(...(await many('v2')));
      await expect.poll(told, untilDone).toMatchObject([
        {
          level: 'warning',
          title: 'The scores of falling v2 dropped',
          body: expect.stringContaining('is 0.00 over its last 20 scored runs, and was 1.00 over 20 runs of v1'),
        },
      ]);
    });

    test('are refused in a manifest that is wrong, with the member', async () => {
      const refused = async (online: object, words: string) => {
        const json = { ...{ name: 'wrong', type: 'prompt', description: 'x', prompt: 'Say.' }, evals: { online } };
        expectError(await api('POST', '/agents', json), 400, 'INVALID_INPUT', words);
      };
      await refused({ assert: [{ type: 'is-json' }] }, 'evals.online.sample');
      await refused({ sample: 1, assert: [{ type: 'nice' }] }, 'evals.online.assert[0].type');
      await refused({ sample: 1, assert: [{ type: 'llm-rubric', value: 'x' }] }, 'evals.online.judge');
      await refused({ sample: 1, assert: [{ type: 'python', value: 'file://x.py' }] }, 'evals.online.assert[0].value');
    });
  });
}
