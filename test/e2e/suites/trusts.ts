import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { JOB, type JobIssuer, startJobIssuer, type TokenOptions } from '#test/helpers/job-tokens.ts';
import { bundleForm, request, type Target, zipOf } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

const prompt = (name: string, more: object = {}) => ({ name, type: 'prompt', description: 'x', prompt: 'x', ...more });

/** Trusts in the jobs of CI systems (`docs/interface/trusts.md`). `adapters/oidc/id-tokens.test.ts` has more wrong tokens. */
export function trustsSuite(target: () => Target): void {
  let issuer: JobIssuer;
  let user: TestUser;
  const call = (
    method: string,
    path: string,
    key: string | undefined,
    json?: unknown,
    headers?: Record<string, string>,
  ) => request(target(), method, path, { key, json, headers });
  const trustsOf = ({ workspaceId }: TestUser) => `/workspaces/${workspaceId}/trusts`;
  const addTrust = async (members: object = {}, owner = user) =>
    expectOk(
      await call('POST', trustsOf(owner), owner.key, { issuer: issuer.url, repository: JOB.repository, ...members }),
      201,
    ).trust;
  const exchange = (token: string, workspace = user.slug) =>
    call('POST', '/auth/trusts/token', undefined, { workspace, token });
  const keyOf = async (claims: object = {}, workspace?: string): Promise<string> =>
    expectOk(await exchange(issuer.token({ ...claims }), workspace)).api_key;
  const refused = async (answer: ReturnType<typeof exchange>) =>
    expectError(
      await answer,
      401,
      'UNAUTHORIZED',
      /^The workspace does not trust this token, or the token is not valid/,
    );
  const reasons = async ({ key, workspaceId }: TestUser = user) =>
    expectOk(await call('GET', `/workspaces/${workspaceId}/audit?operation=exchangeTrustToken`, key)).entries;
  /** A workspace of its own, so that its trusts are the only ones. */
  const newUser = (name: string) => target().addUser(`trusts-${name}`);

  beforeAll(async () => {
    issuer = await startJobIssuer(target().url);
    user = await newUser('home');
    await addTrust({ ref: 'refs/heads/main' });
  });
  afterAll(() => issuer?.close());

  describe('publishing from CI', () => {
    test('a job publishes with a key of ten minutes, and the audit log names the job', async () => {
      const answer = expectOk(await exchange(issuer.token({ run_id: '7' })));
      expect(answer).toMatchObject({ workspace_id: user.workspaceId, workspace_slug: user.slug, agents: null });
      expect(Date.parse(answer.expires_at) - Date.now()).toBeLessThanOrEqual(10 * 60_000);
      const { api_key: key, trust_id: id } = answer;
      expect(expectOk(await call('POST', '/agents/validate', key, prompt('greeter'))).valid).toBe(true);
      const { agent } = expectOk(await call('POST', '/agents', key, prompt('greeter')), 201);
      expect(agent).toMatchObject({ org_slug: user.slug, name: 'greeter', version: 'v1' });
      expect(expectOk(await call('GET', '/agents/preview?name=greeter', key)).next_version).toBe('v2');
      expect(expectOk(await call('GET', `/agents/${agent.id}`, key)).name).toBe('greeter');
      expect(expectOk(await call('GET', '/agents', key)).length).toBeGreaterThan(0);
      const entries = expectOk(await call('GET', `/workspaces/${user.workspaceId}/audit`, user.key)).entries;
      const published = entries.find(({ operation }: { operation: string }) => operation === 'createAgent');
      expect(published).toMatchObject({
        ...{ actor: 'trust', user: null, outcome: 'done', target: { name: 'greeter', version: 'v1' } },
        trust: { id, issuer: issuer.url, claims: { repository: JOB.repository, ref: JOB.ref, run_id: '7' } },
      });
      expect(JSON.stringify(entries)).not.toContain('eyJ');
      const { trusts } = expectOk(await call('GET', trustsOf(user), user.key));
      expect(trusts).toMatchObject([
        { id, audience: target().url, claims: { repository: JOB.repository, ref: 'refs/heads/main' } },
      ]);
      expect(Date.parse(trusts[0].last_used_at)).toBeGreaterThan(0);
    });

    test('a program is published with its code, directly and by an upload', async () => {
      const key = await keyOf();
      const manifest = { name: 'tool', type: 'tool', description: 'x', required_secrets: [] };
      const { agent } = expectOk(await call('POST', '/agents', key, manifest), 201);
      const body = bundleForm(zipOf({ 'main.js': '' }));
      expectOk(await request(target(), 'POST', `/agents/${agent.id}/upload`, { key, body }));
      expectOk(await call('POST', '/uploads', key, { purpose: 'bundle' }), 201);
      expectError(await call('POST', '/uploads', key, { purpose: 'call' }), 403, 'FORBIDDEN', 'purpose');
    });

    test('the key does nothing else', async () => {
      const key = await keyOf();
      const { id } = expectOk(await call('POST', '/agents', key, prompt('kept')), 201).agent;
      const workspace = `/workspaces/${user.workspaceId}`;
      for (const [method, path] of [
        ['DELETE', `/agents/${id}`],
        ['PATCH', `/agents/${id}`],
        ['POST', `/agents/${id}/keys`],
        ['GET', `/agents/${id}/keys`],
        ['GET', `/agents/${id}/logs`],
        ['POST', `/agents/${id}/fork`],
        ['GET', `${workspace}/secrets`],
        ['PUT', `${workspace}/secrets`],
        ['GET', `${workspace}/runs`],
        ['GET', `${workspace}/members`],
        ['GET', `${workspace}/audit`],
        ['GET', `${workspace}/trusts`],
        ['POST', `${workspace}/trusts`],
        ['POST', `${workspace}/schedules`],
        ['GET', '/api-keys'],
        ['POST', '/api-keys'],
        ['GET', '/workspaces'],
        ['GET', '/auth/session'],
        ['POST', '/auth/codes'],
        ['GET', '/users/me'],
        ['GET', '/org'],
        ['GET', '/tasks'],
        ['GET', '/usage'],
        ['POST', `/${user.slug}/kept/v1/run`],
      ] as const) {
        const answer = await call(method, path, key, method === 'GET' ? undefined : {});
        expect([method, path, answer.status, answer.body.error?.code]).toEqual([method, path, 403, 'FORBIDDEN']);
      }
      expectError(await call('POST', '/auth/session', undefined, { api_key: key }), 401, 'UNAUTHORIZED');
      expectError(await call('POST', '/agents?dev=true', key, prompt('kept')), 403, 'FORBIDDEN', 'dev');
      const other = await newUser('elsewhere');
      const header = { 'x-workspace-id': other.workspaceId };
      expectError(await call('POST', '/agents', key, prompt('kept'), header), 403, 'FORBIDDEN', 'limited to');
    });

    test('a job gets no key of an agent', async () => {
      const key = await keyOf();
      const { agent } = expectOk(await call('POST', '/agents', key, prompt('callee')), 201);
      const manifest = { dependencies: [{ id: `${user.slug}/callee`, version: agent.version }] };
      const body = prompt('caller', {
        manifest: { manifest_version: 1, max_hops: 1, timeout_ms: 60_000, ...manifest },
      });
      const made = await call('POST', '/agents', key, body);
      expect(made.status, JSON.stringify(made.body)).toBe(201);
      expect(made.body).not.toHaveProperty('service_key');
    });

    test('a trust for some agents gives keys for these only', async () => {
      const owner = await newUser('some');
      await addTrust({ agents: ['mine', 'mine-too'] }, owner);
      const key = await keyOf({}, owner.workspaceId);
      expectOk(await call('POST', '/agents', key, prompt('mine')), 201);
      expectError(await call('POST', '/agents', key, prompt('other')), 403, 'FORBIDDEN', '"other"');
      const { agent } = expectOk(
        await call('POST', '/agents', owner.key, {
          name: 'other',
          type: 'tool',
          description: 'x',
          required_secrets: [],
        }),
        201,
      );
      const body = bundleForm(zipOf({ 'main.js': '' }));
      const upload = await request(target(), 'POST', `/agents/${agent.id}/upload`, { key, body });
      expectError(upload, 403, 'FORBIDDEN', '"other"');
    });

    const seconds = () => Math.floor(Date.now() / 1000);
    test.each<[string, () => Record<string, unknown>, RegExp, TokenOptions?]>([
      ['another repository', () => ({ repository: 'evil/agents' }), /"repository" is not "acme\/agents"/],
      ['a fork of that name', () => ({ repository: 'evil/agents', ref: JOB.ref }), /"repository"/],
      ['another spelling', () => ({ repository: 'Acme/agents' }), /"repository"/],
      ['another branch', () => ({ ref: 'refs/heads/mainly' }), /"ref" is not "refs\/heads\/main"/],
      ['a pull request', () => ({ event_name: 'pull_request', ref: 'refs/pull/1/merge' }), /"ref"/],
      ['a pull request of a fork', () => ({ event_name: 'pull_request_target' }), /pull_request_target/],
      ['no repository', () => ({ repository: undefined }), /"repository"/],
      ['a list of repositories', () => ({ repository: [JOB.repository] }), /"repository"/],
      ['another audience', () => ({ aud: 'https://elsewhere.example.com' }), /its audience is not/],
      ['another issuer', () => ({ iss: 'https://token.actions.githubusercontent.com' }), /no such issuer/],
      ['a past time', () => ({ iat: seconds() - 900, exp: seconds() - 120 }), /expired/],
      ['a future time', () => ({ nbf: seconds() + 600 }), /"nbf"/],
      ['no signature', () => ({}), /algorithm/, { alg: 'none' }],
      ['a shared secret', () => ({}), /algorithm/, { alg: 'HS256', signedWith: 'public' }],
      ['an unknown key', () => ({}), /no such key/, { kid: 'unknown' }],
      ['a wrong signature', () => ({}), /signature is wrong/, { signedWith: 'other' }],
    ])('a token with %s is refused, and the owner sees why', async (name, claims, reason, options) => {
      const owner = await newUser(name.replaceAll(' ', '-'));
      await addTrust({ ref: JOB.ref }, owner);
      const token = issuer.token(claims(), options);
      await refused(exchange(token, owner.slug));
      const [entry] = await reasons(owner);
      expect(entry).toMatchObject({ actor: 'trust', outcome: 'refused', error_code: 'UNAUTHORIZED' });
      expect(entry.target.reason).toMatch(reason);
      expect(JSON.stringify(entry)).not.toContain(token.split('.')[1]);
    });

    test('no token, none that is too long, and no workspace that does not exist', async () => {
      await refused(exchange('x'));
      await refused(exchange(`${issuer.token()}${'x'.repeat(17_000)}`));
      await refused(exchange(issuer.token(), 'trusts-nobody'));
      await refused(exchange(issuer.token(), crypto.randomUUID()));
      expectError(await exchange('x'.repeat(20_001)), 400, 'INVALID_INPUT');
    });

    test('a token is exchanged once, also by two at the same moment and for another workspace', async () => {
      const token = issuer.token();
      const answers = await Promise.all(Array.from({ length: 6 }, () => exchange(token)));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 401, 401, 401, 401, 401]);
      await refused(exchange(token));
      expect((await reasons())[0].target.reason).toBe('it was used before');
      const other = await newUser('another');
      await refused(exchange(token, other.slug));
      await addTrust({}, other);
      await refused(exchange(token, other.slug));
    });

    test('deleting a trust ends its keys at once', async () => {
      const owner = await newUser('deleting');
      const { id } = await addTrust({}, owner);
      const key = await keyOf({}, owner.slug);
      expectOk(await call('GET', '/agents', key));
      expectOk(await call('DELETE', `${trustsOf(owner)}/${id}`, owner.key));
      expectError(await call('GET', '/agents', key), 401, 'UNAUTHORIZED', 'was deleted or has expired');
      expectError(await call('POST', '/agents', key, prompt('late')), 401, 'UNAUTHORIZED');
      await refused(exchange(issuer.token(), owner.slug));
      expectError(await call('DELETE', `${trustsOf(owner)}/${id}`, owner.key), 404, 'NOT_FOUND');
    });

    test('a key does not outlive its trust', async () => {
      const owner = await newUser('short');
      const expires_at = new Date(Date.now() + 5 * 60_000).toISOString();
      expect((await addTrust({ expires_at }, owner)).expires_at).toBe(expires_at);
      expect(expectOk(await exchange(issuer.token(), owner.slug)).expires_at).toBe(expires_at);
    });

    test('a repository that took the name of another is refused by its number', async () => {
      const owner = await newUser('numbers');
      const { repository_id, repository_owner_id } = JOB;
      await addTrust({ repository_id, repository_owner_id }, owner);
      await keyOf({}, owner.slug);
      await refused(exchange(issuer.token({ repository_id: '99' }), owner.slug));
      await refused(exchange(issuer.token({ repository_owner_id: '99' }), owner.slug));
    });

    test('other issuers are trusted by claims of any name, and pull requests by their event', async () => {
      const owner = await newUser('gitlab');
      const claims = { project_path: 'acme/agents', ref_protected: 'true', ref: 'release-*' };
      const made = await call('POST', trustsOf(owner), owner.key, { issuer: issuer.url, audience: 'agents', claims });
      expect(expectOk(made, 201).trust).toMatchObject({ claims, audience: 'agents' });
      const job = { aud: ['agents', 'vault'], project_path: 'acme/agents', ref: 'release-4', event_name: undefined };
      await keyOf({ ...job, ref_protected: 'true' }, owner.slug);
      await keyOf({ ...job, ref_protected: true }, owner.slug);
      await refused(exchange(issuer.token({ ...job, ref_protected: 'false' }), owner.slug));
      await refused(exchange(issuer.token({ ...job, ref_protected: 'true', ref: 'main' }), owner.slug));
      const opened = { ref: 'refs/pull/*', claims: { event_name: 'pull_request' } };
      await addTrust(opened, owner);
      await keyOf({ event_name: 'pull_request', ref: 'refs/pull/12/merge' }, owner.slug);
      await refused(exchange(issuer.token(), owner.slug));
    });

    test.each<[object, RegExp]>([
      [{ repository: 'agents' }, /owner\/name/],
      [{ repository: 'acme/*' }, /owner\/name/],
      [{ issuer: 'http://issuer.example.com', repository: 'a/b' }, /https/],
      [{ issuer: 'https://10.0.0.1', repository: 'a/b' }, /public internet/],
      [{ issuer: 'https://issuer.example.com/?x=1', repository: 'a/b' }, /without a query/],
      [{ issuer: 'https://user:pass@issuer.example.com', repository: 'a/b' }, /user or a password/],
      [{}, /body\.repository: is missing/],
      [{ claims: { repository: 'acme*' } }, /body\.repository/],
      [{ repository_owner_id: '5' }, /body\.repository: is missing/],
      [{ issuer: 'https://gitlab.com', ref: 'main' }, /body\.claims: must have an exact text/],
      [
        { issuer: 'https://gitlab.com', claims: { sub: 'project_path:acme*' } },
        /body\.claims: must have an exact text/,
      ],
      [{ repository: 'a/b', ref: '*' }, /is met by everything/],
      [{ repository: 'a/b', ref: 'refs/*/main' }, /last character/],
      [{ repository: 'a/b', claims: { aud: 'x' } }, /checks this claim itself/],
      [{ repository: 'a/b', claims: { repository: 'c/d' } }, /give it once/],
      [{ repository: 'a/b', agents: [] }, /agents/],
      [{ repository: 'a/b', agents: ['org/agent'] }, /name of an agent/],
      [{ repository: 'a/b', expires_at: '2020-01-01T00:00:00Z' }, /in the past/],
      [{ repository: 'a/b', branch: 'main' }, /branch/],
    ])('a trust %j is not made', async (body, message) => {
      expectError(await call('POST', trustsOf(user), user.key, body), 400, 'INVALID_INPUT', message);
    });

    test('trusts are for owners', async () => {
      const member = await newUser('member');
      await target().addMember(member, user.workspaceId);
      expectError(await call('GET', trustsOf(user), member.key), 403, 'FORBIDDEN', 'Only an owner');
      expectError(await call('POST', trustsOf(user), member.key, { repository: 'a/b' }), 403, 'FORBIDDEN');
    });

    test('a user makes a key that only publishes', async () => {
      const json = { name: 'publisher', scope: 'publish' };
      const { key } = expectOk(await call('POST', '/api-keys', user.key, json), 201);
      expectOk(await call('POST', '/agents', key, prompt('by-key')), 201);
      expectError(await call('GET', '/tasks', key), 403, 'FORBIDDEN', '"publish"');
      expectError(await call('POST', '/api-keys', key, json), 403, 'FORBIDDEN');
    });
  });
}
