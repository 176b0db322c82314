import * as z from 'zod';
import { KEY_SCOPES } from '#core/base/caller.ts';
import { printableLine } from '#core/http/printable-line.ts';
import { requestTime } from '#core/http/request-time.ts';
import { defineRoutes } from '#core/http/route.ts';

const keyRecord = z.object({
  id: z.uuid(),
  name: z.string(),
  prefix: z.string().describe('The first 12 characters of the key.'),
  scope: z.enum(KEY_SCOPES),
  workspace_id: z.uuid().nullable().describe('The only workspace that it acts in; null: all of yours.'),
  expires_at: z.iso.datetime().nullable().describe('When the key expires: from then on it is refused. null: never.'),
  created_at: z.iso.datetime(),
  last_used_at: z.iso.datetime().nullable().describe('When it was last used, to within ten minutes. null: never.'),
});

/** See `docs/interface/authentication.md#scopes`. */
export const keyRoutes = defineRoutes([
  {
    operationId: 'listApiKeys',
    method: 'GET',
    path: '/api-keys',
    summary: 'List your API keys',
    fn: 'keys',
    auth: 'key',
    response: { 200: z.array(keyRecord) },
  },
  {
    operationId: 'createApiKey',
    audit: { request: ['name', 'scope', 'workspace_id', 'expires_at'], response: { id: 'id' } },
    method: 'POST',
    path: '/api-keys',
    summary: 'Create an API key; only this answer shows it',
    fn: 'keys',
    auth: 'key',
    request: {
      body: z.object({
        name: printableLine(100),
        scope: z.enum(KEY_SCOPES).optional().describe('What it may do. Default: manage, which is everything.'),
        workspace_id: z.uuid().optional().describe('The only workspace that it acts in. Default: all of yours.'),
        expires_at: requestTime
          .optional()
          .describe('When the key expires: from then on it is refused. Default: never.'),
      }),
    },
    response: {
      201: keyRecord
        .omit({ last_used_at: true })
        .extend({ key: z.string().describe('The key itself. Only this answer shows it.') }),
    },
  },
  {
    operationId: 'deleteApiKey',
    method: 'DELETE',
    path: '/api-keys/{id}',
    summary: 'Revoke an API key immediately',
    fn: 'keys',
    auth: 'key',
    response: { 200: z.object({ deleted: z.literal(true), id: z.string() }) },
    errors: ['NOT_FOUND'],
  },
]);
