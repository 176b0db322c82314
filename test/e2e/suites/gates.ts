import { beforeAll, describe, expect, test } from 'vitest';
import { JOB, startJobIssuer } from '#test/helpers/job-tokens.ts';
import { bundleForm, needsModel, request, type Target, zipOf } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME } from '../expect.ts';
import type { Languages } from '../languages.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
type Body = any;

// A deployed platform starts evaluations once a minute.
const limit = { timeout: 300_000 };
const suite = (expected: string, more: object = {}) => ({
  'evals/first.yaml': JSON.stringify({
    ...more,
    tests: [{ vars: { text: 'x' }, assert: [{ type: 'contains', value: expected }] }],
  }),
});
const GATE = { gate: true, baseline: 'latest' };

/** Versions that wait for their evaluation, and previews (`docs/interface/gates.md`, `docs/interface/channels.md#previews`). */
export function gatesSuite(target: () => Target, has: Languages): void {
  let user: TestUser;
  let stranger: TestUser;
  const as =
    (by: () => Pick<TestUser, 'key'>) =>
    (method: string, path: string, json?: unknown, headers?: Record<string, string>) =>
      request(target(), method, path, { key: by().key, json, headers });
  const send = as(() => user);
  const byStranger = as(() => stranger);

  /** The manifest of a prompt whose model answers with a text. */
  const answering = (name: string, text: string, more: object = {}) => ({
    ...{ name, type: 'prompt', description: 'x', supported_providers: ['anthropic'] },
    prompt: `[[llm ${JSON.stringify({ text })}]] {{text}}`,
    ...more,
  });
  const publish = async (body: object, query = ''): Promise<Body> =>
    expectOk(await send('POST', `/agents${query}`, body), 201).agent;
  const gated = (name: string, text: string, more: object = {}) =>
    publish({ ...answering(name, text), evals: GATE, eval_files: suite('good'), ...more });
  const shown = async ({ id }: Body): Promise<Body> => expectOk(await send('GET', `/agents/${id}`));
  async function decided(agent: Body): Promise<Body> {
    for (let waited = 0; waited < 600; waited++) {
      await target().passMinute?.();
      const now = await shown(agent);
      if (now.gate.status !== 'pending') return now;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    throw new Error('no decision was made');
  }
  const call = (path: string, by = send) => by('POST', `/${user.slug}/${path}/run`, { text: 'x' });
  const versionOf = async (path: string) => expectOk(await call(path)).metadata.version as string;
  const schedules = () => `/workspaces/${user.workspaceId}/schedules`;

  beforeAll(async () => {
    needsModel(target());
    [user, stranger] = await Promise.all([target().addUser('gates'), target().addUser('gates-stranger')]);
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-gates-0123456789' };
    for (const by of [user, stranger]) {
      expectOk(await as(() => by)('PUT', `/workspaces/${by.workspaceId}/secrets`, secret));
    }
  });

  describe('a version with a gate', () => {
    test('is latest once it has passed, and schedules follow it then', limit, async () => {
      await publish(answering('passing', 'good'));
      const cron = { agent: 'passing', cron_expression: '0 9 * * *', input_data: { text: 'x' } };
      const schedule = expectOk(await send('POST', schedules(), cron), 201).schedule;
      const second = await gated('passing', 'good');
      expect(second).toMatchObject({
        evals: GATE,
        gate: { status: 'pending', verdict: null, reason: null, since: expect.stringMatching(ISO_TIME) },
        preview: null,
      });
      if (target().passMinute === undefined) {
        expect(await versionOf('passing/v2')).toBe('v2');
      }
      const now = await decided(second);
      expect(now.gate).toMatchObject({ status: 'passed', verdict: 'passed', reason: null, decided_by: null });
      expect(await versionOf('passing/latest')).toBe('v2');
      const followed = async () => expectOk(await send('GET', `${schedules()}/${schedule.id}`)).schedule.agent_version;
      await expect.poll(followed, { timeout: 30_000 }).toBe('v2');
      const evaluation = expectOk(await send('GET', `/agents/${second.id}/evals/${now.gate.eval_id}`));
      expect(evaluation).toMatchObject({ trigger: 'publish', opens_gate: true, baseline: 'v1', verdict: 'passed' });
      // All members of the workspace can read its suites, and no one else can.
      expect(expectOk(await send('GET', `/agents/${second.id}/eval-files`))).toEqual(suite('good'));
      expectError(await byStranger('GET', `/agents/${second.id}/eval-files`), 404, 'NOT_FOUND');
      expectError(await byStranger('GET', `/public/agents/${user.slug}/passing/v2/eval-files`), 404, 'NOT_FOUND');
      const same = { ...answering('passing', 'good'), evals: GATE, eval_files: suite('good') };
      expect(expectOk(await send('POST', '/agents?unless_unchanged=true', same))).toMatchObject({ unchanged: true });
      const other = { ...same, eval_files: suite('better') };
      expect(expectOk(await send('POST', '/agents?unless_unchanged=true', other), 201).agent.version).toBe('v3');
    });

    test('stays held if it fails: nothing that moves is pointed at it, and an owner opens it', limit, async () => {
      const first = await publish(answering('failing', 'good'));
      const second = await decided(await gated('failing', 'bad'));
      expect(second.gate).toMatchObject({
        status: 'failed',
        reason: expect.stringMatching(/^The evaluation (failed|regressed)/),
      });
      expect(await versionOf('failing/latest')).toBe('v1');
      expect(await versionOf('failing/v2')).toBe('v2');
      expect((await shown(first)).deprecated_at).toBeUndefined();
      expectError(
        await send('PUT', `/agents/${first.id}/channels/prod`, { version: 'v2' }),
        409,
        'CONFLICT',
        /^body.version: gates\/failing@v2 is held by its gate: The evaluation (failed|regressed)/,
      );
      const cron = { cron_expression: '0 9 * * *', input_data: { text: 'x' } };
      const following = expectOk(await send('POST', schedules(), { ...cron, agent_id: second.id }), 201).schedule;
      expect(following.agent_version).toBe('v1');
      const listed = expectOk(await send('GET', '/agents?name=failing'));
      expect(
        listed.map(({ version, current_version, sunset_at, gate }: Body) => [
          version,
          current_version,
          sunset_at,
          gate?.status,
        ]),
      ).toEqual([
        ['v1', 'v1', null, undefined],
        ['v2', 'v1', null, 'failed'],
      ]);

      const override = `/agents/${second.id}/gate/override`;
      expectError(await byStranger('POST', override, { reason: 'mine' }), 404, 'NOT_FOUND');
      expectError(await send('POST', override, {}), 400, 'INVALID_INPUT', 'body.reason');
      const opened = expectOk(await send('POST', override, { reason: 'The old one is broken.' }));
      expect(opened.gate).toMatchObject({
        ...{ status: 'overridden', reason: 'The old one is broken.', decided_by: user.userId },
      });
      expect(await versionOf('failing/latest')).toBe('v2');
      expectError(await send('POST', override, { reason: 'again' }), 409, 'CONFLICT', 'passed its gate already');
      expectError(await send('POST', `/agents/${first.id}/gate/override`, { reason: 'x' }), 409, 'CONFLICT', 'no gate');
      const { entries } = expectOk(await send('GET', `/workspaces/${user.workspaceId}/audit?operation=overrideGate`));
      expect(entries).toContainEqual(
        expect.objectContaining({
          outcome: 'done',
          target: expect.objectContaining({ name: 'failing', version: 'v2', reason: 'The old one is broken.' }),
        }),
      );
    });

    test('is opened by an evaluation of its own suites, and by no other', limit, async () => {
      const held = await decided(
        await gated('retried', 'bad', { eval_files: suite('bad', { threshold: 1, repeat: 2 }) }),
      );
      // The first version has nothing to compare with.
      expect(held.gate.status).toBe('passed');
      const failed = await decided(await gated('retried', 'bad'));
      const evals = `/agents/${failed.id}/evals`;
      const other = expectOk(await send('POST', evals, { suites: suite('bad') }), 202);
      expect(other).toMatchObject({ opens_gate: false, trigger: 'request', baseline: 'v1' });
      const own = expectOk(await send('POST', evals, {}), 202);
      expect(own).toMatchObject({ opens_gate: true, suites: [{ name: 'evals/first.yaml' }] });
      expectOk(await send('POST', `${evals}/${other.eval_id}/abort`));
      expectOk(await send('POST', `${evals}/${own.eval_id}/abort`));
      expect((await shown(failed)).gate.status).toBe('failed');
      const first = await publish(answering('bare', 'good'));
      expectError(
        await send('POST', `/agents/${first.id}/evals`, {}),
        400,
        'INVALID_INPUT',
        'published without suites',
      );
    });

    test('has no latest while its first version is held', limit, async () => {
      const first = await gated('new', 'bad');
      if (target().passMinute === undefined) {
        expectError(await call('new/latest'), 404, 'NOT_FOUND', 'waits for its evaluation');
      }
      await decided(first);
      expectError(await call('new/latest'), 404, 'NOT_FOUND', 'is held by its gate');
      expect(await versionOf('new/v1')).toBe('v1');
      const cron = { agent: 'new', cron_expression: '0 9 * * *', input_data: {} };
      expectError(await send('POST', schedules(), cron), 409, 'CONFLICT', 'is held by its gate');
    });

    test('waits from when its program can run', limit, async ({ skip }) => {
      if (!has.node) return skip('no Node.js in the sandbox');
      const manifest = {
        ...{
          name: 'coded',
          type: 'tool',
          description: 'x',
          required_secrets: [],
          runtime: { command: 'node main.js' },
        },
        ...{ evals: GATE, eval_files: suite('good') },
      };
      const agent = await publish(manifest);
      expect(agent.gate).toMatchObject({ status: 'pending', since: null });
      const body = bundleForm(zipOf({ 'main.js': 'console.log(JSON.stringify({ result: "good" }))' }));
      expectOk(await request(target(), 'POST', `/agents/${agent.id}/upload`, { key: user.key, body }));
      expect((await decided(agent)).gate.status).toBe('passed');
      expect(await versionOf('coded/latest')).toBe('v1');
    });
  });

  describe('the suites of a publish', () => {
    test.each<[string, object, string | RegExp]>([
      ['are needed with a gate', { eval_files: null }, 'evals.gate: the version has no suites'],
      ['are texts', { eval_files: { 'evals/a.yaml': 1 } }, 'eval_files: must be an object of names'],
      ['are read', { eval_files: { 'evals/a.yaml': 'tests: [{ asert: [] }]' } }, /^evals\/a\.yaml: tests\[0\]/],
      ['fit the agent', { eval_files: suite('good', { mocks: { look: 1 } }) }, 'mocks.look is not a custom tool'],
      [
        'expand to what they say',
        {
          eval_files: {
            'evals/bomb.yaml': `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefghij'
              .split('')
              .map((name, index) => `${name}: &${name} [${Array(9).fill(`*${'abcdefghij'[index]}`).join(',')}]`)
              .join('\n')}\ntests: [{}]`,
          },
        },
        /^evals\/bomb\.yaml: /,
      ],
      ['have a size', { eval_files: { 'evals/a.yaml': `# ${'x'.repeat(1024 ** 2)}` } }, /bytes/],
    ])('%s', async (_, more, message) => {
      const body = { ...answering('wrong', 'good'), evals: GATE, eval_files: suite('good'), ...more };
      expectError(await send('POST', '/agents', body), 400, 'INVALID_INPUT', message);
      const { valid, errors } = expectOk(await send('POST', '/agents/validate', body));
      expect(valid).toBe(false);
      expect(errors[0]).toMatch(message);
      expect(expectOk(await send('GET', '/agents?name=wrong'))).toEqual([]);
    });

    test('are left out for the version dev', async () => {
      const body = { ...answering('tried', 'good'), evals: GATE };
      expect(expectOk(await send('POST', '/agents?dev=true', body), 201).agent.gate).toBeNull();
      expect(await versionOf('tried/dev')).toBe('dev');
    });
  });

  describe('a preview', () => {
    const preview = (name: string, text: string, as_ = 'pr-12', more: object = {}) =>
      publish(answering(name, text, more), `?preview=${as_}`);

    test('is called by its name in its workspace, and is never latest', async () => {
      await publish(answering('shown', 'one', { is_public: true }));
      const made = await preview('shown', 'two', 'pr-12', { is_public: true, evals: GATE, eval_files: suite('good') });
      expect(made).toMatchObject({
        ...{ version: 'v2', is_public: false, gate: null },
        preview: { name: 'pr-12', ends_at: expect.stringMatching(ISO_TIME) },
      });
      const days = (Date.parse(made.preview.ends_at) - Date.now()) / (24 * 3600_000);
      expect(days).toBeGreaterThan(6.9);
      expect(days).toBeLessThan(7.1);
      expect(await versionOf('shown/pr-12')).toBe('v2');
      expect(await versionOf('shown/latest')).toBe('v1');
      // Others know the agent, and nothing of its previews.
      expect(expectOk(await call('shown/latest', byStranger)).metadata.version).toBe('v1');
      const text = (name: string) => `There is no agent gates/shown with a channel ${name}.`;
      expectError(await call('shown/pr-12', byStranger), 404, 'NOT_FOUND', text('pr-12'));
      expectError(await call('shown/pr-13', byStranger), 404, 'NOT_FOUND', text('pr-13'));
      expectError(await call('shown/v2', byStranger), 404, 'NOT_FOUND', 'with a version v2');
      expectError(await byStranger('GET', `/public/agents/${user.slug}/shown/v2`), 404, 'NOT_FOUND');
      expectError(await send('PATCH', `/agents/${made.id}`, { is_public: true }), 409, 'CONFLICT', 'is a preview');
      const [listed] = expectOk(await send('GET', '/agents?latest=true&limit=1')).filter(
        ({ name }: Body) => name === 'shown',
      );
      expect(listed).toMatchObject({ version: 'v1', current_version: 'v1', versions: 1 });
      // The next version follows the last one that stays.
      const same = answering('shown', 'one', { is_public: true });
      expect(expectOk(await send('POST', '/agents?unless_unchanged=true', same))).toMatchObject({ unchanged: true });
    });

    test('moves its name to the next publish, and the version before is gone', async () => {
      const suites = { eval_files: suite('one') };
      const first = await preview('moved', 'one', 'pr-12', suites);
      const body = answering('moved', 'one', suites);
      expect(expectOk(await send('POST', '/agents?preview=pr-12&unless_unchanged=true', body))).toMatchObject({
        ...{ unchanged: true, agent: { id: first.id } },
      });
      await preview('moved', 'two');
      expect(await versionOf('moved/pr-12')).toBe('v2');
      expectError(await send('GET', `/agents/${first.id}`), 404, 'NOT_FOUND');
      expectError(await call('moved/v1'), 404, 'NOT_FOUND');
      expectError(await call('moved/latest'), 404, 'NOT_FOUND');
      const [, ...others] = expectOk(await send('GET', '/agents?name=moved'));
      expect(others).toEqual([]);
    });

    test('is followed by nothing, and its name is no channel', async () => {
      const first = await publish(answering('followed', 'one'));
      const made = await preview('followed', 'two');
      const problem = 'is the preview pr-12, which ends by itself';
      expectError(await send('PUT', `/agents/${first.id}/channels/prod`, { version: 'v2' }), 409, 'CONFLICT', problem);
      const cron = { cron_expression: '0 9 * * *', input_data: { text: 'x' } };
      for (const named of [{ agent: 'gates/followed@pr-12' }, { agent: 'gates/followed@v2' }, { agent_id: made.id }]) {
        expectError(await send('POST', schedules(), { ...cron, ...named }), 409, 'CONFLICT', problem);
      }
      const { schedule } = expectOk(await send('POST', schedules(), { ...cron, agent: 'followed' }), 201);
      const changed = await send('PATCH', `${schedules()}/${schedule.id}`, { agent_version: 'pr-12' });
      expectError(changed, 409, 'CONFLICT', problem);
      const services = `/workspaces/${user.workspaceId}/services`;
      expectError(
        await send('POST', services, { agent: 'followed', agent_version: 'pr-12' }),
        409,
        'CONFLICT',
        problem,
      );
      const taken = await send('PUT', `/agents/${first.id}/channels/pr-12`, { version: 'v1' });
      expectError(taken, 409, 'CONFLICT', 'gates/followed has a preview called pr-12');
      expectOk(await send('PUT', `/agents/${first.id}/channels/prod`, { version: 'v1' }));
      const named = await send('POST', '/agents?preview=prod', answering('followed', 'three'));
      expectError(named, 409, 'CONFLICT', 'gates/followed has a channel called prod');
      for (const name of ['latest', 'v3', 'Pr-1', 'dev']) {
        const wrong = await send('POST', `/agents?preview=${name}`, answering('followed', 'three'));
        expectError(wrong, 400, 'INVALID_INPUT', 'query.preview');
      }
      const user_ = await send('POST', '/agents?preview=pr-1&dev=true', answering('followed', 'three'));
      expectError(user_, 400, 'INVALID_INPUT', 'cannot be combined');
    });

    test('is what a trust for pull requests may publish, and nothing else', async () => {
      const issuer = await startJobIssuer(target().url);
      try {
        const trusts = `/workspaces/${user.workspaceId}/trusts`;
        const trust = { issuer: issuer.url, repository: JOB.repository, previews_only: true };
        expect(expectOk(await send('POST', trusts, trust), 201).trust.previews_only).toBe(true);
        const token = { workspace: user.slug, token: issuer.token() };
        const given = expectOk(await request(target(), 'POST', '/auth/trusts/token', { json: token }));
        expect(given.previews_only).toBe(true);
        const byJob = as(() => ({ key: given.api_key }));
        expectError(await byJob('POST', '/agents', answering('ci', 'one')), 403, 'FORBIDDEN', 'previews only');
        const made = expectOk(await byJob('POST', '/agents?preview=pr-9', answering('ci', 'one')), 201).agent;
        expect(made.preview.name).toBe('pr-9');
        expect(await versionOf('ci/pr-9')).toBe('v1');
        const override = await byJob('POST', `/agents/${made.id}/gate/override`, { reason: 'x' });
        expectError(override, 403, 'FORBIDDEN');
        expectError(await byJob('DELETE', `/agents/${made.id}`), 403, 'FORBIDDEN');
      } finally {
        issuer.close();
      }
    });
  });
}
