import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

export const metaRoutes = defineRoutes([
  {
    operationId: 'getHealth',
    method: 'GET',
    path: '/health',
    summary: 'Check that the platform is reachable',
    fn: 'meta',
    auth: 'public',
    response: {
      200: z.object({
        status: z
          .enum(['ok', 'disk_nearly_full'])
          .describe('`disk_nearly_full`: requests that would store data are rejected.'),
        problem: z.string().optional(),
      }),
    },
  },
  {
    operationId: 'getOpenApi',
    method: 'GET',
    path: '/openapi.json',
    summary: 'The OpenAPI description of the API',
    fn: 'meta',
    auth: 'public',
    response: { 200: z.record(z.string(), z.unknown()) },
  },
  {
    operationId: 'getEditorSchema',
    method: 'GET',
    path: '/schemas/{schema}',
    summary:
      'JSON Schema (draft-07) of an agent file, for editors: agent.json, schema-file.json (schema.json) or fixture.json (tests/fixture-*.json)',
    fn: 'meta',
    auth: 'public',
    response: { 200: z.record(z.string(), z.unknown()) },
    errors: ['NOT_FOUND'],
  },
]);
