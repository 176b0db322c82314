import * as z from 'zod';
import { flag } from '#core/http/flag.ts';
import { printableLine } from '#core/http/printable-line.ts';
import { defineRoutes, raw } from '#core/http/route.ts';
import { agentRecord, agentTree, listedAgent, uploadedBundle } from './schema.ts';

const MAX_REASON = 300;

/** `manifest/manifest.ts` checks the body: it reports every problem at once and accepts the legacy forms. */
const manifestBody = z.looseObject({}).meta({
  description:
    'The manifest; see docs/manifest.md. `eval_files`: its suites and the files that they name, as texts by name.',
  required: ['name', 'description'],
});
/** What gateways accept; larger files of a skill are uploaded before. */
const manifestLimit = {
  bytes: 4 * 1024 ** 2,
  hint: 'Upload larger files of a skill with POST /uploads (docs/skills.md).',
};
const newAgent = z.object({
  agent: agentRecord,
  service_key: z.string().optional(),
  service_key_prefix: z.string().optional(),
});
const published = newAgent.extend({
  orchestration_mode: z.enum(['strict', 'flexible']).optional(),
  warnings: z.array(z.string()),
  services_updated: z.int(),
  unchanged: z.boolean(),
});
const publishing = z.object({
  dev: flag
    .optional()
    .describe(
      "Publish to the caller's own version `dev`, which only that user's keys can call; no version number is assigned.",
    ),
  unless_unchanged: flag
    .optional()
    .describe('Do not publish if the newest version already has this manifest and code.'),
  preview: z
    .string()
    .max(64)
    .optional()
    .describe(
      'Publish a preview of this name: a version that is never `latest`, is called as `agent@name` by members of the workspace, and ends after 7 days.',
    ),
  bundle_sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional()
    .describe('Hash of the zip that would be uploaded, for `unless_unchanged`; hexadecimal.'),
});
const allVersions = z.object({ mode: z.literal('all_versions').optional() });

