import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

export const metaRoutes = defineRoutes([
  {
    operationId: 'getHealth',
    method: 'GET',
    path: '/health',
    summary: 'Tell that the platform answers',
    fn: 'meta',
    auth: 'public',
    response: {
      200: z.object({
        status: z
          .enum(['ok', 'disk_nearly_full'])
          .describe('`disk_nearly_full`: requests that would store something are refused.'),
        problem: z.string().optional(),
      }),
    },
  },
  {
    operationId: 'getOpenApi',
    method: 'GET',
    path: '/openapi.json',
    summary: 'This document',
    fn: 'meta',
    auth: 'public',
    response: { 200: z.record(z.string(), z.unknown()) },
  },
  {
    operationId: 'getEditorSchema',
    method: 'GET',
    path: '/schemas/{schema}',
    summary:
      'JSON Schema (draft-07) of a file of an agent, for editors: agent.json, schema-file.json for schema.json, or fixture.json for tests/fixture-*.json',
    fn: 'meta',
    auth: 'public',
    response: { 200: z.record(z.string(), z.unknown()) },
    errors: ['NOT_FOUND'],
  },
]);
