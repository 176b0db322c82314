import * as z from 'zod';
import { defineRoutes } from '../http/route.ts';

const workspace = z.object({
  id: z.uuid(),
  name: z.string(),
  slug: z.string(),
  type: z.enum(['personal', 'team']),
  role: z.enum(['owner', 'member']),
  member_count: z.int(),
});

export const workspaceRoutes = defineRoutes([
  {
    operationId: 'listWorkspaces',
    method: 'GET',
    path: '/workspaces',
    summary: 'List the workspaces you are a member of',
    fn: 'workspaces',
    auth: 'key',
    response: { 200: z.object({ workspaces: z.array(workspace) }) },
  },
  {
    operationId: 'getOrg',
    method: 'GET',
    path: '/org',
    summary: 'Show the organization (= workspace) that a request acts in',
    fn: 'workspaces',
    auth: 'key',
    response: {
      200: z.object({ id: z.uuid(), name: z.string(), slug: z.string(), created_at: z.iso.datetime() }),
    },
  },
  {
    operationId: 'getMe',
    method: 'GET',
    path: '/users/me',
    summary: 'Show the user behind the API key',
    fn: 'workspaces',
    auth: 'key',
    response: {
      200: z.object({
        user: z.object({
          id: z.uuid(),
          display_name: z.string(),
          email: z.string(),
          created_at: z.iso.datetime(),
          updated_at: z.iso.datetime(),
          last_login_at: z.iso.datetime().nullable(),
        }),
      }),
    },
  },
]);
