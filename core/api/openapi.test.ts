import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { webhookUrl } from '#core/automation/schedules/webhook-secret.ts';
import { parseConfig } from '#core/base/config.ts';
import { pathParameters, type Route } from '#core/http/route.ts';
import { endlessSpace } from '#core/ports/space.ts';
import { openApiPage } from '../../scripts/write-docs.ts';
import { metaHandlers } from './meta/handlers.ts';
import { openApiDocument } from './openapi.ts';
import { routes } from './routes.ts';

const rows = routes as readonly Route[];

test('docs/openapi.json is the document; npm run docs writes it', () => {
  const file = new URL('../../docs/openapi.json', import.meta.url);
  expect(existsSync(file) && readFileSync(file, 'utf8')).toBe(openApiPage());
});

test('has every row of the table, with its parameters and answers', () => {
  const { paths } = openApiDocument() as { paths: Record<string, Record<string, Record<string, unknown>>> };
  for (const { method, path, operationId, response } of rows) {
    const operation = paths[path]![method.toLowerCase()]!;
    expect(operation.operationId).toBe(operationId);
    const inPath = (operation.parameters as { name: string; in: string }[]).filter(
      (parameter) => parameter.in === 'path',
    );
    expect(inPath.map(({ name }) => name)).toEqual(pathParameters(path));
    expect(Object.keys(operation.responses as object)).toEqual(
      expect.arrayContaining([...Object.keys(response), '500']),
    );
  }
});

test('each operation says who may use it, what it changes, and what repeating it does', () => {
  const { paths } = openApiDocument() as { paths: Record<string, Record<string, { description: string }>> };
  const textOf = (operation: string) => {
    const row = rows.find(({ operationId }) => operationId === operation)!;
    return paths[row.path]![row.method.toLowerCase()]!.description;
  };
  for (const { operationId, auth } of rows) {
    expect(textOf(operationId), operationId).toMatch(
      auth === 'key' ? /^Requires an API key with the scope `\w+`/ : /^(Requires|For) /,
    );
  }
  expect(textOf('createSchedule')).toBe(
    'Requires an API key with the scope `manage` of an owner of the workspace. Recorded in the audit log. Not idempotent.',
  );
  expect(textOf('listAgents')).toContain('Read-only.');
  expect(textOf('callAgent')).toContain('`Idempotency-Key`');
});

test('operations have one name each, and addresses are one each', () => {
  expect(new Set(rows.map(({ operationId }) => operationId)).size).toBe(rows.length);
  expect(new Set(rows.map(({ method, path }) => `${method} ${path}`)).size).toBe(rows.length);
});

test('every reference resolves from the root of the document', () => {
  const document = openApiDocument();
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, reference]) => reference!);
  expect(references.length).toBeGreaterThan(100);
  for (const reference of new Set(references)) {
    const [root, ...names] = reference.split('/');
    expect(root).toBe('#');
    const target = names.reduce<unknown>(
      (value, name) => (value as Record<string, unknown> | undefined)?.[name],
      document,
    );
    expect(target, reference).toBeTypeOf('object');
  }
});

test('says where it is served', async () => {
  const { getOpenApi } = metaHandlers({
    config: parseConfig({ PLATFORM_BASE_URL: 'https://agents.example.org' }),
    space: endlessSpace,
  });
  const { body } = await getOpenApi({} as Parameters<typeof getOpenApi>[0]);
  expect(body).toMatchObject({ servers: [{ url: 'https://agents.example.org' }] });
});

test('names the address for programs, if that is another one', async () => {
  const settings = { PLATFORM_BASE_URL: 'https://pages.example.org', PLATFORM_CALL_URL: 'https://api.example.org' };
  const config = parseConfig(settings);
  const { getOpenApi } = metaHandlers({ config, space: endlessSpace });
  const { body } = await getOpenApi({} as Parameters<typeof getOpenApi>[0]);
  expect(body).toMatchObject({ servers: [{ url: 'https://api.example.org' }] });
  expect(webhookUrl({ config }, 'id', 'secret')).toBe('https://api.example.org/webhooks/id/secret');
});
