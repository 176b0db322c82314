import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';

const namespace = z
  .string()
  .regex(
    /^(?:[a-z0-9-]{1,64}\.[a-z0-9-]{1,64}\.)?[a-z][a-z0-9-]{0,63}$/,
    'must be 1 to 64 lower-case letters, digits and hyphens, beginning with a letter; after org.agent. for the namespace of an agent of another workspace',
  );
const key = z
  .string()
  .regex(
    /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,255}$/,
    'must be 1 to 256 letters, digits, dots, underscores and hyphens, beginning with a letter or digit',
  );

export const documentSchema = z.object({
  namespace: z.string(),
  key: z.string(),
  value: z.unknown(),
  version: z.int().describe('Starts at 1 and increases with every write.'),
  size_bytes: z.int().describe('Size of the value in bytes, as JSON without white space.'),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
  updated_by: z.string().describe('Agent that wrote the document, as `org/agent@v1`, or else `cli` or `api`.'),
});

const anyObject = z.record(z.string(), z.unknown());
/** The handler validates it, because it knows the limits of the plan. */
const documentBody = (shape: z.ZodType) => ({ ...raw('application/json'), shapes: { 'application/json': shape } });

const writerHeaders = { 'x-platform-client': z.string().optional() };

export const storageRoutes = defineRoutes([
  {
    operationId: 'listNamespaces',
    method: 'GET',
    path: '/storage',
    summary: 'List the namespaces that hold documents',
    fn: 'storage',
    auth: 'key',
    agents: true,
    response: { 200: z.object({ namespaces: z.array(z.string()) }) },
  },
  {
    operationId: 'listDocuments',
    method: 'GET',
    path: '/storage/{namespace}',
    summary: 'List the document keys of a namespace in ascending order',
    fn: 'storage',
    auth: 'key',
    agents: true,
    request: {
      params: z.object({ namespace }),
      query: z.object({
        limit: z.coerce.number().int().min(1).max(1000).default(100),
        cursor: z.string().max(400).optional().describe('`cursor` of the previous page.'),
        prefix: z.string().max(256).default('').describe('Only keys that begin with this text.'),
      }),
    },
    response: {
      200: z.object({ keys: z.array(z.string()), cursor: z.string().nullable(), has_more: z.boolean() }),
    },
  },
  {
    operationId: 'getDocument',
    method: 'GET',
    path: '/storage/{namespace}/{key}',
    summary: 'Show a document; the ETag header is its version',
    fn: 'storage',
    auth: 'key',
    agents: true,
    request: { params: z.object({ namespace, key }) },
    response: { 200: documentSchema },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'putDocument',
    method: 'PUT',
    path: '/storage/{namespace}/{key}',
    summary: 'Create or replace a document; the body is its value, an object or an array',
    fn: 'storage',
    auth: 'key',
    agents: true,
    request: {
      params: z.object({ namespace, key }),
      headers: z.object({
        ...writerHeaders,
        'if-match': z
          .string()
          .regex(/^(W\/)?"?\d{1,15}"?$/, 'must be a version, a whole number')
          .transform((text) => Number(/\d+/.exec(text)![0]))
          .optional()
          .describe('Write only if the document has this version; 0 means only if it does not exist.'),
      }),
      body: documentBody(z.union([anyObject, z.array(z.unknown())])),
    },
    response: { 200: documentSchema },
    errors: ['CONFLICT', 'STORAGE_QUOTA_EXCEEDED'],
  },
  {
    operationId: 'patchDocument',
    method: 'PATCH',
    path: '/storage/{namespace}/{key}',
    summary: 'Update members of a document; members that are not in the body are unchanged',
    fn: 'storage',
    auth: 'key',
    agents: true,
    request: {
      params: z.object({ namespace, key }),
      headers: z.object(writerHeaders),
      body: documentBody(anyObject),
    },
    response: { 200: documentSchema },
    errors: ['NOT_FOUND', 'STORAGE_QUOTA_EXCEEDED'],
  },
  {
    operationId: 'deleteDocument',
    method: 'DELETE',
    path: '/storage/{namespace}/{key}',
    summary: 'Delete a document',
    fn: 'storage',
    auth: 'key',
    agents: true,
    request: { params: z.object({ namespace, key }) },
    response: { 200: z.object({ deleted: z.literal(true), namespace: z.string(), key: z.string() }) },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'deleteNamespace',
    method: 'DELETE',
    path: '/storage/{namespace}',
    summary: 'Delete all documents of a namespace',
    fn: 'storage',
    auth: 'key',
    agents: true,
    request: { params: z.object({ namespace }) },
    response: { 200: z.object({ deleted: z.literal(true), namespace: z.string(), documents_deleted: z.int() }) },
    errors: ['NOT_FOUND'],
  },
]);
