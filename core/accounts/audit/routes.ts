import * as z from 'zod';
import { requestTime } from '#core/http/request-time.ts';
import { defineRoutes } from '#core/http/route.ts';

/** See `docs/interface/audit.md`. */
export const auditRoutes = defineRoutes([
  {
    operationId: 'listAuditEntries',
    method: 'GET',
    path: '/workspaces/{workspace_id}/audit',
    summary: 'List the audit log of a workspace, newest first',
    fn: 'workspaces',
    auth: 'key',
    role: 'owner',
    request: {
      query: z.object({
        operation: z.string().min(1).max(100).optional().describe('Only this operation, such as `putSecret`.'),
        user_id: z.string().min(1).max(64).optional().describe('Only what this user did.'),
        from: requestTime.optional().describe('Only at or after this time.'),
        to: requestTime.optional().describe('Only before this time.'),
        limit: z.coerce.number().int().min(1).max(200).default(50),
        cursor: z.string().max(400).optional().describe('`next_cursor` of the page before, with the same filters.'),
      }),
    },
    response: {
      200: z.object({
        entries: z.array(
          z.object({
            id: z.uuid(),
            created_at: z.iso.datetime(),
            actor: z.enum(['user', 'link', 'operator', 'trust']),
            user: z
              .object({ id: z.string(), name: z.string().nullable(), email: z.string().nullable() })
              .nullable()
              .describe('The user who made the change. null: the operator, somebody with a link, or a trust.'),
            trust: z
              .object({
                id: z.string(),
                issuer: z.string(),
                claims: z.record(z.string(), z.string()).describe('Its subject, repository, branch, run and the like.'),
              })
              .nullable()
              .describe('The job that made the change by a trust, and what its token says of it. null: no job.'),
            key_id: z.string().nullable().describe('The API key of the request, or of its session.'),
            operation: z.string().describe('`operationId` of the request.'),
            target: z.record(z.string(), z.unknown()).describe('What was changed: ids and names, never contents.'),
            address: z.string().nullable().describe('IP address that the request came from. null: not known.'),
            outcome: z
              .enum(['done', 'refused', 'unknown'])
              .describe('`unknown`: the platform failed during the change, which may have been made.'),
            error_code: z.string().nullable(),
            request_id: z.string(),
          }),
        ),
        next_cursor: z.string().nullable().describe('The `cursor` of the next page. null: there are no more.'),
      }),
    },
  },
]);
