import { beforeAll, describe, expect, test } from 'vitest';
import { clientOf, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

const INPUT = {
  type: 'object',
  properties: { city: { $ref: '#/$defs/City' }, days: { type: 'integer', default: 3 } },
  required: ['city'],
  $defs: { City: { type: 'string' } },
};
const OUTPUT = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] };

/** The OpenAPI documents of agents and the catalog that leads to them (`docs/interface/clients.md`). */
export function agentDocumentsSuite(target: () => Target): void {
  let user: TestUser;
  let stranger: TestUser;

  const get = (path: string, key?: string, headers: Record<string, string> = {}) =>
    request(target(), 'GET', path, { ...(key !== undefined && { key }), headers });
  const found = async (path: string, key?: string) => {
    const answer = await get(path, key);
    expectOk(answer);
    return answer;
  };
  const publish = async (name: string, more: object = {}) => {
    const json = {
      name,
      type: 'prompt',
      description: 'Tells the weather.',
      prompt: 'x',
      required_secrets: [],
      ...more,
    };
    expectOk(await request(target(), 'POST', '/agents', { key: user.key, json }), 201);
  };

  beforeAll(async () => {
    user = await target().addUser('document-user');
    stranger = await target().addUser('document-stranger');
    const schemas = { input_schema: INPUT, output_schema: OUTPUT };
    await publish('weather', { ...schemas, is_public: true, default_endpoint: 'forecast', timeout_seconds: 45 });
    await publish('diary', schemas);
  });

  describe('the document of an agent', () => {
    test('has its endpoints, its schemas, and how its runs are followed', async () => {
      const { body, headers } = await found('/document-user/weather/v1/openapi.json');
      expect(headers.get('content-type')).toBe('application/json');
      expect(body).toMatchObject({
        openapi: '3.1.0',
        info: { title: 'document-user/weather', version: 'v1', description: 'Tells the weather.' },
        security: [{ apiKey: [] }],
        'x-agent': { type: 'prompt', timeout_seconds: 45, price_per_call_cents: null },
      });
      expect(body.servers).toEqual([{ url: expect.stringMatching(/^https?:/) }]);
      expect(Object.keys(body.paths)).toEqual([
        '/document-user/weather/v1/forecast',
        '/document-user/weather/v1/run',
        '/workspaces/{workspace_id}/runs/{run_id}',
      ]);
      const { post } = body.paths['/document-user/weather/v1/forecast'];
      expect(post).toMatchObject({ operationId: 'forecast', requestBody: { required: true } });
      expect(post.requestBody.content['application/json']).toEqual({ schema: { $ref: '#/components/schemas/Input' } });
      expect(Object.keys(post.responses)).toEqual(expect.arrayContaining(['200', '202', '400', '401', '404', '429']));
      expect(Object.keys(post.responses['200'].content)).toEqual(['application/json', 'text/event-stream']);
      const answer = post.responses['200'].content['application/json'];
      expect(answer.schema.properties.data).toMatchObject({ $ref: '#/components/schemas/Output' });
      expect(answer.example.data).toEqual({ text: 'text' });
      const named = post.parameters.map(({ name }: { name: string }) => name);
      expect(named).toEqual(
        expect.arrayContaining(['idempotency-key', 'prefer', 'x-platform-tenant', 'x-platform-session']),
      );
      expect(named).not.toContain('agent');
      expect(body.components.schemas).toMatchObject({
        Input: { properties: { city: { $ref: '#/components/schemas/Input_City' } }, required: ['city'] },
        Input_City: { type: 'string' },
        Output: OUTPUT,
      });
    });

    test('shares its parts with the document of the platform', async () => {
      const [own, whole] = await Promise.all([get('/document-user/weather/v1/openapi.json'), get('/openapi.json')]);
      const path = '/workspaces/{workspace_id}/runs/{run_id}';
      expect(own.body.paths[path].get.responses).toEqual(whole.body.paths[path].get.responses);
      expect(own.body.components.schemas.Error).toEqual(whole.body.components.schemas.Error);
      const call = whole.body.paths['/{org}/{agent}/{version}/{endpoint}'].post;
      const ofAgent = own.body.paths['/document-user/weather/v1/run'].post;
      expect(ofAgent.responses['202']).toEqual(call.responses['202']);
      expect(ofAgent.parameters).toEqual(call.parameters.filter((each: { in: string }) => each.in !== 'path'));
    });

    test('names the version that was asked for', async () => {
      const { body } = await found('/document-user/weather/latest/openapi.json');
      expect(body.info.version).toBe('v1');
      expect(Object.keys(body.paths)).toContain('/document-user/weather/latest/run');
    });

    test('of a private agent is for its workspace only', async () => {
      const path = '/document-user/diary/v1/openapi.json';
      expectOk(await get(path, user.key));
      const unknown = await get('/document-user/nothing/v1/openapi.json', stranger.key);
      for (const key of [stranger.key, undefined]) {
        const answer = await get(path, key);
        expectError(answer, 404, 'NOT_FOUND');
        if (key !== undefined) {
          expect(answer.body.error).toEqual({
            ...unknown.body.error,
            message: unknown.body.error.message.replace('nothing', 'diary'),
          });
        }
      }
    });

    test('may be kept, and is asked for with its ETag', async () => {
      const path = '/document-user/weather/v1/openapi.json';
      const first = await found(path);
      const etag = first.headers.get('etag')!;
      expect(first.headers.get('cache-control')).toBe('public, max-age=60');
      const again = await get(path, undefined, { 'if-none-match': `"other", W/${etag}` });
      expect([again.status, again.body, again.headers.get('etag')]).toEqual([304, '', etag]);
      expect((await get(path, undefined, { 'if-none-match': '"other"' })).status).toBe(200);
      expect((await get(path, user.key)).headers.get('cache-control')).toBe('private, no-cache');
    });

    test('a skill and an always-on agent have none, and the answer says why', async () => {
      const skill = {
        type: 'skill',
        name: 'manners',
        description: 'x',
        prompt: 'Be kind.',
        supported_providers: ['any'],
      };
      await publish('manners', skill);
      const answer = await get('/document-user/manners/v1/openapi.json', user.key);
      expectError(answer, 422, 'UNPROCESSABLE');
      expect(answer.body.error.message).toContain('is a skill: it has no endpoints');
      await publish('keeper', { type: 'agent', run_mode: 'always_on', loop: {}, supported_providers: ['anthropic'] });
      const other = await get('/document-user/keeper/v1/openapi.json', user.key);
      expectError(other, 422, 'UNPROCESSABLE');
      expect(other.body.error.hint).toContain('addresses of their own');
    });
  });

  describe('is found', () => {
    test('by the header of the public record', async () => {
      const { headers } = await found('/public/agents/document-user/weather/latest');
      const [, address] = /^<([^>]+)>; rel="service-desc"/.exec(headers.get('link')!)!;
      const { pathname } = new URL(address!);
      expect(pathname).toBe('/document-user/weather/v1/openapi.json');
      expectOk(await get(pathname));
    });

    test('by the API catalog', async () => {
      const answer = await fetch(`${target().url}/.well-known/api-catalog`);
      expect(answer.headers.get('content-type')).toContain('application/linkset+json');
      expect(answer.headers.get('link')).toContain('rel="api-catalog"');
      const { linkset } = (await answer.json()) as { linkset: Record<string, { href: string }[]>[] };
      expect(linkset[1]).toMatchObject({
        'service-desc': [{ href: expect.stringMatching(/\/openapi\.json$/) }],
        status: [{ href: expect.stringMatching(/\/health$/) }],
      });
      const all = JSON.stringify(linkset);
      expect(all).toContain('/document-user/weather/latest/openapi.json');
      expect(all).not.toContain('diary');
      const { agent } = await clientOf(target(), user.key).createAgent({
        body: { name: 'secret-plan', type: 'prompt', description: 'x', prompt: 'x' },
      });
      expect(agent.is_public).toBe(false);
      const later = await (await fetch(`${target().url}/.well-known/api-catalog`)).text();
      expect(later).not.toContain('secret-plan');
    });
  });
}
