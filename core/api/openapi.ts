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

/** Readers of the document apply the schema of such a stream to each of its events. */
const EVENTS = 'text/event-stream';

function content({ shape: body, io, path, example }: Body, components: Components): JsonObject {
  const shown = (schema: JsonObject): JsonObject => ({ schema, ...(example !== undefined && { example }) });
  if (!isRaw(body)) return { 'application/json': shown(schemaOf(body, io, components, path)) };
  // Client generators skip operations with a body that has no schema.
  const contentOf = (mediaType: string): JsonObject => {
    if (mediaType === 'multipart/form-data') return { schema: { type: 'object' } };
    if (mediaType === EVENTS) return { schema: {} };
    if (!mediaType.endsWith('json')) return { schema: { type: 'string', format: 'binary' } };
    const shape = body.shapes?.[mediaType];
    const schema = shape ? schemaOf(shape, io, components, path) : {};
    return mediaType === 'application/json' || body.raw.length === 1 ? shown(schema) : { schema };
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
  /** @param json What is said of the answer in JSON. */
  const othersOf = (json: unknown): JsonObject =>
    Object.fromEntries(
      (route.alsoRaw ?? []).map((mediaType) => {
        if (mediaType.endsWith('+json')) return [mediaType, json];
        return [mediaType, { schema: mediaType === EVENTS ? {} : { type: 'string' } }];
      }),
    );
  const answers = Object.entries(route.response).map(([status, shape]) => {
    if (status === '304') return [status, { description: 'The copy of the client is current' }];
    const example = exampleOf(route).responses?.[status];
    const description = Number(status) < 400 ? 'Success' : 'An error of the protocol';
    if (isRaw(shape) && shape.raw.length === 0) return [status, { description: `${description}, without a body` }];
    const body: Body = { shape, io: 'output', path: [route.operationId], example };
    const own = content(body, components);
    return [status, { description, content: { ...own, ...(status === '200' && othersOf(own['application/json'])) } }];
  });
  const errors = [...byStatus].map(([status, codes]) => [
    status,
    {
      description: [...new Set(codes)].sort().join(', '),
      content: { 'application/json': { schema: { $ref: `#/components/schemas/${errorNameOf(route, status)}` } } },
    },
  ]);
  return Object.fromEntries([...answers, ...errors]);
}

function errorNameOf({ path, fn }: Route, status: number): string {
  // Before the protocol begins, the platform answers, and then the protocol.
  if (fn === 'mcp' && [400, 404, 415].includes(status)) return 'McpError';
  if (path.startsWith('/openai/')) return 'OpenAiError';
  if (path.startsWith('/a2a/')) return 'A2aError';
  return status === 400 && ['/oauth/token', '/oauth/revoke'].includes(path) ? 'OAuthError' : 'Error';
}

/** `core/wires/a2a/errors.ts` */
const a2aErrorSchema: JsonObject = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      description: 'What went wrong, in the form of A2A.',
      required: ['code', 'status', 'message', 'details'],
      properties: {
        code: { type: 'integer', description: 'The status of HTTP.' },
        status: { type: 'string', description: 'Kind of the error, such as `NOT_FOUND`.' },
        message: { type: 'string', description: 'Error message, with a suggested fix. Secrets are masked.' },
        details: {
          type: 'array',
          items: { type: 'object' },
          description: 'A `google.rpc.ErrorInfo`: its `reason` is that of A2A, or the code of the platform.',
        },
      },
    },
  },
};

const jsonRpcErrorSchema: JsonObject = {
  type: 'object',
  required: ['jsonrpc', 'id', 'error'],
  properties: {
    jsonrpc: { type: 'string', description: 'Always `2.0`.' },
    id: { type: ['string', 'number', 'null'], description: 'That of the request, if it could be read.' },
    error: {
      type: 'object',
      description: 'What went wrong, in the form of JSON-RPC.',
      required: ['code', 'message'],
      properties: {
        code: { type: 'integer', description: 'The code of JSON-RPC or MCP.' },
        message: { type: 'string', description: 'Error message.' },
        data: { description: 'Details of the error.' },
      },
    },
  },
};

