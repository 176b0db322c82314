import * as z from 'zod';
import { ERROR_CODES, type ErrorCode, httpStatusOf, isRetryable } from '#core/base/errors.ts';
import { commonErrors, isRaw, pathParameters, type RawBody, type Route } from '#core/http/route.ts';
import { API_VERSION } from './api-version.ts';
import { describeMembers, textOf } from './describe-members.ts';
import { exampleOf } from './examples.ts';
import { operationText } from './operation-text.ts';
import { routes } from './routes.ts';

type JsonObject = Record<string, unknown>;

/** Schemas by name. Recursive schemas refer to themselves by name, so they have an `id`. */
type Components = Record<string, unknown>;

/**
 * Returns the JSON Schema of a Zod schema, with a description for each member. `path` is its location in the document
 * (`describe-members.ts`). References must resolve from the root of the document, so definitions are moved to
 * `components`. Throws if a recursive schema has no `id`, because its generated name would not be unique.
 */
function schemaOf(
  schema: z.ZodType,
  io: 'input' | 'output',
  components: Components,
  path: readonly string[],
): JsonObject {
  const { $schema: _, $defs = {}, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  for (const [name, { id: __, ...definition }] of Object.entries($defs)) {
    if (name.startsWith('__')) throw new Error('a recursive shape needs a name: register it in z.globalRegistry');
    components[name] = atRoot(definition);
    describeMembers(components[name], [name]);
  }
  const shape = atRoot(rest);
  describeMembers(shape, path);
  return shape;
}

const atRoot = <T extends object>(schema: T): T =>
  JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/'));

interface Body {
  readonly shape: z.ZodType | RawBody;
  readonly io: 'input' | 'output';
  readonly path: readonly string[];
  readonly example: unknown;
}

function content({ shape: body, io, path, example }: Body, components: Components): JsonObject {
  const shown = (schema: JsonObject): JsonObject => ({ schema, ...(example !== undefined && { example }) });
  if (!isRaw(body)) return { 'application/json': shown(schemaOf(body, io, components, path)) };
  // Client generators skip operations with a body that has no schema.
  const contentOf = (mediaType: string): JsonObject => {
    if (mediaType === 'multipart/form-data') return { schema: { type: 'object' } };
    if (!mediaType.endsWith('json')) return { schema: { type: 'string', format: 'binary' } };
    const shape = body.shapes?.[mediaType];
    const schema = shape ? schemaOf(shape, io, components, path) : {};
    return mediaType === 'application/json' ? shown(schema) : { schema };
  };
  return Object.fromEntries(body.raw.map((type) => [type, contentOf(type)]));
}

/** A missing JSON body counts as an empty object (`core/api/app.ts`). */
const isOptional = (body: z.ZodType | RawBody): boolean =>
  isRaw(body) ? body.optional === true : body.safeParse({}).success;

function parameters(route: Route, components: Components): JsonObject[] {
  const listed = (place: 'query' | 'header', schema: z.ZodObject | undefined): JsonObject[] =>
    Object.entries(schema?.shape ?? {}).map(([name, field]) => {
      const at = [route.operationId, place, name];
      const { description = textOf(at, 2), ...rest } = schemaOf(field as z.ZodType, 'input', components, at);
      const optional = (field as z.ZodType).safeParse(undefined).success;
      return { name, in: place, required: !optional, description, schema: rest };
    });
  return [
    ...pathParameters(route.path).map((name) => {
      const shape = route.request?.params?.shape[name] as z.ZodType | undefined;
      const at = [route.operationId, 'path', name];
      const schema = shape ? schemaOf(shape, 'input', components, at) : { type: 'string' };
      return { name, in: 'path', required: true, description: textOf(at, 2), schema };
    }),
    ...listed('query', route.request?.query),
    ...listed('header', route.request?.headers),
  ];
}

function responses(route: Route, components: Components): JsonObject {
  const byStatus = Map.groupBy<number, ErrorCode>([...commonErrors(route), ...(route.errors ?? [])], httpStatusOf);
  const others = Object.fromEntries(
    (route.alsoRaw ?? []).map((mediaType) => [mediaType, { schema: { type: 'string' } }]),
  );
  const answers = Object.entries(route.response).map(([status, shape]) => {
    const example = exampleOf(route).responses?.[status];
    const body: Body = { shape, io: 'output', path: [route.operationId], example };
    return [
      status,
      { description: 'Success', content: { ...content(body, components), ...(status === '200' && others) } },
    ];
  });
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
      description: 'What went wrong.',
      required: ['code', 'message', 'is_retryable'],
      properties: {
        code: {
          enum: ERROR_CODES,
          description: `Retryable: ${ERROR_CODES.filter(isRetryable).join(', ')}.`,
        },
        message: { type: 'string', description: 'Error message. Secrets are masked.' },
        is_retryable: { type: 'boolean', description: 'Whether the same request may succeed later.' },
        suggested_wait_time: {
          type: 'integer',
          description: 'Seconds to wait before a retry; the header `Retry-After` has the same value.',
        },
        hint: { type: 'string', description: 'Suggested fix.' },
        docs_url: {
          type: 'string',
          format: 'uri',
          description: 'Page about this code. Absent where the platform serves no pages.',
        },
        category: {
          enum: ['code_error', 'setup_error'],
          description:
            "For `SANDBOX_ERROR`. `code_error`: the author's program failed. `setup_error`: the program could not be started.",
        },
        cause: {
          enum: ['max_turns', 'max_cost_usd', 'stuck', 'interrupted'],
          description:
            'For `UNPROCESSABLE`: the limit that ended a loop. For `INTERNAL_ERROR`: `interrupted` if the sandbox was lost.',
        },
        user_message: {
          type: 'string',
          description: 'For `SANDBOX_ERROR`: an explanation that clients should prefer to `message`.',
        },
        stderr_tail: { type: 'string', description: 'For `SANDBOX_ERROR`: the last 500 characters of stderr.' },
        details: {
          type: 'object',
          description: 'Details about the program that failed.',
          required: ['log'],
          properties: {
            exit_code: { type: 'integer', description: 'Exit status of the program.' },
            stderr: { type: 'string', description: 'Start and end of stderr, up to 4 KB.' },
            log: { type: 'string', description: "Path of the run's log." },
          },
        },
      },
    },
    metadata: {
      type: 'object',
      description: 'About the request itself.',
      required: ['request_id'],
      properties: {
        request_id: {
          type: 'string',
          description: '`req_` and 32 hexadecimal digits; the header `X-Request-Id` has the same value.',
        },
      },
    },
  },
};

