import * as z from 'zod';
import { isMemoryName, MEMORY_NAME_RULE } from '#core/accounts/documents/memory-names.ts';
import { defineRoutes } from '#core/http/route.ts';
import { tenantId } from '#core/http/tenant-id.ts';

const params = z.object({
  document: z.string().refine(isMemoryName, MEMORY_NAME_RULE),
});
const ofTenant = {
  tenant_id: tenantId.optional().describe('The memory of this tenant. Default: that of the workspace itself.'),
};
const limit = z.coerce.number().int().min(1).max(200).default(100);
const cursor = z.string().max(600).optional().describe('`next_cursor` of the previous page.');
const nextCursor = z.string().nullable().describe('null: there are no more.');

const head = z.object({
  name: z.string().describe('Name of the document, unique in its memory.'),
  version: z.int().describe('Starts at 1 and increases with every write.'),
  size_bytes: z.int().describe('Size of the text in bytes, as JSON.'),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
  updated_by: z.string().describe('Agent that wrote the document, as `org/agent@v1`, or else `cli` or `api`.'),
});
export const memorySchema = head.extend({ text: z.string().describe('The document itself, as Markdown.') });

const ifVersion = z
  .number()
  .int()
  .min(0)
  .optional()
  .describe('Write only if the document has this version; 0 means only if it does not exist.');

export const memoryRoutes = defineRoutes([
  {
    operationId: 'listMemory',
    method: 'GET',
    path: '/workspaces/{workspace_id}/memory',
    summary: 'List the documents that agents remember, without their texts',
    fn: 'storage',
    auth: 'key',
    request: {
      query: z.object({
        ...ofTenant,
        prefix: z.string().max(200).default('').describe('Only names that begin with this text.'),
        limit,
        cursor,
      }),
    },
    response: { 200: z.object({ documents: z.array(head), next_cursor: nextCursor }) },
  },
  {
    operationId: 'listMemoryTenants',
    method: 'GET',
    path: '/workspaces/{workspace_id}/memory-tenants',
    summary: 'List the tenants for which agents remember something',
    fn: 'storage',
    auth: 'key',
    request: { query: z.object({ limit, cursor }) },
    response: {
      200: z.object({
        tenants: z.array(z.object({ tenant_id: z.string().describe('Id of the tenant.'), documents: z.int() })),
        next_cursor: nextCursor,
      }),
    },
  },
  {
    operationId: 'eraseMemory',
    audit: { request: ['tenant_id'] },
    method: 'DELETE',
    path: '/workspaces/{workspace_id}/memory',
    summary: 'Erase all that agents remember for a tenant, or for the workspace itself',
    fn: 'storage',
    auth: 'key',
    request: { query: z.object(ofTenant) },
    response: { 200: z.object({ deleted: z.literal(true), documents_deleted: z.int() }) },
  },
  {
    operationId: 'getMemory',
    method: 'GET',
    path: '/workspaces/{workspace_id}/memory/{document}',
    summary: 'Show a document that agents remember; a slash in its name is written %2F',
    fn: 'storage',
    auth: 'key',
    request: { params, query: z.object(ofTenant) },
    response: { 200: memorySchema },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'putMemory',
    audit: { request: ['tenant_id'] },
    method: 'PUT',
    path: '/workspaces/{workspace_id}/memory/{document}',
    summary: 'Create or replace a document that agents remember',
    fn: 'storage',
    auth: 'key',
    request: {
      params,
      query: z.object(ofTenant),
      headers: z.object({ 'x-platform-client': z.string().optional() }),
      body: z.object({
        text: z
          .string()
          .refine((text) => !text.includes('\0'), 'must not have NUL characters')
          .describe('The document itself, as Markdown of at most 64 KB.'),
        if_version: ifVersion,
      }),
    },
    response: { 200: memorySchema },
    errors: ['CONFLICT', 'DOCUMENT_TOO_LARGE', 'STORAGE_QUOTA_EXCEEDED'],
  },
  {
    operationId: 'deleteMemory',
    audit: { request: ['tenant_id'] },
    method: 'DELETE',
    path: '/workspaces/{workspace_id}/memory/{document}',
    summary: 'Delete a document that agents remember',
    fn: 'storage',
    auth: 'key',
    request: {
      params,
      query: z.object({
        ...ofTenant,
        if_version: z.coerce.number().int().min(1).optional().describe('Delete it only if it has this version.'),
      }),
    },
    response: {
      200: z.object({ deleted: z.literal(true), name: z.string().describe('Name of the deleted document.') }),
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
]);
