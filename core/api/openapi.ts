import * as z from 'zod';
import { ERROR_CODES, type ErrorCode, httpStatusOf, isRetryable } from '#core/base/errors.ts';
import { commonErrors, isRaw, pathParameters, type RawBody, type Route } from '#core/http/route.ts';
import { routes } from './routes.ts';

type JsonObject = Record<string, unknown>;

const schemaOf = (schema: z.ZodType, io: 'input' | 'output'): JsonObject => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return rest;
};

function content(body: z.ZodType | RawBody, io: 'input' | 'output'): JsonObject {
  if (!isRaw(body)) return { 'application/json': { schema: schemaOf(body, io) } };
  return Object.fromEntries(body.raw.map((type) => [type, {}]));
}

function parameters(route: Route): JsonObject[] {
  const listed = (place: 'query' | 'header', schema: z.ZodObject | undefined): JsonObject[] =>
    Object.entries(schema?.shape ?? {}).map(([name, field]) => {
      const { description, ...rest } = schemaOf(field as z.ZodType, 'input');
      const optional = (field as z.ZodType).safeParse(undefined).success;
      return { name, in: place, required: !optional, ...(description !== undefined && { description }), schema: rest };
    });
  return [
    ...pathParameters(route.path).map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } })),
    ...listed('query', route.request?.query),
    ...listed('header', route.request?.headers),
  ];
}

function responses(route: Route): JsonObject {
  const byStatus = Map.groupBy<number, ErrorCode>([...commonErrors(route), ...(route.errors ?? [])], httpStatusOf);
  const answers = Object.entries(route.response).map(([status, body]) => [
    status,
    { description: 'Success', content: content(body, 'output') },
  ]);
  const errors = [...byStatus].map(([status, codes]) => [
    status,
    {
      description: [...new Set(codes)].sort().join(', '),
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    },
  ]);
  return Object.fromEntries([...answers, ...errors]);
}

const errorSchema: JsonObject = {
  type: 'object',
  required: ['error', 'metadata'],
  properties: {
    error: {
      type: 'object',
      required: ['code', 'message', 'is_retryable'],
      properties: {
        code: {
          enum: ERROR_CODES,
          description: `Retryable: ${ERROR_CODES.filter(isRetryable).join(', ')}.`,
        },
        message: { type: 'string' },
        is_retryable: { type: 'boolean' },
        suggested_wait_time: { type: 'integer', description: 'Seconds.' },
        hint: { type: 'string' },
        category: { enum: ['code_error', 'setup_error'] },
        user_message: { type: 'string' },
        stderr_tail: { type: 'string' },
      },
    },
    metadata: { type: 'object', required: ['request_id'], properties: { request_id: { type: 'string' } } },
  },
};

/** The OpenAPI 3.1 document of the route table. `docs/openapi.json` is a copy that a test compares. */
export function openApiDocument(): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const route of routes as readonly Route[]) {
    const body = route.request?.body;
    paths[route.path] = {
      ...paths[route.path],
      [route.method.toLowerCase()]: {
        operationId: route.operationId,
        summary: route.summary,
        tags: [route.fn],
        ...(route.auth !== 'key' && { security: [] }),
        parameters: parameters(route),
        ...(body && { requestBody: { content: content(body, 'input') } }),
        responses: responses(route),
      },
    };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Agent Hosting Platform', version: '1', license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    security: [{ apiKey: [] }],
    paths,
    components: {
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer' } },
      schemas: { Error: errorSchema },
    },
  };
}
