import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

const prefix = z.string().describe('The first 12 characters of the key.');

/** See `docs/interface/agents.md#service-keys`. */
export const serviceKeyRoutes = defineRoutes([
  {
    operationId: 'listServiceKeys',
    method: 'GET',
    path: '/agents/{id}/keys',
    summary: 'List the static service keys of an agent',
    fn: 'agents',
    auth: 'key',
    role: 'owner',
    response: {
      200: z.object({
        keys: z.array(
          z.object({
            id: z.uuid(),
            prefix,
            created_at: z.iso.datetime(),
            last_used_at: z.iso
              .datetime()
              .nullable()
              .describe('When it was last used, to within ten minutes. null: never.'),
          }),
        ),
      }),
    },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'createServiceKey',
    method: 'POST',
    path: '/agents/{id}/keys',
    summary: 'Create a static service key of an agent; only this answer shows it',
    fn: 'agents',
    auth: 'key',
    role: 'owner',
    response: { 201: z.object({ key: z.string().describe('The key itself. Only this answer shows it.'), prefix }) },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'deleteServiceKey',
    method: 'DELETE',
    path: '/agents/{id}/keys/{key_id}',
    summary: 'Revoke a static service key of an agent immediately',
    fn: 'agents',
    auth: 'key',
    role: 'owner',
    response: { 200: z.object({ deleted: z.literal(true) }) },
    errors: ['NOT_FOUND'],
  },
]);
