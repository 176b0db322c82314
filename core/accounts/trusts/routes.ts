import * as z from 'zod';
import { CONTROLS } from '#core/base/control-characters.ts';
import { requestTime } from '#core/http/request-time.ts';
import { defineRoutes } from '#core/http/route.ts';

const MAX_CLAIMS = 20;
const MAX_AGENTS = 50;
const NO_CONTROLS = new RegExp(`^[^\\t\\n${CONTROLS}]+$`, 'u');
const text = z.string().min(1).max(300).regex(NO_CONTROLS, 'must have no control characters');
const claimName = z.string().regex(/^[\w./:-]{1,100}$/, 'must be the name of a claim');
const agentName = z.string().regex(/^[a-z0-9-]{1,50}$/, 'must be the name of an agent, without org and version');

const trust = z.object({
  id: z.uuid(),
  issuer: z.string().describe('Address of the issuer of the tokens.'),
  audience: z.string().describe('Audience that the tokens must have.'),
  claims: z.record(z.string(), z.string()).describe('Claims that the tokens must have; a * at the end: any ending.'),
  agents: z.array(z.string()).nullable().describe('Names of the agents that may be published. null: all.'),
  previews_only: z.boolean().describe('Whether only previews may be published.'),
  expires_at: z.iso.datetime().nullable().describe('When the trust ends. null: never.'),
  created_by: z.string().describe('Id of the user.'),
  created_at: z.iso.datetime(),
  last_used_at: z.iso.datetime().nullable().describe('When a token was last exchanged. null: never.'),
});

const TRUSTS = '/workspaces/{workspace_id}/trusts';
const row = { fn: 'keys', auth: 'key', role: 'owner' } as const;

/** See `docs/interface/trusts.md`. */
export const trustRoutes = defineRoutes([
  {
    ...row,
    operationId: 'listTrusts',
    method: 'GET',
    path: TRUSTS,
    summary: 'List the jobs of CI systems that may publish without a stored key, oldest first',
    response: { 200: z.object({ trusts: z.array(trust).describe('All trusts of the workspace.') }) },
  },
  {
    ...row,
    operationId: 'createTrust',
    audit: {
      request: ['issuer', 'repository', 'ref', 'environment', 'workflow', 'agents', 'previews_only', 'expires_at'],
      response: { trust_id: 'trust.id' },
    },
    method: 'POST',
    path: TRUSTS,
    summary: 'Let the jobs of a repository publish agents without a stored key',
    request: {
      body: z.strictObject({
        issuer: z.string().max(500).optional().describe('https address of the issuer. Default: GitHub Actions.'),
        audience: text.optional().describe('Audience that the tokens must have. Default: the address of the platform.'),
        repository: z
          .string()
          .regex(/^[\w.-]{1,100}\/[\w.-]{1,100}$/, 'must be owner/name')
          .optional()
          .describe('Repository at GitHub, as owner/name in the spelling of GitHub.'),
        repository_id: z
          .string()
          .regex(/^\d{1,20}$/, 'must be digits')
          .optional()
          .describe('Number of the repository at GitHub, which another repository of the same name does not have.'),
        repository_owner_id: z
          .string()
          .regex(/^\d{1,20}$/, 'must be digits')
          .optional()
          .describe('Number of its owner at GitHub, which another owner of the same name does not have.'),
        ref: text.optional().describe('Branch or tag, such as `refs/heads/main` or `refs/tags/v*`.'),
        environment: text.optional().describe('Environment of the job at GitHub.'),
        workflow: text.optional().describe('Name of the workflow at GitHub.'),
        claims: z
          .record(claimName, text)
          .refine((claims) => Object.keys(claims).length <= MAX_CLAIMS, `must have at most ${MAX_CLAIMS} members`)
          .optional()
          .describe('Further claims that the tokens must have: an exact text, or its beginning and a *.'),
        agents: z
          .array(agentName)
          .min(1)
          .max(MAX_AGENTS)
          .optional()
          .describe('Names of the only agents that may be published. Default: all.'),
        previews_only: z
          .boolean()
          .optional()
          .describe('Only previews may be published, as by the jobs of pull requests. Default: false.'),
        expires_at: requestTime.optional().describe('When the trust ends. Default: never.'),
      }),
    },
    response: { 201: z.object({ trust: trust.describe('The trust as it was made.') }) },
    errors: ['CONFLICT'],
  },
  {
    ...row,
    operationId: 'deleteTrust',
    method: 'DELETE',
    path: `${TRUSTS}/{trust_id}`,
    summary: 'End a trust, and the keys that it gave, immediately',
    response: { 200: z.object({ deleted: z.literal(true), id: z.string() }) },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'exchangeTrustToken',
    method: 'POST',
    path: '/auth/trusts/token',
    summary: 'Exchange the ID token of a trusted job for an API key of ten minutes that may publish',
    fn: 'keys',
    auth: 'sign-in',
    request: {
      body: z.object({
        workspace: z.string().min(1).max(64).describe('Slug or id of the workspace that trusts the job.'),
        token: z.string().min(1).max(20_000).describe('ID token of the job. It can be exchanged once.'),
      }),
    },
    response: {
      200: z.object({
        api_key: z.string().describe('The key itself. Only this answer shows it.'),
        api_key_prefix: z.string(),
        expires_at: z.iso.datetime().describe('When the key expires: after ten minutes, or with its trust.'),
        workspace_id: z.uuid().describe('The only workspace that the key acts in.'),
        workspace_slug: z.string().describe('Slug of that workspace.'),
        trust_id: z.uuid().describe('The trust whose conditions the token meets.'),
        agents: z.array(z.string()).nullable().describe('Names of the agents that may be published. null: all.'),
        previews_only: z.boolean().describe('Whether only previews may be published.'),
      }),
    },
    errors: ['UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED'],
  },
]);