/** Returns the security of an operation. It has no entry if the document's default applies: an API key. */
function securityOf({ auth }: Route): JsonObject {
  if (auth === 'key') return {};
  if (auth === 'optional') return { security: [{}, { apiKey: [] }] };
  if (auth === 'operator') return { security: [{ operatorKey: [] }] };
  return { security: auth === 'instance' ? [{ instanceToken: [] }] : [] };
}

/** Returns the OpenAPI 3.1 document of the route table. A test compares it with the copy `docs/openapi.json`. */
export function openApiDocument(): JsonObject {
  const paths: Record<string, JsonObject> = {};
  const components: Components = { Error: errorSchema };
  for (const route of routes as readonly Route[]) {
    const body = route.request?.body;
    const example = exampleOf(route).request;
    paths[route.path] = {
      ...paths[route.path],
      [route.method.toLowerCase()]: {
        operationId: route.operationId,
        summary: route.summary,
        description: operationText(route),
        tags: [route.fn],
        ...securityOf(route),
        // Generators of documentation and clients skip these.
        ...(route.auth === 'instance' && { 'x-internal': true }),
        parameters: parameters(route, components),
        ...(body && {
          requestBody: {
            required: !isOptional(body),
            content: content({ shape: body, io: 'input', path: [route.operationId, 'request'], example }, components),
          },
        }),
        responses: responses(route, components),
      },
    };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Agent Hosting Platform',
      version: API_VERSION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    security: [{ apiKey: [] }],
    paths,
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer' },
        operatorKey: { type: 'http', scheme: 'bearer', description: "The key of the platform's operator." },
        instanceToken: { type: 'http', scheme: 'bearer', description: "For the platform's own programs." },
      },
      schemas: components,
    },
  };
}
