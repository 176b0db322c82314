import { once } from 'node:events';
import { createServer } from 'node:http';
import { App, Stack, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { afterAll, describe, expect, test } from 'vitest';
import { parseAwsConfig } from '#aws/config.ts';
import { hashKey, newKey } from '#core/accounts/keys/key-format.ts';
import { newRunKey, newServiceKey, newStaticKey } from '#core/accounts/service-keys/key-format.ts';
import { FRONT_HEADER, FRONT_HOST_HEADER, VIEWER_HEADER } from '#core/http/front-headers.ts';
import { FUNCTION_NAMES } from '#core/http/route.ts';
import { newToken, SystemIds } from '#core/ports/ids.ts';
import { defineStage } from '#lib/config.ts';
import { CellRouter, type CellRouterProps } from '#lib/platform.ts';
import { clientOf, request, startLocalTarget } from '#test/helpers/platform.ts';
import { environmentOf, resourcesOf, synthesise, type Template } from '#test/helpers/templates.ts';
import { temporaryFolder } from '#test/helpers/temporary-folder.ts';
import { stage as dev } from '../../stages/dev.ts';
import { readAssembly } from '../rehearsal/assembly.ts';
import { startCloudFront } from '../rehearsal/cloud-front.ts';

const HOSTS = { a: 'a.example.org', b: 'b1c2d3.execute-api.eu-west-1.amazonaws.com' };
const PROPS: CellRouterProps = {
  firstCell: 'a',
  cells: { a: { host: HOSTS.a, frontToken: 'token-of-a' }, b: { host: HOSTS.b } },
};

function synthesised(props: CellRouterProps) {
  const folder = temporaryFolder('cells-');
  const app = new App({ outdir: folder });
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  const stack = new Stack(app, 'agents-cells');
  new CellRouter(stack, 'router', props);
  const template: Template = app.synth().getStackByName(stack.stackName).template;
  return { template, assembly: readAssembly(folder, [{ name: stack.stackName, template }]) };
}

const { template, assembly } = synthesised(PROPS);

/** Starts the router before two servers that tell what they received. */
async function startEchoes(
  props = PROPS,
  keyValues = new Map([
    ['bravo', 'b'],
    ['gone', 'z'],
  ]),
) {
  const servers = await Promise.all(
    Object.keys(HOSTS).map(async (letter) => {
      const server = createServer(({ url, headers }, response) => {
        response.end(JSON.stringify({ letter, url, headers }));
      }).listen(0, '127.0.0.1');
      await once(server, 'listening');
      const address = server.address();
      return { server, url: `http://127.0.0.1:${typeof address === 'object' ? address!.port : ''}` };
    }),
  );
  const front = await startCloudFront(props === PROPS ? assembly : synthesised(props).assembly, {
    api: 'http://127.0.0.1:9',
    hosts: { [HOSTS.a]: servers[0]!.url, [HOSTS.b]: servers[1]!.url },
    keyValues,
  });
  afterAll(async () => {
    await front.close();
    for (const { server } of servers) server.close();
  });
  return async (path: string, headers: Record<string, string> = {}) =>
    (await (await fetch(front.url + path, { headers })).json()) as {
      letter: string;
      url: string;
      headers: Record<string, string>;
    };
}

describe('the router', () => {
  const echo = startEchoes();
  const ids = { a: new SystemIds('a'), b: new SystemIds('b'), z: new SystemIds('z') };
  const uuid = crypto.randomUUID();
  const cellOf = async (path: string, key?: string) =>
    (await (await echo)(path, key === undefined ? {} : { authorization: `Bearer ${key}` })).letter;

  test('follows the letter of every kind of key, whatever the path', async () => {
    for (const letter of ['a', 'b'] as const) {
      for (const key of [
        newKey(ids[letter]),
        newStaticKey(ids[letter]),
        newRunKey(ids[letter], { workspaceId: uuid, runId: uuid }),
        newServiceKey(letter, uuid, ids[letter].randomBytes(32)),
      ]) {
        for (const path of ['/agents', '/bravo/bot/v1/run', `/webhooks/${uuid}/${newToken(ids.a)}`]) {
          expect(await cellOf(path, key), `${path} ${key}`).toBe(letter);
        }
      }
    }
  });

  test('follows the letter of the token in an address', async () => {
    for (const letter of ['a', 'b'] as const) {
      const token = newToken(ids[letter]);
      for (const path of [
        `/webhooks/${uuid}/${token}`,
        `/webhooks/events/${token}x`,
        `/invites/${token}`,
        `/invites/${token}/join`,
        `/auth/approvals/${token}`,
        `/public/shares/${token}/steps`,
        `/public/chats/${token}/sessions`,
      ]) {
        expect(await cellOf(path), path).toBe(letter);
      }
    }
  });

  test('finds the cell of an org in the directory, and knows the first cell for everything else', async () => {
    expect(await cellOf('/public/agents/bravo/bot/latest')).toBe('b');
    expect(await cellOf('/bravo/bot/v1/run')).toBe('b');
    for (const path of [
      '/',
      '/health',
      '/public/agents',
      '/public/agents/acme/bot/latest',
      '/gone/bot/v1/run',
      '/constructor/a/b',
    ]) {
      expect(await cellOf(path), path).toBe('a');
    }
    // No such cell, and texts that only begin like a key.
    for (const key of [newKey(ids.z), `${newKey(ids.b)}x`, 'sk_live_b', newKey(ids.b).replace('_b', '_B'), 'x']) {
      expect(await cellOf('/agents', key), key).toBe('a');
    }
  });

  test('passes nothing that a viewer says about itself, and a token to its own cell alone', async () => {
    const forged = {
      [FRONT_HEADER]: 'token-of-a',
      [VIEWER_HEADER]: '198.51.100.66',
      [FRONT_HOST_HEADER]: 'evil.example',
    };
    const send = await echo;
    const atA = await send('/agents?limit=1', { ...forged, authorization: `Bearer ${newKey(ids.a)}` });
    expect(atA.url).toBe('/agents?limit=1');
    expect(atA.headers).toMatchObject({ host: HOSTS.a, [FRONT_HEADER]: 'token-of-a', [VIEWER_HEADER]: '127.0.0.1' });
    expect(atA.headers).not.toHaveProperty(FRONT_HOST_HEADER);
    const atB = await send('/agents', {
      ...forged,
      cookie: 'platform_session=abc',
      authorization: `Bearer ${newKey(ids.b)}`,
    });
    expect(atB.headers.host).toBe(HOSTS.b);
    for (const name of ['cookie', ...Object.keys(forged)]) expect(atB.headers).not.toHaveProperty(name);
  });

  test('finds keys and tokens of a workspace that has moved in the directory', async () => {
    const [key, token] = [newKey(ids.a), newToken(ids.a)];
    const keyValues = new Map([key, token].map((each) => [hashKey(each), 'b']));
    const send = await startEchoes({ ...PROPS, hasMoved: true }, keyValues);
    const cell = async (path: string, bearer?: string) =>
      (await send(path, bearer === undefined ? {} : { authorization: `Bearer ${bearer}` })).letter;
    expect(await cell('/agents', key)).toBe('b');
    expect(await cell(`/webhooks/${uuid}/${token}`)).toBe('b');
    expect(await cell('/agents', newKey(ids.a))).toBe('a');
    expect(await cell('/agents', newKey(ids.b))).toBe('b');
    expect(await cell(`/webhooks/${uuid}/${newToken(ids.a)}`)).toBe('a');
    expect(await cell('/acme/bot/v1/run')).toBe('a');
  });

  test('adds the path of a cell behind the host of API Gateway', async () => {
    const send = await startEchoes({ ...PROPS, cells: { ...PROPS.cells, b: { host: HOSTS.b, path: '/prod' } } });
    const atB = await send('/agents?limit=1', { authorization: `Bearer ${newKey(ids.b)}` });
    expect([atB.letter, atB.url]).toEqual(['b', '/prod/agents?limit=1']);
    expect((await send('/agents')).url).toBe('/agents');
  });
});

const only = (of: Template, type: string) => {
  const found = resourcesOf(of, type);
  expect(found).toHaveLength(1);
  return found[0]![1].Properties;
};

test('the distribution keeps nothing, accepts every method, and reads one directory', () => {
  const { DefaultCacheBehavior: behavior, CustomErrorResponses: errors } = only(
    template,
    'AWS::CloudFront::Distribution',
  ).DistributionConfig;
  expect(behavior).toMatchObject({
    CachePolicyId: '4135ea2d-6df8-44a3-9df3-4b5a84be39ad',
    OriginRequestPolicyId: 'b689b0a8-53d0-40ab-baf2-68738e2966ac',
    ViewerProtocolPolicy: 'https-only',
  });
  expect(behavior.AllowedMethods).toHaveLength(7);
  expect(errors.every((each: { ErrorCachingMinTTL: number }) => each.ErrorCachingMinTTL === 0)).toBe(true);
  expect(only(template, 'AWS::CloudFront::Function').FunctionConfig.KeyValueStoreAssociations).toHaveLength(1);
  only(template, 'AWS::CloudFront::KeyValueStore');
});

test('all cells fit into the function', () => {
  const cell = { host: HOSTS.b, path: '/production', frontToken: crypto.randomUUID() };
  const cells = Object.fromEntries([...'abcdefghijklmnopqrstuvwxyz'].map((letter) => [letter, cell]));
  const code = only(
    synthesised({ firstCell: 'a', cells, hasMoved: true }).template,
    'AWS::CloudFront::Function',
  ).FunctionCode;
  expect(Buffer.byteLength(code)).toBeLessThan(10_240);
});

test('the functions of a stage make keys with its letter', () => {
  for (const stage of [dev, defineStage({ ...dev, cell: 'b' })]) {
    const { api } = synthesise(stage);
    for (const fn of FUNCTION_NAMES) expect(parseAwsConfig(environmentOf(api, fn)).cell, fn).toBe(stage.cell);
  }
  for (const cell of ['A', 'ab', '1', '']) {
    expect(() => defineStage({ ...dev, cell })).toThrow(/must be one letter, a to z\s+→ at cell/);
  }
});

test('one error names every mistake', () => {
  const cells = { A: { host: HOSTS.a }, b: { host: 'https://b.example.org', path: '/prod/' } };
  expect(() => new CellRouter(new Stack(), 'router', { cells, firstCell: 'c' })).toThrow(
    /"A" must be one letter[\s\S]*cells\.b\.host must be the name of a host[\s\S]*cells\.b\.path[\s\S]*firstCell must be one of A, b/,
  );
});

test('two platforms behind the router are used with one address, and know only their own tenants', async () => {
  const [a, b] = await Promise.all([
    startLocalTarget({ PLATFORM_WORKSPACE: 'acme' }),
    startLocalTarget({ PLATFORM_WORKSPACE: 'bravo', PLATFORM_CELL: 'b' }),
  ]);
  const front = await startCloudFront(assembly, {
    api: 'http://127.0.0.1:9',
    hosts: { [HOSTS.a]: a.url, [HOSTS.b]: b.url },
    keyValues: new Map([['bravo', 'b']]),
  });
  try {
    expect([a.key.slice(0, 9), b.key.slice(0, 9)]).toEqual(['sk_live_a', 'sk_live_b']);
    const published: Record<string, string> = {};
    for (const { key, slug } of [a, b]) {
      const client = clientOf({ url: front.url, key });
      const { id, slug: own } = await client.getOrg({});
      expect(own).toBe(slug);
      const params = { workspace_id: id };
      await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' } });
      await client.createAgent({
        body: {
          ...{ name: 'greet', type: 'prompt', description: slug, prompt: 'Say {{name}}.', is_public: true },
          supported_providers: ['anthropic'],
        },
      });
      expect((await request(front, 'POST', `/${slug}/greet/v1/run`, { key, json: { name: slug } })).status).toBe(200);
      const { webhook_url } = (
        await client.createSchedule({ params, body: { agent: `${slug}/greet`, schedule_type: 'webhook' } })
      ).schedule as { webhook_url?: string };
      published[slug] = new URL(webhook_url!).pathname;
    }
    for (const slug of ['acme', 'bravo']) {
      expect((await request(front, 'POST', published[slug]!, { json: { name: 'x' } })).status, slug).toBe(200);
      const shown = await request(front, 'GET', `/public/agents/${slug}/greet/latest`);
      expect([shown.status, shown.body.description], slug).toEqual([200, slug]);
    }
    // A key is unknown outside of its cell, also with another letter, and so is the webhook of another cell.
    expect((await request(front, 'POST', '/bravo/greet/v1/run', { key: a.key, json: {} })).status).toBe(404);
    expect((await request(b, 'GET', '/agents', { key: a.key })).status).toBe(401);
    expect((await request(front, 'GET', '/agents', { key: a.key.replace('_a', '_b') })).status).toBe(401);
    expect((await request(front, 'POST', published.acme!.replace(/\/a([^/]+)$/, '/b$1'), { json: {} })).status).toBe(
      404,
    );
  } finally {
    await front.close();
    await Promise.all([a.close(), b.close()]);
  }
});
