import * as z from 'zod';
import { APPROVERS, TRACE_CONTENT_SETTINGS } from '#core/base/workspace.ts';
import { printableLine } from '#core/http/printable-line.ts';
import { defineRoutes } from '#core/http/route.ts';
import { emailAddress } from './email-address.ts';

const role = z.enum(['owner', 'member']);
const displayName = printableLine(100);

const workspace = z.object({
  id: z.uuid(),
  name: z.string(),
  slug: z.string(),
  type: z.enum(['personal', 'team']),
  role,
  member_count: z.int(),
});

const org = z.object({
  id: z.uuid(),
  name: z.string(),
  slug: z.string(),
  timezone: z.string().describe('Name of the zone in which its days begin.'),
  trace_content: z
    .enum(TRACE_CONTENT_SETTINGS)
    .describe('Which runs keep prompts, answers, and arguments and results of tools: none, failed ones, all.'),
  approvers: z.enum(APPROVERS).describe('Who may decide what runs ask: all members, or owners only.'),
  created_at: z.iso.datetime(),
});

const member = z.object({
  id: z.string(),
  clerk_user_id: z.string().describe('The same as `id`, for clients that use this name.'),
  email: z.string().nullable(),
  name: z.string().nullable(),
  role,
  accepted_at: z.iso.datetime(),
});

const invite = z.object({
  id: z.uuid(),
  email: z.string(),
  role,
  created_at: z.iso.datetime(),
  expires_at: z.iso.datetime(),
});
const newInvite = {
  request: {
    body: z.object({
      email: emailAddress,
      role: role.default('member'),
    }),
  },
  response: {
    200: z.object({
      invite: invite.extend({
        email_sent: z.boolean(),
        invite_url: z.url().describe('Works once, for anyone who has it. Only shown here.'),
      }),
    }),
  },
  errors: ['CONFLICT'],
} as const;
const joined = z.object({ id: z.uuid(), name: z.string(), slug: z.string(), role });

export const workspaceRoutes = defineRoutes([
  {
    operationId: 'listWorkspaces',
    method: 'GET',
    path: '/workspaces',
    summary: 'List the workspaces that you are a member of',
    fn: 'workspaces',
    auth: 'key',
    response: { 200: z.object({ workspaces: z.array(workspace) }) },
  },
  {
    operationId: 'createWorkspace',
    audit: { request: ['name', 'slug'], response: { id: 'workspace.id' } },
    method: 'POST',
    path: '/workspaces',
    summary: 'Create a workspace; you become its owner',
    fn: 'workspaces',
    auth: 'key',
    ofUser: true,
    request: {
      body: z.object({
        name: displayName,
        slug: z
          .string()
          .regex(/^[a-z0-9][a-z0-9-]{0,49}$/, 'must be 1 to 50 lower-case letters, digits and hyphens, no hyphen first')
          .optional()
          .describe('By default derived from the name.'),
      }),
    },
    response: { 201: z.object({ workspace }) },
    errors: ['CONFLICT', 'STORAGE_QUOTA_EXCEEDED'],
  },
  {
    operationId: 'listMembers',
    method: 'GET',
    path: '/workspaces/{workspace_id}/members',
    summary: 'List the members of a workspace; owners also see the pending invitations',
    fn: 'workspaces',
    auth: 'key',
    response: { 200: z.object({ members: z.array(member), invites: z.array(invite) }) },
  },
  {
    operationId: 'updateMember',
    audit: { request: ['role'] },
    method: 'PATCH',
    path: '/workspaces/{workspace_id}/members/{user_id}',
    summary: 'Change the role of a member; at least one owner must remain',
    fn: 'workspaces',
    auth: 'key',
    role: 'owner',
    request: { body: z.object({ role }) },
    response: { 200: z.object({ updated: z.literal(true), id: z.string(), role }) },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  {
    operationId: 'removeMember',
    method: 'DELETE',
    path: '/workspaces/{workspace_id}/members/{user_id}',
    summary: 'Remove a member, or leave; at least one owner must remain',
    fn: 'workspaces',
    auth: 'key',
    response: { 200: z.object({ deleted: z.literal(true), id: z.string() }) },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  {
    operationId: 'inviteMember',
    audit: { request: ['email', 'role'], response: { invite_id: 'invite.id' } },
    method: 'POST',
    path: '/workspaces/{workspace_id}/invite',
    summary: 'Invite a person to a workspace',
    fn: 'workspaces',
    auth: 'key',
    role: 'owner',
    ...newInvite,
  },
  {
    operationId: 'createInvite',
    audit: { request: ['email', 'role'], response: { invite_id: 'invite.id' } },
    method: 'POST',
    path: '/workspaces/{workspace_id}/invites',
    summary: 'The same as POST /workspaces/{workspace_id}/invite',
    fn: 'workspaces',
    auth: 'key',
    role: 'owner',
    ...newInvite,
  },
  {
    operationId: 'revokeInvite',
    method: 'DELETE',
    path: '/workspaces/{workspace_id}/invites/{invite_id}',
    summary: 'Revoke a pending invitation',
    fn: 'workspaces',
    auth: 'key',
    role: 'owner',
    response: { 200: z.object({ deleted: z.literal(true), id: z.string() }) },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'getInvite',
    method: 'GET',
    path: '/invites/{token}',
    summary: 'Show the invitation of a link',
    fn: 'workspaces',
    auth: 'public',
    response: {
      200: z.object({
        invite: invite.extend({ workspace: z.object({ name: z.string(), slug: z.string() }) }),
        how_to_accept: z.string(),
      }),
    },
    errors: ['NOT_FOUND', 'FORBIDDEN'],
  },
  {
    operationId: 'acceptInvite',
    audit: { byHandler: true },
    method: 'POST',
    path: '/invites/{token}/accept',
    summary: 'Accept an invitation: become a member of its workspace',
    fn: 'workspaces',
    auth: 'key',
    ofUser: true,
    response: { 200: z.object({ workspace: joined }) },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  {
    operationId: 'joinByInvite',
    method: 'POST',
    path: '/invites/{token}/join',
    summary: 'Accept an invitation as a new user, with a personal workspace and an API key',
    fn: 'workspaces',
    auth: 'public',
    request: { body: z.object({ name: displayName.optional() }) },
    response: {
      201: z.object({
        workspace: joined,
        user: z.object({ id: z.uuid(), email: z.string(), display_name: z.string() }),
        personal_workspace: z.object({ id: z.uuid(), slug: z.string() }),
        api_key: z.string().describe('The key itself. Only this answer shows it.'),
      }),
    },
    errors: ['NOT_FOUND', 'CONFLICT', 'FORBIDDEN'],
  },
  {
    operationId: 'getOrg',
    method: 'GET',
    path: '/org',
    summary: 'Show the workspace (organization) of the request',
    fn: 'workspaces',
    auth: 'key',
    response: { 200: org },
  },
  {
    operationId: 'updateOrg',
    audit: { request: ['name', 'timezone', 'approvers'] },
    method: 'PATCH',
    path: '/org',
    summary: 'Change the name or a setting of the workspace of the request',
    fn: 'workspaces',
    auth: 'key',
    role: 'owner',
    request: {
      body: z.object({
        name: displayName.optional(),
        timezone: z
          .string()
          .max(50)
          .optional()
          .describe('An IANA time zone such as `Europe/Berlin`, in which the days of the workspace begin.'),
        trace_content: z.enum(TRACE_CONTENT_SETTINGS).optional(),
        approvers: z.enum(APPROVERS).optional().describe('Who may decide what runs ask: all members, or owners only.'),
      }),
    },
    response: { 200: org },
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