export const agentRoutes = defineRoutes([
  {
    operationId: 'listAgents',
    method: 'GET',
    path: '/agents',
    summary: 'List the agents of the workspace: every version, those of one agent, or a page of the latest ones',
    fn: 'agents',
    auth: 'key',
    forPublishing: true,
    request: {
      query: z.object({
        workspace_id: z.string().optional(),
        name: z
          .string()
          .min(1)
          .max(50)
          .optional()
          .describe('Every version of this agent, oldest first, with when it ends; not with `latest`.'),
        latest: flag
          .optional()
          .describe('Only the newest version of each agent, the last published agent first, in pages.'),
        limit: z.coerce
          .number()
          .int()
          .min(1)
          .max(100)
          .optional()
          .describe('Maximum number of agents on a page, only with `latest`. By default 20.'),
        cursor: z
          .string()
          .max(400)
          .optional()
          .describe('With `latest`: `next_cursor` of the last agent of the previous page.'),
      }),
    },
    response: { 200: z.array(listedAgent) },
  },
  {
    operationId: 'createAgent',
    audit: { request: ['name', 'dev', 'preview'], response: { id: 'agent.id', version: 'agent.version' } },
    method: 'POST',
    path: '/agents',
    summary: 'Publish a version of an agent',
    fn: 'agents',
    auth: 'key',
    keyScope: 'publish',
    forPublishing: true,
    role: 'owner',
    maxBody: manifestLimit,
    request: { query: publishing, body: manifestBody },
    response: { 200: published.describe('Nothing was published: `unchanged` is true.'), 201: published },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  {
    operationId: 'previewAgent',
    method: 'GET',
    path: '/agents/preview',
    summary: 'Show which version the next publish of a name would get',
    fn: 'agents',
    auth: 'key',
    forPublishing: true,
    request: { query: z.object({ name: z.string().min(1).max(50) }) },
    response: {
      200: z.object({
        name: z.string(),
        existing_versions: z.array(z.string()).describe('Versions that the agent has, oldest first.'),
        next_version: z.string(),
        org_slug: z.string(),
      }),
    },
  },
  {
    operationId: 'validateAgent',
    method: 'POST',
    storesNothing: true,
    path: '/agents/validate',
    summary: 'Validate a manifest without publishing it',
    fn: 'agents',
    auth: 'key',
    changes: 'nothing',
    forPublishing: true,
    maxBody: manifestLimit,
    request: { body: manifestBody },
    response: {
      200: z.object({ valid: z.boolean(), errors: z.array(z.string()), warnings: z.array(z.string()) }),
    },
  },
  {
    operationId: 'getAgent',
    method: 'GET',
    path: '/agents/{id}',
    summary: 'Show one version of an agent of the workspace',
    fn: 'agents',
    auth: 'key',
    forPublishing: true,
    response: { 200: agentRecord },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'updateAgent',
    audit: { request: ['is_public'], response: { name: 'name', version: 'version' } },
    method: 'PATCH',
    path: '/agents/{id}',
    summary: 'Update the changeable members of a published version',
    fn: 'agents',
    auth: 'key',
    role: 'owner',
    request: { body: z.looseObject({}).describe('Any of the changeable members of the manifest.') },
    response: { 200: agentRecord },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  {
    operationId: 'overrideGate',
    audit: { request: ['reason'], response: { name: 'name', version: 'version' } },
    method: 'POST',
    path: '/agents/{id}/gate/override',
    summary: 'Let a version that its gate holds become latest without its evaluation',
    fn: 'agents',
    auth: 'key',
    role: 'owner',
    request: {
      body: z.strictObject({
        reason: printableLine(MAX_REASON).describe('Why, for the audit log and the view of the version.'),
      }),
    },
    response: { 200: agentRecord },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  {
    operationId: 'deleteAgent',
    audit: { request: ['mode'], response: { name: 'agent_name', versions: 'version_count' } },
    method: 'DELETE',
    path: '/agents/{id}',
    summary: 'Delete a version or all versions of an agent; deleted data is purged after 30 days',
    fn: 'agents',
    auth: 'key',
    role: 'owner',
    request: { query: allVersions.extend({ confirmation_name: z.string().optional() }) },
    response: {
      200: z.object({
        deleted: z.literal(true),
        agent_id: z.uuid(),
        agent_name: z.string(),
        version_count: z.int().optional(),
      }),
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  {
    operationId: 'checkAgentDeletion',
    method: 'GET',
    path: '/agents/{id}/delete-check',
    summary: 'Show the confirmation that deleting an agent requires',
    fn: 'agents',
    auth: 'key',
    request: { query: allVersions },
    response: {
      200: z.object({
        agent_id: z.uuid(),
        agent_name: z.string(),
        stars_count: z.int(),
        fork_count: z.int(),
        requires_confirmation: z.boolean(),
        version_count: z.int().optional(),
      }),
    },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'uploadBundle',
    method: 'POST',
    path: '/agents/{id}/upload',
    summary: 'Upload the code bundle of a version and install its dependencies',
    fn: 'agents',
    auth: 'key',
    keyScope: 'publish',
    forPublishing: true,
    role: 'owner',
    request: {
      headers: z.object({ 'x-entrypoint': z.string().min(1).max(255).optional() }),
      body: raw('multipart/form-data', 'application/json'),
    },
    response: { 200: uploadedBundle },
    errors: ['NOT_FOUND', 'CONFLICT', 'UNPROCESSABLE', 'RATE_LIMITED'],
  },
  {
    operationId: 'getAgentTree',
    method: 'GET',
    // API Gateway requires the same parameter name after /agents/ in every path.
    path: '/agents/{id}/{agent}/{version}/tree',
    summary: 'Show the dependency tree of an agent with all skills; the first parameter is the organization',
    fn: 'agents',
    auth: 'key',
    forPublishing: true,
    response: { 200: agentTree },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'forkAgent',
    audit: {
      request: ['workspace_id', 'new_name'],
      response: { id: 'agent.id', name: 'agent.name', version: 'agent.version' },
    },
    method: 'POST',
    path: '/agents/{id}/fork',
    summary: 'Copy a public, source-available agent into a workspace of your own',
    fn: 'agents',
    auth: 'key',
    request: { body: z.object({ workspace_id: z.string().optional(), new_name: z.string().optional() }) },
    response: { 200: newAgent },
    errors: ['NOT_FOUND'],
  },
]);