const mcpErrorSchema: JsonObject = {
  anyOf: [{ $ref: '#/components/schemas/Error' }, { $ref: '#/components/schemas/JsonRpcError' }],
};

/** `core/accounts/clients/tokens.ts` */
const oauthErrorSchema: JsonObject = {
  type: 'object',
  required: ['error', 'error_description'],
  properties: {
    error: { type: 'string', description: 'What went wrong, in the words of OAuth, such as `invalid_grant`.' },
    error_description: { type: 'string', description: 'What is wrong, for developers.' },
  },
};

/** `core/wires/openai/errors.ts` */
const openAiErrorSchema: JsonObject = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      description:
        'What went wrong, in the form of OpenAI. The header `X-Should-Retry` tells whether to repeat the request.',
      required: ['message', 'type', 'param', 'code'],
      properties: {
        message: { type: 'string', description: 'Error message, with a suggested fix. Secrets are masked.' },
        type: { type: 'string', description: 'Kind of the error, such as `invalid_request_error`.' },
        param: { type: ['string', 'null'], description: 'The member of the request that is wrong.' },
        code: {
          type: 'string',
          description: 'The code of OpenAI where there is one, else the code of the platform in lower case.',
        },
      },
    },
  },
};

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

/** Operations of the table by path and method, with the schemas that they name. */
interface Described {
  readonly paths: Record<string, JsonObject>;
  readonly schemas: Components;
}

function describe(rows: readonly Route[], schemas: Components): Described {
  const paths: Record<string, JsonObject> = {};
  for (const route of rows) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operationOf(route, schemas) };
  }
  return { paths, schemas };
}

function operationOf(route: Route, components: Components): JsonObject {
  const body = route.request?.body;
  const example = exampleOf(route).request;
  return {
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
  };
}

const API_KEY: JsonObject = { type: 'http', scheme: 'bearer' };

/** Returns the OpenAPI 3.1 document of the route table. A test compares it with the copy `docs/openapi.json`. */
export function openApiDocument(): JsonObject {
  const { paths, schemas } = describe(routes, {
    Error: errorSchema,
    OpenAiError: openAiErrorSchema,
    A2aError: a2aErrorSchema,
    OAuthError: oauthErrorSchema,
    JsonRpcError: jsonRpcErrorSchema,
    McpError: mcpErrorSchema,
  });
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
        apiKey: API_KEY,
        operatorKey: { type: 'http', scheme: 'bearer', description: "The key of the platform's operator." },
        instanceToken: { type: 'http', scheme: 'bearer', description: "For the platform's own programs." },
      },
      schemas,
    },
  };
}

/** The operations that a client of one agent needs, as the document has them. */
const OF_AGENTS = ['callAgent', 'getRun', 'cancelRun'] as const;
export type AgentOperation = (typeof OF_AGENTS)[number];

/** Parts of the document from which that of one agent is made. */
export interface AgentFragments {
  readonly operations: Readonly<Record<AgentOperation, JsonObject>>;
  readonly components: { readonly securitySchemes: JsonObject; readonly schemas: Components };
}

/** Returns the parts of {@link openApiDocument} from which the document of one agent is made. */
export function agentFragments(): AgentFragments {
  const rows: readonly Route[] = routes;
  const { paths, schemas } = describe(
    rows.filter(({ operationId }) => OF_AGENTS.some((name) => name === operationId)),
    { Error: errorSchema },
  );
  const all = Object.values(paths).flatMap((path) => Object.values(path)) as JsonObject[];
  const operations = Object.fromEntries(all.map((operation) => [operation.operationId, operation]));
  return {
    operations: operations as Record<AgentOperation, JsonObject>,
    components: { securitySchemes: { apiKey: API_KEY }, schemas },
  };
}
